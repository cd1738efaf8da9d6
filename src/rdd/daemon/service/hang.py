# SPDX-License-Identifier: Apache-2.0
"""Detects a daemon that was ready and does not respond any more.

A command that waits for such a daemon would wait forever: its process is alive and its port
accepts connections, which the kernel does for it. A daemon that is still starting is not
checked; commands wait for it and show its state. Nothing is ever killed here: the error names
the process, its state and the command, and the user decides.
"""

import sys

from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.record import DaemonRecord, State
from rdd.instance import Instance

TIMEOUT_S = 5.0
"""Longer than a loaded daemon needs for a request that reads nothing."""
_STOPPED = ("T", "t")
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a disk, or frozen",
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
}


def check_responsive(instance: Instance, daemon: DaemonRecord) -> None:
    """Raise ServiceError if a ready daemon is stopped or does not respond to /livez."""
    if daemon.state is not State.READY:
        return
    check_not_stopped(instance, daemon)
    from rdd.daemon.service.probe import NotReady, Probe

    try:
        with Probe(instance, timeout_s=TIMEOUT_S) as probe:
            probe.text("/livez")
    except NotReady as error:
        if isinstance(error.__cause__, TimeoutError):
            raise _hung(instance, daemon) from error


def check_not_stopped(instance: Instance, daemon: DaemonRecord) -> None:
    """Raise ServiceError if the process of a ready daemon is stopped; costs no request."""
    if daemon.state is State.READY and is_stopped(daemon):
        raise _hung(instance, daemon)


def is_stopped(daemon: DaemonRecord) -> bool:
    """Return whether the process of a daemon was stopped by a signal or a debugger."""
    return _process_state(daemon.process.pid) in _STOPPED


def process_text(daemon: DaemonRecord) -> str:
    """Return the process of a daemon and its state in words."""
    pid, state = daemon.process.pid, _process_state(daemon.process.pid)
    shown = f" is {_STATES.get(state, 'in an unknown state')} ({state})" if state else ""
    return f"process {pid}{shown}"


def _hung(instance: Instance, daemon: DaemonRecord) -> ServiceError:
    pid, can_continue = daemon.process.pid, is_stopped(daemon)
    command = f"kill -CONT {pid}" if can_continue else f"kill -KILL {pid}"
    goal = "continue it" if can_continue else "end it (its machines run on)"
    return ServiceError(
        f'"{instance.name}" control plane does not respond: {process_text(daemon)}; '
        f"to {goal}: {command}"
    )


def _process_state(pid: int) -> str:
    """Return the letter of a process state; empty if it has ended or is unknown."""
    if sys.platform != "linux":
        return ""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - of every command
            return file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""
