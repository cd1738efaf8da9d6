# SPDX-License-Identifier: Apache-2.0
"""A queue of keys with workers, retries and nothing to do when there is nothing to do.

A key is in the queue once however often it is added, and one worker at a time
has it; added meanwhile, it comes again afterwards. A handler that fails gets
its key again after a pause that doubles each time. Workers are tasks that
exist while there is work, so an idle queue has neither tasks nor timers. What
bounds the queue is the number of objects that exist.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from rdd.api import errors

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_S = 0.01
LONGEST_RETRY_S = 60.0

log = logging.getLogger("rdd.controllers.builtin")


class Retry(Exception):
    """What a handler raises when it wants its key again, for a reason that is no surprise."""


class WorkQueue(Generic[K]):
    """Hands keys to `handle`, at most `workers` at a time."""

    def __init__(
        self, name: str, handle: Callable[[K], Awaitable[None]], *, workers: int = 1
    ) -> None:
        self._name = name
        self._handle = handle
        self._max_workers = workers
        self._workers = 0
        self._ready: dict[K, None] = {}
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, tuple[int, str]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Nothing is being handled and nothing waits; keys may still be in a pause."""
        return not self._ready and not self._active

    def add(self, key: K) -> None:
        """Have the key handled soon; a pause it was in is over."""
        if self._is_closed:
            return
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._active:
            self._again.add(key)
        else:
            self._ready[key] = None
            self._start_worker()

    def add_later(self, key: K, delay_s: float) -> None:
        """Have the key handled after a while, unless it is added before."""
        if self._is_closed or key in self._ready:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self._due, key)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for _ in range(min(len(self._ready), self._max_workers)):
                    self._start_worker()
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def drain(self) -> None:
        """Take no more keys and return when those being handled are done."""
        self._is_closed = True
        self._ready.clear()
        await self._idle.wait()

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def _start_worker(self) -> None:
        if self._group is not None and self._workers < self._max_workers:
            self._workers += 1
            self._idle.clear()
            self._group.create_task(self._work(), name=f"rdd-{self._name}-worker")

    async def _work(self) -> None:
        try:
            while self._ready:
                key = next(iter(self._ready))
                del self._ready[key]
                self._active.add(key)
                try:
                    await self._handle(key)
                    self._failures.pop(key, None)
                except Exception as error:
                    self._retry(key, error)
                finally:
                    self._active.discard(key)
                    if key in self._again:
                        self._again.discard(key)
                        self._ready[key] = None
        finally:
            self._workers -= 1
            if not self._workers:
                self._idle.set()

    def _retry(self, key: K, error: Exception) -> None:
        count, known = self._failures.get(key, (0, ""))
        delay_s = min(FIRST_RETRY_S * 2.0 ** min(count, 30), LONGEST_RETRY_S)
        message = str(error) or type(error).__name__
        if isinstance(error, errors.Conflict) or message == known:
            log.debug("%s: %s: %s", self._name, key, message)
        elif isinstance(error, Retry | errors.ApiError | ConnectionError):
            log.warning("%s: %s: %s", self._name, key, message)
        else:
            log.error("%s: %s failed", self._name, key, exc_info=error)
        self._failures[key] = (count + 1, message)
        self.add_later(key, delay_s)
