# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd disk` and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import YES, output

DISK = Group(
    "disk",
    "Show where the disk space is, and free it",
    description=(
        "Shows the space of the engine (images, containers, volumes, build cache) and of the "
        "files on this\ncomputer (machines, logs, database, cache, trash). Never starts anything."
    ),
    flags=(output(),),
    module="rdd.cli.commands.disk.show",
    members=(
        Command(
            "prune",
            "rdd.cli.commands.disk.prune",
            "Remove what is not used",
            "WHAT is containers, images, build-cache, volumes, cache or trash; without it, the "
            "first three.\nOf images only those without a tag go, of volumes only those without a "
            "name, unless --all is\ngiven. Only what is shown before is removed.",
            usage="[WHAT…]",
            flags=(
                Flag(
                    "all",
                    "also images with a tag, volumes with a name and all of the build cache",
                    kind="bool",
                    short="a",
                ),
                Flag("dry-run", "only print what would be removed", kind="bool"),
                Flag(
                    "label",
                    "only with this label: KEY, KEY=VALUE, KEY!=VALUE or !KEY; may be repeated",
                    kind="strings",
                ),
                output(),
                Flag("until", "only what is older, such as 24h", kind="duration", default="0s"),
                YES,
            ),
            max_args=None,
        ),
    ),
)
