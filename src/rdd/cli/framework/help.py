# SPDX-License-Identifier: Apache-2.0
"""`rdd help`, and every `--help` text, rendered from the command table."""

from collections.abc import Sequence

from rdd.base.gotext import quote
from rdd.cli.commands.table import GLOBAL, HELP, ROOT
from rdd.cli.framework.dispatch import unknown_command
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call, Command, Flag, Group, command_path, visible


def run(call: Call) -> int:
    path: tuple[str, ...] = (ROOT.name,)
    target: Command | Group = ROOT
    for name in call.args:
        if isinstance(target, Command):
            raise CommandError(f"{quote(command_path(path))} has no command {quote(name)}")
        found = target.find(name)
        if found is None:
            raise unknown_command(name, path, target)
        path, target = (*path, found.name), found
    call.out.write(help_text(path, target, developer=call.environment.developer_mode))
    return 0


def help_text(path: Sequence[str], target: Command | Group, *, developer: bool) -> str:
    parts = [target.summary, target.description, _usage(path, target)]
    if target.aliases:
        parts.append(f"Aliases:\n  {', '.join((target.name, *target.aliases))}")
    own: tuple[Flag, ...] = ()
    inherited: tuple[Flag, ...] = ()
    if isinstance(target, Group):
        members = [(m.name, m.summary) for m in visible(target.members, developer=developer)]
        parts.append("Commands:\n" + _columns(members))
        own = (*GLOBAL, *target.flags)
    elif not target.raw:
        own, inherited = (HELP, *target.flags), tuple(f for f in GLOBAL if f is not HELP)
    for title, flags in (("Flags", own), ("Global flags", inherited)):
        if rows := [_flag_row(flag) for flag in visible(flags, developer=developer)]:
            parts.append(f"{title}:\n" + _columns(rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def flag_table(flags: Sequence[Flag], *, developer: bool) -> str:
    """Return one line per flag, sorted by name."""
    return _columns([_flag_row(flag) for flag in visible(flags, developer=developer)]) + "\n"


def _usage(path: Sequence[str], target: Command | Group) -> str:
    if isinstance(target, Group):
        start = command_path(path)
        if target is ROOT:
            start += " [--instance NAME]"
        return f"Usage:\n  {start} COMMAND"
    words = [*path, target.usage, "" if target.raw else "[flags]"]
    return "Usage:\n  " + command_path([word for word in words if word])


def _flag_row(flag: Flag) -> tuple[str, str]:
    name = f"-{flag.short}, --{flag.name}" if flag.short else f"    --{flag.name}"
    if flag.kind != "bool":
        name += f"[={flag.kind}]" if flag.implied else f" {flag.kind}"
    has_default = flag.default and flag.default not in ("false", "0")
    return name, f"{flag.help} (default {flag.default})" if has_default else flag.help


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"  {left:<{width}}  {right}" for left, right in rows)
