# SPDX-License-Identifier: Apache-2.0
"""The completion scripts in the real shells."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import run_program

from rdd.daemon.service import arguments
from rdd.instance import Instance

_BASH = """
source <({rdd} completion bash)
COMP_LINE={line}
COMP_POINT=${{#COMP_LINE}}
COMP_WORDS=({rdd})
_rdd
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# The functions of compinit that the script calls, as far as they matter here.
_ZSH = """
compdef() {{ }}
_files() {{ }}
_describe() {{ print -l -- ${{(P)4}} }}
source <({rdd} completion zsh)
words=({words})
CURRENT=$#words
_rdd
"""
_FISH = """
set -x PATH {folder} $PATH
{rdd} completion fish | source
complete -C {line}
"""


def complete(shell: str, program: Path, rdd: Path, home: Path, line: str) -> list[str]:
    """Return the candidates of a shell for a line that starts with `rdd`."""
    typed = line.split(" ")[1:]
    full = f"{rdd} {line.removeprefix('rdd ')}" if shell == "bash" else line
    words = " ".join([str(rdd), *(word or "''" for word in typed)])
    template = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]
    script = template.format(rdd=rdd, folder=rdd.parent, line=shlex.quote(full), words=words)
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = run_program(
        [program, *flags, "-c", script], env={"HOME": str(home), "PATH": "/usr/bin:/bin"}
    )
    assert done.stderr == ""
    separator = ":" if shell == "zsh" else "\t"
    # zsh escapes the colons of a candidate.
    lines = [text.replace("\\:", "\0").split(separator)[0] for text in done.stdout.splitlines()]
    return sorted(text.replace("\0", ":") for text in lines if text)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rdd sta", ["start", "status"]),
        ("rdd set containerEngine.n", ["containerEngine.name="]),
        (
            "rdd set containerEngine.l",
            [f"containerEngine.logs.max{what}=" for what in ("Files", "Size")],
        ),
        ("rdd set containerEngine.name=m", ["containerEngine.name=moby"]),
        ("rdd get virtualMachine.c", ["virtualMachine.cpus"]),
        ("rdd --instance ", ["2", "work"]),
        ("rdd service paths --output=j", ["--output=json"]),
    ],
)
def test_completes_in_the_shell(
    real_part: Callable[[str], Path],
    rdd_script: Path,
    tmp_path: Path,
    shell: str,
    line: str,
    expected: list[str],
) -> None:
    for suffix in ("2", "work"):
        arguments.create(Instance(suffix, tmp_path))
    found = complete(shell, real_part(shell), rdd_script, tmp_path, line)
    if shell == "bash":  # replaces only what follows the last = or :
        expected = [
            text.rpartition("=")[2] if "=" in line.split(" ")[-1] else text for text in expected
        ]
    assert found == expected
