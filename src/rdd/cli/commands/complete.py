# SPDX-License-Identifier: Apache-2.0
"""`rdd __complete WORD…`: completions for the last, incomplete word.

The completion scripts of all shells only print this output, so they never need
regeneration. One candidate per line: text, tab, description.
"""

import importlib
from collections.abc import Iterable, Sequence

from rdd.cli.commands.table import GLOBAL, ROOT
from rdd.cli.framework.entry import take_instance
from rdd.cli.framework.types import Call, Command, Flag, Group, visible

Candidate = tuple[str, str]  # text, description


def run(call: Call) -> int:
    developer = call.environment.developer_mode
    for text, description in candidates(call.args, developer=developer):
        call.out.write(f"{text}\t{description}\n")
    return 0


def candidates(words: Sequence[str], *, developer: bool) -> list[Candidate]:
    """Return the completions of the last of `words`, which may be empty."""
    *before, current = _without_equals(words) or [""]
    if not before and "--instance".startswith(current) and current.startswith("-"):
        instance = [("--instance", "choose another instance")]
    else:
        instance = []
    _, before = take_instance(before)

    node: Command | Group = ROOT
    pending: Flag | None = None  # a flag whose value comes next
    for word in before:
        known = (*GLOBAL, *node.flags)
        if pending is not None:
            pending = None
        elif word.startswith("-"):
            pending = _expecting_value(word, known)
        elif isinstance(node, Group):
            found = node.find(word)
            if found is None:
                return []
            node = found
    if isinstance(node, Command) and node.raw:
        return []
    return instance + _fitting(node, current, pending, developer=developer)


def _fitting(
    node: Command | Group, current: str, pending: Flag | None, *, developer: bool
) -> list[Candidate]:
    flags = visible((*GLOBAL, *node.flags), developer=developer)
    offered: Iterable[Candidate]
    if pending is not None:
        offered = ((value, "") for value in pending.values)
    elif current.startswith("--") and "=" in current:
        name = current[2:].partition("=")[0]
        offered = (
            (f"--{f.name}={value}", "") for f in flags if f.name == name for value in f.values
        )
    elif current.startswith("-"):
        offered = ((f"--{f.name}", f.help) for f in flags)
    elif isinstance(node, Group):
        offered = ((m.name, m.summary) for m in visible(node.members, developer=developer))
    else:
        module = importlib.import_module(node.module)
        offered = ((text, "") for text in getattr(module, "complete", tuple)())
    return [candidate for candidate in offered if candidate[0].startswith(current)]


def _expecting_value(word: str, known: Sequence[Flag]) -> Flag | None:
    """Return the flag that `word` names when its value is the next word."""
    for flag in known:
        if word == f"--{flag.name}" or (flag.short and word == f"-{flag.short}"):
            return None if flag.bare_value else flag
    return None


def _without_equals(words: Sequence[str]) -> list[str]:
    """Undo bash's splitting of `--flag=value` into three words.

    The value stays a separate word after its flag, because bash replaces only the part
    after the `=`. Directly after it, the incomplete word is empty.
    """
    joined = [word for word in words if word != "="]
    return [*joined, ""] if words and words[-1] == "=" else joined
