# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd service` and their flags: a part of the table in table.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import FOLLOW, WAIT, output

_CONTROLLERS = Flag(
    "controllers",
    "controllers to run: names or groups, -name to leave one out, * for all, empty for none",
    default="*",
)
_SECURE_PORT = Flag(
    "secure-port",
    "port of the API; another free one is taken if it is in use (0: any)",
    kind="int",
    default="6443",
)

SERVE = Command(
    "serve",
    "rdd.cli.commands.service.serve",
    "Run the control plane in the foreground",
    "Serves the Kubernetes API on 127.0.0.1 until interrupted (SIGINT or SIGTERM). "
    "The only argument is the word options: it lists all flags.",
    usage="[options]",
    max_args=1,
    flags=(
        _SECURE_PORT,
        _CONTROLLERS,
        Flag(
            "builtin-controllers",
            "controllers of Kubernetes itself to run: names, -name to leave one out, "
            "* for all, empty for none",
            default="*",
        ),
        Flag(
            "client-ca-file",
            "authorities (PEM) whose client certificates identify users; empty: none are asked for",
        ),
        Flag(
            "idle-timeout",
            "end when nobody has called for this long and no virtual machine runs (0: never)",
            kind="duration",
            default="0",
        ),
        Flag("v", "log more: 2 for debug, 4 for trace", kind="int", short="v"),
        Flag(
            "saved-arguments",
            "use the saved arguments and the log files of the instance, as login supervisors do",
            kind="bool",
            visibility="developer",
        ),
        Flag(
            "lock-fd",
            "open file with the lock of the instance, from the command that starts the daemon",
            kind="int",
            default="-1",
            visibility="hidden",
        ),
    ),
)

# Where they are flags of create and start, these two are for developers.
_FOR_SERVE = (
    _CONTROLLERS._replace(visibility="developer"),
    _SECURE_PORT._replace(
        help="port of the API (default: 6443 plus the index of the instance)",
        default="0",
        visibility="developer",
    ),
)


def _timeout(default: str) -> Flag:
    return Flag("timeout", "give up after this time (0: never)", kind="duration", default=default)


SERVICE = Group(
    "service",
    "Manage the control plane of an instance",
    aliases=("svc",),
    members=(
        Command(
            "config",
            "rdd.cli.commands.service.config",
            "Print the kubeconfig of the control plane",
            "Starts the control plane if it does not run.",
            flags=(
                Flag(
                    "start",
                    "start the control plane if it does not run; otherwise that is an error",
                    kind="bool",
                    default="true",
                ),
            ),
        ),
        Command(
            "create",
            "rdd.cli.commands.service.create",
            "Create an instance without starting it",
            "Arguments after -- are saved for the daemon; see rdd service serve options.",
            usage="[-- ARGS…]",
            max_args=None,
            flags=_FOR_SERVE,
        ),
        Command(
            "delete",
            "rdd.cli.commands.service.delete",
            "Stop the control plane and delete everything of the instance",
            flags=(_timeout("5m"),),
        ),
        Command(
            "install",
            "rdd.cli.commands.service.install",
            "Start the control plane at login",
            "Writes a systemd user unit (Linux) or a launchd agent (macOS); needs no root.",
        ),
        Command(
            "log",
            "rdd.cli.commands.service.log",
            "Print the log of the daemon",
            aliases=("logs",),
            flags=(
                Flag("stdout", "what it wrote to stdout", kind="bool", short="o"),
                FOLLOW,
            ),
        ),
        Command(
            "paths",
            "rdd.cli.commands.service.paths",
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
            "reset",
            "rdd.cli.commands.service.reset",
            "Start again with an empty database; the old one is kept",
            flags=(WAIT, _timeout("90s")),
        ),
        SERVE,
        Command(
            "start",
            "rdd.cli.commands.service.start",
            "Start the control plane in the background",
            "Creates the instance if it is missing. Flags for the daemon, given here or after --, "
            "apply to this run only.",
            usage="[-- ARGS…]",
            max_args=None,
            flags=(WAIT, _timeout("90s"), *_FOR_SERVE),
        ),
        Command(
            "status",
            "rdd.cli.commands.service.status",
            "Show whether the control plane exists and runs",
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
            "Do not start the control plane at login any more",
        ),
    ),
)
