# SPDX-License-Identifier: Apache-2.0
"""The typed contract between drivers and their callers.

A driver has two sides. The `Driver` object lives in the host agent, a small process per
machine, and runs that machine. The `DriverProvider` object lives in the daemon and on the
command line, where no agent runs: it probes whether the driver works on this host, prepares
new machines, opens shells and cleans up after a dead driver. `catalog.provider` returns it.

Every method of `Driver` and `DriverProvider` is mandatory. Optional capabilities are small
protocols of their own (`Suspendable`, `PublishesPorts`, `HasLiveness`, `AgentDriven`,
`ExternalAgent`, `KubernetesSupport`, `LimitsSupport`, and those of `pausing` and
`storage_protocol`); callers detect them with `isinstance`.

A driver outlives its agent: the process it spawns has a session of its own, and its
identity is on disk (`<driver>.pid`, `<driver>.identity`). `adopt` attaches to such a process.
Nothing of a driver may depend on the agent's pipes.

Errors that a user can act on are `HostError`s with one line. `Driver.start` raises them, and
the agent exits with that line as its reason.
"""

import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from rdd.host.errors import FailureReason
from rdd.vm.problem import ADDRESS_IN_USE

if TYPE_CHECKING:
    from rdd.fetch.network import Network
    from rdd.vm.clock_report import ClockReport
    from rdd.vm.disk_report import DiskReport
    from rdd.vm.instance_dir import InstanceDirectory
    from rdd.vm.memory_report import MemoryReport
    from rdd.vm.resource_limits import ResourceLimits
    from rdd.vm.template.model import Template

TransportProtocol = Literal["tcp", "udp"]


class RequirementPhase(StrEnum):
    """The order in which the agent waits for requirements."""

    ESSENTIAL = "essential"  # unmet: the machine does not run, the agent exits
    OPTIONAL = "optional"  # unmet: the machine runs, degraded
    FINAL = "final"  # like OPTIONAL, after all others


class Unmet(Exception):
    """A requirement is not met yet; the text names what is missing."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition that must hold before the machine counts as running."""

    phase: RequirementPhase
    description: str
    """A noun for messages: `ssh`, `the container engine answers`."""
    check: Callable[[], Awaitable[None]]
    """Returns when the requirement is met. Raises Unmet; the agent then retries."""
    hint: str = ""
    """Where a user finds the cause when the requirement is never met."""
    interval_s: float = 3.0
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """A port on which a process in the guest listens."""

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
    """A forward from `host` to `guest`; with `reverse`, from `guest` to `host`."""

    protocol: TransportProtocol
    guest: Endpoint
    host: Endpoint
    reverse: bool = False


