# SPDX-License-Identifier: Apache-2.0
"""The memory of processes and their descendants, from /proc.

The proportional set size divides shared pages among their users, so a sum counts each
page once. Without the permission to read it the resident set is used.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")


def tree_bytes(roots: Iterable[int]) -> int | None:
    """Return the memory of processes with all their descendants; None where it is unknown."""
    if sys.platform != "linux":
        return None
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            children.setdefault(_parent(entry), []).append(int(entry.name))
    pending, seen = list(roots), set[int]()
    while pending:
        pid = pending.pop()
        if pid not in seen:
            seen.add(pid)
            pending += children.get(pid, ())
    return sum(map(_memory, seen))


def _parent(process: Path) -> int:
    try:
        fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[1])
    except (OSError, ValueError, IndexError):
        return -1


def _memory(pid: int) -> int:
    for name, member in (("smaps_rollup", b"Pss:"), ("status", b"VmRSS:")):
        try:
            for line in (_PROC / str(pid) / name).read_bytes().splitlines():
                if line.startswith(member):
                    return int(line.split()[1]) * 1024
        except (OSError, ValueError, IndexError):
            continue
    return 0
