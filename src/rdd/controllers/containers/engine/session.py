# SPDX-License-Identifier: Apache-2.0
"""One connection to an engine: follows its events and keeps the mirrors complete.

A session subscribes to events first and then lists everything, so nothing falls
between the two. From then on an event costs the items it names. Every few
minutes everything is looked at again, a few items at a time, because events can
be lost and writes can fail; it finds nothing to do if nothing was.

A session ends with its connection. The mirrors stay; the next one compares.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from rdd.api import errors
from rdd.client import Unreachable
from rdd.controllers.containers.engine.actions import InUse, Requests
from rdd.controllers.containers.engine.backend import Backend
from rdd.controllers.containers.engine.background_tasks import Errands, first_of
from rdd.controllers.containers.engine.items import (
    CONTAINERS,
    IMAGES,
    NAMESPACES,
    Mirror,
    unknown_container,
)
from rdd.controllers.containers.engine.mirrors import Mirrors, NotOurs
from rdd.engine import EngineFailure, Unintelligible
from rdd.engine import Unreachable as EngineGone
from rdd.runtime import Context, ObjectKey

log = logging.getLogger("rdd.engine")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how fast everything is looked at again."""

    resync_s: float = 300.0
    batch: int = 20
    pause_s: float = 0.1
    """Between batches, so that events do not wait behind a resync."""
    retry_s: float = 1.0
    """After the first failure of an item; it doubles."""
    longest_retry_s: float = 60.0


class Session:
    """A connection and what is known through it."""

    def __init__(
        self,
        context: Context,
        mirrors: Mirrors,
        backend: Backend,
        *,
        namespace: str,
        changed: Callable[[], None],
        pace: Pace,
    ) -> None:
        """`changed` is called when `is_synced`, `is_over` or `problem()` may be another."""
        self.backend = backend
        self.namespace = namespace
        self.is_synced = False
        """Everything there is has been mirrored, or failed to be."""
        self.is_over = False
        self.why = ""
        """Why it is over."""
        self._context = context
        self._mirrors = mirrors
        self._changed = changed
        self._pace = pace
        self._requests = Requests(context, mirrors, backend)
        self._errands = Errands(self._errand_done)
        self._failures: dict[ObjectKey, tuple[str, int]] = {}
        self._in_use: set[ObjectKey] = set()
        self._held: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._pending: set[ObjectKey] = set()
        self._none_pending = asyncio.Event()

    def problem(self) -> str:
        """What could not be mirrored; empty if everything could."""
        if not self._failures:
            return ""
        item, (why, _) = next(iter(self._failures.items()))
        count = len(self._failures)
        what = "1 object" if count == 1 else f"{count} objects"
        return f"{what} could not be mirrored, such as {item.namespace} {item.name}: {why}"

    # -- the connection

    async def run(self) -> None:
        """Follow the engine until the connection ends or the task is cancelled."""
        try:
            async with self.backend.changes() as changes:
                await first_of(self._follow(changes), self._keep_complete())
        except (EngineFailure, errors.ApiError, Unreachable, NotOurs) as error:
            self.why = str(error)
            log.info("the connection to the %s engine ended: %s", self.backend.name, error)
        finally:
            self.is_over = True
            for timer in self._held.values():
                timer.cancel()
            await self._errands.stop()
            await self.backend.close()
            self._changed()

    async def _follow(self, changes: AsyncIterator[ObjectKey]) -> None:
        async for item in changes:
            self._context.enqueue(item)
        raise EngineGone("the engine closed the stream of events")

    async def _keep_complete(self) -> None:
        await self._look_at_everything()
        self.is_synced = True
        self._changed()
        while True:
            await asyncio.sleep(self._pace.resync_s)
            await self._look_at_everything(self._pace.batch)

    async def _look_at_everything(self, batch: int = 0) -> None:
        """Have every item looked at, and return when that has been done."""
        for name in await self.backend.namespaces():
            # The others refer to it: without it, they are not tried.
            await self._mirror(ObjectKey(NAMESPACES, name))
        items = set(await self.backend.everything())
        items |= self._mirrors.items(self.namespace)
        self._pending = set(items)
        self._none_pending.clear()
        for i, item in enumerate(items):
            if batch and i % batch == batch - 1:
                await asyncio.sleep(self._pace.pause_s)
            self._context.enqueue(item)
        if items:
            await self._none_pending.wait()

    # -- one item

    async def reconcile(self, item: ObjectKey) -> float | None:
        """Mirror an item and see to what is asked for on its mirrors.

        Returns after how many seconds to look again, if not everything could be done.
        """
        wait_s: float | None = None
        try:
            self._see_to_requests(item)
            await self._mirror(item)
        except EngineGone:
            pass  # the session is about to end, the next one looks at everything
        except (EngineFailure, NotOurs, errors.ApiError) as error:
            wait_s = self._note_failure(item, str(error))
        else:
            self._note_success(item)
        self._pending.discard(item)
        if not self._pending:
            self._none_pending.set()
        return wait_s

    async def _mirror(self, item: ObjectKey) -> None:
        try:
            found = await self.backend.describe(item)
        except Unintelligible:
            # It is there, and more cannot be said; what was known before still helps.
            known = self._mirrors.of(item, self.namespace)
            if item.namespace == CONTAINERS:
                mirror = unknown_container(item.name, known[0] if known else {})
                await self._settle(item, [mirror])
            raise
        for other in found.also:
            self._context.enqueue(other)
        await self._settle(item, found.mirrors)
        if item.namespace == IMAGES:
            for other in self._mirrors.losing_tags(item, found.mirrors, self.namespace):
                self._context.enqueue(other)
        if not found.mirrors:
            for other in self._in_use - {item}:  # perhaps by this one
                self._context.enqueue(other)

    async def _settle(self, item: ObjectKey, mirrors: Sequence[Mirror]) -> None:
        await self._mirrors.settle(
            item, mirrors, namespace=self.namespace, backend=self.backend.name
        )

    def _note_failure(self, item: ObjectKey, why: str) -> float:
        times = self._failures.get(item, ("", 0))[1]
        if not times or self._failures[item][0] != why:
            log.warning("%s %s is not mirrored: %s", item.namespace, item.name, why)
        self._failures[item] = (why, times + 1)
        if not times:
            self._changed()
        pace = self._pace
        return min(pace.retry_s * 2.0 ** min(times, 30), pace.longest_retry_s)

    def _note_success(self, item: ObjectKey) -> None:
        if self._failures.pop(item, None) is not None:
            self._changed()

    # -- what is asked for

    def _see_to_requests(self, item: ObjectKey) -> None:
        # Whatever was the reason to look at it, it may be free now, or another tag be removed.
        self._in_use.discard(item)
        if item not in self._held and self._requests.is_needed(item, self.namespace):
            self._errands.begin(item, lambda: self._requests.serve(item, self.namespace))

    def _errand_done(self, item: ObjectKey, error: Exception | None, asked_again: bool) -> None:
        if error is None:
            self._context.enqueue(item)
            return
        if isinstance(error, InUse):
            self._in_use.add(item)
            if asked_again:  # perhaps for what was not asked for when it began
                self._context.enqueue(item)
        elif not isinstance(error, EngineGone) and not self.is_over:
            delay_s = self._pace.retry_s
            loop = asyncio.get_running_loop()
            self._held[item] = loop.call_later(delay_s, self._release, item)
        log.warning("%s %s: %s", item.namespace, item.name, error)

    def _release(self, item: ObjectKey) -> None:
        self._held.pop(item, None)
        self._context.enqueue(item)
