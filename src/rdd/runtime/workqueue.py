# SPDX-License-Identifier: Apache-2.0
"""The work queue between events and workers.

A key is queued at most once, and at most one worker has it; a key that is added meanwhile is
queued again when that worker is done. This deduplicates bursts: five thousand changes of a
hundred objects are a hundred keys. Failed keys are retried with exponential backoff per key
(5 ms up to 1,000 s, as in Kubernetes), without delaying others.

A key is in one of these states:

    ready       waits for a worker
    active      a worker has it
    dirty       active, and added again meanwhile
    delayed     waits for its timer

The queue holds at most `capacity` keys. A key that does not fit is dropped, and when the
queue is empty `refill` adds all existing objects; no work is lost, because reconciliation is
level-triggered.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from rdd.base.backoff import delay_s
from rdd.runtime.metrics import Metrics

Q = TypeVar("Q", bound=Hashable)

FIRST_RETRY_S = 0.005
LONGEST_RETRY_S = 1000.0
CAPACITY = 100_000


class Drained(Exception):
    """The queue was shut down."""


class WorkQueue(Generic[Q]):
    """A deduplicating queue of keys; a worker calls `get`, then `done`."""

    def __init__(
        self,
        name: str,
        *,
        capacity: int = CAPACITY,
        first_retry_s: float = FIRST_RETRY_S,
        longest_retry_s: float = LONGEST_RETRY_S,
        refill: Callable[[], None] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._name = name
        self._capacity = capacity
        self._first_retry_s = first_retry_s
        self._longest_retry_s = longest_retry_s
        self._refill = refill
        self._metrics = metrics or Metrics()
        self._ready: dict[Q, float] = {}
        self._active: set[Q] = set()
        self._dirty: set[Q] = set()
        self._delayed: dict[Q, asyncio.TimerHandle] = {}
        self._failures: dict[Q, int] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._is_draining = False
        self._has_overflowed = False
        self._metrics.queue_depth.read(self.__len__, name)
        self._metrics.queue_unfinished.read(lambda: len(self._active), name)

    def __len__(self) -> int:
        """Return the number of ready keys."""
        return len(self._ready)

    @property
    def is_idle(self) -> bool:
        """Return whether no key is ready or active; some may be delayed."""
        return not self._ready and not self._active

    # -- adding

    def add(self, key: Q) -> None:
        """Queue a key now; cancels its delay."""
        if self._is_draining:
            return
        self._metrics.queue_adds.add(self._name)
        self._cancel_delay(key)
        if key in self._active:
            self._dirty.add(key)
        else:
            self._make_ready(key)

    def add_after(self, key: Q, delay_s: float) -> None:
        """Queue a key after a delay, or earlier if it is added before."""
        if delay_s <= 0:
            self.add(key)
            return
        if self._is_draining or key in self._ready:
            return
        loop = asyncio.get_running_loop()
        timer = self._delayed.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        elif self._is_full():
            self._has_overflowed = True
            return
        self._delayed[key] = loop.call_later(delay_s, self._due, key)

    def add_rate_limited(self, key: Q) -> None:
        """Queue a failed key with exponential backoff."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._metrics.queue_retries.add(self._name)
        self.add_after(
            key,
            delay_s(failures, first_s=self._first_retry_s, longest_s=self._longest_retry_s),
        )

    def forget(self, key: Q) -> None:
        """Reset the backoff of a key."""
        self._failures.pop(key, None)

    def failures(self, key: Q) -> int:
        """Return the number of consecutive failures of a key."""
        return self._failures.get(key, 0)

    # -- working

    async def get(self) -> Q:
        """Return the oldest ready key; `done` MUST be called for it. Raises Drained."""
        while not self._ready:
            if self._is_draining:
                raise Drained(self._name)
            if self._has_overflowed and self._refill is not None:
                self._has_overflowed = False
                self._refill()
                continue
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and self._ready:
                    self._wake()  # pass the wake-up to another worker
                raise
        key = next(iter(self._ready))
        since = self._ready.pop(key)
        waited_s = asyncio.get_running_loop().time() - since
        self._metrics.queue_time.observe(waited_s, self._name)
        self._active.add(key)
        return key

    def done(self, key: Q) -> None:
        """Mark a key as processed, successfully or not."""
        self._active.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            if not self._is_draining:
                self._cancel_delay(key)
                self._make_ready(key)
        if self._idle is not None and not self._active and not self._idle.done():
            self._idle.set_result(None)

    def shut_down(self) -> None:
        """Discard all keys; waiting workers get Drained."""
        self._is_draining = True
        self._ready.clear()
        self._dirty.clear()
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        while self._waiting:
            self._wake()

    async def drain(self) -> None:
        """Shut down and wait for the active keys."""
        self.shut_down()
        if self._active:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    # -- inside

    def _make_ready(self, key: Q) -> None:
        if key in self._ready:
            return
        if self._is_full():
            self._has_overflowed = True
            self._metrics.queue_overflows.add(self._name)
            return
        self._ready[key] = asyncio.get_running_loop().time()
        self._wake()

    def _is_full(self) -> bool:
        return len(self._ready) + len(self._delayed) >= self._capacity

    def _cancel_delay(self, key: Q) -> None:
        timer = self._delayed.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _due(self, key: Q) -> None:
        del self._delayed[key]
        self.add(key)

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
