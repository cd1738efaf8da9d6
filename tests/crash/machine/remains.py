# SPDX-License-Identifier: Apache-2.0
"""What a deleted instance must not leave on the machine.

Processes, mounts and control groups are found by the path of the home: other programs of the
machine have theirs. Network devices, namespaces, firewall rules and listening ports are compared
with those before the round: run in a network namespace of its own (scripts/offline.py).
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.programs import run_program

from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.instance_dir import InstanceDirectory

LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Traces:
    """Everything outside of files that a round may have changed."""

    found: frozenset[str]

    @classmethod
    def collect(cls, root: Path, machines: Sequence[InstanceDirectory] = ()) -> "Traces":
        """Look for traces of the home below a directory, and of its machines."""
        mark = str(root)
        groups = [line for machine in machines for line in _groups(machine)]
        return cls(frozenset([*_processes(mark), *_mounts(mark), *groups, *_network(), *_ports()]))

    def left_by(self, after: "Traces") -> list[str]:
        """Return what is there afterwards and was not before."""
        return sorted(after.found - self.found)


def _processes(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            variables = (entry / "environ").read_bytes()
            is_own = mark.encode() in words or f"HOME={mark}".encode() in variables
            if int(entry.name) != os.getpid() and is_own:
                found.append(f"process {entry.name}: {words.decode(errors='replace')[:200]}")
    return found


def _mounts(mark: str) -> list[str]:
    # The home itself is a mount.
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [f"mount {point}" for point in points if point.startswith(f"{mark}/h/")]


def _groups(machine: InstanceDirectory) -> list[str]:
    name = MachinePaths(machine).cgroup.lstrip("/")
    root = Path("/sys/fs/cgroup")
    return [f"cgroup {path}" for path in (*root.glob(name), *root.glob(f"*/{name}"))]


def _network() -> list[str]:
    found = []
    for title, command in (
        ("rule", ["iptables-save"]),
        ("device", ["ip", "-oneline", "link"]),
        ("netns", ["ip", "netns", "list"]),
    ):
        done = run_program(command)
        lines = [line.partition(" [")[0] for line in done.stdout.splitlines()]
        if title == "rule":  # built-in chains and tables stay once they were used
            lines = [line for line in lines if line.startswith("-A ") or line.endswith(" -")]
        found += [f"{title} {line}" for line in lines if " lo: " not in line]
    return found


def _ports() -> list[str]:
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTEN:
                found.append(f"port {int(words[1].rpartition(':')[2], 16)}")
    return found
