# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd package` and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import TIMEOUT, WAIT, output

_YES = Flag("yes", "fetch and change settings without asking", kind="bool", short="y")

PACKAGE = Group(
    "package",
    "Create and install packages for machines without a network",
    description=(
        "A package has tools, an engine, Kubernetes, images and settings, and is signed. It is a\n"
        "file, or a directory if one exists at that path."
    ),
    members=(
        Command(
            "create",
            "rdd.cli.commands.package.create",
            "Write what this instance needs to a package",
            "The installed tools, the engine and the Kubernetes of the settings, and the settings\n"
            "themselves, except those of this machine and its network. What the cache does not\n"
            "have is fetched, after a question.",
            usage="FILE|DIR",
            flags=(
                Flag("image", "also an image of the engine; may be repeated", kind="strings"),
                Flag("key", "file with the private key (default: that of `rdd package key`)"),
                Flag(
                    "platform",
                    "platform such as linux/arm64 (default: that of this host); may be repeated",
                    kind="strings",
                ),
                Flag("settings", "include the settings", kind="bool", default="true"),
                Flag(
                    "tool",
                    "also this tool, or another version of it: NAME or NAME=VERSION; "
                    "may be repeated",
                    kind="strings",
                ),
                Flag("unsigned", "do not sign it", kind="bool"),
                Flag("yes", "fetch without asking", kind="bool", short="y"),
            ),
            min_args=1,
            max_args=1,
        ),
        Command(
            "install",
            "rdd.cli.commands.package.install",
            "Install a package",
            "Verifies the signature and every file before anything is changed. Images are loaded\n"
            "into the engine, which is started for it.",
            usage="FILE|DIR",
            flags=(
                Flag("allow-unsigned", "accept a package without a signature", kind="bool"),
                Flag("settings", "apply the settings", kind="bool", default="true"),
                TIMEOUT,
                Flag(
                    "trust-key",
                    "fingerprint of a key that is trusted; may be repeated",
                    kind="strings",
                ),
                WAIT,
                _YES,
            ),
            min_args=1,
            max_args=1,
        ),
        Command(
            "key",
            "rdd.cli.commands.package.key",
            "Print the fingerprint of the key that signs packages",
            "The key is created if it does not exist. Packages that it signed are trusted here.",
        ),
        Command(
            "show",
            "rdd.cli.commands.package.show",
            "Show what a package contains and who signed it",
            usage="FILE|DIR",
            flags=(output(),),
            min_args=1,
            max_args=1,
        ),
    ),
)
