# SPDX-License-Identifier: Apache-2.0
"""The event stream on stdout and the log on stderr, both in Lima's form: one JSON per line.

An event is `{"time": …, "status": {…}}`. The status is cumulative: `sshLocalPort` comes first
and stays, then `running` (with `degraded` and `errors` when a part does not work), at the
end `exiting`. Members that are false or empty are left out. `portForward` and rdd's own
`requirement` describe a single occurrence and are in one event only; rdd's own `problems` has
the errors with a typed reason (`rdd.vm.problem`), `limits` those of a machine without a
virtual machine (`rdd.vm.resource_limits`), `idle` the state of idle detection
(`rdd.vm.idle.report`), `clock` how far a guest's clock is off (`rdd.vm.clock_report`), `memory`
what a guest uses (`rdd.vm.memory_report`), and `disk` the space in its disk (`rdd.vm.disk_report`).

Each line is written with one unbuffered call: readers of the file see whole lines, even of an
agent that is killed. A full disk must not end an agent whose machine works: log lines are then
lost, but events are queued and written when there is space again, because a machine whose
`running` is lost would stay in the phase STARTING.
"""

import asyncio
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from rdd.vm.clock_report import ClockReport
from rdd.vm.disk_report import DiskReport
from rdd.vm.forwarding.forwarder import PortEvent
from rdd.vm.idle.report import IdleReport
from rdd.vm.memory_report import MemoryReport
from rdd.vm.problem import Problem
from rdd.vm.resource_limits import ResourceLimits

_RETRY_S = 1.0
_MAX_PENDING_BYTES = 1 << 20
_LEVELS = ("debug", "info", "warning", "error", "fatal")


def now(timespec: Literal["seconds", "microseconds"] = "microseconds") -> str:
    """Return the time in the form Go uses (RFC 3339); with seconds in texts for people."""
    return datetime.now(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))  # the form of Go's encoder
    return text.encode() + b"\n"


def _write(descriptor: int, data: bytes) -> bytes:
    """Write as much as possible; return the rest."""
    try:
        return data[os.write(descriptor, data) :]
    except OSError:
        return data


class AgentLog:
    def __init__(self, *, debug: bool = False, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._lowest = 0 if debug else 1

    def write(self, level: str, message: str) -> None:
        """Write a line; `level` is one of Lima's levels."""
        if _LEVELS.index(level) >= self._lowest:
            record = {"level": level, "msg": message, "time": now()}
            _write(self._descriptor, _line(record))


class EventStream:
    """The event stream of one agent, with its cumulative status."""

    def __init__(self, *, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._ssh_local_port = 0
        self._is_running = False
        self._is_exiting = False
        self._problems: list[Problem] = []
        self._limits: ResourceLimits | None = None
        self._idle: IdleReport | None = None
        self._clock: ClockReport | None = None
        self._memory: MemoryReport | None = None
        self._disk: DiskReport | None = None
        self._pending = b""
        self._retry: asyncio.TimerHandle | None = None

    @property
    def status(self) -> dict[str, Any]:
        errors = [problem.message for problem in self._problems]
        if self._is_exiting:
            return _without_empty(
                {"exiting": True, "errors": errors, "problems": self._typed_problems()}
            )
        return _without_empty(
            {
                "running": self._is_running,
                "degraded": self._is_running and bool(errors),
                "errors": errors,
                "problems": self._typed_problems(),
                "limits": self._limits.to_data() if self._limits is not None else {},
                "idle": self._idle.to_data() if self._idle is not None else {},
                "clock": self._clock.to_data() if self._clock is not None else {},
                "memory": self._memory.to_data() if self._memory is not None else {},
                "disk": self._disk.to_data() if self._disk is not None else {},
                "sshLocalPort": self._ssh_local_port,
            }
        )

    def _typed_problems(self) -> list[dict[str, Any]]:
        return [problem.to_data() for problem in self._problems if problem.reason]

    def booting(self, ssh_local_port: int) -> None:
        """Write the first event: the machine starts."""
        self._ssh_local_port = ssh_local_port
        self._emit()

    def running(self) -> None:
        self._is_running = True
        self._emit()

    def limited(self, limits: ResourceLimits) -> None:
        """Record the limits of the machine, which the next event has."""
        self._limits = limits

    def idle(self, report: IdleReport) -> None:
        """Report the state of idle detection."""
        self._idle = report
        if self._is_running:
            self._emit()

    def clock(self, report: ClockReport) -> None:
        """Report how far the clock of the guest is off."""
        self._clock = report
        if self._is_running:
            self._emit()

    def memory(self, report: MemoryReport) -> None:
        """Report the memory of the guest."""
        self._memory = report
        if self._is_running:
            self._emit()

    def disk(self, report: DiskReport) -> None:
        """Report the space in the guest's disk; an event follows if more than sizes differs."""
        is_news = report.differs(self._disk)
        self._disk = report
        if is_news and self._is_running:
            self._emit()

    def degraded(self, problem: Problem) -> None:
        """Report a part of the machine that does not work, once the machine runs."""
        if problem not in self._problems:
            self._problems.append(problem)
            if self._is_running:
                self._emit()

    def recovered(self, problem: Problem) -> None:
        if problem in self._problems:
            self._problems.remove(problem)
            if self._is_running:
                self._emit()

    def report_again(self) -> None:
        """Write the present status: the last event may be one of another thread."""
        self._emit()

    def report_from_thread(self, problem: Problem) -> None:
        """Write a problem of the event loop itself, which cannot write it."""
        if not self._is_running or self._is_exiting:
            return
        problems = [*self._problems, problem]
        status = {
            **self.status,
            "degraded": True,
            "errors": [one.message for one in problems],
            "problems": [one.to_data() for one in problems if one.reason],
        }
        _write(self._descriptor, _line({"time": now(), "status": status}))

    def requirement(self, state: str, phase: str, number: int, of: int, description: str) -> None:
        """Write the progress of the start."""
        self._emit(
            requirement={
                "phase": phase,
                "number": number,
                "of": of,
                "description": description,
                "state": state,
            }
        )

    def port(self, event: PortEvent) -> None:
        """Write a state change of a forward."""
        self._emit(portForward=port_status(event))

    def exiting(self, problems: Sequence[Problem]) -> None:
        """Write the last event: the agent ends."""
        self._is_exiting, self._problems = True, list(problems)
        self._emit()

    def _emit(self, **more: Any) -> None:
        if more and len(self._pending) > _MAX_PENDING_BYTES:
            return  # only events that change the status must not be lost
        self._pending += _line({"time": now(), "status": {**self.status, **more}})
        self._flush()

    def _flush(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._pending = _write(self._descriptor, self._pending)
        if self._pending:
            self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._flush)


def port_status(event: PortEvent) -> dict[str, Any]:
    """Return a forward in the form of Lima's events."""
    return _without_empty(
        {
            "type": event.type,
            "protocol": event.protocol,
            "guestAddr": event.guest,
            "hostAddr": event.host,
            "error": event.error,
            "reason": event.reason,
        }
    )


def _without_empty(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
