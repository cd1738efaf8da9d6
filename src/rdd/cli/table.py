# SPDX-License-Identifier: Apache-2.0
"""Every command of rdd, with its flags: the one place where a command is declared.

Help, completion and docs/cli.md are checked against this table. To add a command
write its module with `run(call: Call) -> int` and add an entry here
(CONTRIBUTING.md, "Adding a command"). A command that does not work yet has no
entry: `rdd` says that it does not know it.
"""

from rdd.cli.types import Command, Flag, Group

HELP = Flag("help", "show this text", kind="bool", short="h")

# Accepted by every command, before or after its name.
GLOBAL = (
    HELP,
    Flag(
        "log-level",
        "show messages of this level and above: fatal, error, warn, info, debug or trace "
        "(default: RDD_LOG_LEVEL, else debug in developer mode, else warn)",
        values=("fatal", "error", "warn", "info", "debug", "trace"),
    ),
    Flag("log-format", "form of messages: text or json", default="text", values=("text", "json")),
)

_SERVICE = Group(
    "service",
    "Manage the control plane of an instance",
    aliases=("svc",),
    members=(
        Command(
            "paths",
            "rdd.cli.svc_paths",
            "Print the directories and files of an instance",
            "With KEY print only that one. The instance need not exist.",
            usage="[KEY]",
            max_args=1,
            flags=(
                Flag(
                    "output",
                    "output format: table, json or shell",
                    short="o",
                    default="table",
                    values=("table", "json", "shell"),
                ),
            ),
        ),
        Command(
            "serve",
            "rdd.cli.svc_serve",
            "Run the control plane in the foreground",
            "Serves the Kubernetes API on 127.0.0.1 until interrupted (SIGINT or SIGTERM).",
            flags=(
                Flag(
                    "secure-port",
                    "port of the API; another free one is taken if it is in use (0: any)",
                    kind="int",
                    default="6443",
                ),
                Flag(
                    "builtin-controllers",
                    "controllers to run: names, -name to leave one out, * for all, empty for none",
                    default="*",
                ),
            ),
        ),
    ),
)

ROOT = Group(
    "rdd",
    "Control plane of a container desktop",
    description=(
        "Choose another instance with --instance NAME as the first argument, or with RDD_INSTANCE."
    ),
    flags=(
        Flag(
            "version",
            "print the version (raw: with build details) and exit",
            implied="true",
            values=("true", "raw"),
        ),
    ),
    members=(
        Command(
            "completion",
            "rdd.cli.completion",
            "Print the completion script for a shell",
            "Shells: bash, zsh, fish. Load it with, for example: source <(rdd completion bash)",
            usage="SHELL",
            min_args=1,
            max_args=1,
        ),
        Command(
            "help",
            "rdd.cli.help",
            "Show how a command is used",
            usage="[COMMAND…]",
            max_args=None,
        ),
        Command(
            "kubectl",
            "rdd.cli.kubectl",
            "Run the kubectl found on PATH",
            "All arguments are kubectl's. Links to rdd named kubectl are never taken for it.",
            usage="[ARGS…]",
            raw=True,
        ),
        _SERVICE,
        Command("version", "rdd.cli.version", "Print the version"),
        Command(
            "yq",
            "rdd.cli.yq",
            "Run the yq found on PATH",
            "All arguments are yq's. Links to rdd named yq are never taken for it.",
            usage="[ARGS…]",
            raw=True,
            visibility="developer",
        ),
        Command(
            "__complete",
            "rdd.cli.complete",
            "Print what can follow an incomplete command line (for the completion scripts)",
            usage="WORD…",
            raw=True,
            visibility="hidden",
        ),
    ),
)
