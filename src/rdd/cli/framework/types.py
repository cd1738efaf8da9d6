# SPDX-License-Identifier: Apache-2.0
"""Types of the command line: flags, commands, the call, the error.

A `Command` is data, so that parsing, help, completion and the documentation guard read
the same table. The code of a command is the function `run(call: Call) -> int` in its
own module, which returns the exit code. The module may define
`complete() -> Iterable[str]` for its arguments; `completes` names a source of candidates
that several commands share. It may define `help_details(call: Call) ->
str` for help that is only available at run time.

These types are named tuples: a dataclass takes seven times as long to define (0.5 ms
each, paid by every call) and its module another 6 ms.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeVar

from rdd.base.pflag import Flag, Flags, Value, Visibility
from rdd.cli.framework.environment import Environment
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.logline import Log
from rdd.cli.framework.program import Program

if TYPE_CHECKING:
    from rdd.instance import Instance

_Item = TypeVar("_Item", "Flag", "Command | Group")


class Command(NamedTuple):
    """A command that can be run."""

    name: str
    module: str  # where `run` is
    summary: str  # one line, no full stop
    description: str = ""  # further lines of the help text
    usage: str = ""  # the positional arguments, e.g. "[KEY]"
    aliases: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()
    min_args: int = 0
    max_args: int | None = 0  # None: any number
    raw: bool = False  # every argument belongs to another program; nothing is parsed
    has_details: bool = False  # its module has `help_details(call) -> str` for the end of the help
    visibility: Visibility = "shown"
    completes: str = ""  # source of candidates for its arguments, in commands/candidates.py


class Group(NamedTuple):
    """A command with subcommands."""

    name: str
    summary: str
    members: tuple["Command | Group", ...]
    description: str = ""
    aliases: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()  # of the group itself, not of its members
    visibility: Visibility = "shown"
    module: str = ""  # where `run` is if the group is a command, too; otherwise it shows its help

    def find(self, name: str) -> "Command | Group | None":
        """Return the member with this name or alias."""
        return next((m for m in self.members if name == m.name or name in m.aliases), None)


class Call(NamedTuple):
    """One invocation: arguments, flags and the process environment."""

    path: tuple[str, ...]  # full names, e.g. ("rdd", "service", "paths")
    args: tuple[str, ...]
    flags: Flags
    program: Program
    environment: Environment
    log: Log
    out: TextIO  # data only; messages go through `log`

    @property
    def instance(self) -> "Instance":
        """Return the instance of this call. Raises CommandError when its name is invalid."""
        return self.environment.instance()


def visible(items: Iterable[_Item], *, developer: bool) -> list[_Item]:
    """Return the flags or commands that help and completion show, sorted by name."""
    shown = ("shown", "developer") if developer else ("shown",)
    return sorted((i for i in items if i.visibility in shown), key=lambda i: i.name)


def command_path(path: Sequence[str]) -> str:
    """Return how a command is written, e.g. `rdd service paths`."""
    return " ".join(path)


__all__ = [
    "Call",
    "Command",
    "CommandError",
    "Flag",
    "Flags",
    "Group",
    "Value",
    "Visibility",
    "command_path",
    "visible",
]
