# SPDX-License-Identifier: Apache-2.0
"""Instance directories as Lima lays them out, and what they tell about a machine.

LIMA_HOME has one directory per machine; names that begin with `_` are Lima's own. What runs
is never remembered but looked up: a host agent and a driver, each with its process id in
Lima's form (`ha.pid`, `<driver>.pid`: a number and a line end) and its identity, id and start
time, beside it (`.identity`). An id without its identity may belong to any process by now; it
counts only if the process that has it started before the file was written, for such an agent
may be Lima's own.

The driver is recorded when an instance is created (`rdd.json`): installing another one later
does not change it. `template.json` is the template as the machine uses it, made from
`lima.yaml` and valid only together with it, so that a host agent reads no YAML.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically
from rdd.host.processes import Identity
from rdd.instance import SOCKET_PATH_LIMIT_BYTES
from rdd.vm.process_files import live_process
from rdd.vm.template import HostFacts, Template, dump, load, parse, resolve

NAME_LIMIT = 76
NAME_RULE = (
    f'letters and digits, separated by single ".", "_" or "-", at most {NAME_LIMIT} characters'
)
_is_name = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*").fullmatch

# Files of an instance; those Lima knows keep its names.
LIMA_YAML = "lima.yaml"  # the template, as it was given
LIMA_VERSION = "lima-version"  # whose layout this is
AGENT_PID = "ha.pid"  # process id of the host agent
AGENT_LOCK = "ha.lock"  # locked while it lives
AGENT_SOCKET = "ha.sock"  # its HTTP interface
AGENT_STDOUT = "ha.stdout"  # the event stream; without `.log`, as the rotation counts in between
AGENT_STDERR = "ha.stderr"  # its log
SERIAL_LOGS = ("serial", "serialp", "serialv")  # what the guest writes to its consoles
SSH_SOCKET = "ssh.sock"  # control master
SSH_CONFIG = "ssh.config"
SOCKET_DIR = "sock"  # forwarded sockets
CREATING = ".creating"  # ends the name of a directory that is not an instance yet
PREPARING = ".preparing"  # there while an instance is being created
RECORD = "rdd.json"  # what was decided at creation
TEMPLATE_CACHE = "template.json"  # the template as it is used, made from lima.yaml
TEMPORARY_SUFFIXES = (".pid", ".identity", ".sock", ".tmp")  # what a dead machine leaves

LAYOUT_VERSION = "2.1.0"  # of Lima, whose files these are
# ssh adds 16 random characters and a dot while it makes its socket.
LONGEST_SOCKET = f"{SSH_SOCKET}.1234567890123456"


class InvalidName(ValueError):
    """A machine cannot have this name."""


class InstanceStatus(StrEnum):
    """What the files and processes of an instance say."""

    RUNNING = "Running"  # agent and driver live
    STOPPED = "Stopped"  # neither does
    BROKEN = "Broken"  # one of them
    UNINITIALIZED = "Uninitialized"  # not (completely) created


def check_name(name: str) -> None:
    """Raise InvalidName unless a machine may be called so."""
    if not _is_name(name) or len(name) > NAME_LIMIT:
        raise InvalidName(f'invalid name "{name}": allowed are {NAME_RULE}')


def check_socket_path(path: Path) -> None:
    """Raise HostError if a unix socket cannot have this path."""
    length = len(str(path).encode())
    if length >= SOCKET_PATH_LIMIT_BYTES:
        raise HostError(
            f'socket path "{path}" has {length} bytes, which must be less than '
            f"{SOCKET_PATH_LIMIT_BYTES}: use a shorter name or a shorter home directory"
        )


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """What was decided at creation and stays."""

    driver: str
    version: str = ""
    """Of rdd."""


@dataclass(frozen=True, slots=True)
class InstanceDirectory:
    """The directory of one machine; it need not exist."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the machine."""
        return self.path.name

    @property
    def lima_yaml(self) -> Path:
        """The template."""
        return self.path / LIMA_YAML

    @property
    def ha_pid(self) -> Path:
        """Process id of the host agent."""
        return self.path / AGENT_PID

    @property
    def ha_identity(self) -> Path:
        """Identity of the host agent."""
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
        """Control master of ssh."""
        return self.path / SSH_SOCKET

    @property
    def ssh_config(self) -> Path:
        """How `ssh -F` reaches the guest."""
        return self.path / SSH_CONFIG

    @property
    def sockets(self) -> Path:
        """Directory of forwarded sockets."""
        return self.path / SOCKET_DIR

    @property
    def preparing(self) -> Path:
        """Exists while the instance is being created."""
        return self.path / PREPARING

    @property
    def creation_dir(self) -> Path:
        """Where an instance begins. As long as this exists there is no complete one."""
        return self.path.with_name(f".{self.name}{CREATING}")

    @property
    def record(self) -> Path:
        """What was decided at creation."""
        return self.path / RECORD

    @property
    def template_cache(self) -> Path:
        """The template as it is used."""
        return self.path / TEMPLATE_CACHE

    def pid_file(self, driver: str) -> Path:
        """Process id of a driver."""
        return self.path / f"{driver}.pid"

    def identity_file(self, driver: str) -> Path:
        """Identity of a driver's process."""
        return self.path / f"{driver}.identity"

    def exists(self) -> bool:
        """Whether there is an instance, complete or not. Raises HostError."""
        return _look(self.path, Path.is_dir)

    def is_incomplete(self) -> bool:
        """Whether it is being created, or a crash has interrupted that. Raises HostError."""
        return _look(self.preparing, Path.exists) or _look(self.creation_dir, Path.exists)

    def read_record(self) -> InstanceRecord | None:
        """What was decided at creation; None for an instance that is not ours.

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
        """Keep what was decided. Raises HostError."""
        data = {"driver": record.driver, "version": record.version}
        write_atomically(self.record, json.dumps(data) + "\n")

    @property
    def driver(self) -> str:
        """The driver recorded at creation; empty for an instance that is not ours."""
        record = self.read_record()
        return record.driver if record else ""

    def read_lima_yaml(self) -> str | None:
        """The text of the template; None if there is none. Raises HostError."""
        return read_text(self.lima_yaml)

    def template(self, facts: HostFacts | None = None) -> Template:
        """The template as the machine uses it: defaults filled, names replaced, paths absolute.

        Taken from the cache if that belongs to `lima.yaml`, otherwise worked out; who has
        `facts` works it out for this machine. Raises HostError, TemplateError.
        """
        text = self.read_lima_yaml()
        if text is None:
            raise HostError(f'"{self.lima_yaml}" is missing')
        return self._cached(text) or self._resolved(text, facts)

    def _resolved(self, text: str, facts: HostFacts | None) -> Template:
        facts = facts or HostFacts.gather(Path.home())
        template = parse(text)
        return resolve(template, facts, name=self.name, directory=self.path, driver=self.driver)

    def _cached(self, text: str) -> Template | None:
        try:
            data = json.loads(read_text(self.template_cache) or "null")
            return load(data["template"]) if data["source"] == text else None
        except (ValueError, KeyError, TypeError, HostError):
            return None  # it is only a copy

    def refresh_template(self, facts: HostFacts) -> Template:
        """Work the template out again and keep it for the host agent.

        Raises HostError, TemplateError.
        """
        text = self.read_lima_yaml()
        if text is None:
            raise HostError(f'"{self.lima_yaml}" is missing')
        template = self._resolved(text, facts)
        data = {"source": text, "template": dump(template)}
        write_atomically(self.template_cache, json.dumps(data) + "\n", durable=False)
        return template

    def agent(self) -> Identity | None:
        """The host agent, if it lives."""
        return live_process(self.ha_pid, self.ha_identity)

    def driver_process(self) -> Identity | None:
        """The driver's process, if it lives."""
        for pid_file in self._driver_pid_files():
            process = live_process(pid_file, pid_file.with_suffix(".identity"))
            if process is not None:
                return process
        return None

    def _driver_pid_files(self) -> Iterator[Path]:
        """Every pid file but the agent's: Lima names them after the type of machine."""
        for path in sorted(self.path.glob("*.pid")):
            if path.name != AGENT_PID:
                yield path

    def status(self) -> InstanceStatus:
        """What the files and processes say now. Raises HostError when they cannot be read."""
        if not self.exists() or not _look(self.lima_yaml, Path.exists):
            return InstanceStatus.UNINITIALIZED
        if self.is_incomplete():
            return InstanceStatus.UNINITIALIZED
        agent, driver = self.agent() is not None, self.driver_process() is not None
        if agent and driver:
            return InstanceStatus.RUNNING
        return InstanceStatus.BROKEN if agent or driver else InstanceStatus.STOPPED

    def remove_temporary_files(self) -> None:
        """Remove what a dead machine left: pid files, sockets. Raises HostError."""
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
        """Raise HostError if the sockets of this instance would have too long a path."""
        check_socket_path(self.path / (AGENT_SOCKET if driver == "host" else LONGEST_SOCKET))


def _look(path: Path, question: Callable[[Path], bool]) -> bool:
    """Ask something of a path. Nobody knows what is behind a directory that cannot be read."""
    try:
        return question(path)
    except OSError as error:
        raise HostError.from_os(f'look at "{path}"', error) from error


@dataclass(frozen=True, slots=True)
class LimaHome:
    """The directory of all machines of one instance of rdd."""

    path: Path

    def directory(self, name: str) -> InstanceDirectory:
        """The directory of a machine, whether it exists or not. Raises InvalidName."""
        check_name(name)
        return InstanceDirectory(self.path / name)

    def open(self, name: str) -> InstanceDirectory | None:
        """The directory of a machine that exists. Raises InvalidName."""
        directory = self.directory(name)
        return directory if directory.exists() else None

    def names(self) -> list[str]:
        """The machines that exist, complete or not, sorted."""
        try:
            entries = list(self.path.iterdir())
        except OSError:
            return []
        return sorted(path.name for path in entries if _is_name(path.name) and path.is_dir())
