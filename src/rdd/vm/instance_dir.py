# SPDX-License-Identifier: Apache-2.0
"""Instance directories in Lima's layout, and the state of a machine derived from them.

LIMA_HOME has one directory per machine; names that begin with `_` are Lima's own. The running
processes are never cached but derived from pid files: a host agent (`ha.pid`) and a driver
(`<driver>.pid`), see `process_files`.

The driver is recorded when an instance is created (`rdd.json`): installing another one later
does not change it. `template.json` caches the resolved template. It is generated from
`lima.yaml` and valid only together with it; a host agent reads it and no YAML.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.host.errors import FailureReason, HostError
from rdd.host.files import read_text, remove, write_atomically
from rdd.host.processes import Identity
from rdd.instance import SOCKET_PATH_LIMIT_BYTES
from rdd.vm.process_files import live_process

if TYPE_CHECKING:  # 15 ms, and most commands only ask whether a machine runs
    from rdd.vm.template import HostFacts, Template

NAME_LIMIT = 76
NAME_RULE = (
    f'letters and digits, separated by single ".", "_" or "-", at most {NAME_LIMIT} characters'
)
_is_name = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*").fullmatch

# Files of an instance; those that Lima has, too, keep its names.
LIMA_YAML = "lima.yaml"  # the template, unchanged
LIMA_VERSION = "lima-version"  # the version of the layout
AGENT_PID = "ha.pid"  # pid of the host agent
AGENT_LOCK = "ha.lock"  # locked while it is alive
AGENT_SOCKET = "ha.sock"  # its HTTP interface
AGENT_STDOUT = "ha.stdout"  # the event stream; rotation inserts a number before `.log`
AGENT_STDERR = "ha.stderr"  # its log
SERIAL_LOGS = ("serial", "serialp", "serialv")  # output of the guest's consoles
SSH_SOCKET = "ssh.sock"  # control master
SSH_CONFIG = "ssh.config"
SOCKET_DIR = "sock"  # forwarded sockets
IDLE_SETTINGS = "idle.json"  # settings of idle detection, while there is an action
PAUSED = "paused.json"  # exists while the machine is paused
CREATING = ".creating"  # suffix of a directory that is not an instance yet
PREPARING = ".preparing"  # exists during the creation
RECORD = "rdd.json"  # the InstanceRecord
TEMPLATE_CACHE = "template.json"  # the resolved template, generated from lima.yaml
TEMPORARY_SUFFIXES = (".pid", ".identity", ".sock", ".tmp")  # files that a dead machine leaves

LAYOUT_VERSION = "2.1.0"  # the Lima version with this layout
# ssh appends a dot and 16 random characters while it creates its socket.
LONGEST_SOCKET = f"{SSH_SOCKET}.1234567890123456"


class InvalidName(ValueError):
    """A machine cannot have this name."""


class InstanceStatus(StrEnum):
    """The status of an instance, derived from its files and processes."""

    RUNNING = "Running"  # agent and driver are alive
    STOPPED = "Stopped"  # neither is alive
    BROKEN = "Broken"  # only one of them is alive
    UNINITIALIZED = "Uninitialized"  # missing or incomplete


def check_name(name: str) -> None:
    """Raise InvalidName unless `name` is valid for a machine."""
    if not _is_name(name) or len(name) > NAME_LIMIT:
        raise InvalidName(f'invalid name "{name}": allowed are {NAME_RULE}')


def check_socket_path(path: Path) -> None:
    """Raise HostError if a path is too long for a unix socket."""
    length = len(str(path).encode())
    if length >= SOCKET_PATH_LIMIT_BYTES:
        raise HostError(
            f'socket path "{path}" has {length} bytes, which must be less than '
            f"{SOCKET_PATH_LIMIT_BYTES}: use a shorter name or a shorter home directory",
            reason=FailureReason.PATH_TOO_LONG,
        )


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """Decisions made at creation that never change."""

    driver: str
    version: str = ""
    """The version of rdd."""


@dataclass(frozen=True, slots=True)
class InstanceDirectory:
    """The directory of one machine; it may not exist."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def lima_yaml(self) -> Path:
        return self.path / LIMA_YAML

    @property
    def ha_pid(self) -> Path:
        return self.path / AGENT_PID

    @property
    def ha_identity(self) -> Path:
        return self.path / "ha.identity"

    @property
    def ha_lock(self) -> Path:
        """Locked by the host agent that owns the machine."""
        return self.path / AGENT_LOCK

    @property
    def ha_sock(self) -> Path:
        """HTTP interface of the host agent."""
        return self.path / AGENT_SOCKET

    @property
    def ha_stdout(self) -> Path:
        """Events of the host agent."""
        return self.path / f"{AGENT_STDOUT}.log"

    @property
    def ha_stderr(self) -> Path:
        """Log of the host agent."""
        return self.path / f"{AGENT_STDERR}.log"

    @property
    def ssh_sock(self) -> Path:
        return self.path / SSH_SOCKET

    @property
    def ssh_config(self) -> Path:
        """Configuration for `ssh -F`."""
        return self.path / SSH_CONFIG

    @property
    def sockets(self) -> Path:
        """Directory of forwarded sockets."""
        return self.path / SOCKET_DIR

    @property
    def idle_settings(self) -> Path:
        """Settings of idle detection; missing without an action."""
        return self.path / IDLE_SETTINGS

    @property
    def paused(self) -> Path:
        """The record of a pause; exists while the machine is paused."""
        return self.path / PAUSED

    @property
    def preparing(self) -> Path:
        """Exists during the creation."""
        return self.path / PREPARING

    @property
    def creation_dir(self) -> Path:
        """Where a creation starts. While this exists, the instance is incomplete."""
        return self.path.with_name(f".{self.name}{CREATING}")

    @property
    def record(self) -> Path:
        """The file of the InstanceRecord."""
        return self.path / RECORD

    @property
    def template_cache(self) -> Path:
        """The cached resolved template."""
        return self.path / TEMPLATE_CACHE

    def pid_file(self, driver: str) -> Path:
        return self.path / f"{driver}.pid"

    def identity_file(self, driver: str) -> Path:
        return self.path / f"{driver}.identity"

    def exists(self) -> bool:
        """Return whether an instance exists, complete or not. Raises HostError."""
        return _check(self.path, Path.is_dir)

    def is_incomplete(self) -> bool:
        """Return whether a creation is in progress or was interrupted. Raises HostError."""
        return _check(self.preparing, Path.exists) or _check(self.creation_dir, Path.exists)

    def read_record(self) -> InstanceRecord | None:
        """Return the record; None for an instance that rdd did not create.

        Raises HostError when it cannot be read.
        """
        text = read_text(self.record)
        if text is None:
            return None
        try:
            data = json.loads(text)
            return InstanceRecord(str(data["driver"]), str(data.get("version", "")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HostError(f'"{self.record}" is damaged: {error}') from error

    def write_record(self, record: InstanceRecord) -> None:
        """Write the record. Raises HostError."""
        data = {"driver": record.driver, "version": record.version}
        write_atomically(self.record, json.dumps(data) + "\n")

    @property
    def driver(self) -> str:
        """The recorded driver; empty for an instance that rdd did not create."""
        record = self.read_record()
        return record.driver if record else ""

    def read_lima_yaml(self) -> str | None:
        """Return the text of the template; None if it is missing. Raises HostError."""
        return read_text(self.lima_yaml)

    def template(self, facts: "HostFacts | None" = None) -> "Template":
        """Return the resolved template, from the cache if that matches `lima.yaml`.

        `facts` describe the host; without them they are gathered. Raises HostError,
        TemplateError.
        """
        text = self.read_lima_yaml()
        if text is None:
            raise HostError(f'"{self.lima_yaml}" is missing')
        return self._cached(text) or self._resolved(text, facts)

    def _resolved(self, text: str, facts: "HostFacts | None") -> "Template":
        from rdd.vm.template import HostFacts, parse, resolve

        facts = facts or HostFacts.gather(Path.home())
        template = parse(text)
        return resolve(template, facts, name=self.name, directory=self.path, driver=self.driver)

    def _cached(self, text: str) -> "Template | None":
        from rdd.vm.template import load

        try:
            data = json.loads(read_text(self.template_cache) or "null")
            return load(data["template"]) if data["source"] == text else None
        except (ValueError, KeyError, TypeError, HostError):
            return None  # the cache is optional

    def refresh_template(self, facts: "HostFacts") -> "Template":
        """Resolve the template and cache it for the host agent.

        Raises HostError, TemplateError.
        """
        from rdd.vm.template import dump

        text = self.read_lima_yaml()
        if text is None:
            raise HostError(f'"{self.lima_yaml}" is missing')
        template = self._resolved(text, facts)
        data = {"source": text, "template": dump(template)}
        write_atomically(self.template_cache, json.dumps(data) + "\n", durable=False)
        return template

    def agent(self) -> Identity | None:
        """Return the process of the host agent if it is alive."""
        return live_process(self.ha_pid, self.ha_identity)

    def driver_process(self) -> Identity | None:
        for pid_file in self._driver_pid_files():
            process = live_process(pid_file, pid_file.with_suffix(".identity"))
            if process is not None:
                return process
        return None

    def _driver_pid_files(self) -> Iterator[Path]:
        """Yield every pid file but the agent's: Lima names them after the vmType."""
        for path in sorted(self.path.glob("*.pid")):
            if path.name != AGENT_PID:
                yield path

    def status(self) -> InstanceStatus:
        """Return the present status. Raises HostError when files cannot be read."""
        if not self.exists() or not _check(self.lima_yaml, Path.exists):
            return InstanceStatus.UNINITIALIZED
        if self.is_incomplete():
            return InstanceStatus.UNINITIALIZED
        agent, driver = self.agent() is not None, self.driver_process() is not None
        if agent and driver:
            return InstanceStatus.RUNNING
        return InstanceStatus.BROKEN if agent or driver else InstanceStatus.STOPPED

    def remove_temporary_files(self) -> None:
        """Remove the pid files and sockets of a dead machine. Raises HostError."""
        try:
            entries = list(self.path.iterdir())
        except FileNotFoundError:
            return
        except OSError as error:
            raise HostError.from_os(f'list "{self.path}"', error) from error
        for path in entries:
            if path.suffix in TEMPORARY_SUFFIXES and not path.is_dir():
                remove(path)

    def check_socket_paths(self, driver: str) -> None:
        """Raise HostError if the path of a socket of this instance would be too long."""
        check_socket_path(self.path / (AGENT_SOCKET if driver == "host" else LONGEST_SOCKET))


def _check(path: Path, predicate: Callable[[Path], bool]) -> bool:
    """Evaluate a predicate; an unreadable directory is an error, not a missing path."""
    try:
        return predicate(path)
    except OSError as error:
        raise HostError.from_os(f'look at "{path}"', error) from error


@dataclass(frozen=True, slots=True)
class LimaHome:
    """The directory of all machines of one rdd instance."""

    path: Path

    def directory(self, name: str) -> InstanceDirectory:
        """Return the directory of a machine, existing or not. Raises InvalidName."""
        check_name(name)
        return InstanceDirectory(self.path / name)

    def open(self, name: str) -> InstanceDirectory | None:
        """Return the directory of a machine; None if it does not exist. Raises InvalidName."""
        directory = self.directory(name)
        return directory if directory.exists() else None

    def names(self) -> list[str]:
        """Return the names of all machines, complete or not, sorted."""
        try:
            entries = list(self.path.iterdir())
        except OSError:
            return []
        return sorted(path.name for path in entries if _is_name(path.name) and path.is_dir())
