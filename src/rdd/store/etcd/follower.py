# SPDX-License-Identifier: Apache-2.0
"""Following a prefix: one watch that delivers every change in order, across reconnections.

The watch covers the objects and the records of the store, among them `meta/head`, which every
transaction writes. So every transaction of every server is seen as a change, even one that only
deletes, and the revision that was followed is comparable with that of `meta/head`.

A lost watch is resumed after the last revision, at the next endpoint. If the history in
between was compacted, `on_gap` reloads the state; nothing else can close such a gap.

Observers need no previous values, so this watch does not ask for them.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable

from rdd.base.backoff import Backoff
from rdd.grpc.errors import GrpcFailure
from rdd.store.contract import Unavailable
from rdd.store.etcd import requests
from rdd.store.etcd.client import EtcdClient
from rdd.store.etcd.requests import EtcdEvent
from rdd.store.etcd.watching import WatchCompacted, WatchEvents

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 2.0


class Follower:
    """Follows a range of keys from a revision on."""

    def __init__(
        self,
        client: EtcdClient,
        key: bytes,
        end: bytes,
        revision: int,
        *,
        on_events: Callable[[list[EtcdEvent]], None],
        on_gap: Callable[[], Awaitable[int]],
    ) -> None:
        self.revision = revision
        """Every change up to this revision was delivered."""
        self.problem = ""
        """Why the watch is lost; empty while it is open, and before the first one."""
        self._client = client
        self._key, self._end = key, end
        self._on_events = on_events
        self._on_gap = on_gap
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._sequence = 0
        self._task = asyncio.get_running_loop().create_task(self._run(), name="store-etcd-watch")

    async def reached(self, revision: int) -> None:
        """Return when everything up to a revision was delivered."""
        if revision <= self.revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heapq.heappush(self._waiters, (revision, self._sequence, future))
        await future

    async def close(self) -> None:
        """Stop following; those who wait get Unavailable."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for _, _, future in self._waiters:
            if not future.done():
                future.set_exception(Unavailable("the store is closed"))

    async def _run(self) -> None:
        backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while True:
            try:
                await self._watch(backoff)
                self.problem = "the watch has ended"
            except WatchCompacted as gap:
                self.problem = str(gap)
                log.warning("%s: reloading everything: %s", self._client.address, gap)
                try:
                    self._advance(await self._on_gap())
                    continue
                except (Unavailable, GrpcFailure) as error:
                    log.warning("%s cannot be read: %s", self._client.address, error)
            except (Unavailable, GrpcFailure) as error:
                self.problem = f"{self._client.address}: {error}"
                log.warning("the watch of %s was lost: %s", self._client.address, error)
            await asyncio.sleep(backoff.next_s())

    async def _watch(self, backoff: Backoff) -> None:
        request = requests.watch(self._key, self._end, self.revision + 1, has_previous=False)
        responses = WatchEvents()
        async with self._client.watch(request) as stream:
            async for message in stream:
                events = responses.take(message)
                backoff.reset()
                self.problem = ""
                if events:
                    self.revision = events[-1].value.modified
                    self._on_events(events)
                    self._advance(self.revision)

    def _advance(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        waiters = self._waiters
        while waiters and waiters[0][0] <= self.revision:
            future = heapq.heappop(waiters)[2]
            if not future.done():
                future.set_result(None)
