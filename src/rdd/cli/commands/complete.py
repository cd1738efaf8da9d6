# SPDX-License-Identifier: Apache-2.0
"""`rdd __complete WORD…`: completions for the last, incomplete word.

The completion scripts of all shells only print this output, so they never need
regeneration. One candidate per line: text, tab, description.
"""

import importlib
from collections.abc import Iterable, Sequence

from rdd.cli.commands.candidates import Candidate, Words, offered
from rdd.cli.commands.declarations import GLOBAL, ROOT
from rdd.cli.framework.entry import take_instance
from rdd.cli.framework.types import Call, Command, Flag, Group, visible


def run(call: Call) -> int:
    for text, description in candidates(call.args, call):
        call.out.write(f"{text}\t{description}\n")
    return 0


def candidates(words: Sequence[str], call: Call) -> list[Candidate]:
    """Return the completions of the last of `words`, which may be empty."""
    developer = call.environment.developer_mode
    *before, current = _without_equals(words) or [""]
    if before == ["--instance"] or (not before and current.startswith("--instance=")):
        form = "{}" if before else "--instance={}"
        suffixes = offered("instances", call, Words((), current))
        named = [(form.format(text), description) for text, description in suffixes]
        return [candidate for candidate in named if candidate[0].startswith(current)]
    if not before and "--instance".startswith(current) and current.startswith("-"):
        instance = [("--instance", "choose another instance")]
    else:
        instance = []
    suffix, before = take_instance(before)
    if suffix:
        call = call._replace(environment=call.environment.with_instance(suffix))

    node: Command | Group = ROOT
    pending: Flag | None = None  # a flag whose value comes next
    arguments: list[str] = []
    for word in before:
        known = (*GLOBAL, *node.flags)
        if isinstance(node, Command) and node.raw and not node.flags:
            arguments.append(word)  # all words belong to another program
            continue
        if pending is not None:
            pending = None
        elif word.startswith("-"):
            pending = _expecting_value(word, known)
        elif isinstance(node, Group):
            found = node.find(word)
            if found is None:
                return []
            node = found
        else:
            arguments.append(word)
    if isinstance(node, Command) and node.raw and not _may_complete(node, arguments):
        return []
    words_now = Words(tuple(arguments), current)
    return instance + _fitting(node, words_now, pending, call, developer=developer)


def _may_complete(command: Command, arguments: Sequence[str]) -> bool:
    """Return whether the words of a raw command are still ours, or another program's source."""
    return bool(command.completes) and (not command.flags or not arguments)


def _fitting(
    node: Command | Group, words: Words, pending: Flag | None, call: Call, *, developer: bool
) -> list[Candidate]:
    current = words.current
    flags = visible((*GLOBAL, *node.flags), developer=developer)
    choices: Iterable[Candidate]
    if pending is not None:
        choices = ((value, "") for value in pending.values)
    elif isinstance(node, Command) and node.raw and not node.flags:
        choices = offered(node.completes, call, words)
    elif current.startswith("--") and "=" in current:
        name = current[2:].partition("=")[0]
        choices = (
            (f"--{f.name}={value}", "") for f in flags if f.name == name for value in f.values
        )
    elif current.startswith("-"):
        choices = ((f"--{f.name}", f.help) for f in flags)
    elif isinstance(node, Group):
        choices = ((m.name, m.summary) for m in visible(node.members, developer=developer))
    elif node.completes:
        given = set(words.before)
        choices = (c for c in offered(node.completes, call, words) if c[0] not in given)
    else:
        module = importlib.import_module(node.module)
        choices = ((text, "") for text in getattr(module, "complete", tuple)())
    return [candidate for candidate in choices if candidate[0].startswith(current)]


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
