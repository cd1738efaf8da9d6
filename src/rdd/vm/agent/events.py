# SPDX-License-Identifier: Apache-2.0
"""The event stream on stdout and the log on stderr, both in Lima's form: one JSON per line.

An event is `{"time": …, "status": {…}}`. The status is cumulative: `sshLocalPort` comes first
and stays, then `running` (with `degraded` and `errors` when something does not work), at the
end `exiting`. Members that are false or empty are left out. What happened just now
(`portForward`, and our own `requirement`) is in one event only.

Lines are written at once, each with one call, past Python's buffers: whoever reads the file
sees whole lines, also of an agent that is killed. A disk that is full must not end an agent
whose machine works: what the log cannot take is lost, but events are kept and written when
there is room, since a machine whose `running` got lost would start forever.
"""

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import Any

from rdd.vm.forwarding.forwarder import PortEvent
from rdd.vm.problem import Problem

_AGAIN_S = 1.0
_MOST_KEPT = 1 << 20
_LEVELS = ("debug", "info", "warning", "error", "fatal")


def now() -> str:
    """The time as Go writes it (RFC 3339)."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))  # as Go writes it
    return text.encode() + b"\n"


def _write(descriptor: int, data: bytes) -> bytes:
    """What could not be written."""
    try:
        return data[os.write(descriptor, data) :]
    except OSError:
        return data


class AgentLog:
    """The log of an agent."""

    def __init__(self, *, debug: bool = False, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._lowest = 0 if debug else 1

    def write(self, level: str, message: str) -> None:
        """Write a line; `level` is one of Lima's."""
        if _LEVELS.index(level) >= self._lowest:
            record = {"level": level, "msg": message, "time": now()}
            _write(self._descriptor, _line(record))


class EventStream:
    """The event stream of one agent, and the status it has told so far."""

    def __init__(self, *, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._ssh_local_port = 0
        self._is_running = False
        self._is_exiting = False
        self._problems: list[Problem] = []
        self._kept = b""
        self._again: asyncio.TimerHandle | None = None

    @property
    def status(self) -> dict[str, Any]:
        """The status as it would be told now."""
        errors = [problem.message for problem in self._problems]
        if self._is_exiting:
            return _without_empty({"exiting": True, "errors": errors})
        return _without_empty(
            {
                "running": self._is_running,
                "degraded": self._is_running and bool(errors),
                "errors": errors,
                "problems": [problem.to_data() for problem in self._problems if problem.reason],
                "sshLocalPort": self._ssh_local_port,
            }
        )

    def booting(self, ssh_local_port: int) -> None:
        """The machine starts; the first event."""
        self._ssh_local_port = ssh_local_port
        self._emit()

    def running(self) -> None:
        """The machine is ready."""
        self._is_running = True
        self._emit()

    def degraded(self, problem: Problem) -> None:
        """Report a part of the machine that does not work, once the machine runs."""
        if problem not in self._problems:
            self._problems.append(problem)
            if self._is_running:
                self._emit()

    def recovered(self, problem: Problem) -> None:
        """Withdraw a problem."""
        if problem in self._problems:
            self._problems.remove(problem)
            if self._is_running:
                self._emit()

    def requirement(self, state: str, phase: str, number: int, of: int, description: str) -> None:
        """Progress of the start."""
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
        """Something happened to a forward."""
        self._emit(portForward=port_status(event))

    def exiting(self, errors: list[str]) -> None:
        """The agent ends; the last event."""
        self._is_exiting, self._problems = True, [Problem(error) for error in errors]
        self._emit()

    def _emit(self, **more: Any) -> None:
        if more and len(self._kept) > _MOST_KEPT:
            return  # the status itself is told in any case
        self._kept += _line({"time": now(), "status": {**self.status, **more}})
        self._flush()

    def _flush(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._kept = _write(self._descriptor, self._kept)
        if self._kept:
            self._again = asyncio.get_running_loop().call_later(_AGAIN_S, self._flush)


def port_status(event: PortEvent) -> dict[str, Any]:
    """A forward in the words of Lima's events."""
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
