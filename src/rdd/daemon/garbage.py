# SPDX-License-Identifier: Apache-2.0
"""Keeps the passes of Python's cyclic garbage collector short.

A full pass visits every container: with 2,000 watches there are 270,000, and each pass stops the
event loop for tens of milliseconds to find nothing, because connections free themselves by
reference counts. So what has survived a pass that took `LONG_S` is frozen: later passes visit
only what is newer. Frozen objects are freed as all others when nothing refers to them; only
cycles among them are not. These are collected when few connections are open, when a pass over
everything is short again.
"""

import asyncio
import ctypes
import gc
import time
from collections.abc import Callable

LONG_S = 0.005
RECLAIM_AFTER_S = 3600.0
FEW_CONNECTIONS = 100


def _return_free_memory() -> None:
    """Return what the imports have freed to the system: 2 MiB that glibc would keep."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass  # another C library


class GarbagePolicy:
    """Freezes the survivors of long passes."""

    def __init__(self, connections: Callable[[], int], *, long_s: float = LONG_S) -> None:
        self._connections = connections
        self._long_s = long_s
        self._loop = asyncio.get_running_loop()
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Freeze what the start has left, and observe the collector from now on."""
        gc.collect()
        gc.freeze()
        _return_free_memory()
        gc.callbacks.append(self._on_pass)

    def stop(self) -> None:
        """Stop observing. Nothing is unfrozen: the process ends, and a last pass takes long."""
        if self._on_pass in gc.callbacks:
            gc.callbacks.remove(self._on_pass)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def has_frozen(self) -> bool:
        """Whether the survivors of a long pass are frozen."""
        return self._timer is not None

    def _on_pass(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        now = time.thread_time()  # a busy machine makes every pass long by the clock
        if phase == "start":
            self._began = now
        elif now - self._began > self._long_s:
            gc.freeze()
            if self._timer is None:
                # A pass may run in any thread.
                self._loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        if self._timer is None and self._on_pass in gc.callbacks:
            self._timer = self._loop.call_later(RECLAIM_AFTER_S, self.reclaim)

    def reclaim(self) -> None:
        """Collect the cycles among frozen objects, if a full pass is short."""
        self._timer = None
        if self._connections() > FEW_CONNECTIONS:
            self._schedule()
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
