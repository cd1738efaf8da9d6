# SPDX-License-Identifier: Apache-2.0
"""What the reconcilers of Checkouts and URLMonitors share.

Each object has at most one task, which fetches and writes the outcome, and a backoff for its
failures. A file of the cache that it uses directly is pinned under the name of the instance and
the uid of the object; the finalizer removes the pin.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from rdd.base.backoff import Backoff
from rdd.controllers.object_tasks import ObjectTasks
from rdd.controllers.resources.app_network import network_of_app
from rdd.fetch.cache import Cache
from rdd.fetch.network import Network
from rdd.fetch.sources import EVERYTHING, Sources
from rdd.kinds.kind import Kind
from rdd.runtime import CLEANUP, Context, ObjectKey, StatusWriter, remove_finalizer

K = TypeVar("K", bound=Kind)
T = TypeVar("T")


class Fetcher(Generic[K, T]):
    """The base of a reconciler that fetches for the objects of a kind."""

    KIND: type[K]
    CONCURRENT: int
    """How many fetches run at once."""
    RETRY_S: tuple[float, float]
    """The first and the longest pause after a failure."""

    def __init__(
        self,
        context: Context,
        cache: Cache,
        owner: str,
        sources: Callable[[], Sources] = lambda: EVERYTHING,
    ) -> None:
        """`owner` is the name of the instance, `sources` returns what may be fetched now."""
        self._context = context
        self._cache = cache
        self._owner = owner
        self._sources = sources
        self._objects = context.cache.of(self.KIND)
        self._status = StatusWriter(context, self.KIND)
        self._tasks: ObjectTasks[T] = ObjectTasks(context, self.KIND.kind.lower())
        self._places = asyncio.Semaphore(self.CONCURRENT)
        self._backoffs: dict[ObjectKey, Backoff] = {}

    async def run(self) -> None:
        """Wait until the controller stops, then cancel the tasks; fetches resume later."""
        await self._tasks.run()

    async def _end(self, key: ObjectKey, found: K | None) -> None:
        """Cancel the task of an object that is gone or being deleted, and release its file."""
        self._backoffs.pop(key, None)
        await self._tasks.cancel(key)
        if found is not None:
            # Whatever the status has: a cancelled task may have pinned without writing it.
            await asyncio.to_thread(self._cache.unpin_all, self._pin(found))
            await remove_finalizer(self._context.client, self.KIND, found.raw, CLEANUP)

    def _backoff_s(self, key: ObjectKey) -> float:
        """Return the pause after one more failure."""
        return self._backoffs.setdefault(key, Backoff(*self.RETRY_S)).next_s()

    def _pin(self, found: K) -> str:
        return f"{self._owner}-{found.metadata.uid}"

    async def _network(self) -> Network:
        return await network_of_app(self._context.client, self._sources())
