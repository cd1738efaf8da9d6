# SPDX-License-Identifier: Apache-2.0
"""Every command of rdd that a text suggests exists, with its flags and number of arguments."""

import re
from pathlib import Path

from rdd.cli.framework.dispatch import match
from rdd.cli.framework.errors import CommandError

ROOT = Path(__file__).parents[2]
SOURCES = [
    *(path for path in (ROOT / "src").rglob("*.py") if "kubectl" not in path.parts),
    *(ROOT / "dashboard/src").rglob("*.ts*"),
]
# `rdd …` in a message, and the words of rdd_command(instance, …) and facts.rdd(…)
QUOTED = re.compile(r"`rdd ([^`\n]+)`")
BUILT = re.compile(r"""\b(?:rdd_command\([\w.]+,|facts\.rdd\()\s*f?"([^"]+)"\)""")
PLACEHOLDER = re.compile(r"\{[^}]*\}")


def suggestions() -> set[tuple[str, str]]:
    found = set()
    for path in SOURCES:
        source = path.read_text().replace("{selection(call)}", "")
        for text in (*QUOTED.findall(source), *BUILT.findall(source)):
            if not re.search(r"[…,|[]", text):  # prose about several commands
                found.add((PLACEHOLDER.sub("x", text), str(path.relative_to(ROOT))))
    return found


def problem(text: str) -> str:
    """Return why a command does not exist."""
    words = text.split()
    if words[0] == "--instance":
        words = words[2:]
    try:
        match(words)
    except CommandError as error:
        # A name in prose stands for the command: its arguments are up to the reader.
        is_name = "arg(s)" in str(error) or "needs an argument" in str(error)
        return "" if is_name else str(error)
    return ""


def test_suggested_commands_exist() -> None:
    found = suggestions()
    assert {"trash empty", "service quarantine ls", "start"} <= {text for text, _ in found}
    assert len(found) > 100
    wrong = {(text, path, why) for text, path in found if (why := problem(text))}
    assert wrong == set()
