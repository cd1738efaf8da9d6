# SPDX-License-Identifier: Apache-2.0
"""Why the last daemon ended, if it ended without its teardown.

A daemon removes its record when it ends in order. A record whose process does not run is that of
a crash: whoever removes it first writes down the reason, for `status`, and for the log of the
next daemon. The note is kept until a daemon has ended in order.

Nothing waits for the process of a daemon, so its exit status is lost. The reason is what can be
found out afterwards and without privileges: the stacks that faulthandler wrote at a fatal signal,
a last line of the log that announces an exit, and whether the kernel has killed processes for
want of memory since the daemon started. That count is one of the whole machine. A record of
an earlier boot is no crash: the machine was switched off.
"""

import os
import re
from pathlib import Path

from rdd.daemon.service import record
from rdd.daemon.service.record import DaemonRecord
from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically
from rdd.host.processes import is_alive, is_of_this_boot, started_at
from rdd.instance import STDERR_LOG, Instance

_TAIL_BYTES = 256 * 1024  # the stacks of all threads
_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_EXITING = re.compile(r'\bmsg(?:=|":)"((?:[^"\\]|\\.)*(?:: exiting|control plane ends)\b[^"]*)"')
_WANTED = "second signal"
_VMSTAT = Path("/proc/vmstat")


def clear(instance: Instance) -> None:
    """Remove the files of an ended daemon; note the reason if it crashed."""
    note(instance)
    record.clear(instance)


def note(instance: Instance) -> None:
    """Write down why the last daemon crashed, if it did."""
    if text := _describe(instance):
        write_atomically(instance.crash_file, text, durable=False)


def last(instance: Instance) -> str:
    """Return why the last daemon that ended crashed; empty if it did not."""
    try:
        return _describe(instance) or read_text(instance.crash_file) or ""
    except HostError:
        return ""


def forget(instance: Instance) -> None:
    """Remove the note: a daemon has ended in order."""
    remove(instance.crash_file)


def _describe(instance: Instance) -> str:
    daemon = record.read_any(instance)
    if daemon is None or is_alive(daemon.process) or not is_of_this_boot(daemon.process):
        return ""
    reason = _reason(instance, daemon)
    if not reason:
        return ""
    return (
        f'"{instance.name}" control plane ended unexpectedly: process {daemon.process.pid}, '
        f"started {daemon.start_time or 'at an unknown time'}, {reason}"
    )


def fatal_error(log_text: str) -> str:
    """Return the fatal error that faulthandler reported in a log; empty without one."""
    found = _FATAL.findall(log_text)
    return found[-1] if found else ""


def oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory since it booted.

    -1 where that is not known.
    """
    try:
        with _VMSTAT.open("rb") as file:
            found = re.search(rb"^oom_kill (\d+)$", file.read(), re.MULTILINE)
    except OSError:
        return -1
    return int(found[1]) if found else -1


def _reason(instance: Instance, daemon: DaemonRecord) -> str:
    """Return the reason in words; empty if a user asked for an end at once."""
    log = instance.log_dir / f"{STDERR_LOG}.log"
    text = "" if daemon.supervised and not _is_newer(log, daemon) else _tail(log)
    fatal = fatal_error(text)
    if fatal:
        return f'had a fatal error ({fatal}); the stacks of its threads are in "{log}"'
    lines = [line for line in text.splitlines() if line.strip()]
    exiting = _EXITING.search(lines[-1]) if lines else None
    if exiting and exiting[1].startswith(_WANTED):
        return ""
    if exiting:
        return f"exited: {exiting[1]}".replace('\\"', '"')
    killed = oom_kills() - daemon.oom_kills
    if daemon.oom_kills >= 0 and killed > 0:
        plural = "es" if killed > 1 else ""
        return (
            "was killed, probably because the machine or its control group had no memory left: "
            f"the kernel has killed {killed} process{plural} for that since it started"
        )
    return "was killed (by SIGKILL or another signal that leaves no trace)"


def _is_newer(log: Path, daemon: DaemonRecord) -> bool:
    """Return whether a log was written by this daemon: one in the foreground has none."""
    started = started_at(daemon.process)
    try:
        return started is not None and log.stat().st_mtime >= started - 1
    except OSError:
        return False


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
