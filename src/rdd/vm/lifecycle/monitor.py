# SPDX-License-Identifier: Apache-2.0
"""Following a host agent: its events and its end.

The event stream is a file, because the agent outlives the daemon; the system tells when it
grows (`Changes`) and when the process ends (`wait_ended`), so a machine at rest costs nothing.
Agents that are our children are reaped here, which also gives their exit code.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable
from typing import Any

from rdd.host.changes import Changes
from rdd.host.errors import HostError
from rdd.host.exits import wait_ended
from rdd.host.processes import Identity
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.lifecycle.observation import log_messages, parse_event

_CHUNK = 1 << 16
_LINE_LIMIT = 1 << 20  # a line that long is no event
_TAIL_BYTES = 16 << 10
_REAP_TRIES, _REAP_PAUSE_S = 100, 0.01
LOG_LINES = 5  # of an agent's log that go into a condition


class EventTail:
    """The lines of a file from its beginning, as they are written."""

    def __init__(self, directory: InstanceDirectory, changes: Changes) -> None:
        self._changes = changes
        self._rest = b""
        try:
            self._descriptor = os.open(directory.ha_stdout, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise HostError.from_os(f'open "{directory.ha_stdout}"', error) from error
        self._path = directory.ha_stdout
        self._watch: int | None = None

    def follow(self, callback: Callable[[], None]) -> None:
        """Call back when there may be new events. Raises HostError."""
        self._watch = self._changes.watch(self._path, callback)

    def events(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        found = []
        while chunk := os.read(self._descriptor, _CHUNK):
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            found += [status for line in lines if (status := parse_event(line)) is not None]
            if len(self._rest) > _LINE_LIMIT:
                self._rest = b""
        return found

    def close(self) -> None:
        """StopOperation following."""
        if self._watch is not None:
            self._changes.unwatch(self._watch)
            self._watch = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class AgentProcess:
    """A host agent that runs: who it is, and our child if we started it."""

    def __init__(
        self, identity: Identity, process: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        self.identity = identity
        self._process = process

    async def wait(self) -> int | None:
        """Wait for its end; the exit code if it is our child."""
        await wait_ended(self.identity)
        # One that has threads looks ended as soon as the first of them is; the system hands
        # out its exit code after the last.
        for _ in range(_REAP_TRIES):
            if self._process is None or self._process.poll() is not None:
                break
            await asyncio.sleep(_REAP_PAUSE_S)
        return self.reap()

    def reap(self) -> int | None:
        """The exit code of a child that has ended, which is then no zombie any more."""
        return self._process.poll() if self._process is not None else None

    def detach(self) -> None:
        """Let it run on without us."""
        if self._process is not None and self._process.poll() is None:
            self._process.returncode = 0  # or Popen complains that nobody waits for it


def log_tail(directory: InstanceDirectory, *, limit: int = LOG_LINES) -> tuple[str, ...]:
    """The last messages of the agent's log; none if it cannot be read."""
    try:
        with directory.ha_stderr.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    if end > _TAIL_BYTES:
        text = text.partition("\n")[2]
    return log_messages(text, limit=limit)


def exit_reason(code: int | None) -> str:
    """How an agent ended, in words."""
    if code is None:
        return "the host agent ended"
    if code >= 0:
        return f"the host agent ended with exit code {code}"
    return f"the host agent was killed by signal {-code}"


async def wait_for_pid_file(
    directory: InstanceDirectory, pid: int, *, changes: Changes, timeout_s: float
) -> bool:
    """Whether the agent writes its process id in time."""
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
