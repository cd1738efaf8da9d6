# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd profile` and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import TIMEOUT, WAIT, output

PROFILE = Group(
    "profile",
    "Show and check the deployment profile: defaults and locks of an administrator",
    members=(
        Command(
            "accept",
            "rdd.cli.commands.profile.accept",
            "Set all locked settings to the values of the profile",
            flags=(
                Flag("dry-run", "only show what would change", kind="bool"),
                WAIT,
                TIMEOUT,
                output(),
            ),
        ),
        Command(
            "check",
            "rdd.cli.commands.profile.check",
            "Check the profile that applies, or FILE, and list all mistakes",
            "Exits with 1 if there are any.",
            usage="[FILE]",
            max_args=1,
        ),
        Command(
            "show",
            "rdd.cli.commands.profile.show",
            "Show which profile applies and what it locks",
            "Never starts anything.",
            flags=(output(),),
        ),
    ),
)
