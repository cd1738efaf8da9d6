# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd tools` and `rdd update`: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import YES, output

_FETCH = Flag("yes", "fetch without asking", kind="bool", short="y")
_CHECK = Flag("check", "only print what is newer", kind="bool")

TOOLS = Group(
    "tools",
    "Manage the tools of the instance: Docker CLI, Compose, Buildx, engines, kubectl, …",
    description=(
        "TOOL is a name, or NAME@VERSION. Nothing is fetched without consent: the answer to a\n"
        "question on a terminal, --yes, or the setting downloads.automatic. `rdd shell-profile`\n"
        "puts the installed tools on PATH."
    ),
    members=(
        Command(
            "install",
            "rdd.cli.commands.tools.install",
            "Fetch, verify and install tools, or put an installed version to use",
            "Without VERSION, the newest known one. A file whose publisher has no checksums needs "
            "its digest.",
            usage="TOOL…",
            completes="tools",
            flags=(
                Flag(
                    "digest",
                    "digest of the file, or FILE=DIGEST for one of several; may be repeated",
                    kind="strings",
                ),
                Flag(
                    "link-plugins",
                    "link plugins of the Docker CLI into its cli-plugins directory "
                    "(DOCKER_CONFIG, else ~/.docker)",
                    kind="bool",
                ),
                _FETCH,
            ),
            min_args=1,
            max_args=None,
        ),
        Command(
            "ls",
            "rdd.cli.commands.tools.ls",
            "List the tools with their installed and newest known versions",
            flags=(output(),),
        ),
        Command(
            "remove",
            "rdd.cli.commands.tools.remove",
            "Remove tools",
            "Without VERSION, all versions. Fails for the engine that the App uses.",
            usage="TOOL…",
            completes="installed-tools",
            aliases=("rm",),
            flags=(YES,),
            min_args=1,
            max_args=None,
        ),
        Command(
            "update",
            "rdd.cli.commands.tools.update",
            "Install the newest versions of installed tools",
            "Asks the publishers for their versions. Earlier versions stay installed.",
            usage="[NAME…]",
            completes="installed-tools",
            flags=(_CHECK, _FETCH),
            max_args=None,
        ),
    ),
)

UPDATE = Command(
    "update",
    "rdd.cli.commands.tools.update_all",
    "Report and install newer versions of tools and of rdd itself",
    "rdd itself is updated where pipx or uv installed it. Asks before each change.",
    flags=(_CHECK, _FETCH),
)
