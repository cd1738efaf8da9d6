# SPDX-License-Identifier: Apache-2.0
"""The process of the daemon: serves one instance until it is stopped.

SIGINT, SIGTERM and SIGHUP shut it down in order; a second signal ends it immediately with exit
code 1. A process whose directory is removed ends at once, too, and leaves its machines running.
The process holds the lock of the instance until it has ended. After a failure the
reason is the last line of the log, which `service start` reports.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rdd.daemon import directory_guard, loop
from rdd.daemon.control_plane import ControlPlane
from rdd.daemon.options import ServeOptions
from rdd.daemon.service import arguments, crash, instance_lock, record
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.lifecycle import complete_restore
from rdd.daemon.service.record import DaemonRecord, State
from rdd.daemon.signals import StopSignal
from rdd.daemon.stages import control_plane
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.locks import FileLock
from rdd.host.processes import own_identity
from rdd.host.sd_notify import notify
from rdd.instance import Instance

log = logging.getLogger("rdd.daemon")

_LOCK_ATTEMPTS, _LOCK_PAUSE_S = 50, 0.01
_EXIT_S = 30.0
"""The time for threads and tasks to end after the last stage has stopped."""


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What the launching process passes besides the options."""

    variables: Mapping[str, str] = field(default_factory=dict)
    lock_descriptor: int = -1
    """The inherited lock of the instance; -1: acquire it."""
    notify_socket: str = ""
    """The socket of a supervisor for readiness notifications."""
    pause_at: str = ""
    """A stage to pause at, for tests that kill the process there."""
    publish: Callable[[], None] = lambda: None
    """Publishes the tools for the user's PATH."""
    open_logs: Callable[[], None] = lambda: None
    """Opens the logs. Called with the lock held: only the daemon may rotate them."""


def serve(instance: Instance, options: ServeOptions, launch: LaunchContext) -> None:
    """Run the daemon of an instance until it stops. Raises ServiceError or HostError."""
    make_private_dir(instance.dir)
    with _lock(instance, launch.lock_descriptor):
        crash.note(instance)
        crashed = crash.last(instance)  # before its log is rotated
        launch.open_logs()
        complete_restore(instance)
        arguments.create(instance)
        os.chdir(instance.dir)
        supervised = launch.lock_descriptor < 0
        daemon = DaemonRecord(
            own_identity(),
            version=options.version,
            start_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            supervised=supervised,
            environment=record.environment(launch.variables),
            oom_kills=crash.oom_kills(),
        )
        if crashed:
            log.warning("%s", crashed)
        try:
            record.write_pid(instance, daemon.process.pid)
            record.write(instance, daemon)
            _run(_Daemon(instance, options, launch, daemon))
            crash.forget(instance)
        finally:
            try:
                record.clear(instance)
            except HostError as error:
                log.warning("%s", error)


def _run(daemon: "_Daemon") -> None:
    """Run the daemon; every failure is raised as one line for the launching command."""
    try:
        with loop.runner() as runner:
            try:
                runner.run(daemon.run())
            finally:
                _limit_exit()
    except (ServiceError, HostError):
        raise
    except OSError as error:
        place = f'"{error.filename}": ' if error.filename else ""
        raise ServiceError(f"{place}{error.strerror or error}") from error
    except Exception as error:
        log.exception("the control plane failed")
        raise ServiceError(f"{type(error).__name__}: {error}") from error


def _limit_exit() -> None:
    """End the process in a while: a thread that hangs in a disk would keep it and its lock."""

    def end() -> None:
        log.error("a thread or task has not ended within %g s: exiting", _EXIT_S)
        os._exit(1)

    timer = threading.Timer(_EXIT_S, end)
    timer.daemon = True
    with suppress(RuntimeError):  # no memory for a thread
        timer.start()


def _lock(instance: Instance, descriptor: int) -> FileLock:
    if descriptor >= 0:
        return FileLock.adopt(instance.lock_file, descriptor)
    # Commands that clean up hold the lock for a moment.
    for _ in range(_LOCK_ATTEMPTS):
        lock = instance_lock.try_acquire(instance)
        if lock is not None:
            return lock
        running = record.read(instance)
        if running is not None and running.state != State.STOPPING:
            raise ServiceError(
                f'"{instance.name}" control plane is already running (pid {running.process.pid})'
            )
        time.sleep(_LOCK_PAUSE_S)
    raise ServiceError(f'"{instance.name}" control plane is being changed by another process')


class _Daemon:
    """The asynchronous part: signals, reported states, the control plane."""

    def __init__(
        self, instance: Instance, options: ServeOptions, launch: LaunchContext, daemon: DaemonRecord
    ) -> None:
        self._instance = instance
        self._options = options
        self._launch = launch
        self._record = daemon
        self._stop = StopSignal()

    async def run(self) -> None:
        self._stop.install_handlers()
        instance = self._instance
        try:
            with directory_guard.watching(instance.dir, instance.home, self._lose_directory):
                await self._serve()
        except asyncio.CancelledError:
            if not self._stop.is_set:
                raise
            log.info("stopped before the control plane was ready")
        log.info('"%s" control plane has stopped', self._instance.name)

    def _lose_directory(self) -> None:
        """End at once, without a teardown: it would shut the machines down."""
        log.error(
            'the directory "%s" was removed or renamed; '
            "the control plane ends, its machines run on",
            self._instance.dir,
        )
        os._exit(1)

    async def _serve(self) -> None:
        started = time.monotonic()
        publishing = asyncio.create_task(
            asyncio.to_thread(self._launch.publish), name="rdd-publish"
        )
        async with control_plane(self._instance, self._options, report=self._report) as running:
            self._stop.end_startup()
            log.info(
                '"%s" control plane is ready on https://%s after %.3f s',
                self._instance.name,
                running.address,
                time.monotonic() - started,
            )
            notify(self._launch.notify_socket, f"READY=1\nMAINPID={os.getpid()}")
            await self._until_stopped(running)
            notify(self._launch.notify_socket, "STOPPING=1")
        await publishing
        if running.failure.done():
            raise ServiceError(f"a part of the control plane failed: {running.failure.result()}")

    async def _until_stopped(self, running: ControlPlane) -> None:
        waits: set[asyncio.Future[Any]] = {
            asyncio.create_task(self._stop.wait(), name="rdd-stop"),
            asyncio.ensure_future(asyncio.shield(running.failure)),
        }
        if running.idle is not None:
            waits.add(asyncio.create_task(running.idle.expired(), name="rdd-idle"))
        _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        if not self._stop.is_set and not running.failure.done():
            log.info("no request for %g s", self._options.idle_timeout_s)
        self._stop.set()

    async def _report(self, state: State, step: str) -> None:
        self._record = self._record.with_state(state, step)
        log.debug("%s: %s", state.name.lower(), step or "-")
        try:
            record.write(self._instance, self._record)
        except HostError as error:
            if state < State.READY:
                raise
            log.warning("%s", error)  # the teardown continues without reports
        if step and step == self._launch.pause_at:
            log.warning("paused at %s", step)
            await asyncio.Event().wait()
