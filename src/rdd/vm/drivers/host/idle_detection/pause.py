# SPDX-License-Identifier: Apache-2.0
"""Pause of a machine of this driver: its control group is frozen, the host agent is outside.

Nothing that the machine's processes hold is lost: the kernel accepts connections and keeps what
clients send until the group is thawed.
"""

from contextlib import suppress
from pathlib import Path

from rdd.host.cgroups import Cache, Freezer, Layout, container_groups, cpu_seconds
from rdd.host.errors import HostError
from rdd.vm.idle.load import ContainerLoad, Loads


class MachinePause:
    """The control group of one machine of root."""

    def __init__(self, layout: Layout, group: str) -> None:
        self._layout = layout
        self._group = group
        self._freezer = Freezer(layout, group)
        self._cache = Cache(layout, group)

    @property
    def problem(self) -> str:
        """Why the machine cannot be paused; empty if it can."""
        return self._freezer.problem

    def freeze(self) -> None:
        """Freeze everything that the machine runs. Blocking. Raises HostError."""
        self._freezer.freeze()

    def reclaim(self) -> None:
        """Give back the page cache of what is frozen. Blocking; a failure does not matter."""
        with suppress(HostError):
            self._cache.reclaim()

    def thaw(self) -> None:
        """Let it run again; a no-op if it does. Raises HostError."""
        self._freezer.thaw()

    def loads(self) -> Loads:
        """Return what each container has used. Raises HostError."""
        found = container_groups(self._layout, self._group, "cpuacct")
        return {
            name: ContainerLoad(cpu_seconds(group), _network_bytes(group)) for name, group in found
        }


def _network_bytes(group: Path) -> int:
    """Return the bytes that the first process of a group has seen in its network, but loopback."""
    with suppress(OSError, ValueError, IndexError):
        pid = (group / "cgroup.procs").read_text().split()[0]
        return network_bytes(Path(f"/proc/{pid}/net/dev").read_text())
    return 0  # it has ended, or its processes are in groups of their own


def network_bytes(table: str) -> int:
    """Return the sum of received and sent bytes in /proc/net/dev, without the loopback."""
    total = 0
    for line in table.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        if name.strip() != "lo":
            words = numbers.split()
            total += int(words[0]) + int(words[8])
    return total
