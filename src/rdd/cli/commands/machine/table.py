# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd limavm` and their flags: a part of the table in table.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import FOLLOW, SHELL_FLAGS, TIMEOUT, WAIT, output

_WAITING = (WAIT, TIMEOUT)
_OUTPUT = output()


def _one(name: str, summary: str, description: str = "", flags: tuple[Flag, ...] = ()) -> Command:
    """A command about one virtual machine."""
    return Command(
        name,
        f"rdd.cli.limavm_{name}",
        summary,
        description,
        usage="NAME",
        flags=(*flags, *_WAITING),
        min_args=1,
        max_args=1,
    )


def _snapshot(name: str, summary: str) -> Command:
    """A command about one snapshot."""
    return Command(
        name,
        "rdd.cli.commands.machine.snapshot",
        summary,
        usage="NAME SNAPSHOT",
        min_args=2,
        max_args=2,
    )


LIMAVM = Group(
    "limavm",
    "Manage virtual machines one by one",
    aliases=("lima",),
    visibility="developer",
    members=(
        Command(
            "clone",
            "rdd.cli.commands.machine.clone",
            "Make another virtual machine with a copy of the disk of a stopped one",
            usage="NAME NEW",
            flags=_WAITING,
            min_args=2,
            max_args=2,
        ),
        Command(
            "create",
            "rdd.cli.commands.machine.create",
            "Create a virtual machine from a template",
            "TEMPLATE is a file, or the name of a ConfigMap with the key template. A name that "
            "could be both\nis an error; write ./NAME for the file.",
            usage="NAME TEMPLATE",
            flags=(
                Flag("namespace", "namespace of the LimaVM", short="n", default="default"),
                Flag("dry-run", "have it checked, but not made", kind="bool"),
                Flag("start", "start it, too", kind="bool"),
                *_WAITING,
            ),
            min_args=2,
            max_args=2,
        ),
        _one(
            "delete",
            "Delete a virtual machine and its disk",
            "It is shut down first; what does not end in time is ended by force.",
            (
                Flag("force", "do not wait for a shutdown: --grace-period=0", kind="bool"),
                Flag(
                    "grace-period",
                    "seconds the shutdown may take (default 30)",
                    kind="int",
                    default="-1",
                ),
            ),
        ),
        Group(
            "disk",
            "Show, grow and trim the disks of virtual machines",
            (
                Command(
                    "show",
                    "rdd.cli.commands.machine.disk",
                    "Show how large a disk is and what it takes on this machine",
                    usage="NAME",
                    flags=(_OUTPUT,),
                    min_args=1,
                    max_args=1,
                ),
                Command(
                    "grow",
                    "rdd.cli.commands.machine.disk",
                    "Make a disk larger",
                    "A running virtual machine is restarted. No disk can be made smaller.",
                    usage="NAME SIZE",
                    flags=_WAITING,
                    min_args=2,
                    max_args=2,
                ),
                Command(
                    "trim",
                    "rdd.cli.commands.machine.disk",
                    "Give back to this machine what a running guest does not use",
                    usage="NAME",
                    min_args=1,
                    max_args=1,
                ),
            ),
        ),
        Command(
            "edit",
            "rdd.cli.commands.machine.edit",
            "Change the template of a virtual machine in an editor",
            "The editor is KUBE_EDITOR, EDITOR, VISUAL or vi. A running virtual machine is "
            "restarted.",
            usage="NAME",
            min_args=1,
            max_args=1,
        ),
        Command(
            "list",
            "rdd.cli.commands.machine.list",
            "Show all virtual machines",
            aliases=("ls",),
            flags=(_OUTPUT,),
        ),
        Command(
            "log",
            "rdd.cli.commands.machine.log",
            "Print the log of a virtual machine's host agent",
            usage="INSTANCE",
            aliases=("logs",),
            flags=(
                Flag("stdout", "its events instead", kind="bool", short="o"),
                FOLLOW,
            ),
            min_args=1,
            max_args=1,
        ),
        Command(
            "params",
            "rdd.cli.commands.machine.params",
            "Show or change the params of a virtual machine",
            "PARAM=VALUE replaces the value in the template, PARAM- goes back to that. A running "
            "virtual\nmachine is restarted.",
            usage="NAME [PARAM=VALUE | PARAM-]…",
            flags=(*_WAITING, _OUTPUT),
            min_args=1,
            max_args=None,
        ),
        _one(
            "reset",
            "Throw the disk of a virtual machine away and make a new one from its template",
        ),
        _one("restart", "Restart a virtual machine, or start it if it is stopped"),
        Command(
            "shell",
            "rdd.cli.commands.machine.shell",
            "Run a command, or a shell, in a virtual machine",
            "Flags must stand before INSTANCE; everything after it belongs to the command.",
            usage="[--shell S] [--workdir D] INSTANCE [COMMAND…]",
            flags=SHELL_FLAGS,
            raw=True,
        ),
        Group(
            "snapshot",
            "Keep and bring back states of the disks of stopped virtual machines",
            (
                _snapshot("create", "Keep the present state of a disk under a name"),
                _snapshot("delete", "Forget a snapshot"),
                Command(
                    "list",
                    "rdd.cli.commands.machine.snapshot",
                    "Show the snapshots of a virtual machine",
                    usage="NAME",
                    aliases=("ls",),
                    flags=(_OUTPUT,),
                    min_args=1,
                    max_args=1,
                ),
                _snapshot("restore", "Go back to a snapshot; what is newer is lost"),
            ),
        ),
        _one("start", "Start a virtual machine"),
        _one(
            "stop",
            "Stop a virtual machine",
            flags=(Flag("suspend", "keep its memory for the next start", kind="bool"),),
        ),
        _one("suspend", "Stop a virtual machine and keep its memory for the next start"),
    ),
)
