# SPDX-License-Identifier: Apache-2.0
"""Create, start and stop the control plane of an instance, from another process.

One lock file per instance serializes all changes. A command that starts a daemon acquires the
lock and passes the open file to it: the lock moves to the daemon without ever being free, and
is released when the daemon ends, in whatever way. So concurrent starts result in one daemon, a
crash needs no manual cleanup, and the deletion of an instance waits for the same lock.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rdd.daemon.service import arguments, crash, instance_lock, record
from rdd.daemon.service.errors import DeadlineExceeded, ServiceError
from rdd.daemon.service.hang import check_not_stopped, check_responsive, is_stopped
from rdd.daemon.service.record import DaemonRecord, State
from rdd.daemon.service.waits import Deadline, check_version, wait_ended, wait_ready
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import remove, write_atomically
from rdd.host.locks import FileLock
from rdd.host.processes import identity, send_signal
from rdd.instance import DATABASE_DIR, PREPARED, STDERR_LOG, STDOUT_LOG, Instance

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 300.0
_SPAWNED = "spawn"
_START_BYTES = 64 * 1024  # a start writes at least this before it can log a failure


@dataclass(frozen=True, slots=True)
class Caller:
    """The calling program: its command, its environment, its messages."""

    command: Sequence[str]
    """The command of this program."""
    version: str
    variables: Mapping[str, str] = field(default_factory=dict)
    report: Callable[[str], None] = lambda _: None
    developer_mode: bool = False
    keep_logs: bool = False
    log_title: str = ""

    @property
    def expected_version(self) -> str:
        """Return the required version of a daemon; empty in developer mode: any."""
        return "" if self.developer_mode else self.version


class Service:
    """The control plane of one instance, managed by a caller."""

    def __init__(self, instance: Instance, caller: Caller) -> None:
        self.instance = instance
        self.caller = caller
        self.title = f'"{instance.name}" control plane'

    def running(self) -> DaemonRecord | None:
        """Return the live daemon or None; clean up after one that crashed."""
        found = record.read(self.instance)
        if found is None and self.instance.pid_file.exists():
            with contextlib.suppress(HostError):  # a read-only disk is not an error here
                self._clean_up()
        return found

    def is_ready(self) -> bool:
        """Return whether the daemon has finished its start."""
        found = record.read(self.instance)
        return found is not None and found.state == State.READY

    def create(self, extra: Sequence[str] = ()) -> bool:
        """Create the instance; report and return False if it exists."""
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

        `extra` arguments apply to this run only. With `overrides` some of them are the user's,
        and a message points that out if the instance is created by this call.
        """
        report = self.caller.report
        deadline = Deadline(timeout_s)
        daemon, started = self._daemon(
            extra, deadline if wait else Deadline(START_TIMEOUT_S), overrides=overrides
        )
        if not started:
            check_responsive(self.instance, daemon)
            report(f"{self.title} is already running")
        if not wait:
            if started:
                report(f"{self.title} is starting")
            return
        self.wait_ready(daemon, deadline)
        report(f"{self.title} is ready")

    def ensure_running(self, extra: Sequence[str] = ()) -> None:
        """Start the daemon unless it runs and wait until it is ready; silent if it is."""
        found = record.read(self.instance)
        if found is None or found.state != State.READY:
            deadline = Deadline(START_TIMEOUT_S)
            found, _ = self._daemon(extra, deadline)
            self.wait_ready(found, deadline)
        else:
            check_not_stopped(self.instance, found)
        check_version(self.instance, found, self.caller.expected_version)

    def wait_ready(self, daemon: DaemonRecord, deadline: Deadline) -> None:
        wait_ready(
            self.instance,
            daemon,
            version=self.caller.expected_version,
            deadline=deadline,
            report=self.caller.report,
        )

    def stop(self, *, wait: bool = True, timeout_s: float = STOP_TIMEOUT_S) -> None:
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
        """Stop the daemon and hold the lock while the block runs.

        A daemon that is started concurrently is stopped as well.
        """
        deadline = Deadline(timeout_s)
        for _ in deadline.ticks(f"{self.title} is in use"):
            lock = self.try_lock()
            if lock is not None:
                break
            daemon = record.read(self.instance)
            if daemon is not None:
                self._interrupt(daemon)
                self._wait_ended(daemon, deadline)
        assert lock is not None
        with lock:
            complete_restore(self.instance)
            yield lock

    def try_lock(self, *, create: bool = True) -> FileLock | None:
        """Acquire the lock if it is free; `create` creates the directory of the instance."""
        if create:
            arguments.require_home(self.instance)
        elif not self.instance.dir.exists():
            return None  # deleted concurrently
        lock = instance_lock.try_acquire(self.instance)
        if lock is not None and create:
            try:
                make_private_dir(self.instance.dir)
            except HostError:
                lock.release()
                raise
        return lock

    def _daemon(
        self, extra: Sequence[str], deadline: Deadline, *, overrides: bool = False
    ) -> tuple[DaemonRecord, bool]:
        """Return the daemon and whether this call started it."""
        for _ in deadline.ticks(f"{self.title} is not running"):
            lock = self.try_lock()
            if lock is not None:
                with lock:
                    return self._spawn(lock, extra, overrides=overrides), True
            found = record.read(self.instance)
            # A daemon that is stopping releases the lock soon.
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
        crash.clear(instance)
        if crashed := crash.last(instance):
            caller.report(crashed)
        caller.report(f"starting {self.title}")
        _check_disk(instance)
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
        child.returncode = 0  # detached: prevents Python's warning about an unreaped child
        process = identity(child.pid)
        if process is None:
            raise ServiceError(f"{self.title} failed to start: its process ended at once")
        daemon = DaemonRecord(
            process,
            version=caller.version,
            step=_SPAWNED,
            start_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            environment=record.environment(caller.variables),
            oom_kills=crash.oom_kills(),
        )
        try:
            record.write_initial(instance, daemon)
        except HostError:
            send_signal(process, signal.SIGKILL)  # without a record no command could stop it
            raise
        return daemon

    def _interrupt(self, daemon: DaemonRecord) -> None:
        # A second signal would kill a daemon that is stopping.
        if daemon.state == State.STOPPING:
            return
        try:
            send_signal(daemon.process, signal.SIGINT)
        except HostError:
            send_signal(daemon.process, signal.SIGTERM)
        if is_stopped(daemon):  # the signal stays pending until the process continues
            send_signal(daemon.process, signal.SIGCONT)

    def _wait_ended(self, daemon: DaemonRecord, deadline: Deadline) -> None:
        try:
            wait_ended(daemon, deadline=deadline, what=f"{self.title} has not stopped")
        except DeadlineExceeded:
            # The second signal ends it immediately, unless it hangs before its handlers exist.
            has_handlers = daemon.step != _SPAWNED
            send_signal(daemon.process, signal.SIGTERM if has_handlers else signal.SIGKILL)
            raise
        self._clean_up()

    def _clean_up(self) -> None:
        """Remove the files of an ended daemon unless the next one has started."""
        lock = self.try_lock(create=False)
        if lock is not None:
            with lock:
                crash.clear(self.instance)


def complete_restore(instance: Instance) -> None:
    """Complete a restore of the whole instance that a crash interrupted; the lock is held."""
    prepared = instance.database.parent.with_name(f".{DATABASE_DIR}{PREPARED}")
    if instance.restore_journal.exists() or prepared.exists():
        from rdd.daemon.service import instance_restore

        instance_restore.complete(instance)


def _check_disk(instance: Instance) -> None:
    """Fail here with a clear message rather than in a daemon that cannot write its log."""
    probe = instance.dir / ".space"
    try:
        write_atomically(probe, bytes(_START_BYTES), durable=False)
    finally:
        with contextlib.suppress(OSError, HostError):
            remove(probe)
    if not os.access(instance.dir, os.W_OK):
        raise HostError(f'failed to write to "{instance.dir}": permission denied')
