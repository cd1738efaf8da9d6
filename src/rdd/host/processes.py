# SPDX-License-Identifier: Apache-2.0
"""Process identities: process id and start time.

A process id alone is ambiguous: the kernel reuses it after the process has ended. Together
with the start time it identifies one process for all time. Code that writes an id to a file
writes the identity beside it, and compares it before it assumes that the process runs or
sends it a signal.

On Linux the start time is counted in clock ticks since boot, so changes of the wall clock do
not affect it, and the id of the boot is part of it. Elsewhere it comes from `ps`. A zombie has
ended; its parent has only not reaped it.
"""

import contextlib
import functools
import os
import signal
import sys
from dataclasses import dataclass

from rdd.host.errors import HostError

_DESCRIPTORS = 1024
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, distinct from later ones with the same id."""

    pid: int
    started: str
    """Start time; opaque outside of this module."""


def identity(pid: int) -> Identity | None:
    """Return the identity of a live process by its id, or None."""
    if pid <= 0:
        return None
    started = _started_linux(pid) if sys.platform == "linux" else started_ps(pid)
    return Identity(pid, started) if started else None


def own_identity() -> Identity:
    found = identity(os.getpid())
    if found is None:
        raise HostError("the start time of this process is unknown")
    return found


def is_alive(process: Identity) -> bool:
    """Return whether exactly this process still runs."""
    return identity(process.pid) == process


def is_of_this_boot(process: Identity) -> bool:
    """Return whether a process was started since the machine booted, where that is known."""
    boot, _, ticks = process.started.rpartition(":")
    return boot == _boot() or not ticks.isdecimal()


def started_at(process: Identity) -> float | None:
    """Return when a process started, in seconds since the epoch; None where it is unknown.

    Exact to a second, and off by every change of the wall clock since the boot: for
    comparison with the time of a file, not to identify a process.
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
        # The pidfd pins the process: its id cannot be reused between check and signal.
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
            # The name of the program, in parentheses, may contain spaces and parentheses.
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
    """Return the start time of a process from `ps`; empty if it does not run."""
    import subprocess  # not needed on Linux, and slow to load

    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": "/bin:/usr/bin", "TZ": "UTC"},
    )
    state, _, started = done.stdout.strip().partition(" ")
    return "" if not state or state.startswith("Z") else " ".join(started.split())


def descriptor_limit() -> int:
    """Return how many files and sockets this process may have open."""
    try:
        import resource
    except ImportError:  # Windows
        return _DESCRIPTORS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
