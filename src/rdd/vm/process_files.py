# SPDX-License-Identifier: Apache-2.0
"""Pid files in Lima's form, and the identity of the process beside them.

A pid file (`ha.pid`, `<driver>.pid`) holds a number and a line end. The identity file beside it
(`.identity`) holds the pid and the start time, so a pid that was reused never counts. A pid
file without an identity belongs to Lima's own agent or driver; it counts only if the process
started before the file was written.
"""

import json
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.host.processes import Identity, identity, is_alive, started_at

_CLOCK_SLACK_S = 2  # start times have a resolution of one second, and clocks are adjusted


def live_process(pid_file: Path, identity_file: Path) -> Identity | None:
    """Return the process that a pid file names if exactly that process is alive."""
    try:
        written = pid_file.stat().st_mtime
        pid = int(pid_file.read_text())
    except (OSError, ValueError):
        return None
    recorded = read_identity(identity_file)
    if recorded is not None and recorded.pid == pid:
        return recorded if is_alive(recorded) else None
    process = identity(pid)
    if process is None:
        return None
    started = started_at(process)
    return process if started is None or started <= written + _CLOCK_SLACK_S else None


def read_identity(path: Path) -> Identity | None:
    """Return the identity in a file; None if the file is missing or damaged."""
    try:
        data = json.loads(read_text(path) or "null")
        return Identity(int(data["pid"]), str(data["started"]))
    except (ValueError, KeyError, TypeError, HostError):
        return None


def write_identity(path: Path, process: Identity) -> None:
    """Write the identity of a process. Raises HostError."""
    data = {"pid": process.pid, "started": process.started}
    write_atomically(path, json.dumps(data) + "\n", durable=False)


def write_pid_file(pid_file: Path, process: Identity) -> None:
    """Write a pid file, and before it the identity file. Raises HostError."""
    write_identity(pid_file.with_suffix(".identity"), process)
    write_atomically(pid_file, f"{process.pid}\n", mode=0o644, durable=False)
