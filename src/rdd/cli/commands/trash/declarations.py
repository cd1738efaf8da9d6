# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd trash` and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Group
from rdd.cli.framework.usual_flags import TIMEOUT, WAIT, YES, output

TRASH = Group(
    "trash",
    "List, restore and remove deleted machines and databases",
    (
        Command(
            "empty",
            "rdd.cli.commands.trash.empty",
            "Free the space of deleted machines and databases",
            "Without ID, everything in the trash goes.",
            usage="[ID…]",
            completes="trash",
            flags=(YES,),
            max_args=None,
        ),
        Command(
            "ls",
            "rdd.cli.commands.trash.ls",
            "List deleted machines and databases, the newest first",
            "Of one instance if it is named, otherwise of all.",
            aliases=("list",),
            flags=(output(),),
        ),
        Command(
            "restore",
            "rdd.cli.commands.trash.restore",
            "Restore a deleted machine or database",
            "What is in its place goes to the trash.",
            usage="ID",
            completes="trash",
            flags=(WAIT, TIMEOUT, YES),
            min_args=1,
            max_args=1,
        ),
    ),
    description="Deleted machines and databases are kept for 7 days, or until the disk is almost "
    "full.",
)
