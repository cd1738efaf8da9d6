# SPDX-License-Identifier: Apache-2.0
"""Every command of rdd with its flags: the single declaration of a command.

Help, completion and docs/cli.md are checked against this table. To add a command,
write its module with `run(call: Call) -> int` and add an entry here (CONTRIBUTING.md).
Commands without an implementation have no entry: `rdd` rejects them as unknown.
"""

from rdd.cli.commands.app.declarations import APP_COMMANDS
from rdd.cli.commands.cache.declarations import CACHE
from rdd.cli.commands.disk.declarations import DISK
from rdd.cli.commands.engine.declarations import ENGINE_COMMANDS
from rdd.cli.commands.limavm.declarations import LIMAVM
from rdd.cli.commands.package.declarations import PACKAGE
from rdd.cli.commands.profile.declarations import PROFILE
from rdd.cli.commands.service.declarations import SERVICE
from rdd.cli.commands.snapshot.declarations import SNAPSHOT
from rdd.cli.commands.tools.declarations import TOOLS, UPDATE
from rdd.cli.commands.trash.declarations import TRASH
from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import output

HELP = Flag("help", "show this help", kind="bool", short="h")

# Accepted by every command, before or after its name.
GLOBAL = (
    HELP,
    Flag(
        "log-level",
        "minimum level of log messages: fatal, error, warn, info, debug or trace "
        "(default: RDD_LOG_LEVEL, else debug in developer mode, else warn)",
        values=("fatal", "error", "warn", "info", "debug", "trace"),
    ),
    Flag(
        "log-format",
        "format of log messages: text or json",
        default="text",
        values=("text", "json"),
    ),
)

ROOT = Group(
    "rdd",
    "Control plane of a container desktop",
    description=(
        "Select an instance with --instance NAME as the first argument, or with RDD_INSTANCE."
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
        CACHE,
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
            "Starts the control plane if it is not running. Passes all arguments to kubectl,\n"
            "except `wait-condition TYPE[.GROUP]/NAME CONDITION[=STATUS]`, which waits for "
            "a condition.",
            usage="[ARGS…]",
            completes="ctl",
            raw=True,
        ),
        Command(
            "dashboard",
            "rdd.cli.commands.dashboard",
            "Open the dashboard in the browser",
            "Starts the control plane if it is not running. A link that works once, within 60 s,\n"
            "logs the browser in. BROWSER selects the browser.",
            flags=(
                Flag("print-url", "print the login link instead of opening it", kind="bool"),
                Flag(
                    "viewer",
                    "log in as a viewer: state and figures, but no logs, files, environment "
                    "values or changes",
                    kind="bool",
                ),
                Flag(
                    "loopback",
                    "use 127.0.0.1 in the link, for browsers that do not resolve names "
                    "below .localhost",
                    kind="bool",
                ),
            ),
        ),
        DISK,
        Command(
            "help",
            "rdd.cli.framework.help",
            "Show help for a command",
            usage="[COMMAND…]",
            completes="commands",
            max_args=None,
        ),
        Command(
            "hostagent",
            "rdd.cli.commands.hostagent",
            "Run the host agent of a machine (started by the control plane)",
            "Finds the machine in LIMA_HOME (default: that of the instance).",
            usage="INSTANCE",
            flags=(
                Flag("debug", "enable debug logging", kind="bool"),
                Flag("nerdctl-archive", "not supported: engines are part of the guest image"),
                Flag("pidfile", "file to write the process ID to (default: ha.pid)", short="p"),
                Flag(
                    "progress",
                    "accepted for compatibility; progress is always reported",
                    kind="bool",
                ),
                Flag("run-gui", "not supported: no driver has a graphical display", kind="bool"),
                Flag("socket", "path of the control socket (required)"),
            ),
            min_args=1,
            max_args=1,
            visibility="hidden",
        ),
        Command(
            "kubectl",
            "rdd.cli.commands.kubectl",
            "Run kubectl from PATH, or the built-in one",
            "Passes all arguments to kubectl. Ignores links to rdd named kubectl; without another "
            "kubectl on PATH\nthe built-in client runs.",
            usage="[ARGS…]",
            completes="kubectl",
            raw=True,
        ),
        Command(
            "ls",
            "rdd.cli.commands.ls",
            "List the instances with their state, engine, ports, disk and memory",
            "Never starts anything.",
            flags=(output(),),
        ),
        *APP_COMMANDS,
        *ENGINE_COMMANDS,
        LIMAVM,
        PROFILE,
        PACKAGE,
        SERVICE,
        TOOLS,
        SNAPSHOT,
        TRASH,
        UPDATE,
        Command(
            "support-bundle",
            "rdd.cli.commands.support_bundle",
            "Collect logs and state for a bug report",
            "Writes a .tar.gz with secrets, tokens and keys removed.\n"
            "Works without a running control plane.",
            usage="[FILE]",
            max_args=1,
        ),
        Command("version", "rdd.cli.commands.version", "Print the version"),
        Command(
            "yq",
            "rdd.cli.commands.yq",
            "Run the yq found on PATH",
            "Passes all arguments to yq. Ignores links to rdd named yq.",
            usage="[ARGS…]",
            raw=True,
            visibility="developer",
        ),
        Command(
            "__complete",
            "rdd.cli.commands.complete",
            "Print completions for an incomplete command line (used by the completion scripts)",
            usage="WORD…",
            raw=True,
            visibility="hidden",
        ),
    ),
)