class ForwardError(Exception):
    """A forward could not be opened.

    `reason` is a reason of `rdd.vm.problem`, or empty; `permanent` means that a retry is
    useless.
    """

    def __init__(
        self, message: str, *, reason: str = "", permanent: bool = False, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.permanent = permanent
        self.cause = cause
        """The text of the operating system; empty without one."""

    @classmethod
    def from_os(cls, message: str, error: OSError) -> "ForwardError":
        """Return the error for a failed bind or listen."""
        reason = ADDRESS_IN_USE if error.errno == errno.EADDRINUSE else ""
        cause = error.strerror or str(error)
        return cls(f"{message}: {cause}", reason=reason, cause=cause)


class NotForwarded(ForwardError):
    """There is nothing to forward, which is no failure: the guest never has such a socket."""

    def __init__(self, message: str) -> None:
        super().__init__(message, permanent=True)


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a driver works on this host."""

    driver: str
    usable: bool
    reason: str = ""
    """Why it does not work, one line."""
    fix: str = ""
    """The command or action that fixes it; empty when there is none."""
    command: str = ""
    """The fix as a command for a shell; empty when it is none."""
    failure: FailureReason = FailureReason.NOT_INSTALLED


def as_root(command: str) -> str:
    """Return a command for a shell that root must run."""
    return command if os.geteuid() == 0 else f"sudo {command}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRequest:
    """A command to run in a machine, or a login shell."""

    environment: Mapping[str, str]
    """The environment of the caller."""
    command: Sequence[str] = ()
    """Empty: a login shell."""
    shell: str = ""
    """Empty: the user's shell."""
    workdir: str = ""
    is_terminal: bool = False


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command line that opens a shell in a machine."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment of the command."""
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """A command line that starts a foreign host agent, such as Lima's.

    The agent runs in the foreground as the spawned process, writes `ha.pid` and Lima's events,
    and shuts its machine down on SIGINT. It need not be able to detach from its machine or to
    adopt one.
    """

    argv: tuple[str, ...]
    start_s: float
    """Timeout until it writes `ha.pid`."""


class MachineLifecycle(Protocol):
    """Start, adoption and end of one machine."""

    async def start(self) -> None:
        """Spawn the process that runs the machine; write `<name>.pid` and `<name>.identity`.

        Return once it is spawned. Clean up after a dead predecessor first.
        Raise HostError, and then leave nothing behind.
        """

    async def adopt(self) -> bool:
        """Attach to a process that a former agent spawned; return False if none is alive."""

    async def wait_ended(self) -> str:
        """Wait until the machine ends by itself; return why (exit status, last lines)."""

    async def stop(self, *, grace_s: float) -> None:
        """Shut down, by force after `grace_s`, and clean up. Nothing runs afterwards.

        Also called after a `start` that failed or was cancelled, and when the machine has
        ended by itself. Raise HostError when a process or file could not be removed.
        """

    async def detach(self) -> None:
        """Leave the machine running for another agent to adopt."""


class PortForwarding(Protocol):
    """Forwards between host and guest."""

    async def open_forward(self, forward: Forward) -> None:
        """Open a forward. Raises ForwardError."""

    async def close_forward(self, forward: Forward) -> None:
        """Close a forward and its open connections."""


class Driver(MachineLifecycle, PortForwarding, Protocol):
    """One machine as its host agent sees it. All methods run in the agent's event loop."""

    @property
    def name(self) -> str:
        """`host` or `qemu`; also the name of the pid file."""

    @property
    def ssh_local_port(self) -> int:
        """The host port that leads to the guest's sshd; valid before `start`."""

    def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        """Yield all listening ports of the guest, now and whenever the set changes."""

    def requirements(self) -> Sequence[Requirement]:
        """Return what must hold before the machine counts as running, ordered by phase."""


@dataclass(frozen=True, slots=True)
class LivenessProbe:
    """A cheap test whether a running machine responds."""

    what: str
    """A noun for messages: `the container engine`."""
    reason: str
    """A reason of `rdd.vm.problem`."""
    check: Callable[[], Awaitable[None]]
    """Returns if it responds; the caller sets a deadline. Raises Unmet."""


@runtime_checkable
class HasLiveness(Protocol):
    """Capability of a `Driver`: it can hang, and that can be noticed."""

    @property
    def liveness(self) -> LivenessProbe | None:
        """The probe; None if the machine has nothing that can hang."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A published port; an object of its own for every request."""

    forwards: tuple[Forward, ...]


class PortPublisher(Protocol):
    """Opens forwards for a program that waits for them."""

    async def publish(self, listener: Listener, *, target: Endpoint | None = None) -> Publication:
        """Open the forwards of a listener before it exists. Raises ForwardError.

        `target` is the end of the forward for an address that only this host has.
        """

    async def unpublish(self, publication: Publication) -> None:
        """Close the forwards, unless the guest listens there."""


@runtime_checkable
class PublishesPorts(Protocol):
    """Capability of a `Driver`: its engine requests ports before it reports a container."""

    async def serve_publications(self, publisher: PortPublisher) -> None:
        """Serve requests of the engine until cancelled. Raises HostError."""


@runtime_checkable
class Suspendable(Protocol):
    """Capability of a `Driver`: it can save the memory of its machine."""

    async def suspend(self) -> None:
        """Save the memory and pause the machine; the agent then stops it.

        Raise HostError; the machine then continues to run.
        """


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What the agent gives to its driver."""

    directory: "InstanceDirectory"
    template: "Template"
    """Resolved: defaults filled in, variables expanded, paths absolute."""
    environment: Mapping[str, str]
    warn: Callable[[str], None]
    """Log a warning about a problem that does not stop the machine."""
    degrade: Callable[[str], None]
    """Report a part of the machine that does not work in the `errors` of the events."""
    limited: Callable[["ResourceLimits"], None] = lambda _: None
    """Report the limits of a machine without a virtual machine, once it is started or adopted."""
    clock: Callable[["ClockReport"], None] = lambda _: None
    """Report how far the clock of a guest is off, whenever that changes."""
    memory: Callable[["MemoryReport"], None] = lambda _: None
    """Report what a guest uses and this host holds, whenever that changes much."""
    disk: Callable[["DiskReport"], None] = lambda _: None
    """Report the space in the disk of a guest, whenever it is measured or trimmed."""
    debug: bool = False


class DriverProvider(Protocol):
    """A driver as the daemon and the command line see it; stateless."""

    @property
    def name(self) -> str:
        """The name of the driver, as in `catalog.DRIVERS`."""

    def availability(
        self, environment: Mapping[str, str], template: "Template | None" = None
    ) -> Availability:
        """Return whether the driver works on this host, and with `template` if one is given.

        Fast and without side effects.
        """

    async def prepare(
        self,
        directory: "InstanceDirectory",
        template: "Template",
        *,
        environment: Mapping[str, str],
        progress: Callable[[str], None],
        network: "Network",
    ) -> None:
        """Create what the first start needs (images, disks). Cancellable; may take minutes.

        Runs in the daemon. Everything goes into the directory, which the caller removes
        on failure. Raises HostError.
        """

    def shell(
        self, directory: "InstanceDirectory", template: "Template", request: ShellRequest
    ) -> ShellCommand:
        """Return the command line for a request. Raises HostError."""

    async def cleanup(self, directory: "InstanceDirectory") -> None:
        """Kill what still runs of a machine without an agent and remove its traces.

        Called before a start or a deletion. Removes the pid files, too. Idempotent.
        Raises HostError.
        """


@runtime_checkable
class AgentDriven(Protocol):
    """Capability of a provider: rdd's host agent runs its machines."""

    def make_driver(self, context: DriverContext) -> Driver:
        """Return the driver of one machine, for its agent. Raises HostError."""


@runtime_checkable
class ExternalAgent(Protocol):
    """Capability of a provider: a foreign host agent runs its machines."""

    def agent_command(
        self, directory: "InstanceDirectory", environment: Mapping[str, str]
    ) -> AgentCommand:
        """Return how to start that agent. Raises HostError."""


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """A file that can be fetched, and where a driver expects it."""

    name: str
    """Its name and version, such as `k3s v1.33.7+k3s3`."""
    url: str
    checksum_url: str
    path: Path
    digest: str = ""
    is_program: bool = True


@runtime_checkable
class KubernetesSupport(Protocol):
    """Capability of a provider: it runs Kubernetes with files of this host."""

    def missing_kubernetes(self, release: str, environment: Mapping[str, str]) -> str:
        """Return why a release cannot run here; empty if it can."""

    def kubernetes_files(
        self, release: str, environment: Mapping[str, str]
    ) -> Sequence[ProgramSource]:
        """Return the files to fetch, in this order; empty if that would not help."""


@runtime_checkable
class LimitsSupport(Protocol):
    """Capability of a provider: CPUs and memory are limits, which this host may not support."""

    def missing_limits(self, environment: Mapping[str, str]) -> str:
        """Return why limits cannot be enforced here; empty if they can."""
