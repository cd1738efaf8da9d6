# SPDX-License-Identifier: Apache-2.0
"""Removal of expired keys.

A heap holds the expiry time of every key written with a time to live; an entry
is current only while its row is the newest of the key, so a renewal pushes a
new entry and leaves the old one stale. One timer is set to the earliest entry.
It fires at most once a second, so that keys that expire together are removed
together; without entries no timer runs, and an idle daemon sleeps.

The timer uses the loop's clock and the expiry times use the wall clock; the
two drift apart when a laptop sleeps, so the timer is never set further ahead
than LONGEST_WAIT_S.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Sequence

from rdd.store.contract import Unavailable

log = logging.getLogger(__name__)

SHORTEST_WAIT_S = 1.0
LONGEST_WAIT_S = 300.0
RETRY_S = 30.0
BATCH = 256  # keys removed in one group commit: some milliseconds of work

Expired = tuple[str, int]  # key and the id of the row that expires


class Expiry:
    """The expiry times of a store, and the timer that removes expired keys."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        remove: Callable[[Sequence[Expired]], Awaitable[int]],
        is_current: Callable[[str, int], bool],
    ) -> None:
        self._clock = clock
        self._remove = remove
        self._is_current = is_current
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[int, str, int]] = []  # expires in ms, key, row id
        self._prune_at = 1_024
        self._timer: asyncio.TimerHandle | None = None
        self._timer_for = 0  # the expiry time the timer is set to
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, expires: int, key: str, identity: int) -> None:
        """Remove the key at a time in ms, unless the key has a newer row then."""
        heapq.heappush(self._heap, (expires, key, identity))
        if len(self._heap) >= self._prune_at:
            self._prune()
        self._arm(SHORTEST_WAIT_S)

    async def run(self) -> int:
        """Remove the keys that have expired by now; return how many."""
        removed = 0
        handled: list[tuple[int, str, int]] = []
        try:
            while due := self._due():
                handled += due
                removed += await self._remove([(key, identity) for _, key, identity in due])
        finally:
            # A current entry is left when the removal failed or lost a race with a renewal.
            for entry in handled:
                if self._is_current(entry[1], entry[2]):
                    heapq.heappush(self._heap, entry)
        return removed

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _due(self) -> list[tuple[int, str, int]]:
        now = int(self._clock() * 1000)
        due: list[tuple[int, str, int]] = []
        while self._heap and self._heap[0][0] <= now and len(due) < BATCH:
            entry = heapq.heappop(self._heap)
            if self._is_current(entry[1], entry[2]):
                due.append(entry)
        return due

    def _arm(self, wait_s: float) -> None:
        if self._closed or not self._heap or self._task is not None:
            return
        expires = self._heap[0][0]
        if self._timer is not None:
            if self._timer_for <= expires:
                return
            self._timer.cancel()
        delay = expires / 1000 - self._clock()
        self._timer_for = expires
        self._timer = self._loop.call_later(min(max(delay, wait_s), LONGEST_WAIT_S), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._task = self._loop.create_task(self._run_logged(), name="store-expiry")

    async def _run_logged(self) -> None:
        wait_s = SHORTEST_WAIT_S
        try:
            await self.run()
        except Unavailable as error:
            log.warning("expired keys could not be removed, will retry: %s", error)
            wait_s = RETRY_S
        finally:
            self._task = None
        self._arm(wait_s)

    def _prune(self) -> None:
        """Drop stale entries; the cost is amortised over as many additions."""
        self._heap = [entry for entry in self._heap if self._is_current(entry[1], entry[2])]
        heapq.heapify(self._heap)
        self._prune_at = max(1_024, 2 * len(self._heap))
