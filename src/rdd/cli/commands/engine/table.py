# SPDX-License-Identifier: Apache-2.0
"""The commands for containers, images and volumes: thin views over the API."""

from rdd.cli.framework.types import Command, Flag
from rdd.cli.framework.usual_flags import output

_OUTPUT = output("text, or json: print the objects' status as a JSON list")
_QUIET = Flag("quiet", "print only IDs", kind="bool", short="q")
_NAMESPACE = Flag("namespace", "only this namespace of the engine", short="n")

EXEC = Command(
    "exec",
    "rdd.cli.commands.engine.exec",
    "Run a command in a container",
    "CONTAINER is a name, an ID or the beginning of one. Flags must stand before it. The exit "
    "code is the\ncommand's.",
    usage="[FLAGS] CONTAINER COMMAND…",
    flags=(
        Flag(
            "env", "a variable for the command, NAME=VALUE; may be repeated", "strings", short="e"
        ),
        Flag("interactive", "pass standard input on", kind="bool", short="i"),
        Flag("tty", "give the command a terminal", kind="bool", short="t"),
        Flag("user", "run as this user, name or number", short="u"),
        Flag("workdir", "the directory to begin in", short="w"),
    ),
    raw=True,
)

ENGINE_COMMANDS = (
    EXEC,
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
        "CONTAINER is a name, an ID or the beginning of one.",
        usage="CONTAINER",
        flags=(
            Flag("follow", "go on until the container ends", kind="bool", short="f"),
            Flag("since", "only what is newer than this time, in seconds since 1970 or RFC 3339"),
            Flag("tail", "only this many of the last lines", default="all"),
            Flag("timestamps", "show when each line was written", kind="bool", short="t"),
        ),
        min_args=1,
        max_args=1,
    ),
    Command(
        "ps",
        "rdd.cli.commands.engine.ps",
        "List the containers that run",
        flags=(
            Flag("all", "also those that do not run", kind="bool", short="a"),
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
