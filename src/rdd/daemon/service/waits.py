# SPDX-License-Identifier: Apache-2.0
"""Waits for a daemon: until it is ready, or until it has ended.

The record of the daemon (a file, polled) contains its state; when that is ready, a probe of the
API confirms it. The end of a daemon is detected immediately, and the command reports the
reason from the daemon's log.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rdd.daemon.service import crash, record
from rdd.daemon.service.errors import DeadlineExceeded, ServiceError, VersionMismatch
from rdd.daemon.service.record import DaemonRecord, State
from rdd.host.processes import is_alive
from rdd.instance import STDERR_LOG, Instance

_PROGRESS = {
    State.STARTING: "waiting for API server",
    State.SERVING: "waiting for controllers to register",
    State.REGISTERED: "waiting for CRDs to be established",
}
_QUICK_S, _SLOW_S = 0.01, 0.1
_QUICK_FOR_S = 3.0
_TAIL_BYTES = 64 * 1024
_FULL_BYTES = 1 << 20
_LINE = re.compile(r'level=(fatal|error) msg="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


class Deadline:
    """The end of a wait, on the monotonic clock; 0 seconds: no limit."""

    def __init__(self, timeout_s: float) -> None:
        self._end = time.monotonic() + timeout_s if timeout_s > 0 else float("inf")

    @property
    def left_s(self) -> float:
        return max(self._end - time.monotonic(), 0.0)

    def ticks(self, what: str) -> Iterator[None]:
        """Yield periodically until the deadline, then raise DeadlineExceeded for `what`."""
        started = time.monotonic()
        while True:
            yield
            if self.left_s <= 0:
                raise DeadlineExceeded(what)
            quick = time.monotonic() - started < _QUICK_FOR_S
            time.sleep(min(_QUICK_S if quick else _SLOW_S, self.left_s))


def wait_ready(
    instance: Instance,
    daemon: DaemonRecord,
    *,
    version: str,
    deadline: Deadline,
    report: Callable[[str], None],
) -> None:
    """Return when the daemon is ready. An empty version is not compared.

    Raises DeadlineExceeded, VersionMismatch, or ServiceError with the reason when
    the daemon ends.
    """
    from rdd.daemon.service.probe import NotReady, Probe  # loads while the daemon starts

    reached = State.STARTING - 1
    for _ in deadline.ticks(f'"{instance.name}" control plane is not ready'):
        found = record.read(instance)
        if found is None or found.process != daemon.process or found.state == State.STOPPING:
            # The reason is the last line of its log.
            wait_ended(daemon, deadline=deadline, what=f'"{instance.name}" control plane is ending')
            raise ServiceError(end_of(instance, daemon))
        check_version(instance, found, version)
        if found.state < State.READY:
            if found.state > reached:
                reached = found.state
                report(_PROGRESS[found.state])
            continue
        try:
            with Probe(instance, timeout_s=min(max(deadline.left_s, 1.0), 15.0)) as probe:
                probe.check(version=version)
            return
        except NotReady:
            continue


def check_version(instance: Instance, daemon: DaemonRecord, version: str) -> None:
    """Raise VersionMismatch unless the daemon is of this version (empty: any)."""
    if version and daemon.version != version:
        raise VersionMismatch(instance.name, running=daemon.version, ours=version)


def wait_ended(daemon: DaemonRecord, *, deadline: Deadline, what: str) -> None:
    """Return when the process of the daemon has ended. Raises DeadlineExceeded."""
    for _ in deadline.ticks(what):
        if not is_alive(daemon.process):
            return


def end_of(instance: Instance, daemon: DaemonRecord) -> str:
    """Return the message for a daemon that ended before it was ready."""
    name = f'"{instance.name}" control plane'
    if daemon.supervised:
        return f"{name} stopped before it was ready"
    log = instance.log_dir / f"{STDERR_LOG}.log"
    reason = last_error(log)
    if reason:
        return f"{name} failed to start: {reason}"
    for directory in (instance.dir, instance.log_dir):
        if _is_full(directory):
            return f'{name} failed to start: no space left on device for "{directory}"'
    return f'{name} stopped before it was ready; its log is "{log}"'


def last_error(log: Path) -> str:
    """Return the last error of a log, or the last line of a traceback; empty without one."""
    try:
        with log.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    if fatal := crash.fatal_error(text):
        return f"fatal error: {fatal}"
    errors = _LINE.findall(text)
    if errors:
        return _unquote(errors[-1][1])
    lines = [line for line in text.splitlines() if line.strip()]
    if "Traceback" not in text or lines[-1] == "KeyboardInterrupt":  # stopped while loading
        return ""
    return lines[-1]


def _unquote(text: str) -> str:
    plain = {"n": "\n", "t": "\t"}
    return _ESCAPE.sub(lambda match: plain.get(match[1], match[1]), text)


def _is_full(directory: Path) -> bool:
    try:
        disk = os.statvfs(directory)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _FULL_BYTES
