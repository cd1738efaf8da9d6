# SPDX-License-Identifier: Apache-2.0
"""Every command of rdd, with its flags: the one place where a command is declared.

Help, completion and docs/cli.md are checked against this table. To add a command
write its module with `run(call: Call) -> int` and add an entry here
(CONTRIBUTING.md, "Adding a command"). A command that does not work yet has no
entry: `rdd` says that it does not know it.
"""

from rdd.cli.commands.app.table import APP_COMMANDS
from rdd.cli.commands.engine.table import ENGINE_COMMANDS
from rdd.cli.commands.machine.table import LIMAVM
from rdd.cli.commands.service.table import SERVICE
from rdd.cli.framework.types import Command, Flag, Group

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
            "rdd.cli.commands.completion",
            "Print the completion script for a shell",
            "Shells: bash, zsh, fish. Load it with, for example: source <(rdd completion bash)",
            usage="SHELL",
            min_args=1,
            max_args=1,
        ),
        Command(
            "ctl",
            "rdd.cli.commands.ctl",
            "Run kubectl for the control plane of the instance",
            "Starts the control plane if it does not run. All arguments are kubectl's, but for "
            "`wait-condition`\nTYPE[.GROUP]/NAME CONDITION[=STATUS], which waits for a condition "
            "of an object.",
            usage="[ARGS…]",
            raw=True,
            visibility="developer",
        ),
        Command(
            "help",
            "rdd.cli.framework.help",
            "Show how a command is used",
            usage="[COMMAND…]",
            max_args=None,
        ),
        Command(
            "hostagent",
            "rdd.cli.commands.hostagent",
            "Run the host agent of a machine (started by the control plane)",
            "LIMA_HOME, by default that of the instance, is where the machine is.",
            usage="INSTANCE",
            flags=(
                Flag("debug", "write more to the log", kind="bool"),
                Flag("nerdctl-archive", "refused: engines are part of the guest image"),
                Flag("pidfile", "file for the process id (default: ha.pid)", short="p"),
                Flag("progress", "accepted: progress is always told", kind="bool"),
                Flag("run-gui", "refused: no driver shows a window", kind="bool"),
                Flag("socket", "path of the socket that the agent answers on (required)"),
            ),
            min_args=1,
            max_args=1,
            visibility="hidden",
        ),
        Command(
            "kubectl",
            "rdd.cli.commands.kubectl",
            "Run kubectl, the one found on PATH or the built-in",
            "All arguments are kubectl's. Links to rdd named kubectl are never taken for it; "
            "without a real\none the built-in client does the work.",
            usage="[ARGS…]",
            raw=True,
        ),
        *APP_COMMANDS,
        *ENGINE_COMMANDS,
        LIMAVM,
        SERVICE,
        Command(
            "support-bundle",
            "rdd.cli.commands.support_bundle",
            "Collect logs and state for a bug report",
            "Writes a .tar.gz without secrets, tokens and keys. Works when the control plane is "
            "down.",
            usage="[FILE]",
            max_args=1,
        ),
        Command("version", "rdd.cli.commands.version", "Print the version"),
        Command(
            "yq",
            "rdd.cli.commands.yq",
            "Run the yq found on PATH",
            "All arguments are yq's. Links to rdd named yq are never taken for it.",
            usage="[ARGS…]",
            raw=True,
            visibility="developer",
        ),
        Command(
            "__complete",
            "rdd.cli.commands.complete",
            "Print what can follow an incomplete command line (for the completion scripts)",
            usage="WORD…",
            raw=True,
            visibility="hidden",
        ),
    ),
)
