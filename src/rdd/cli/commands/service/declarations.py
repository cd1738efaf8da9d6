# SPDX-License-Identifier: Apache-2.0
"""The commands of `rdd service` and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import FOLLOW, NO_TRASH, WAIT, YES, output

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

_STORE = Flag(
    "store",
    "keep objects in the etcd at this address (etcd://…) instead of the instance's database",
)

SHARING = (
    _STORE,
    Flag(
        "machine",
        "on a shared store: the machine that App, LimaVM and container objects belong to",
    ),
    Flag(
        "identity-dir",
        "directory with keys, certificates and tokens that several servers share",
    ),
    Flag("listen-address", "HOST:PORT to listen on besides 127.0.0.1; needs a certificate"),
    Flag("tls-cert-file", "PEM file with the certificate for --listen-address"),
    Flag("tls-private-key-file", "PEM file with the key of that certificate"),
)

_WITHOUT_USER_ADMISSION = Flag(
    "without-user-admission",
    "ignore admission webhooks outside of the daemon and admission policies in this run",
    kind="bool",
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
            "token-auth-file",
            "CSV file of static bearer tokens: token, user, uid, groups",
        ),
        Flag(
            "audit-policy-file",
            "YAML file of the audit policy; without it nothing is logged",
        ),
        Flag("audit-log-path", "file of the audit log, - for stdout; empty disables it"),
        Flag("audit-log-maxage", "days to keep rotated audit logs; 0 keeps them", kind="int"),
        Flag("audit-log-maxbackup", "number of rotated audit logs; 0 keeps all", kind="int"),
        Flag("audit-log-maxsize", "MiB at which the audit log is rotated; 0: 100", kind="int"),
        Flag(
            "audit-log-format",
            "format of the audit log: json",
            default="json",
        ),
        Flag(
            "http2",
            "serve HTTP/2 to clients that negotiate it; false: HTTP/1.1 only",
            kind="bool",
            default="true",
        ),
        Flag(
            "allowed-hosts",
            "comma-separated host names by which clients may address the API, besides loopback "
            "names and those of the serving certificate",
        ),
        Flag(
            "allowed-origins",
            "comma-separated origins of web pages that may open WebSockets (https://host:port)",
        ),
        Flag(
            "idle-timeout",
            "exit after this time without requests and running virtual machines; 0 disables it",
            kind="duration",
            default="0",
        ),
        Flag(
            "open-metrics",
            "serve /metrics of the controllers to every local user, without a token",
            kind="bool",
        ),
        *SHARING,
        _WITHOUT_USER_ADMISSION,
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
            "backup",
            "rdd.cli.commands.service.backup",
            "Copy the database and verify the copy",
            "Without FILE, the copy is one of those that the daemon keeps.",
            usage="[FILE]",
            max_args=1,
        ),
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
            "copy-store",
            "rdd.cli.commands.service.copy_store",
            "Copy all objects between the database of the instance and etcd",
            "The control plane must be stopped. An interrupted copy to etcd continues when "
            "the command is repeated. Resource versions are those of the target.",
            flags=(
                Flag("to", "copy the database of the instance to this etcd:// address"),
                Flag("from", "copy this etcd:// address to the database of the instance"),
            ),
        ),
        Command(
            "create",
            "rdd.cli.commands.service.create",
            "Create an instance without starting it",
            "Saves arguments after -- for the daemon; `rdd service serve options` lists them.",
            usage="[-- ARGS…]",
            max_args=None,
            flags=(*_FOR_SERVE, *SHARING),
        ),
        Command(
            "delete",
            "rdd.cli.commands.service.delete",
            "Stop the control plane and delete the instance with all its data",
            flags=(
                _timeout("5m"),
                NO_TRASH,
                Flag(
                    "keep-snapshots",
                    "export all snapshots to the current directory first",
                    kind="bool",
                ),
                YES,
            ),
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
        Group(
            "quarantine",
            "List, restore and remove objects whose stored value is damaged",
            members=(
                Command(
                    "ls",
                    "rdd.cli.commands.service.quarantine",
                    "List the damaged objects",
                    flags=(output(),),
                ),
                Command(
                    "restore",
                    "rdd.cli.commands.service.quarantine",
                    "Restore objects from the history or the newest backup",
                    usage="OBJECT…",
                    completes="quarantined",
                    min_args=1,
                    max_args=None,
                ),
                Command(
                    "rm",
                    "rdd.cli.commands.service.quarantine",
                    "Remove damaged objects",
                    usage="OBJECT…",
                    completes="quarantined",
                    min_args=1,
                    max_args=None,
                ),
            ),
        ),
        Command(
            "reset",
            "rdd.cli.commands.service.reset",
            "Restart with an empty database and without machines",
            flags=(WAIT, _timeout("90s"), NO_TRASH, YES),
        ),
        Command(
            "rotate-tokens",
            "rdd.cli.commands.service.rotate_tokens",
            "Replace the tokens of the kubeconfig",
            "The old tokens are invalid at once; clients need the new kubeconfig "
            "(`rdd service config`).",
            flags=(_timeout("90s"),),
        ),
        Command(
            "restore",
            "rdd.cli.commands.service.restore",
            "Replace the database by a backup; the old one is kept",
            "FILE is a path or the name of a backup of the instance; without it, the newest one.",
            usage="[FILE]",
            completes="backups",
            max_args=1,
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
            flags=(WAIT, _timeout("90s"), _WITHOUT_USER_ADMISSION, *_FOR_SERVE),
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
