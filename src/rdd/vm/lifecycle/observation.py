# SPDX-License-Identifier: Apache-2.0
"""The observed state of a monitored machine, and how events of its host agent change it.

Events are JSON lines as Lima writes them, `{"time": …, "status": {…}}`. Every member of the
status is optional. Unknown members are ignored, and so are lines that are no events: a newer
agent must not confuse an older daemon.

`exiting` makes a machine STOPPING, not STOPPED: the agent still has work to do, and a new agent
started meanwhile would race with it. Only the end of the process makes a machine STOPPED.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from rdd.vm.clock_report import ClockReport
from rdd.vm.disk_report import DiskReport
from rdd.vm.idle.report import IdleReport
from rdd.vm.memory_report import MemoryReport
from rdd.vm.problem import Problem
from rdd.vm.resource_limits import ResourceLimits

FORWARDS_LIMIT = 500  # forwards that are recorded; the event log has all of them
ERRORS_LIMIT = 20


class Phase(StrEnum):
    """The state of a machine's lifecycle."""

    UNKNOWN = "Unknown"  # not monitored
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class PortForwardState:
    """A forwarded port or socket, as the agent last reported it."""

    type: str
    """`forwarding`, `not-forwarding`, `stopping` or `failed`."""
    protocol: str
    guest_address: str
    host_address: str
    error: str = ""
    reason: str = ""
    """A reason of `rdd.vm.problem`, or empty."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The observed state of a machine."""

    phase: Phase = Phase.UNKNOWN
    degraded: bool = False
    errors: tuple[str, ...] = ()
    """What does not work although the machine runs, as texts."""
    problems: tuple[Problem, ...] = ()
    """The errors that have a typed reason."""
    limits: ResourceLimits | None = None
    """Of a machine without a virtual machine."""
    idle: IdleReport | None = None
    """What idle detection does; None without an action."""
    clock: ClockReport | None = None
    """The clock of a guest; None for a machine that has none of its own."""
    memory: MemoryReport | None = None
    """The memory of a guest; None before it is measured."""
    disk: DiskReport | None = None
    """The space in the disk of a guest; None for a machine that has none of its own."""
    is_agent_stopped: bool = False
    """Its agent has been stopped for a while: what else is observed is old."""
    progress: str = ""
    """What a starting machine waits for."""
    ssh_local_port: int = 0
    forwards: tuple[PortForwardState, ...] = ()
    agent_pid: int = 0
    is_stop_requested: bool = False
    """This daemon stops it; otherwise STOPPED means that it ended by itself."""
    exit_code: int | None = None
    """Of the agent; negative for a signal; None while it runs, or when it is no child."""
    reason: str = ""
    """Why a machine is STOPPED without a stop request, in one line."""
    log_tail: tuple[str, ...] = ()
    """The last messages of the agent's log, once it has ended."""
    stop_error: str = ""
    """Why the last stop failed; the machine still runs."""

    @property
    def crashed(self) -> bool:
        """Whether it ended without a stop request."""
        return self.phase is Phase.STOPPED and not self.is_stop_requested

    def after(self, status: dict[str, Any]) -> "Observation":
        seen = _Status(status)
        result = replace(
            self,
            ssh_local_port=seen.number("sshLocalPort") or self.ssh_local_port,
            progress=seen.progress() or self.progress,
            errors=seen.errors() or self.errors,
            limits=seen.limits() or self.limits,
        )
        if forward := seen.forward():
            result = replace(result, forwards=_merged(self.forwards, forward))
        if seen.flag("exiting"):
            return replace(
                result, phase=Phase.STOPPING, errors=seen.errors(), problems=seen.problems()
            )
        if self.phase is Phase.STOPPING:
            return result  # events from before the stop request
        if seen.flag("running") or seen.flag("degraded"):
            degraded = seen.flag("degraded")
            return replace(
                result,
                phase=Phase.RUNNING,
                degraded=degraded,
                errors=result.errors if degraded else seen.errors(),
                problems=seen.problems(),
                idle=seen.idle(),
                clock=seen.clock(),
                memory=seen.memory(),
                disk=seen.disk(),
                progress="",
            )
        return result


@dataclass(frozen=True, slots=True)
class _Status:
    """The status of an event, of any form: nothing has been validated."""

    data: dict[str, Any] = field(default_factory=dict)

    def flag(self, key: str) -> bool:
        return self.data.get(key) is True

    def number(self, key: str) -> int:
        value = self.data.get(key)
        return value if type(value) is int else 0

    def errors(self) -> tuple[str, ...]:
        value = self.data.get("errors")
        return tuple(map(str, value[-ERRORS_LIMIT:])) if isinstance(value, list) else ()

    def problems(self) -> tuple[Problem, ...]:
        value = self.data.get("problems")
        found = map(Problem.from_data, value[-ERRORS_LIMIT:]) if isinstance(value, list) else ()
        return tuple(problem for problem in found if problem is not None)

    def limits(self) -> ResourceLimits | None:
        return ResourceLimits.from_data(self.data.get("limits"))

    def idle(self) -> IdleReport | None:
        return IdleReport.from_data(self.data.get("idle"))

    def clock(self) -> ClockReport | None:
        return ClockReport.from_data(self.data.get("clock"))

    def memory(self) -> MemoryReport | None:
        return MemoryReport.from_data(self.data.get("memory"))

    def disk(self) -> DiskReport | None:
        return DiskReport.from_data(self.data.get("disk"))

    def progress(self) -> str:
        value = self.data.get("cloudInitProgress")
        if isinstance(value, dict) and (line := value.get("logLine")):
            return str(line)
        value = self.data.get("requirement") or self.data.get("progress")
        if isinstance(value, dict):
            value = value.get("description")
        return value if isinstance(value, str) else ""

    def forward(self) -> PortForwardState | None:
        value = self.data.get("portForward")
        if not isinstance(value, dict):
            return None
        texts = [
            str(value.get(key) or "")
            for key in ("type", "protocol", "guestAddr", "hostAddr", "error", "reason")
        ]
        return PortForwardState(*texts)


def _merged(
    forwards: tuple[PortForwardState, ...], new: PortForwardState
) -> tuple[PortForwardState, ...]:
    """Return the forwards after one changed, without those that have stopped."""
    rest = tuple(item for item in forwards if not _is_same_forward(item, new))
    if new.type == "stopping":
        return rest
    return (*rest, new)[-FORWARDS_LIMIT:]


def _is_same_forward(one: PortForwardState, other: PortForwardState) -> bool:
    """Return whether two states are of one forward; a listener can have two."""
    if (one.protocol, one.guest_address) != (other.protocol, other.guest_address):
        return False
    hosts = {one.host_address, other.host_address}
    return len(hosts) == 1 or "" in hosts


def parse_event(line: bytes) -> dict[str, Any] | None:
    """Return the status in a line of the event stream; None if the line is no event."""
    try:
        status = json.loads(line)["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return status if isinstance(status, dict) else None


def log_messages(lines: Iterable[str], *, limit: int) -> tuple[str, ...]:
    """Return the last messages of an agent's log, without debug messages.

    A JSON line is reduced to its message; any other line, such as a traceback, is kept
    unchanged.
    """
    messages = [message for line in lines if (message := _message(line.rstrip()))]
    return tuple(messages[-limit:])


def _message(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(entry, dict) or not entry.keys() & {"msg", "title"}:
        return line
    if "title" in entry:  # the first line of a log names the whole run
        return ""
    return "" if entry.get("level") in ("debug", "trace") else str(entry["msg"])
