# SPDX-License-Identifier: Apache-2.0
"""Processes with identity.

A process id alone says little: after the process has ended, the number is given to
another one, sooner or later. Together with the time the process started it names
one process for ever. Whoever writes an id to a file writes the identity beside it,
and checks it before believing that the process runs or sending it a signal.

On Linux the start time is counted in clock ticks since boot, which no change of
the wall clock moves, and the boot is part of it. Elsewhere `ps` tells it. A zombie
has ended: only its parent has not asked yet.
"""

import contextlib
import functools
import os
import signal
import sys
from dataclasses import dataclass

from rdd.host.errors import HostError

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, now and for ever."""

    pid: int
    started: str
    """When it started, in a form only this module reads."""


def identity(pid: int) -> Identity | None:
    """The process that has this id now; None if there is none that is alive."""
    if pid <= 0:
        return None
    started = _started_linux(pid) if sys.platform == "linux" else started_ps(pid)
    return Identity(pid, started) if started else None


def own_identity() -> Identity:
    """This process."""
    found = identity(os.getpid())
    if found is None:
        raise HostError("the system does not tell when this process started")
    return found


def is_alive(process: Identity) -> bool:
    """Whether exactly this process still runs."""
    return identity(process.pid) == process


def started_at(process: Identity) -> float | None:
    """When a process started, in seconds since the epoch; None where that is not told.

    Right within a second, and off by as much as the wall clock was moved since the boot: for
    comparing with the time of a file, not for identifying a process.
    """
    ticks = process.started.rpartition(":")[2]
    with contextlib.suppress(OSError, ValueError), open("/proc/stat") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("btime "):
                return int(line.split()[1]) + int(ticks) / os.sysconf("SC_CLK_TCK")
    return None


def send_signal(process: Identity, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False if it has ended. Raises HostError."""
    try:
        if sys.platform != "linux" or not hasattr(signal, "pidfd_send_signal"):
            if not is_alive(process):
                return False
            os.kill(process.pid, number)
            return True
        # The descriptor pins the process: its id cannot be given away between check and signal.
        handle = os.pidfd_open(process.pid)
        try:
            if not is_alive(process):
                return False
            signal.pidfd_send_signal(handle, number)
            return True
        finally:
            os.close(handle)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise HostError.from_os(f"send {number.name} to process {process.pid}", error) from error


def _started_linux(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - read 100 times a second
            # The name of the program, in parentheses, may contain anything but its own end.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    state, ticks = fields[0], fields[19]
    return "" if state in (b"Z", b"X") else f"{_boot()}:{ticks.decode()}"


@functools.cache
def _boot() -> str:
    with contextlib.suppress(OSError), open(_BOOT_ID) as file:  # noqa: PTH123
        return file.read().strip()
    return ""


def started_ps(pid: int) -> str:
    """When a process started, as `ps` tells it; empty if it does not run."""
    import subprocess  # takes longer to load than Linux takes to answer

    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": "/bin:/usr/bin", "TZ": "UTC"},
    )
    state, _, started = done.stdout.strip().partition(" ")
    return "" if not state or state.startswith("Z") else " ".join(started.split())
