# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd limavm` and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import FOLLOW, NO_TRASH, SHELL_FLAGS, TIMEOUT, WAIT, YES, output

_WAITING = (WAIT, TIMEOUT)
_OUTPUT = output()


def _one(name: str, summary: str, description: str = "", flags: tuple[Flag, ...] = ()) -> Command:
    """Return a command that takes the name of one virtual machine."""
    return Command(
        name,
        f"rdd.cli.commands.limavm.{name}",
        summary,
        description,
        usage="NAME",
        completes="machines",
        flags=(*flags, *_WAITING),
        min_args=1,
        max_args=1,
    )


def _snapshot(name: str, summary: str, flags: tuple[Flag, ...] = ()) -> Command:
    return Command(
        name,
        "rdd.cli.commands.limavm.snapshot",
        summary,
        usage="NAME SNAPSHOT",
        completes="machines",
        flags=flags,
        min_args=2,
        max_args=2,
    )


LIMAVM = Group(
    "limavm",
    "Manage individual virtual machines",
    aliases=("lima",),
    members=(
        Command(
            "clone",
            "rdd.cli.commands.limavm.clone",
            "Clone a stopped virtual machine, including its disk",
            usage="NAME NEW",
            completes="machines",
            flags=_WAITING,
            min_args=2,
            max_args=2,
        ),
        Command(
            "create",
            "rdd.cli.commands.limavm.create",
            "Create a virtual machine from a template",
            'TEMPLATE is a file, or the name of a ConfigMap with the key "template".\n'
            "If both exist, write ./NAME for the file.",
            usage="NAME TEMPLATE",
            flags=(
                Flag("namespace", "namespace of the LimaVM", short="n", default="default"),
                Flag("dry-run", "validate only; do not create the virtual machine", kind="bool"),
                Flag("start", "start the virtual machine after creating it", kind="bool"),
                *_WAITING,
            ),
            min_args=2,
            max_args=2,
        ),
        _one(
            "delete",
            "Delete a virtual machine and its disk",
            "The guest is shut down first, and killed when the grace period expires.",
            (
                Flag("force", "kill the guest at once; the same as --grace-period=0", kind="bool"),
                Flag(
                    "grace-period",
                    "seconds to wait for the guest to shut down (default 30)",
                    kind="int",
                    default="-1",
                ),
                NO_TRASH,
                YES,
            ),
        ),
        Group(
            "disk",
            "Show, grow and trim the disks of virtual machines",
            (
                Command(
                    "show",
                    "rdd.cli.commands.limavm.disk",
                    "Show the size of a disk and the space it uses on the host",
                    usage="NAME",
                    completes="machines",
                    flags=(_OUTPUT,),
                    min_args=1,
                    max_args=1,
                ),
                Command(
                    "grow",
                    "rdd.cli.commands.limavm.disk",
                    "Grow a disk",
                    "Restarts a running virtual machine. A disk cannot be shrunk.",
                    usage="NAME SIZE",
                    completes="machines",
                    flags=_WAITING,
                    min_args=2,
                    max_args=2,
                ),
                Command(
                    "trim",
                    "rdd.cli.commands.limavm.disk",
                    "Return unused disk space of a running guest to the host",
                    usage="NAME",
                    completes="machines",
                    min_args=1,
                    max_args=1,
                ),
            ),
        ),
        Command(
            "edit",
            "rdd.cli.commands.limavm.edit",
            "Edit the template of a virtual machine",
            "Uses KUBE_EDITOR, EDITOR, VISUAL or vi. Restarts a running virtual machine.",
            usage="NAME",
            completes="machines",
            min_args=1,
            max_args=1,
        ),
        Command(
            "list",
            "rdd.cli.commands.limavm.list",
            "List virtual machines",
            aliases=("ls",),
            flags=(_OUTPUT,),
        ),
        Command(
            "log",
            "rdd.cli.commands.limavm.log",
            "Print the log of a virtual machine's host agent",
            usage="INSTANCE",
            completes="machines",
            aliases=("logs",),
            flags=(
                Flag(
                    "stdout", "print its events (stdout) instead of its log", kind="bool", short="o"
                ),
                FOLLOW,
            ),
            min_args=1,
            max_args=1,
        ),
        Command(
            "params",
            "rdd.cli.commands.limavm.params",
            "Show or change the params of a virtual machine",
            "PARAM=VALUE overrides the value in the template, PARAM- removes the override.\n"
            "Restarts a running virtual machine.",
            usage="NAME [PARAM=VALUE | PARAM-]…",
            completes="machines",
            flags=(*_WAITING, _OUTPUT),
            min_args=1,
            max_args=None,
        ),
        _one(
            "reset",
            "Delete the disk of a virtual machine and recreate it from its template",
            flags=(NO_TRASH, YES),
        ),
        _one("restart", "Restart a virtual machine, or start it if it is stopped"),
        Command(
            "shell",
            "rdd.cli.commands.limavm.shell",
            "Run a command or a shell in a virtual machine",
            "Flags must precede INSTANCE; everything after it is passed to the command.",
            usage="[--shell S] [--workdir D] INSTANCE [COMMAND…]",
            completes="machines",
            flags=SHELL_FLAGS,
            raw=True,
        ),
        Group(
            "snapshot",
            "Manage disk snapshots of stopped virtual machines",
            (
                _snapshot("create", "Create a snapshot of the disk"),
                _snapshot("delete", "Delete a snapshot", (YES,)),
                Command(
                    "list",
                    "rdd.cli.commands.limavm.snapshot",
                    "List the snapshots of a virtual machine",
                    usage="NAME",
                    completes="machines",
                    aliases=("ls",),
                    flags=(_OUTPUT,),
                    min_args=1,
                    max_args=1,
                ),
                _snapshot("restore", "Restore a snapshot; later changes are lost", (YES,)),
            ),
        ),
        _one("start", "Start a virtual machine"),
        _one(
            "stop",
            "Stop a virtual machine",
            flags=(
                Flag(
                    "suspend", "save its memory and resume from it at the next start", kind="bool"
                ),
            ),
        ),
        _one("suspend", "Save the memory of a virtual machine and stop it"),
    ),
)
