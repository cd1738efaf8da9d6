# SPDX-License-Identifier: Apache-2.0
"""Create, start and stop the control plane of an instance, from outside of it.

One lock file per instance decides who may change anything. Who starts a daemon
takes the lock and hands the open file to it: the lock goes over to the daemon
without ever being free, and is free again when the daemon has ended, in whatever
way. So two starts at once make one daemon, a crash leaves nothing that must be
cleaned by hand, and who wants to delete an instance waits for the same lock.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rdd.daemon.service import arguments, record
from rdd.daemon.service.errors import DeadlineExceeded, ServiceError
from rdd.daemon.service.record import DaemonRecord, State
from rdd.daemon.service.waits import Deadline, check_version, wait_ended, wait_ready
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import remove, write_atomically
from rdd.host.locks import FileLock
from rdd.host.processes import identity, send_signal
from rdd.instance import STDERR_LOG, STDOUT_LOG, Instance

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 300.0
_SPAWNED = "spawn"
_ROOM_BYTES = 64 * 1024  # what a start writes at least before it can log a failure


@dataclass(frozen=True, slots=True)
class Caller:
    """Who works on an instance: this program, its environment, where it reports."""

    command: Sequence[str]
    """What starts this program again."""
    version: str
    variables: Mapping[str, str] = field(default_factory=dict)
    report: Callable[[str], None] = lambda _: None
    developer_mode: bool = False
    keep_logs: bool = False
    log_title: str = ""

    @property
    def expected_version(self) -> str:
        """The version a daemon must have; empty: developers mix them at will."""
        return "" if self.developer_mode else self.version


class Service:
    """The control plane of one instance, as a caller manages it."""

    def __init__(self, instance: Instance, caller: Caller) -> None:
        self.instance = instance
        self.caller = caller
        self.title = f'"{instance.name}" control plane'

    def running(self) -> DaemonRecord | None:
        """The daemon, if one is alive; what a dead one has left is removed."""
        found = record.read(self.instance)
        if found is None and self.instance.pid_file.exists():
            with contextlib.suppress(HostError):  # looking must work on a read-only disk, too
                self._forget_dead()
        return found

    def create(self, extra: Sequence[str] = ()) -> bool:
        """Create the instance; False (and a message) if it exists."""
        if not arguments.create(self.instance, extra):
            self.caller.report(f"{self.title} already exists")
            return False
        self.caller.report(f"successfully created {self.title}")
        return True

    def start(
        self,
        extra: Sequence[str] = (),
        *,
        overrides: bool = False,
        wait: bool = True,
        timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Start the daemon unless it runs, and wait until it is ready.

        `extra` arguments apply to this run only; `overrides` says that the user chose
        some of them, who is told so when there is nothing saved yet.
        """
        report = self.caller.report
        deadline = Deadline(timeout_s)
        daemon, started = self._daemon(
            extra, deadline if wait else Deadline(START_TIMEOUT_S), overrides=overrides
        )
        if not started:
            report(f"{self.title} is already running")
        if not wait:
            if started:
                report(f"{self.title} is starting")
            return
        self.wait_ready(daemon, deadline)
        report(f"{self.title} is ready")

    def ensure_running(self, extra: Sequence[str] = ()) -> None:
        """Start the daemon unless it runs, silently if it is ready, and wait until it is."""
        found = record.read(self.instance)
        if found is None or found.state != State.READY:
            deadline = Deadline(START_TIMEOUT_S)
            found, _ = self._daemon(extra, deadline)
            self.wait_ready(found, deadline)
        check_version(self.instance, found, self.caller.expected_version)

    def wait_ready(self, daemon: DaemonRecord, deadline: Deadline) -> None:
        """Return when the daemon is ready."""
        wait_ready(
            self.instance,
            daemon,
            version=self.caller.expected_version,
            deadline=deadline,
            report=self.caller.report,
        )

    def stop(self, *, wait: bool = True, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the daemon if it runs."""
        report = self.caller.report
        if not arguments.exists(self.instance):
            report(f"{self.title} does not exist")
            return
        daemon = self.running()
        if daemon is None:
            report(f"{self.title} is already stopped")
            return
        self._interrupt(daemon)
        if not wait:
            report(f"{self.title} is stopping")
            return
        self._wait_ended(daemon, Deadline(timeout_s))
        report(f"{self.title} has stopped")

    @contextlib.contextmanager
    def stopped(self, *, timeout_s: float) -> Iterator[FileLock]:
        """Stop the daemon and keep it from starting while the block runs.

        A daemon that somebody starts meanwhile is stopped as well.
        """
        deadline = Deadline(timeout_s)
        for _ in deadline.ticks(f"{self.title} is in use"):
            lock = self._take()
            if lock is not None:
                break
            daemon = record.read(self.instance)
            if daemon is not None:
                self._interrupt(daemon)
                self._wait_ended(daemon, deadline)
        assert lock is not None
        with lock:
            yield lock

    def _take(self, *, create: bool = True) -> FileLock | None:
        """The lock, if it is free; `create` makes the directory for it."""
        if create:
            make_private_dir(self.instance.dir)
        try:
            return FileLock.try_acquire(self.instance.lock_file)
        except HostError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None  # just deleted by somebody else
            raise

    def _daemon(
        self, extra: Sequence[str], deadline: Deadline, *, overrides: bool = False
    ) -> tuple[DaemonRecord, bool]:
        """The daemon and whether it was started here."""
        for _ in deadline.ticks(f"{self.title} is not running"):
            lock = self._take()
            if lock is not None:
                with lock:
                    return self._spawn(lock, extra, overrides=overrides), True
            found = record.read(self.instance)
            # One that is about to end is of no use: the lock will be free soon.
            if found is not None and found.state != State.STOPPING:
                return found, False
        raise AssertionError("unreachable")

    def _spawn(self, lock: FileLock, extra: Sequence[str], *, overrides: bool) -> DaemonRecord:
        from rdd.host.logs import rotate
        from rdd.host.spawn import spawn_detached

        instance, caller = self.instance, self.caller
        if not arguments.exists(instance):
            arguments.create(instance)
            caller.report(
                f"successfully created {self.title} with default arguments"
                + ("; those given now apply to this run only" if overrides else "")
            )
        saved = arguments.load(instance)
        record.clear(instance)
        caller.report(f"starting {self.title}")
        _check_room(instance)
        stdout, stderr = (
            rotate(instance.log_dir, name, keep_all=caller.keep_logs, first_line=caller.log_title)
            for name in (STDOUT_LOG, STDERR_LOG)
        )
        handed = ["--lock-fd", str(lock.descriptor)]
        child = spawn_detached(
            [*caller.command, "service", "serve", *saved, *extra, *handed],
            environment=caller.variables,
            directory=instance.dir,
            stdout=stdout,
            stderr=stderr,
            inherit=[lock.descriptor],
        )
        child.returncode = 0  # it lives on; Python would warn about a child nobody waited for
        process = identity(child.pid)
        if process is None:
            raise ServiceError(f"{self.title} failed to start: its process ended at once")
        daemon = DaemonRecord(
            process,
            version=caller.version,
            step=_SPAWNED,
            start_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            environment=record.environment(caller.variables),
        )
        try:
            record.write_initial(instance, daemon)
        except HostError:
            send_signal(process, signal.SIGKILL)  # nobody could find it again
            raise
        return daemon

    def _interrupt(self, daemon: DaemonRecord) -> None:
        # A daemon that is stopping already must not get a second signal: that one kills it.
        if daemon.state == State.STOPPING:
            return
        try:
            send_signal(daemon.process, signal.SIGINT)
        except HostError:
            send_signal(daemon.process, signal.SIGTERM)

    def _wait_ended(self, daemon: DaemonRecord, deadline: Deadline) -> None:
        try:
            wait_ended(daemon, deadline=deadline, what=f"{self.title} has not stopped")
        except DeadlineExceeded:
            # The second signal ends it at once, unless it hangs where it does not listen yet.
            is_deaf = daemon.step == _SPAWNED
            send_signal(daemon.process, signal.SIGKILL if is_deaf else signal.SIGTERM)
            raise
        self._forget_dead()

    def _forget_dead(self) -> None:
        """Remove what a daemon has left, unless the next one is there already."""
        lock = self._take(create=False)
        if lock is not None:
            with lock:
                record.clear(self.instance)


def _check_room(instance: Instance) -> None:
    """Fail now, with a clear message, rather than in a daemon that cannot even log it."""
    probe = instance.dir / ".room"
    try:
        write_atomically(probe, bytes(_ROOM_BYTES), durable=False)
    finally:
        with contextlib.suppress(OSError, HostError):
            remove(probe)
    if not os.access(instance.dir, os.W_OK):
        raise HostError(f'failed to write to "{instance.dir}": permission denied')
