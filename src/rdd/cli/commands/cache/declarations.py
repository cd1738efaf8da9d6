# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd cache` and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import YES, output

CACHE = Group(
    "cache",
    "Manage the files that rdd has fetched",
    description=(
        "The cache is shared by all instances of the user. DIGEST is the digest of a file, or an\n"
        "unambiguous prefix of it; RELEASE is a release of Kubernetes, such as k3s/v1.33.7+k3s3."
    ),
    members=(
        Command(
            "export",
            "rdd.cli.commands.cache.transfer",
            "Write files of the cache to an archive, for a machine without a network",
            "Without DIGEST, all files are exported.",
            usage="FILE [DIGEST…]",
            completes="exported-cache",
            min_args=1,
            max_args=None,
        ),
        Command(
            "gc",
            "rdd.cli.commands.cache.remove",
            "Remove files that have not been used for long, and old incomplete downloads",
            "Releases of Kubernetes, too. What is checked out or used by a machine is kept.",
            flags=(
                Flag("max-age", "remove files unused for longer", "duration", "2160h"),
                Flag("max-size", "remove the longest unused until the rest fits", default="20GiB"),
                Flag("dry-run", "only print what would be removed", kind="bool"),
                YES,
            ),
        ),
        Command(
            "import",
            "rdd.cli.commands.cache.transfer",
            "Add the files of an archive",
            "Every file is verified by its digest.",
            usage="FILE",
            min_args=1,
            max_args=1,
        ),
        Command(
            "ls",
            "rdd.cli.commands.cache.ls",
            "List the files of the cache and the releases of Kubernetes",
            flags=(output(),),
        ),
        Command(
            "rm",
            "rdd.cli.commands.cache.remove",
            "Remove files or releases of Kubernetes",
            "Fails for files that are checked out or linked by a machine, and for releases that a\n"
            "machine uses.",
            usage="DIGEST|RELEASE…",
            completes="cache",
            aliases=("remove",),
            flags=(YES,),
            min_args=1,
            max_args=None,
        ),
    ),
)
