# SPDX-License-Identifier: Apache-2.0
"""`rdd help`, and every `--help` text, rendered from the command table at the terminal's width."""

from collections.abc import Sequence

from rdd.base.gotext import quote
from rdd.cli.commands.declarations import GLOBAL, HELP, ROOT
from rdd.cli.framework.dispatch import unknown_command
from rdd.cli.framework.environment import DEFAULT_WIDTH
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call, Command, Flag, Group, command_path, visible
from rdd.cli.framework.wrapping import columns, filled


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
    show_help(call, path, target)
    return 0


def show_help(call: Call, path: Sequence[str], target: Command | Group) -> None:
    """Print the help of a command or group."""
    environment = call.environment
    call.out.write(
        help_text(
            path,
            target,
            developer=environment.developer_mode,
            width=environment.width(call.out),
        )
    )


def help_text(
    path: Sequence[str],
    target: Command | Group,
    *,
    developer: bool,
    width: int = DEFAULT_WIDTH,
) -> str:
    parts = [
        _lines(filled(target.summary, width)),
        _lines(filled(target.description, width)) if target.description else "",
        _usage(path, target),
    ]
    if target.aliases:
        parts.append(f"Aliases:\n  {', '.join((target.name, *target.aliases))}")
    own: tuple[Flag, ...] = ()
    inherited: tuple[Flag, ...] = ()
    if isinstance(target, Group):
        members = [(m.name, m.summary) for m in visible(target.members, developer=developer)]
        parts.append("Commands:\n" + _lines(columns(members, width)))
        own = (*GLOBAL, *target.flags)
    elif not target.raw:
        own, inherited = (HELP, *target.flags), tuple(f for f in GLOBAL if f is not HELP)
    for title, flags in (("Flags", own), ("Global flags", inherited)):
        if rows := [_flag_row(flag) for flag in visible(flags, developer=developer)]:
            parts.append(f"{title}:\n" + _lines(columns(rows, width)))
    return "\n\n".join(part for part in parts if part) + "\n"


def flag_table(flags: Sequence[Flag], *, developer: bool, width: int = DEFAULT_WIDTH) -> str:
    """Return the flags with their meaning, sorted by name."""
    rows = [_flag_row(flag) for flag in visible(flags, developer=developer)]
    return _lines(columns(rows, width)) + "\n"


def _usage(path: Sequence[str], target: Command | Group) -> str:
    if isinstance(target, Group):
        start = command_path(path)
        if target is ROOT:
            start += " [--instance NAME]"
        alone = f"  {start} [flags]\n" if target.module else ""
        return f"Usage:\n{alone}  {start} COMMAND"
    words = [*path, target.usage, "" if target.raw else "[flags]"]
    return "Usage:\n  " + command_path([word for word in words if word])


def _flag_row(flag: Flag) -> tuple[str, str]:
    name = f"-{flag.short}, --{flag.name}" if flag.short else f"    --{flag.name}"
    if flag.kind != "bool":
        name += f"[={flag.kind}]" if flag.implied else f" {flag.kind}"
    has_default = flag.default and flag.default not in ("false", "0")
    return name, f"{flag.help} (default {flag.default})" if has_default else flag.help


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines)
