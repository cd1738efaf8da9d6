# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm shell`: run a command or a shell in a virtual machine.

The driver provides the command: ssh for a virtual machine, a shell of the host for the
`host` driver. This process is replaced by it, so signals and the exit code are its own.
"""

import os
import sys
from typing import TYPE_CHECKING

from rdd.base.gotext import quote
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.commands.limavm.declarations import LIMAVM
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.flags import Parser
from rdd.cli.framework.types import Call, Command, Flags, command_path
from rdd.host.signals import replace_process

if TYPE_CHECKING:
    from rdd.vm.drivers.protocol import ShellCommand


class NotRunning(CommandError):
    """The virtual machine is not running or does not exist."""


def run(call: Call) -> int:
    command = LIMAVM.find("shell")
    assert isinstance(command, Command)
    parsed = parse(call, command)
    if parsed is None:
        return 0
    flags, words = parsed
    if not words:
        where = command_path(call.path)
        raise CommandError(
            f"{where} requires at least 1 arg(s), received 0; usage: {where} {command.usage}"
        )
    name, *rest = words
    if rest[:1] == ["--"]:
        rest = rest[1:]
    with limavm.connection_for(call) as connection:
        limavm.find(connection, name)
    made = shell_command(call, name, rest, shell=flags.text("shell"), workdir=flags.text("workdir"))
    return become(made)


def parse(call: Call, command: Command) -> tuple[Flags, list[str]] | None:
    """Split our leading flags from the command; print help and return None for `--help`."""
    from rdd.cli.commands.declarations import GLOBAL

    parser = Parser((*GLOBAL, *command.flags), command_path(call.path))
    words = parser.parse(call.args, until_argument=True)
    flags = parser.result()
    if not flags.truth("help"):
        return flags, words
    from rdd.cli.framework.help import show_help

    # A raw command has no flags to show, this one has.
    show_help(call, call.path, command._replace(raw=False))
    return None


def shell_command(
    call: Call, name: str, command: list[str], *, shell: str = "", workdir: str = ""
) -> "ShellCommand":
    """Return how to run a command in a virtual machine. Raises NotRunning or CommandError."""
    from rdd.host.errors import HostError
    from rdd.vm.drivers import catalog
    from rdd.vm.drivers.protocol import ShellRequest
    from rdd.vm.instance_dir import InstanceStatus, InvalidName, LimaHome
    from rdd.vm.template import TemplateError

    try:
        directory = LimaHome(call.instance.lima_home).directory(name)
        status = directory.status()
        if status is not InstanceStatus.RUNNING:
            raise NotRunning(
                f"instance {quote(name)} is not running (status: {status}), "
                f"run `rdd limavm start {name}` to start it"
            )
        if directory.paused.exists() or directory.idle_settings.exists():
            import asyncio

            from rdd.vm.idle.wake import wake

            asyncio.run(wake(directory))
        template = directory.template()
        driver = directory.driver or template.vm_type  # as its agent does, if the record is lost
        request = ShellRequest(
            command=command,
            environment=call.environment.variables,
            shell=shell,
            workdir=workdir,
            is_terminal=sys.stdout.isatty(),
        )
        return catalog.provider(driver).shell(directory, template, request)
    except (InvalidName, HostError, TemplateError) as error:
        raise CommandError(f"instance {quote(name)} cannot be used: {error}") from error


def become(command: "ShellCommand") -> int:
    try:
        if command.cwd is not None:
            os.chdir(command.cwd)
    except OSError as error:
        raise CommandError(
            f"cannot change directory to {quote(str(command.cwd))}: {error.strerror or error}"
        ) from error
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        replace_process(command.argv[0], command.argv, command.env)
    except OSError as error:
        raise CommandError(
            f"cannot run {quote(command.argv[0])}: {error.strerror or error}"
        ) from error
