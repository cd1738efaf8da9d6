# SPDX-License-Identifier: Apache-2.0
"""Monitoring a host agent: its events and its end.

The event stream is a file, because the agent outlives the daemon. The kernel notifies when the
file grows (`FileWatcher`) and when the process ends (`wait_ended`), so an idle machine costs
nothing. Agents that are child processes are reaped here, which also yields their exit code.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable
from typing import Any

from rdd.host.errors import HostError
from rdd.host.exits import wait_ended
from rdd.host.file_watcher import FileWatcher
from rdd.host.processes import Identity
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.lifecycle.observation import log_messages, parse_event
from rdd.vm.lifecycle.stopped_agent import StoppedAgentWatch
from rdd.vm.log_tail import last_lines

_CHUNK_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 20  # a longer line is no event
_TAIL_BYTES = 16 << 10
_REAP_ATTEMPTS, _REAP_INTERVAL_S = 100, 0.01
LOG_LINES = 5  # of an agent's log that become part of a condition


class EventTail:
    """The events in a file from its beginning, as they are appended."""

    def __init__(self, directory: InstanceDirectory, changes: FileWatcher) -> None:
        self._changes = changes
        self._rest = b""
        try:
            self._descriptor = os.open(directory.ha_stdout, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise HostError.from_os(f'open "{directory.ha_stdout}"', error) from error
        self._path = directory.ha_stdout
        self._watch: int | None = None

    def follow(self, callback: Callable[[], None]) -> None:
        """Call `callback` when there may be new events. Raises HostError."""
        self._watch = self._changes.watch(self._path, callback)

    def events(self) -> list[dict[str, Any]]:
        """Return the events since the last call."""
        found = []
        while chunk := os.read(self._descriptor, _CHUNK_BYTES):
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            found += [status for line in lines if (status := parse_event(line)) is not None]
            if len(self._rest) > _MAX_LINE_BYTES:
                self._rest = b""
        return found

    def close(self) -> None:
        if self._watch is not None:
            self._changes.unwatch(self._watch)
            self._watch = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class AgentProcess:
    """The process of a host agent; a child if this daemon started it."""

    def __init__(
        self, identity: Identity, process: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        self.identity = identity
        self._process = process

    async def wait(self) -> int | None:
        """Wait for its end; return the exit code of a child."""
        await wait_ended(self.identity)
        # A process with threads looks ended as soon as its first thread is; the exit code is
        # available after the last one.
        for _ in range(_REAP_ATTEMPTS):
            if self._process is None or self._process.poll() is not None:
                break
            await asyncio.sleep(_REAP_INTERVAL_S)
        return self.reap()

    def reap(self) -> int | None:
        """Reap a zombie child and return its exit code."""
        return self._process.poll() if self._process is not None else None

    def watch_stops(self, changed: Callable[[bool], None]) -> StoppedAgentWatch | None:
        """Call `changed` when a child has been stopped for long, and when it continues."""
        return StoppedAgentWatch(self._process, changed) if self._process is not None else None

    def detach(self) -> None:
        """Leave the process running."""
        if self._process is not None and self._process.poll() is None:
            self._process.returncode = 0  # otherwise Popen warns about a running child


def log_tail(directory: InstanceDirectory, *, limit: int = LOG_LINES) -> tuple[str, ...]:
    """Return the last messages of the agent's log; none if it cannot be read."""
    return log_messages(last_lines(directory.ha_stderr, max_bytes=_TAIL_BYTES), limit=limit)


def exit_reason(code: int | None) -> str:
    """Return how an agent ended, as a sentence."""
    if code is None:
        return "the host agent ended"
    if code >= 0:
        return f"the host agent ended with exit code {code}"
    return f"the host agent was killed by signal {-code}"


async def wait_for_pid_file(
    directory: InstanceDirectory, pid: int, *, changes: FileWatcher, timeout_s: float
) -> bool:
    """Return whether the agent writes its pid file before the timeout."""
    changed = asyncio.Event()
    watch = changes.watch(directory.path, changed.set)
    try:
        async with asyncio.timeout(timeout_s):
            while not _has_pid(directory, pid):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        return _has_pid(directory, pid)
    finally:
        changes.unwatch(watch)
    return True


def _has_pid(directory: InstanceDirectory, pid: int) -> bool:
    try:
        return int(directory.ha_pid.read_text()) == pid
    except (OSError, ValueError):
        return False
