# SPDX-License-Identifier: Apache-2.0
"""Figures of this computer and of the daemon: CPU, memory, disk.

`GET /service/host` returns one sample; subscriptions of the dashboard get one every two
seconds, all windows the same. Nothing is measured without a subscription. Members that this
operating system does not offer are left out.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_INTERVAL_S = 2.0
_PROC = Path("/proc")


class HostStats:
    """Samples with the CPU usage since the sample before."""

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._before: tuple[float, float, float, float] | None = None
        self._followers: set[Callable[[dict[str, Any]], None]] = set()
        self._task: asyncio.Task[None] | None = None

    async def follow(self, send: Callable[[dict[str, Any]], None]) -> None:
        """Call `send` every two seconds until cancelled."""
        self._followers.add(send)
        try:
            send(self.sample())
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(
                    self._measure(), name="rdd-dashboard-host"
                )
            await asyncio.get_running_loop().create_future()
        finally:
            self._followers.discard(send)
            if not self._followers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            sample = self.sample()
            for send in list(self._followers):
                send(sample)

    def sample(self) -> dict[str, Any]:
        """Return the present figures."""
        cpus = os.cpu_count() or 1
        machine: dict[str, Any] = {"cpus": cpus}
        daemon: dict[str, Any] = {}
        busy, total = _processor_times()
        times = os.times()
        own, now = times.user + times.system, time.monotonic()
        before, self._before = self._before, (busy, total, own, now)
        if before is not None and now > before[3]:
            if total > before[1]:
                machine["cpu"] = round(100 * (busy - before[0]) / (total - before[1]), 1)
            daemon["cpu"] = round(100 * (own - before[2]) / (now - before[3]), 1)
        memory, available = _memory()
        if memory:
            machine |= {"memory": memory, "memoryUsed": memory - available}
        try:
            disk = shutil.disk_usage(self._disk)
            machine |= {"disk": disk.total, "diskUsed": disk.used}
        except OSError:
            pass
        resident = _resident()
        if resident:
            daemon["memory"] = resident
        return {"time": time.time(), "machine": machine, "daemon": daemon}


def _processor_times() -> tuple[float, float]:
    """Return the ticks of all processors, busy and in total."""
    try:
        line = (_PROC / "stat").read_bytes().partition(b"\n")[0]
    except OSError:
        return 0, 0
    # user, nice, system, idle, iowait, irq, softirq, steal; guest is part of user
    ticks = [int(text) for text in line.split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _memory() -> tuple[int, int]:
    """Return the memory of the computer and how much of it is available."""
    try:
        lines = (_PROC / "meminfo").read_bytes().splitlines()
    except OSError:
        return 0, 0
    found = {
        name: int(rest.split()[0]) * 1024 for name, _, rest in (x.partition(b":") for x in lines)
    }
    return found.get(b"MemTotal", 0), found.get(b"MemAvailable", 0)


def _resident() -> int:
    try:
        pages = int((_PROC / "self" / "statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")
