# SPDX-License-Identifier: Apache-2.0
"""An instance: its name, index, directories, files and default ports.

Several instances of rdd run side by side for one user. Everything that distinguishes them is
derived here from a short suffix and a home directory. The module reads neither the
environment nor the disk, and caches nothing outside of the object: code that needs a path or
a port gets an `Instance` as a parameter, so one process (and one test) can use several
independently. Only the command line decides which suffix and home directory apply.

Every file name of rdd on disk is a constant below. Sockets and virtual machines are in the
short directory because unix socket paths are limited to 104 bytes on macOS (108 on Linux),
which `~/Library/Application Support/…` would exceed.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Generic, Literal, NamedTuple, TypeVar

System = Literal["linux", "darwin", "windows"]

DEFAULT_SUFFIX = "2"
NAME_PREFIX = "rancher-desktop-"

SUFFIX_RULE = "lower-case letters, digits and inner hyphens, at most 32 characters"
_SUFFIX = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")

DIR_MODE = 0o700  # instance, log and short directory: they hold tokens and private keys
FILE_MODE = 0o600

# In the instance directory
ARGS_FILE = "args.json"  # saved arguments of `service serve`; an instance exists if this file does
CONFIG_FILE = "config.yaml"  # kubeconfig of the running control plane
K3S_CONFIG_FILE = "k3s.yaml"  # copy of the guest's k3s kubeconfig
PID_FILE = "rdd.pid"  # decimal process id of the daemon
OLD_LOCK_FILE = "rdd.lock"  # locked by daemons up to version 0.1
DASHBOARD_PAGE = "dashboard.html"  # leads the browser to the last login link
RECORD_FILE = "daemon.json"  # record of the daemon: identity, state, version
CRASH_FILE = "crash.txt"  # why the last daemon ended, if it crashed
DATABASE_DIR = "db"
DATABASE_FILE = "state.db"  # SQLite, with -wal and -shm beside it
TLS_DIR = "tls"  # certificates, private keys and tokens
TOKENS_FILE = "tokens.json"  # in TLS_DIR: bearer tokens of the kubeconfig
PORT_FILE = "port.json"  # in TLS_DIR: the last port of the API
DASHBOARD_FILE = "dashboard.json"  # in TLS_DIR: sessions of the dashboard
DASHBOARD_PORT_FILE = "dashboard-port.json"  # in TLS_DIR: the last port of the dashboard
BACKUP_DIR = "backups"  # copies of the database, one file each
RESTORE_JOURNAL = "restore.json"  # while a restore of the whole instance is being completed
PREPARED = ".prepared"  # suffix of the database and the machines of such a restore
QUARANTINE_FILE = "quarantine.json"  # names of damaged objects, while there are any
VERSION_FILE = "version"  # of the last daemon that opened the database

TRASH_DIR = "rdd-trash"  # beside the directories of instances
SNAPSHOT_DIR = "rdd-snapshots"  # beside the directories of instances; one directory for each
HOME_SNAPSHOT_DIR = ".rdd-snapshots"  # on the file system of the short directory, if it differs
HOME_TRASH_DIR = ".rdd-trash"  # if that is on another file system than the short directory

# In the short directory
BIN_DIR = "bin"  # published tools
TOOLS_DIR = "tools"  # the toolbox: tools that rdd has fetched, in their versions
LIMA_DIR = "lima"  # LIMA_HOME of this instance
DOCKER_SOCKET = "docker.sock"  # host side of the container engine's socket
KUBE_CONFIG_FILE = "kube.config"  # kubeconfig with only this instance's cluster

# In the lock directory, which all instances of a user share
LOCK_SUFFIX = ".lock"  # behind the name of the instance; locked by the daemon while it runs

# In the log directory
STDOUT_LOG = "rdd.stdout"  # without `.log`: the rotation inserts a number
STDERR_LOG = "rdd.stderr"

SOCKET_PATH_LIMIT_BYTES = 104  # the smallest of the supported systems (macOS)

BARE_API_PORT = 6443  # `service serve` run by hand, without saved arguments

PATH_KEYS = (  # sorted: the order in which `rdd service paths` prints them
    "args_file",
    "config",
    "dir",
    "docker_socket",
    "k3s_config",
    "lima_home",
    "log_dir",
    "pid_file",
    "short_dir",
    "tls_dir",
)

P = TypeVar("P", bound=PurePath)


class InvalidInstanceName(ValueError):
    """The suffix cannot be part of file names, contexts and host names."""


def check_suffix(suffix: str) -> None:
    """Raise InvalidInstanceName unless `suffix` may name an instance."""
    if not _SUFFIX.fullmatch(suffix):
        raise InvalidInstanceName(f"invalid instance name {suffix!r}: allowed are {SUFFIX_RULE}")


def index(suffix: str) -> int:
    """Return the number that spreads the default ports of instances.

    A decimal 1 to 99 is its own index. Anything else is hashed into 100 to 199,
    where two names may collide; listeners fall back to a free port for that reason.
    """
    if suffix.isascii() and suffix.isdigit() and 0 < int(suffix) < 100:
        return int(suffix)
    return 100 + sum(map(ord, suffix)) % 100


class Directories(NamedTuple, Generic[P]):
    """The three directories of an instance."""

    dir: P  # state: database, keys, kubeconfig
    log_dir: P
    short_dir: P  # sockets, virtual machines, published tools


def directories(suffix: str, home: P, system: System) -> Directories[P]:
    """Return the directories of an instance in the layout of `system`.

    Accepts any kind of path, so that the Windows layout can be tested on other systems.
    """
    name = NAME_PREFIX + suffix
    short = home / f".rd{suffix}"
    if system == "darwin":
        library = home / "Library"
        return Directories(library / "Application Support" / name, library / "Logs" / name, short)
    if system == "windows":
        local = home / "AppData" / "Local"
        return Directories(local / name, local / f"{name}-logs", short)
    local = home / ".local"
    return Directories(local / "share" / name, local / "state" / name, short)


def lock_directory(home: P, system: System) -> P:
    """Return the directory of the locks of all instances, in the layout of `system`.

    It is outside of the directories of every instance: when those are removed under a running
    daemon, its lock must still keep a second one from starting.
    """
    if system == "darwin":
        return home / "Library" / "Application Support" / "rdd"
    if system == "windows":
        return home / "AppData" / "Local" / "rdd"
    return home / ".local" / "state" / "rdd"


class Ports(NamedTuple):
    """The preferred TCP ports of an instance on 127.0.0.1.

    A listener falls back to a free port if the preferred one is busy, and publishes the port
    in use.
    """

    api: int  # API server, HTTPS
    metrics: int  # controller managers outside the daemon
    health: int
    embedded_metrics: int  # the controller manager inside the daemon
    embedded_health: int
    webhook: int  # admission webhooks, HTTPS
    passthrough: int  # HTTP of controllers behind /passthrough/
    kubernetes: int  # API of the k3s cluster in the App's virtual machine
    dashboard: int  # HTTP of the dashboard

    @classmethod
    def of(cls, index: int) -> "Ports":
        """Return the ports of the instance with this index."""
        return cls(
            api=6443 + index,
            metrics=8080 + 4 * index,
            health=8081 + 4 * index,
            embedded_metrics=8082 + 4 * index,
            embedded_health=8083 + 4 * index,
            webhook=9443 + index,
            passthrough=9090 + index,
            kubernetes=7441 + index,
            dashboard=9700 + index,
        )


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance: a value, safe to share and to compare.

    Raises InvalidInstanceName for a suffix that is not allowed and ValueError
    for a home directory that is not absolute.
    """

    suffix: str
    home: Path
    system: System = "linux"
    log_dir_override: Path | None = None  # replaces the log directory as a whole

    def __post_init__(self) -> None:
        check_suffix(self.suffix)
        if not self.home.is_absolute():
            raise ValueError(f'home directory "{self.home}" is not an absolute path')

    @property
    def name(self) -> str:
        """Return the display name, which is also that of the Docker and kube contexts."""
        return NAME_PREFIX + self.suffix

    @property
    def index(self) -> int:
        return index(self.suffix)

    @property
    def ports(self) -> Ports:
        return Ports.of(self.index)

    @property
    def dir(self) -> Path:
        """Return the instance directory, mode 0700."""
        return directories(self.suffix, self.home, self.system).dir

    @property
    def log_dir(self) -> Path:
        """Return the directory of the daemon's logs, mode 0700."""
        return self.log_dir_override or directories(self.suffix, self.home, self.system).log_dir

    @property
    def short_dir(self) -> Path:
        """Return the directory of sockets and virtual machines."""
        return directories(self.suffix, self.home, self.system).short_dir

    @property
    def args_file(self) -> Path:
        """Return the file of the daemon's saved arguments, mode 0600."""
        return self.dir / ARGS_FILE

    @property
    def config(self) -> Path:
        """Return the kubeconfig of the running control plane, mode 0600."""
        return self.dir / CONFIG_FILE

    @property
    def k3s_config(self) -> Path:
        """Return the kubeconfig of the k3s cluster, written by the guest."""
        return self.dir / K3S_CONFIG_FILE

    @property
    def pid_file(self) -> Path:
        """Return the file with the daemon's process id, mode 0600."""
        return self.dir / PID_FILE

    @property
    def lock_file(self) -> Path:
        """Return the file that the daemon locks while it runs, mode 0600."""
        return lock_directory(self.home, self.system) / f"{self.name}{LOCK_SUFFIX}"

    @property
    def old_lock_file(self) -> Path:
        """Return the file that daemons up to version 0.1 lock."""
        return self.dir / OLD_LOCK_FILE

    @property
    def crash_file(self) -> Path:
        return self.dir / CRASH_FILE

    @property
    def record_file(self) -> Path:
        """Return the file of the daemon's record, mode 0600."""
        return self.dir / RECORD_FILE

    @property
    def database(self) -> Path:
        return self.dir / DATABASE_DIR / DATABASE_FILE

    @property
    def backup_dir(self) -> Path:
        """Return the directory of copies of the database."""
        return self.dir / BACKUP_DIR

    @property
    def trash_dirs(self) -> tuple[Path, Path]:
        """Return the directories of the trash, which all instances share, mode 0700."""
        return self.dir.parent / TRASH_DIR, self.home / HOME_TRASH_DIR

    @property
    def snapshot_dirs(self) -> tuple[Path, Path]:
        """Return the directories of this instance's snapshots, which outlive it, mode 0700."""
        return (
            self.dir.parent / SNAPSHOT_DIR / self.suffix,
            self.home / HOME_SNAPSHOT_DIR / self.suffix,
        )

    @property
    def restore_journal(self) -> Path:
        """Return the file that decides about a restore of the whole instance."""
        return self.dir / RESTORE_JOURNAL

    @property
    def quarantine_file(self) -> Path:
        """Return the file with the damaged objects that the daemon found at its start."""
        return self.dir / QUARANTINE_FILE

    @property
    def version_file(self) -> Path:
        """Return the file with the version of the last daemon that opened the database."""
        return self.dir / VERSION_FILE

    @property
    def tls_dir(self) -> Path:
        """Return the directory of certificates and private keys."""
        return self.dir / TLS_DIR

    @property
    def tokens_file(self) -> Path:
        """Return the file of the bearer tokens, mode 0600."""
        return self.tls_dir / TOKENS_FILE

    @property
    def port_file(self) -> Path:
        """Return the file of the last port of the API."""
        return self.tls_dir / PORT_FILE

    @property
    def dashboard_page(self) -> Path:
        """Return the file that leads the browser to the last login link, mode 0600."""
        return self.dir / DASHBOARD_PAGE

    @property
    def dashboard_file(self) -> Path:
        """Return the file of the dashboard's sessions, mode 0600."""
        return self.tls_dir / DASHBOARD_FILE

    @property
    def dashboard_port_file(self) -> Path:
        """Return the file of the last port of the dashboard."""
        return self.tls_dir / DASHBOARD_PORT_FILE

    @property
    def bin_dir(self) -> Path:
        """Return the directory of tools for the user's PATH."""
        return self.short_dir / BIN_DIR

    @property
    def tools_dir(self) -> Path:
        """Return the directory of fetched tools, in their versions."""
        return self.short_dir / TOOLS_DIR

    @property
    def tools_bin_dir(self) -> Path:
        """Return the directory of fetched tools for the user's PATH."""
        return self.tools_dir / BIN_DIR

    @property
    def lima_home(self) -> Path:
        """Return LIMA_HOME of this instance."""
        return self.short_dir / LIMA_DIR

    @property
    def docker_socket(self) -> Path:
        """Return the host side of the container engine's socket."""
        if self.system == "windows":
            return Path(r"\\.\pipe\docker_engine")
        return self.short_dir / DOCKER_SOCKET

    @property
    def docker_endpoint(self) -> str:
        """Return the URL of `docker_socket` for a Docker context."""
        if self.system == "windows":
            return "npipe:////./pipe/docker_engine"
        return f"unix://{self.docker_socket}"

    @property
    def kube_config(self) -> Path:
        """Return the kubeconfig with only this instance's k3s cluster, mode 0600."""
        return self.short_dir / KUBE_CONFIG_FILE

    def paths(self) -> dict[str, Path]:
        """Return the output of `rdd service paths`, sorted by key."""
        return {key: getattr(self, key) for key in PATH_KEYS}
