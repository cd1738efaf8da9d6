# SPDX-License-Identifier: Apache-2.0
"""One connection to an engine: follows its events and keeps the mirrors complete.

A session subscribes to events before it lists everything, so no change is lost
between the two. From then on an event costs only the items that it names. Every
few minutes a resync reconciles all items in small batches, because events can be
lost and writes can fail; it is a no-op if neither happened.

A session ends with its connection. The mirrors stay; the next session compares.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from rdd.api import errors
from rdd.base.backoff import delay_s
from rdd.client import Unreachable
from rdd.controllers.containers.engine.actions import ItemInUse, MirrorRequests
from rdd.controllers.containers.engine.backend import Backend
from rdd.controllers.containers.engine.background_tasks import BackgroundTasks, first_of
from rdd.controllers.containers.engine.items import (
    CONTAINERS,
    IMAGES,
    NAMESPACES,
    EngineItem,
    Mirror,
    unknown_container,
)
from rdd.controllers.containers.engine.mirrors import Mirrors, NameCollision
from rdd.engine import EngineFailure, EngineProtocolError, EngineUnreachable
from rdd.runtime import Context

log = logging.getLogger("rdd.engine")


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """Intervals of resyncs and retries."""

    resync_s: float = 300.0
    batch: int = 20
    pause_s: float = 0.1
    """Between batches, so that events do not wait behind a resync."""
    retry_s: float = 1.0
    """The delay after the first failure of an item; it doubles with each further one."""
    longest_retry_s: float = 60.0


@dataclass(slots=True)
class _ItemFailure:
    message: str
    count: int = 0


class EngineSession:
    """The mirrors of one engine while it is connected."""

    def __init__(
        self,
        context: Context,
        mirrors: Mirrors,
        backend: Backend,
        *,
        namespace: str,
        changed: Callable[[], None],
        settings: SyncSettings,
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """`changed` is called when `is_synced`, `is_over` or `problem()` may have changed.

        `is_paused` returns whether the engine cannot answer because its machine is paused.
        """
        self.backend = backend
        self.namespace = namespace
        self.is_synced = False
        """Each item of the engine was mirrored at least once, or failed."""
        self.is_over = False
        self.failure = ""
        """Why the connection ended."""
        self._context = context
        self._mirrors = mirrors
        self._changed = changed
        self._settings = settings
        self._is_paused = is_paused
        self._requests = MirrorRequests(context, mirrors, backend)
        self._tasks = BackgroundTasks(self._task_done)
        self._failures: dict[EngineItem, _ItemFailure] = {}
        self._in_use: set[EngineItem] = set()
        self._delayed: dict[EngineItem, asyncio.TimerHandle] = {}
        self._pending: set[EngineItem] = set()
        self._none_pending = asyncio.Event()

    def problem(self) -> str:
        """Describe the items that could not be mirrored; empty if there are none."""
        if not self._failures:
            return ""
        item, failure = next(iter(self._failures.items()))
        count = len(self._failures)
        what = "1 object" if count == 1 else f"{count} objects"
        return f"{what} could not be mirrored, such as {item}: {failure.message}"

    # -- the connection

    async def run(self) -> None:
        """Follow the engine until the connection ends or the task is cancelled."""
        try:
            async with self.backend.changes() as changes:
                await first_of(self._follow(changes), self._keep_complete())
        except (EngineFailure, errors.ApiError, Unreachable, NameCollision) as error:
            self.failure = str(error)
            log.info("the connection to the %s engine ended: %s", self.backend.name, error)
        finally:
            self.is_over = True
            for timer in self._delayed.values():
                timer.cancel()
            await self._tasks.stop()
            await self.backend.close()
            self._changed()

    async def _follow(self, changes: AsyncIterator[EngineItem]) -> None:
        async for item in changes:
            self._context.enqueue(item)
        raise EngineUnreachable("the engine closed the stream of events")

    async def _keep_complete(self) -> None:
        await self._reconcile_all()
        self.is_synced = True
        self._changed()
        while True:
            await asyncio.sleep(self._settings.resync_s)
            if self._is_paused():
                continue
            await self._reconcile_all(self._settings.batch)

    async def _reconcile_all(self, batch: int = 0) -> None:
        """Enqueue every item, and return when all have been reconciled."""
        for name in await self.backend.namespaces():
            # The other items refer to it: if it fails, they are not tried.
            await self._mirror(EngineItem(NAMESPACES, "", name))
        items = set(await self.backend.everything())
        items |= self._mirrors.items(self.namespace)
        self._pending = set(items)
        self._none_pending.clear()
        for i, item in enumerate(items):
            if batch and i % batch == batch - 1:
                await asyncio.sleep(self._settings.pause_s)
            self._context.enqueue(item)
        if items:
            await self._none_pending.wait()

    # -- one item

    async def reconcile(self, item: EngineItem) -> float | None:
        """Mirror an item and start the requests on its mirrors.

        Returns the delay in seconds before the next attempt if the item failed.
        """
        retry_s: float | None = None
        try:
            self._start_requests(item)
            await self._mirror(item)
        except EngineUnreachable:
            pass  # the session is about to end; the next one reconciles everything
        except (EngineFailure, NameCollision, errors.ApiError) as error:
            retry_s = self._record_failure(item, str(error))
        else:
            self._record_success(item)
        self._pending.discard(item)
        if not self._pending:
            self._none_pending.set()
        return retry_s

    async def _mirror(self, item: EngineItem) -> None:
        try:
            found = await self.backend.describe(item)
        except EngineProtocolError:
            # The container exists; the rest of its last known status is still useful.
            if item.kind == CONTAINERS:
                present = self._mirrors.of(item, self.namespace)
                await self._apply(item, [unknown_container(item, present[0] if present else None)])
            raise
        for other in found.related:
            self._context.enqueue(other)
        await self._apply(item, found.mirrors)
        if item.kind == IMAGES:
            for other in self._mirrors.losing_tags(item, found.mirrors, self.namespace):
                self._context.enqueue(other)
        if not found.mirrors:
            for other in self._in_use - {item}:  # this item may have been the user
                self._context.enqueue(other)

    async def _apply(self, item: EngineItem, mirrors: Sequence[Mirror]) -> None:
        await self._mirrors.apply(
            item, mirrors, namespace=self.namespace, backend=self.backend.name
        )

    def _record_failure(self, item: EngineItem, message: str) -> float:
        failure = self._failures.get(item)
        if failure is None or failure.message != message:
            log.warning("%s is not mirrored: %s", item, message)
        if failure is None:
            failure = self._failures[item] = _ItemFailure(message)
            self._changed()
        delay = delay_s(
            failure.count,
            first_s=self._settings.retry_s,
            longest_s=self._settings.longest_retry_s,
        )
        failure.message = message
        failure.count += 1
        return delay

    def _record_success(self, item: EngineItem) -> None:
        if self._failures.pop(item, None) is not None:
            self._changed()

    # -- requests

    def _start_requests(self, item: EngineItem) -> None:
        # Any change may have freed the item, or may request the removal of another tag.
        self._in_use.discard(item)
        if item not in self._delayed and self._requests.is_needed(item, self.namespace):
            self._tasks.start(item, lambda: self._requests.execute(item, self.namespace))

    def _task_done(self, item: EngineItem, error: Exception | None, requested_again: bool) -> None:
        if error is None:
            self._context.enqueue(item)
            return
        if isinstance(error, ItemInUse):
            self._in_use.add(item)
            if requested_again:  # possibly a request that did not exist when the task started
                self._context.enqueue(item)
        elif not isinstance(error, EngineUnreachable) and not self.is_over:
            self._delayed[item] = asyncio.get_running_loop().call_later(
                self._settings.retry_s, self._retry, item
            )
        log.warning("%s: %s", item, error)

    def _retry(self, item: EngineItem) -> None:
        self._delayed.pop(item, None)
        self._context.enqueue(item)
