# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd service` and their flags: one part of commands/table.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import FOLLOW, WAIT, output

_CONTROLLERS = Flag(
    "controllers",
    "controllers to run: names or groups, -name to exclude one, * for all, empty for none",
    default="*",
)
_SECURE_PORT = Flag(
    "secure-port",
    "port of the API; falls back to a free port if it is in use; 0 means any free port",
    kind="int",
    default="6443",
)

SERVE = Command(
    "serve",
    "rdd.cli.commands.service.serve",
    "Run the control plane in the foreground",
    "Serves the Kubernetes API on 127.0.0.1 until interrupted (SIGINT or SIGTERM). "
    'The argument "options" lists all flags.',
    usage="[options]",
    max_args=1,
    flags=(
        _SECURE_PORT,
        _CONTROLLERS,
        Flag(
            "builtin-controllers",
            "built-in Kubernetes controllers to run: names, -name to exclude one, "
            "* for all, empty for none",
            default="*",
        ),
        Flag(
            "client-ca-file",
            "PEM file of CAs for client certificate authentication; empty disables it",
        ),
        Flag(
            "idle-timeout",
            "exit after this time without requests and running virtual machines; 0 disables it",
            kind="duration",
            default="0",
        ),
        Flag("v", "log verbosity: 2 for debug, 4 for trace", kind="int", short="v"),
        Flag(
            "saved-arguments",
            "use the saved arguments and log files of the instance (for login supervisors)",
            kind="bool",
            visibility="developer",
        ),
        Flag(
            "lock-fd",
            "file descriptor that holds the instance lock (set by rdd service start)",
            kind="int",
            default="-1",
            visibility="hidden",
        ),
    ),
)

# `create` and `start` show these two in developer mode only.
_FOR_SERVE = (
    _CONTROLLERS._replace(visibility="developer"),
    _SECURE_PORT._replace(
        help="port of the API (default: 6443 plus the index of the instance)",
        default="0",
        visibility="developer",
    ),
)


def _timeout(default: str) -> Flag:
    return Flag(
        "timeout", "maximum time to wait; 0 means no limit", kind="duration", default=default
    )


SERVICE = Group(
    "service",
    "Manage the control plane of an instance",
    aliases=("svc",),
    members=(
        Command(
            "config",
            "rdd.cli.commands.service.config",
            "Print the kubeconfig of the control plane",
            "Starts the control plane if it is not running.",
            flags=(
                Flag(
                    "start",
                    "start the control plane if it is not running; false makes that an error",
                    kind="bool",
                    default="true",
                ),
            ),
        ),
        Command(
            "create",
            "rdd.cli.commands.service.create",
            "Create an instance without starting it",
            "Saves arguments after -- for the daemon; `rdd service serve options` lists them.",
            usage="[-- ARGS…]",
            max_args=None,
            flags=_FOR_SERVE,
        ),
        Command(
            "delete",
            "rdd.cli.commands.service.delete",
            "Stop the control plane and delete the instance with all its data",
            flags=(_timeout("5m"),),
        ),
        Command(
            "install",
            "rdd.cli.commands.service.install",
            "Install a login service that starts the control plane",
            "Writes a systemd user unit (Linux) or a launchd agent (macOS); needs no root.",
        ),
        Command(
            "log",
            "rdd.cli.commands.service.log",
            "Print the log of the daemon",
            aliases=("logs",),
            flags=(
                Flag("stdout", "print stdout instead of stderr", kind="bool", short="o"),
                FOLLOW,
            ),
        ),
        Command(
            "paths",
            "rdd.cli.commands.service.paths",
            "Print the directories and files of an instance",
            "With KEY, prints only that path. The instance does not have to exist.",
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
            "reset",
            "rdd.cli.commands.service.reset",
            "Restart with an empty database; the old one is kept as a backup",
            flags=(WAIT, _timeout("90s")),
        ),
        SERVE,
        Command(
            "start",
            "rdd.cli.commands.service.start",
            "Start the control plane in the background",
            "Creates the instance if it does not exist.\n"
            "Flags for the daemon, given here or after --, apply to this run only.",
            usage="[-- ARGS…]",
            max_args=None,
            flags=(WAIT, _timeout("90s"), *_FOR_SERVE),
        ),
        Command(
            "status",
            "rdd.cli.commands.service.status",
            "Show whether the control plane exists and is running",
            flags=(output("output format: text or json"),),
        ),
        Command(
            "stop",
            "rdd.cli.commands.service.stop",
            "Stop the control plane",
            flags=(WAIT, _timeout("5m")),
        ),
        Command(
            "uninstall",
            "rdd.cli.commands.service.uninstall",
            "Remove the login service",
        ),
    ),
)
