# SPDX-License-Identifier: Apache-2.0
"""Fan-out of committed batches to observers and watches.

The feed keeps a small ring of recent events. A watch starts in one of two
states: if the ring still has everything after its revision, it is live at
once; otherwise it reads history in chunks, at the pace of its consumer, until
it has come so far that the ring covers the rest. The step from history to live
happens on the event loop without suspension, so nothing is lost or repeated.

A live watch owns a bounded queue. One that falls behind is closed with
Overrun, because buffering for it would let one slow client grow the daemon.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from rdd.store.contract import Event, Overrun, StoreError, Watch
from rdd.store.options import StoreOptions

log = logging.getLogger(__name__)

History = Callable[[str, int], Awaitable[tuple[Sequence[Event], int]]]
"""`history(prefix, after)`: some events after a revision, and the revision up to which
they are complete. Never splits a revision; raises Compacted when continuity is lost."""


class Feed:
    """Recent events, observers and watches of one store."""

    def __init__(self, revision: int, history: History, *, options: StoreOptions) -> None:
        self._options = options
        self._history = history
        self._ring: deque[tuple[Sequence[Event], int]] = deque()  # batch, bytes
        self._ring_events = 0
        self._ring_bytes = 0
        self._ring_after = revision  # the ring has every event with a greater revision
        self._observers: list[Callable[[Sequence[Event]], None]] = []
        self._watches: set[FeedWatch] = set()
        self._closed = False

    def publish(self, events: Sequence[Event]) -> None:
        """Remember a batch and give it to everybody."""
        size = 0
        for event in events:
            size += len(event.value) + len(event.previous or b"")
        self._ring.append((events, size))
        self._ring_events += len(events)
        self._ring_bytes += size
        options = self._options
        while self._ring_events > options.ring_events or self._ring_bytes > options.ring_bytes:
            old, old_size = self._ring.popleft()
            self._ring_events -= len(old)
            self._ring_bytes -= old_size
            self._ring_after = old[-1].revision
        for observer in tuple(self._observers):
            try:
                observer(events)
            except Exception:  # one broken observer must not stop the others or the commit
                log.exception("an observer of the store failed at revision %d", events[-1].revision)
        for watch in tuple(self._watches):
            watch.offer(events)

    def observe(self, callback: Callable[[Sequence[Event]], None]) -> Callable[[], None]:
        """Call back with every batch from now on; returns the function that ends it."""
        self._observers.append(callback)

        def stop() -> None:
            if callback in self._observers:
                self._observers.remove(callback)

        return stop

    def watch(self, prefix: str, after: int) -> Watch:
        """A watch of everything after a revision that is retained and not in the future."""
        watch = FeedWatch(self, prefix, after, self._options)
        self.join(watch, after)
        return watch

    def join(self, watch: "FeedWatch", after: int) -> bool:
        """Make the watch live if the ring reaches back to `after`."""
        if after < self._ring_after:
            return False
        self._watches.add(watch)
        watch.is_live = True
        for events, _ in self._ring:
            if events[-1].revision > after:
                watch.offer([event for event in events if event.revision > after])
        return True

    def leave(self, watch: "FeedWatch") -> None:
        """Forget a watch."""
        self._watches.discard(watch)

    def history(self, prefix: str, after: int) -> Awaitable[tuple[Sequence[Event], int]]:
        """Read a chunk of history."""
        return self._history(prefix, after)

    def close(self) -> None:
        """End all watches."""
        self._closed = True
        for watch in tuple(self._watches):
            watch.close()

    @property
    def is_closed(self) -> bool:
        """Whether the store has been closed."""
        return self._closed


class FeedWatch:
    """One watch; iterate over it once."""

    def __init__(self, feed: Feed, prefix: str, after: int, options: StoreOptions) -> None:
        self.is_live = False
        self._feed = feed
        self._prefix = prefix
        self._after = after
        self._options = options
        self._queue: deque[Sequence[Event]] = deque()
        self._queued_events = 0
        self._queued_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: StoreError | None = None
        self._closed = False

    def __aiter__(self) -> "FeedWatch":
        return self

    async def __anext__(self) -> Sequence[Event]:
        while not self._closed:
            if self._queue:
                return self._take()
            if self.is_live:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            elif self._feed.is_closed:
                self.close()
            else:
                events, self._after = await self._feed.history(self._prefix, self._after)
                self._feed.join(self, self._after)
                if events:
                    return events
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    def offer(self, events: Sequence[Event]) -> None:
        """Queue what concerns this watch, or close it when it is too far behind."""
        prefix = self._prefix
        if prefix:
            events = [event for event in events if event.key.startswith(prefix)]
            if not events:
                return
        self._queue.append(events)
        self._queued_events += len(events)
        self._queued_bytes += sum(len(event.value) for event in events)
        options = self._options
        if (
            self._queued_events > options.watch_events or self._queued_bytes > options.watch_bytes
        ) and len(self._queue) > 1:  # a single batch is always deliverable
            self._error = Overrun(
                f"a watch of {prefix or 'everything'} fell {self._queued_events} events behind"
            )
            self._queue.clear()
            self.close()
        self._wake()

    def close(self) -> None:
        """Stop; the iterator ends."""
        self._closed = True
        self._feed.leave(self)
        self._wake()

    def _take(self) -> Sequence[Event]:
        events = self._queue.popleft()
        self._queued_events -= len(events)
        self._queued_bytes -= sum(len(event.value) for event in events)
        return events

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
