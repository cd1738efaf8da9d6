# SPDX-License-Identifier: Apache-2.0
"""What is known of a machine that is looked after, and how a host agent's events change it.

Events are JSON lines as Lima writes them, `{"time": …, "status": {…}}`; every member of the
status is optional, and members nobody knows are ignored, also whole lines that are no events:
a newer agent must not confuse an older daemon.

`exiting` makes a machine STOPPING, not STOPPED: the agent still has work to do, and a new one
started meanwhile would meet it. STOPPED is said by the end of the process alone.
"""

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from rdd.vm.problem import Problem

FORWARDS_LIMIT = 500  # rules that are remembered; the rest is in the event log
ERRORS_LIMIT = 20


class Phase(StrEnum):
    """How far a machine is."""

    UNKNOWN = "Unknown"  # nobody looks after it
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class PortForwardState:
    """A port or socket of the guest on this machine, as its agent told."""

    type: str
    """`forwarding`, `not-forwarding`, `stopping` or `failed`."""
    protocol: str
    guest_address: str
    host_address: str
    error: str = ""
    reason: str = ""
    """Of `rdd.vm.problem`, or empty."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of a machine now."""

    phase: Phase = Phase.UNKNOWN
    degraded: bool = False
    errors: tuple[str, ...] = ()
    """What the agent says is wrong while the machine runs."""
    problems: tuple[Problem, ...] = ()
    """The errors that have a typed reason."""
    progress: str = ""
    """What a machine that starts is waiting for."""
    ssh_local_port: int = 0
    forwards: tuple[PortForwardState, ...] = ()
    agent_pid: int = 0
    is_stop_wanted: bool = False
    """Somebody here asked it to stop; otherwise STOPPED means that it ended by itself."""
    exit_code: int | None = None
    """Of the agent; negative for a signal; None while it runs, or when it is not our child."""
    reason: str = ""
    """Why a machine is STOPPED although nobody asked for it, in one line."""
    log_tail: tuple[str, ...] = ()
    """The last messages of the agent's log, once it has ended."""
    stop_error: str = ""
    """Why the last stop did not work; the machine still runs."""

    @property
    def crashed(self) -> bool:
        """Whether it ended without being asked to."""
        return self.phase is Phase.STOPPED and not self.is_stop_wanted

    def after(self, status: dict[str, Any]) -> "Observation":
        """What is known after an event."""
        seen = _Status(status)
        result = replace(
            self,
            ssh_local_port=seen.number("sshLocalPort") or self.ssh_local_port,
            progress=seen.progress() or self.progress,
            errors=seen.errors() or self.errors,
        )
        if forward := seen.forward():
            result = replace(result, forwards=_merged(self.forwards, forward))
        if seen.flag("exiting"):
            return replace(result, phase=Phase.STOPPING, errors=seen.errors())
        if self.phase is Phase.STOPPING:
            return result  # events that were under way when the stop was asked for
        if seen.flag("running") or seen.flag("degraded"):
            degraded = seen.flag("degraded")
            return replace(
                result,
                phase=Phase.RUNNING,
                degraded=degraded,
                errors=result.errors if degraded else seen.errors(),
                problems=seen.problems(),
                progress="",
            )
        return result


@dataclass(frozen=True, slots=True)
class _Status:
    """A status as it came: nothing about its form is certain."""

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
    known: tuple[PortForwardState, ...], new: PortForwardState
) -> tuple[PortForwardState, ...]:
    """The forwards after one changed; what is no longer forwarded is forgotten."""
    key = (new.protocol, new.guest_address)
    rest = tuple(item for item in known if (item.protocol, item.guest_address) != key)
    if new.type == "stopping":
        return rest
    return (*rest, new)[-FORWARDS_LIMIT:]


def parse_event(line: bytes) -> dict[str, Any] | None:
    """The status in a line of the event stream; None if the line is something else."""
    try:
        status = json.loads(line)["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return status if isinstance(status, dict) else None


def log_messages(text: str, *, limit: int) -> tuple[str, ...]:
    """The last messages of an agent's log that matter to a person.

    Lines of a log in JSON are reduced to their message, without those for developers; other
    lines, such as a traceback, are taken as they are.
    """
    messages = []
    for line in text.splitlines():
        if message := _message(line.rstrip()):
            messages.append(message)
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
    if "title" in entry:  # what the whole run is called
        return ""
    return "" if entry.get("level") in ("debug", "trace") else str(entry["msg"])
