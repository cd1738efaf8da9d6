# SPDX-License-Identifier: Apache-2.0
"""Commands for containers, images and volumes: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import YES, output

_OUTPUT = output("output format: text, or json for a list of the objects' status")
_QUIET = Flag("quiet", "print only IDs", kind="bool", short="q")
_NAMESPACE = Flag("namespace", "list only this namespace of the engine", short="n")

EXEC = Command(
    "exec",
    "rdd.cli.commands.engine.exec",
    "Run a command in a container",
    "CONTAINER is a name, an ID or an unambiguous prefix of one. Flags must precede it. Exits "
    "with the exit\ncode of the command.",
    usage="[FLAGS] CONTAINER COMMAND…",
    completes="containers",
    flags=(
        Flag(
            "env", "set an environment variable, NAME=VALUE; may be repeated", "strings", short="e"
        ),
        Flag("interactive", "forward stdin to the command", kind="bool", short="i"),
        Flag("tty", "allocate a terminal", kind="bool", short="t"),
        Flag("user", "user name or ID to run as", short="u"),
        Flag("workdir", "working directory", short="w"),
    ),
    raw=True,
)


def _removal(kind: str, usage: str, description: str, *others: Command, summary: str = "") -> Group:
    return Group(
        kind,
        summary or f"Remove {kind}s of the container engine",
        (
            *others,
            Command(
                "rm",
                "rdd.cli.commands.engine.remove",
                f"Remove {kind}s",
                description,
                usage=f"{usage}…",
                completes=f"{kind}s",
                aliases=("remove",),
                flags=(YES,),
                min_args=1,
                max_args=None,
            ),
        ),
    )


ENGINE_COMMANDS = (
    EXEC,
    _removal(
        "image",
        "IMAGE",
        "IMAGE is a tag, an ID or an unambiguous prefix of one; an ID removes all its tags. "
        "Fails if a container uses it.",
    ),
    _removal(
        "volume",
        "VOLUME",
        "Removes the data. Fails if a container uses a volume.",
        Command(
            "backup",
            "rdd.cli.commands.engine.volume_archive",
            "Write a volume to a tar file, with owners and times",
            "Stop containers that write to it first.",
            usage="VOLUME FILE",
            completes="volumes",
            min_args=2,
            max_args=2,
        ),
        Command(
            "restore",
            "rdd.cli.commands.engine.volume_archive",
            "Create a volume from a tar file",
            usage="VOLUME FILE",
            flags=(
                Flag("overwrite", "unpack into an existing volume over its files", kind="bool"),
            ),
            min_args=2,
            max_args=2,
        ),
        summary="Back up, restore and remove volumes of the container engine",
    ),
    Command(
        "images",
        "rdd.cli.commands.engine.images",
        "List the images of the container engine",
        flags=(_NAMESPACE, _OUTPUT, _QUIET),
    ),
    Command(
        "logs",
        "rdd.cli.commands.engine.logs",
        "Print the output of a container",
        "CONTAINER is a name, an ID or an unambiguous prefix of one.",
        usage="CONTAINER",
        completes="containers",
        flags=(
            Flag("follow", "stream output until the container exits", kind="bool", short="f"),
            Flag("since", "only output after this time, in seconds since 1970 or RFC 3339"),
            Flag("tail", "number of lines to show from the end of the log", default="all"),
            Flag("timestamps", "show timestamps", kind="bool", short="t"),
        ),
        min_args=1,
        max_args=1,
    ),
    Command(
        "ps",
        "rdd.cli.commands.engine.ps",
        "List running containers",
        flags=(
            Flag("all", "list stopped containers, too", kind="bool", short="a"),
            _NAMESPACE,
            _OUTPUT,
            _QUIET,
        ),
    ),
    Command(
        "volumes",
        "rdd.cli.commands.engine.volumes",
        "List the volumes of the container engine",
        flags=(_NAMESPACE, _OUTPUT, Flag("quiet", "print only names", kind="bool", short="q")),
    ),
)
