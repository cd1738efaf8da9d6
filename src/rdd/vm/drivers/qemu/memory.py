# SPDX-License-Identifier: Apache-2.0
"""Gives memory that a guest does not need back to this host, by its virtio balloon.

Memory that processes of the guest free is reported by the guest and discarded by the emulator
at once (free page reporting), but only in large blocks, and the page cache is never freed. The
rest is fetched: when this host holds much more than the guest uses, the balloon is inflated
until the guest is left with a reserve, and deflated again at once. The guest evicts its page cache
for it, and this host gets each page; afterwards the guest can allocate all of its memory again.

Invariant: the balloon is inflated only during a reclaim. Whatever ends one deflates it, an agent
that starts deflates it first, and `deflate-on-oom` does if the guest runs out of memory meanwhile.

A guest that reads much needs its page cache: a reclaim waits until the cache no longer changes.
If there is an excess again soon after it, the next one waits twice as long.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.vm.drivers.qemu.qmp import Qmp
from rdd.vm.memory_report import MemoryReport

DEVICE = "balloon0"
NO_BALLOON = "the guest has no balloon driver (virtio_balloon), so its memory is not given back"
_PATH = f"/machine/peripheral/{DEVICE}"
_MIB = 1 << 20
_INTERVAL_S = 10.0
_BOOT_S = 120.0
_STALE_S = 35.0
"""Without statistics for so long, the guest has no driver."""
_STABLE_BYTES = 64 * _MIB
_FIRST_COOLDOWN_S, _LONGEST_COOLDOWN_S = 15.0, 600.0
_HOT_S = 30.0
"""A guest that has an excess again so soon needs its page cache."""
_POLL_S = 0.5
_STALLED_POLLS = 20
_RECLAIM_S = 60.0
_UNKNOWN = 1 << 63  # and above: the guest does not report this value
_mapping = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ").match
_LARGE_BYTES = 16 * _MIB


@dataclass(frozen=True, slots=True)
class GuestStatistics:
    """What the balloon driver of a guest reports."""

    total: int
    available: int
    cache: int

    @classmethod
    def from_answer(cls, answer: Any) -> "GuestStatistics | None":
        """Return the statistics in the response of qemu; None if they are not complete."""
        names = ("stat-total-memory", "stat-available-memory", "stat-disk-caches")
        try:
            values = [int(answer["stats"][name]) for name in names]
        except (KeyError, TypeError, ValueError):
            return None
        if any(not 0 <= value < _UNKNOWN for value in values):
            return None
        return cls(*values)

    @property
    def used(self) -> int:
        return max(0, self.total - self.available)

    @property
    def reserve(self) -> int:
        """What a reclaim leaves to the guest."""
        return max(64 * _MIB, self.total // 16)

    def is_excess(self, host_bytes: int) -> bool:
        """Return whether this host holds so much more that a reclaim is worth it."""
        threshold = max(128 * _MIB, self.total // 8)
        return host_bytes - self.used - self.reserve > threshold


class GuestMemory:
    """Measures the memory of one guest, and gives back what it does not need."""

    def __init__(
        self,
        *,
        qmp: Callable[[], Qmp | None],
        pid: Callable[[], int],
        report: Callable[[MemoryReport], None],
        warn: Callable[[str], None],
    ) -> None:
        self._qmp = qmp
        self._pid = pid
        self._write_report = report
        self._warn = warn
        self._report: MemoryReport | None = None
        self._task: asyncio.Task[None] | None = None
        self._excess_since: GuestStatistics | None = None
        """The statistics of the measurement before, if it found an excess."""
        self._cooldown_s = _FIRST_COOLDOWN_S
        self._last_reclaim_s = -_LONGEST_COOLDOWN_S
        self._has_excess = False
        """Whether there has been an excess since the last reclaim."""

    def start(self) -> None:
        """Measure until `stop`; the guest runs."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="guest memory")

    async def stop(self) -> None:
        """Stop measuring; the guest is about to be paused, or left to another agent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def given_back(self) -> None:
        """Report that this host holds nothing: the emulator has ended."""
        self._publish(replace(self._report or MemoryReport(), host_bytes=0))

    async def _run(self) -> None:
        began_s, is_new = time.time(), self._report is None
        try:
            await self._prepare()
            while True:
                await asyncio.sleep(_INTERVAL_S)
                await self._measure(began_s, _BOOT_S if is_new else _STALE_S)
        except HostError as error:
            if (qmp := self._qmp()) is not None and not qmp.closed.is_set():
                self._warn(f"the memory of the guest is not measured: {error}")

    async def _prepare(self) -> None:
        """Deflate the balloon, and let the guest report its memory from now on."""
        qmp = self._connection()
        full = await self._full(qmp)
        await qmp.execute("balloon", {"value": full})
        value = {"path": _PATH, "property": "guest-stats-polling-interval"}
        await qmp.execute("qom-set", {**value, "value": round(_INTERVAL_S)})

    async def _measure(self, began_s: float, patience_s: float) -> None:
        qmp = self._connection()
        answer = await qmp.execute("qom-get", {"path": _PATH, "property": "guest-stats"})
        host_bytes = await asyncio.to_thread(resident_bytes, self._pid())
        updated_s = float(answer.get("last-update") or 0)
        found = GuestStatistics.from_answer(answer) if updated_s >= began_s - 1 else None
        is_stale = time.time() - max(updated_s, began_s) > (_STALE_S if found else patience_s)
        if found is None or is_stale:
            self._excess_since = None
            if is_stale:
                self._publish(MemoryReport(host_bytes=host_bytes, problem=NO_BALLOON))
            return
        if self._is_due(found, host_bytes):
            await self._reclaim(qmp, found)
            host_bytes = await asyncio.to_thread(resident_bytes, self._pid())
        self._publish(MemoryReport(used_bytes=found.used, host_bytes=host_bytes))

    def _is_due(self, found: GuestStatistics, host_bytes: int) -> bool:
        before, self._excess_since = self._excess_since, None
        if not host_bytes or not found.is_excess(host_bytes):
            return False
        self._excess_since = found
        passed_s = time.monotonic() - self._last_reclaim_s
        if not self._has_excess:
            self._has_excess = True
            longer_s = min(self._cooldown_s * 2, _LONGEST_COOLDOWN_S)
            self._cooldown_s = longer_s if passed_s < _HOT_S else _FIRST_COOLDOWN_S
        if before is None or abs(found.cache - before.cache) > _STABLE_BYTES:
            return False
        return passed_s >= self._cooldown_s

    async def _reclaim(self, qmp: Qmp, found: GuestStatistics) -> None:
        """Inflate the balloon up to the reserve, and deflate it again."""
        full = await self._full(qmp)
        target = full - max(0, found.available - found.reserve)
        try:
            await qmp.execute("balloon", {"value": target})
            await self._until_inflated(qmp, target)
        finally:
            self._excess_since, self._has_excess = None, False
            self._last_reclaim_s = time.monotonic()
            with suppress(HostError):
                await asyncio.shield(qmp.execute("balloon", {"value": full}))

    async def _until_inflated(self, qmp: Qmp, target: int) -> None:
        """Return when the guest has given the memory, or gives no more."""
        last, stalled = await _actual(qmp), 0
        deadline_s = time.monotonic() + _RECLAIM_S
        while stalled < _STALLED_POLLS and time.monotonic() < deadline_s:
            await asyncio.sleep(_POLL_S)
            actual = await _actual(qmp)
            if actual <= target + _MIB:
                return
            stalled = stalled + 1 if actual >= last else 0
            last = actual

    def _connection(self) -> Qmp:
        qmp = self._qmp()
        if qmp is None:
            raise HostError("the guest does not run")
        return qmp

    async def _full(self, qmp: Qmp) -> int:
        """Return the whole memory of the guest."""
        summary: Mapping[str, Any] = await qmp.execute("query-memory-size-summary")
        return int(summary["base-memory"])

    def _publish(self, report: MemoryReport) -> None:
        if self._report is None or report.differs(self._report):
            self._report = report
            self._write_report(report)


async def _actual(qmp: Qmp) -> int:
    """Return what the balloon leaves to the guest."""
    return int((await qmp.execute("query-balloon"))["actual"])


def resident_bytes(pid: int) -> int:
    """Return what the memory of a guest occupies on this host; 0 if that is unknown.

    The emulator's own memory is in small mappings, and translated code in an executable one.
    """
    total, is_memory = 0, False
    try:
        with Path(f"/proc/{pid}/smaps").open() as lines:
            for line in lines:
                if found := _mapping(line):
                    size = int(found[2], 16) - int(found[1], 16)
                    is_memory = size >= _LARGE_BYTES and found[3][:3] == "rw-"
                elif is_memory and line.startswith("Rss:"):
                    total += int(line.split()[1]) << 10
    except (OSError, ValueError):
        return 0
    return total
