# SPDX-License-Identifier: Apache-2.0
"""The contract between a driver and those who use it.

A driver has two sides. The `Driver` object lives in the host agent, a small process per
machine, and runs the machine. The functions of the driver's package (`DriverPackage`) are
called in the daemon and on the command line, where no agent is: whether the driver works
on this machine, what creation needs, how a shell is opened, what a dead driver left behind.

A driver outlives its agent: the process it spawns has a session of its own, and its
identity is on disk (`<driver>.pid`, `<driver>.identity`). `adopt` takes such a process over.
Nothing of a driver may depend on the agent's pipes.

Errors a person can act on are `HostError`s with one line; `Driver.start` raises them, and the
agent ends with them as its reason.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from rdd.vm.instances import InstanceDirectory
    from rdd.vm.template.model import Template

TransportProtocol = Literal["tcp", "udp"]


class Phase(StrEnum):
    """When a requirement is waited for, in this order."""

    ESSENTIAL = "essential"  # unmet: the machine does not run, the agent ends
    OPTIONAL = "optional"  # unmet: the machine runs, degraded
    FINAL = "final"  # the same, after all others


class Unmet(Exception):
    """A requirement is not met yet; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something that must be true before the machine counts as running."""

    phase: Phase
    description: str
    """A noun for messages: `ssh`, `the container engine answers`."""
    check: Callable[[], Awaitable[None]]
    """Returns when the requirement is met; raises Unmet, and is then called again."""
    hint: str = ""
    """What a person can look at when it is never met."""
    interval_s: float = 3.0
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """A port that something in the guest listens on."""

    protocol: TransportProtocol
    ip: str
    """The address in the guest, e.g. `0.0.0.0`, `127.0.0.1`, `::`."""
    port: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a forward: an address and a port, or the path of a unix socket."""

    ip: str = ""
    port: int = 0
    socket: str = ""

    def __str__(self) -> str:
        if self.socket:
            return self.socket
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


@dataclass(frozen=True, slots=True)
class Forward:
    """Connections to `host` are carried to `guest`; with `reverse` the other way round."""

    protocol: TransportProtocol
    guest: Endpoint
    host: Endpoint
    reverse: bool = False


class ForwardError(Exception):
    """A forward could not be opened: an address is taken, or the driver cannot do this kind.

    `permanent` says that trying again is useless.
    """

    def __init__(self, reason: str, *, permanent: bool = False) -> None:
        super().__init__(reason)
        self.permanent = permanent


class NotForwarded(ForwardError):
    """There is nothing to forward, and that is no fault: the guest never has such a socket."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, permanent=True)


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a driver works on this machine."""

    driver: str
    usable: bool
    reason: str = ""
    """Why not, one line."""
    fix: str = ""
    """The command (or the act) that changes it; empty when nothing does."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """How to open a shell in a machine."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment of the command."""
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """How to start a host agent that is another program than ours.

    It runs in the foreground as the process that was started, writes `ha.pid` and Lima's events,
    and shuts its machine down on SIGINT. It need not be able to let go of its machine, or to
    take one over.
    """

    argv: tuple[str, ...]
    start_s: float
    """How long it may take to write `ha.pid`."""


class Driver(Protocol):
    """One machine, as its host agent sees it. All methods run in the agent's event loop."""

    @property
    def name(self) -> str:
        """`host`, `qemu` or `lima`; also the name of the pid file."""

    @property
    def ssh_local_port(self) -> int:
        """The port of this machine that leads to the guest's sshd; known before `start`."""

    async def start(self) -> None:
        """Spawn what runs the machine and write `<name>.pid` and `<name>.identity`.

        Returns once it is spawned. Leftovers of a dead predecessor are removed first.
        Raises HostError, and then leaves nothing behind.
        """

    async def adopt(self) -> bool:
        """Take over what a former agent has spawned; False when nothing of it lives."""

    def requirements(self) -> Sequence[Requirement]:
        """What must be true before the machine counts as running, in order of the phases."""

    async def wait_ended(self) -> str:
        """Wait until the machine ends by itself; why it did (exit status, last lines)."""

    async def stop(self, *, grace_s: float) -> None:
        """Shut down, by force after `grace_s`, and remove what it left. Nothing runs afterwards.

        Also called after a `start` that failed or was cancelled, and when the machine has
        ended by itself. Raises HostError when something could not be ended or removed.
        """

    async def let_go(self) -> None:
        """Stop looking after the machine, and leave it running for another agent."""

    def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        """All ports listened on in the guest, now and whenever the set changes."""

    async def open_forward(self, forward: Forward) -> None:
        """Carry connections. Raises ForwardError."""

    async def close_forward(self, forward: Forward) -> None:
        """Stop carrying new connections, and end those that are open."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a driver gets from the agent it runs in."""

    directory: "InstanceDirectory"
    template: "Template"
    """Resolved: defaults filled, names replaced, paths absolute."""
    environment: Mapping[str, str]
    warn: Callable[[str], None]
    """Tells the user about something that does not stop the machine, in the log."""
    degrade: Callable[[str], None]
    """Tells that a part of the machine does not work: shown in the `errors` of its events."""
    debug: bool = False


class DriverPackage(Protocol):
    """The functions of a driver's package, `rdd.vm.drivers.<name>`.

    Optional ones are looked up by `catalog.ability`: `availability_for(environment, template)`
    when the answer depends on the template, `agent_command(directory, environment)` (an
    `AgentCommand`) when machines have a host agent of another program, `suspend(directory)`,
    `snapshots(…)`.
    """

    def availability(self, environment: Mapping[str, str]) -> Availability:
        """Whether the driver works on this machine; fast, and without side effects."""

    def driver(self, setting: Setting) -> Driver:
        """The driver of one machine, for its agent."""

    async def prepare(
        self,
        directory: "InstanceDirectory",
        template: "Template",
        *,
        environment: Mapping[str, str],
        progress: Callable[[str], None],
    ) -> None:
        """Make what the first start needs (images, disks). Cancellable; may take minutes.

        Runs in the daemon. Everything goes into the directory, which the caller removes
        on failure. Raises HostError.
        """

    def shell(
        self,
        directory: "InstanceDirectory",
        template: "Template",
        *,
        command: Sequence[str],
        environment: Mapping[str, str],
        shell: str = "",
        workdir: str = "",
        is_terminal: bool = False,
    ) -> ShellCommand:
        """How to run a command in the machine, or a login shell when there is none."""

    async def cleanup(self, directory: "InstanceDirectory") -> None:
        """End by force what of the machine still runs, and remove what it left.

        For a machine without an agent, before it is started or deleted. Removes the pid
        files as well; does nothing when there is nothing. Raises HostError.
        """
