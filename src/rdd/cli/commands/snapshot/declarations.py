# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd snapshot` and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import WAIT, YES, output

_TIMEOUT = Flag("timeout", "maximum time to wait; 0 means no limit", "duration", "1h")

SNAPSHOT = Group(
    "snapshot",
    "Save and restore the App, machines, namespaces and whole instances",
    (
        Command(
            "create",
            "rdd.cli.commands.snapshot.create",
            "Save a state",
            "A running machine is stopped while its files are saved, and continues afterwards.",
            usage="NAME",
            flags=(
                Flag(
                    "scope",
                    "what is saved: app (settings and machine), limavm/NAME, namespace/NAME, or "
                    "instance (the database and all machines)",
                    default="app",
                ),
                Flag("description", "what it is for"),
                WAIT,
                _TIMEOUT,
                YES,
            ),
            min_args=1,
            max_args=1,
        ),
        Command(
            "export",
            "rdd.cli.commands.snapshot.transfer",
            "Write a snapshot to an archive",
            "The archive contains keys and passwords of what was saved; only its owner can read "
            "it.",
            usage="NAME FILE",
            completes="snapshots",
            min_args=2,
            max_args=2,
        ),
        Command(
            "import",
            "rdd.cli.commands.snapshot.transfer",
            "Add the snapshot of an archive",
            "Its checksum is verified first.",
            usage="FILE",
            flags=(Flag("name", "another name for the snapshot"), _TIMEOUT),
            min_args=1,
            max_args=1,
        ),
        Command(
            "ls",
            "rdd.cli.commands.snapshot.ls",
            "List the snapshots, the oldest first",
            aliases=("list",),
            flags=(output(),),
        ),
        Command(
            "restore",
            "rdd.cli.commands.snapshot.restore",
            "Restore a snapshot",
            "The machine is stopped meanwhile, for a whole instance the control plane, too. If the "
            "restore is not possible, everything stays as it is.",
            usage="NAME",
            completes="snapshots",
            flags=(
                Flag("as", "create a machine or a namespace of this name from it instead"),
                WAIT,
                _TIMEOUT,
                YES,
            ),
            min_args=1,
            max_args=1,
        ),
        Command(
            "rm",
            "rdd.cli.commands.snapshot.remove",
            "Remove snapshots",
            usage="NAME…",
            completes="snapshots",
            aliases=("remove",),
            flags=(YES,),
            min_args=1,
            max_args=None,
        ),
    ),
    description="Snapshots are kept by `rdd reset` and `rdd delete`.",
)
