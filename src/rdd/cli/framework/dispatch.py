# SPDX-License-Identifier: Apache-2.0
"""Dispatch from words to a command: walk the table and parse flags on the way.

Global flags are accepted before and after the command name, flags of a command only
after it. A raw command receives its arguments unparsed, without the global flags that
precede its name.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rdd.base.gotext import quote
from rdd.cli.commands.declarations import GLOBAL, ROOT
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.flags import Parser
from rdd.cli.framework.types import Command, Flags, Group, command_path


class Match(NamedTuple):
    """The result of parsing a command line."""

    path: tuple[str, ...]  # full names, aliases resolved
    target: Command | Group
    flags: Flags
    args: tuple[str, ...]


def match(words: Sequence[str], *, root: Group = ROOT) -> Match:
    """Match `words` (without the program name) to a command. Raises CommandError."""
    node: Group = root
    path: tuple[str, ...] = (root.name,)
    parser = Parser((*GLOBAL, *root.flags), command_path(path))
    rest = parser.parse(words, until_argument=True)
    while rest:
        found = node.find(rest[0])
        if found is None:
            raise unknown_command(rest[0], path, node)
        path = (*path, found.name)
        parser = Parser((*GLOBAL, *found.flags), command_path(path), values=parser.values)
        if isinstance(found, Command):
            return _leaf(found, path, parser, rest[1:])
        node = found
        rest = parser.parse(rest[1:], until_argument=True)
    return Match(path, node, parser.result(), ())


def unknown_command(name: str, path: Sequence[str], group: Group) -> CommandError:
    """Return the error for a name that is not a member of `group`."""
    from rdd.cli.framework.suggestions import did_you_mean

    shown = [m for m in group.members if m.visibility == "shown"]
    known = [name for m in shown for name in (m.name, *m.aliases)]
    hint = did_you_mean(name, known, form=f"{command_path(path)} {{}}")
    return CommandError(
        f"unknown command {quote(name)} for {quote(command_path(path))}; "
        + (hint or f"valid commands: {', '.join(sorted(m.name for m in shown))}")
    )


def _leaf(command: Command, path: tuple[str, ...], parser: Parser, rest: Sequence[str]) -> Match:
    if command.raw:
        return Match(path, command, parser.result(), tuple(rest))
    args = parser.parse(rest)
    flags = parser.result()
    if not flags.truth("help"):
        _check_count(command, path, len(args))
    return Match(path, command, flags, tuple(args))


def _check_count(command: Command, path: Sequence[str], count: int) -> None:
    low, high = command.min_args, command.max_args
    if count >= low and (high is None or count <= high):
        return
    if high is None:
        allowed = f"requires at least {low} arg(s)"
    elif low == high:
        allowed = f"accepts {low} arg(s)"
    elif low:
        allowed = f"accepts between {low} and {high} arg(s)"
    else:
        allowed = f"accepts at most {high} arg(s)"
    usage = command_path([*path, command.usage]).strip()
    raise CommandError(f"{command_path(path)} {allowed}, received {count}; usage: {usage}")
