# SPDX-License-Identifier: Apache-2.0
"""Fan-out of committed changes to watchers.

Watchers of the same selection and representation (resource version, namespace,
selectors, format) share a `View`. When a batch has been committed, each view
encodes its lines once, and all of its watchers get the same bytes: a hundred
watchers cost one encoding and a hundred socket writes.

A connection buffers little (`MAX_BEHIND_BYTES`), because its buffer is a copy. A
watcher that is further behind lags: it queues references to batches, and its session writes
them as the client reads. Beyond `MAX_LAG_BYTES`, or if all watchers together
exceed their budget (`state/lag.py`), it is closed with 410 Expired, so that slow
clients cannot grow the daemon; the client lists again and starts a new watch.

States of a watcher: lagging (also while the initial events are written: batches are queued),
live (`is_live`: batches go to the socket), lost (`is_lost`: batches are dropped, the session
is about to end).

In-process watchers have views of their own (`EventView`), which pass the bytes of the cache on
by reference.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

from rdd.api import errors
from rdd.apiserver.http.request import ResponseWriter
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import codec
from rdd.apiserver.state.entries import DELETED, CacheEntry, ObjectChange
from rdd.apiserver.state.lag import Batch, LagBudget
from rdd.apiserver.state.selection import ObjectSelection

log = logging.getLogger("rdd.apiserver.verbs.watch")

MAX_BEHIND_BYTES = 128 * 1024
"""What a connection buffers; a writer whose buffer is larger makes its watcher lag."""
MAX_LAG_BYTES = 8 * 1024 * 1024
"""What one watcher may queue."""
PIECE_BYTES = 64 * 1024
"""Larger batches are written piece by piece, so that no connection buffers one as a whole."""
MAX_PENDING_BATCHES = 1000

Event = tuple[str, bytes, bytes]
"""Type, head and body: an event in-process."""
Render = Callable[[str, CacheEntry], Any]
"""Type of event and entry → one line of the stream; in-process, an Event."""


class EventWriter(Protocol):
    """The writer of a reader in this process."""

    def push_event(self, type_: str, head: bytes, body: bytes) -> bool:
        """Queue an event by reference; return False if the reader is too slow or has left."""
        ...


class Watcher:
    """One open watch."""

    __slots__ = (
        "_budget",
        "_last",
        "_offset",
        "_queue",
        "after",
        "is_live",
        "is_lost",
        "lag_bytes",
        "on_end",
        "on_lag",
        "sent",
        "was_withdrawn",
        "writer",
    )

    def __init__(
        self,
        writer: ResponseWriter,
        after: int,
        on_end: Callable[[], None],
        *,
        on_lag: Callable[[], None] = lambda: None,
        budget: LagBudget | None = None,
    ) -> None:
        self.writer = writer
        self.after = after
        """Changes up to this revision are not sent."""
        self.sent = after
        """The revision of the last change that was delivered."""
        self.is_live = False
        """Batches go to the connection directly."""
        self.is_lost = False
        """The watcher fell behind; further batches are dropped."""
        self.was_withdrawn = False
        """The resource is no longer served; the stream ends without an error."""
        self.on_end = on_end
        self.on_lag = on_lag
        """Called when a live watcher begins to lag: its session has to `catch_up`."""
        self._offset = 0
        """How much of the first queued batch the client has received."""
        self._last: Batch | None = None
        """The batch in which a lost watcher was, and which `finish` completes."""
        self.lag_bytes = 0
        self._queue: deque[Batch] = deque()
        self._budget = budget or LagBudget()

    def deliver(self, batch: Batch) -> None:
        """Send or queue a batch."""
        self.sent = batch.revision
        if self.is_lost:
            return
        if self.is_live:
            self.is_live = self._push(batch)
            if not self.is_live:
                self.on_lag()
            if self._offset == batch.size:
                self._offset = 0
                return
        elif self.lag_bytes > MAX_LAG_BYTES:
            # Before this batch: a single one, however large, is no reason to lose a client.
            self.lose()
            return
        self._queue.append(batch)
        self.lag_bytes += batch.size
        self._budget.hold(self, batch)

    async def catch_up(self) -> bool:
        """Write what is queued until nothing is left; return whether the watcher is live."""
        while not self.is_lost:
            await self.writer.write(b"")
            if self.is_lost:
                break
            if not self._queue:
                self.is_live = True
                self._budget.caught_up(self)
                return True
            batch = self._queue[0]
            await self._write(batch)
            if self._queue and self._queue[0] is batch:  # not lost meanwhile
                self._queue.popleft()
                self._offset = 0
                self.lag_bytes -= batch.size
                self._budget.release(batch)
        if self._last is not None:
            await self._write(self._last)
        return False

    def lose(self) -> None:
        """Drop the queue and end the watch: the client is too far behind."""
        if not self.is_lost:
            self.is_lost = True
            if self._offset and self._budget.keep_last(self._queue[0]):
                self._last = self._queue[0]
            self.drop()
            self.on_end()

    @property
    def completes_a_line(self) -> bool:
        """Whether it is lost, but `catch_up` still writes the rest of a line."""
        return self._last is not None

    async def finish(self, catching_up: Awaitable[object]) -> bool:
        """Wait for the rest of a line that was begun; return whether the client has whole lines.

        `catching_up` is the call of `catch_up` that was under way. It is not cancelled: a
        connection whose write was cancelled cannot be written to any more.
        """
        if self._last is None:
            return not self._offset
        try:
            await catching_up
        finally:
            self._budget.drop_last(self._last)
            self._last = None
        return True

    def drop(self) -> None:
        """Drop the queue."""
        self.is_live = False
        for batch in self._queue:
            self._budget.release(batch)
        self._queue.clear()
        self.lag_bytes = 0
        self._budget.caught_up(self)

    def _push(self, batch: Batch) -> bool:
        """Send as much as there is room for; return whether there still is some.

        `_offset` is then how much of the batch was sent.
        """
        if batch.size <= PIECE_BYTES:
            self._offset = batch.size
            return self.writer.push(batch.data)
        has_room = True
        while has_room and self._offset < batch.size:
            piece = batch.data[self._offset : self._offset + PIECE_BYTES]
            has_room = self.writer.push(piece)
            self._offset += len(piece)
        return has_room

    async def _write(self, batch: Batch) -> None:
        while self._offset < batch.size:
            piece = batch.data[self._offset : self._offset + PIECE_BYTES]
            self._offset += len(piece)
            await self.writer.write(piece)


class EventWatcher(Watcher):
    """A watch of a reader in this process."""

    __slots__ = ()

    def _push(self, batch: Batch) -> bool:
        push = cast(EventWriter, self.writer).push_event
        has_room = True
        for event in batch.data:
            has_room = push(*event) and has_room
        self._offset = batch.size
        return has_room

    async def _write(self, batch: Batch) -> None:
        self._push(batch)


class View:
    """The watchers that receive the same lines."""

    __slots__ = ("_budget", "render", "selection", "watchers")

    def __init__(self, selection: ObjectSelection, render: Render, budget: LagBudget) -> None:
        self.selection = selection
        self.render = render
        self.watchers: list[Watcher] = []
        self._budget = budget

    def batch(self, changes: Sequence[ObjectChange], revision: int = 0) -> Batch:
        """Return the lines of some changes, joined; empty if none is in the selection."""
        data = b"".join(self.items(changes))
        return Batch(data, len(data), revision)

    def items(self, changes: Sequence[ObjectChange]) -> list[Any]:
        """Return the lines or events of the changes that concern the selection."""
        items = (self._item(c) for c in changes)
        return [item for item in items if item]

    def _item(self, change: ObjectChange) -> Any:
        type_ = self.selection.event_type(change)
        if type_ is None:
            return None
        entry = change.entry
        if type_ == DELETED and change.type != DELETED:
            # The object left the selection: the last matching state, at the revision of the change.
            assert change.old is not None
            body = codec.with_revision(codec.without_revision(change.old.body), entry.revision)
            entry = CacheEntry(entry.namespace, entry.name, entry.revision, body)
        return self.render(type_, entry)

    def deliver(self, changes: Sequence[ObjectChange]) -> None:
        """Send a committed batch to all watchers."""
        revision = changes[-1].entry.revision
        batch = self.batch(changes, revision)
        if not batch.size:
            return
        for watcher in list(self.watchers):
            if watcher.after < changes[0].entry.revision:
                watcher.deliver(batch)
            elif watcher.after < revision:
                later = [c for c in changes if c.entry.revision > watcher.after]
                rest = self.batch(later, revision)
                if rest.size:
                    watcher.deliver(rest)
        self._budget.enforce()


class EventView(View):
    """The watchers of this process that receive the same events."""

    __slots__ = ()

    def batch(self, changes: Sequence[ObjectChange], revision: int = 0) -> Batch:
        """Return the events of some changes."""
        events: list[Event] = self.items(changes)
        return Batch(events, sum(len(body) for _, _, body in events), revision)


class Watchers:
    """All views of one resource version."""

    def __init__(self, resource: Resource, budget: LagBudget | None = None) -> None:
        self.resource = resource
        self.budget = budget or LagBudget()
        self.views: dict[object, View] = {}
        self._queue: asyncio.Queue[Sequence[ObjectChange]] | None = None
        self._task: asyncio.Task[None] | None = None
        resource.cache.listeners.append(self._changed)

    def _changed(self, changes: Sequence[ObjectChange]) -> None:
        if self.resource.converter is not None and self.views:
            self._convert_later(changes)
            return
        for view in list(self.views.values()):
            view.deliver(changes)

    def _convert_later(self, changes: Sequence[ObjectChange]) -> None:
        """Queue changes that a webhook has to convert; one task processes them in order."""
        if self._queue is None:
            self._queue = asyncio.Queue(MAX_PENDING_BATCHES)
            self._task = asyncio.get_running_loop().create_task(
                self._convert(self._queue), name=f"rdd-convert-{self.resource.plural}"
            )
        try:
            self._queue.put_nowait(changes)
        except asyncio.QueueFull:
            self._end_all()

    async def _convert(self, queue: "asyncio.Queue[Sequence[ObjectChange]]") -> None:
        while True:
            changes = await queue.get()
            converter = self.resource.converter
            assert converter is not None
            try:
                done = await converter.convert_changes(changes, self.resource.api_version)
            except errors.ApiError as error:
                # The watchers would miss changes; their clients list again and get the same error.
                log.warning("watches of %s end: %s", self.resource.plural, error.message)
                self._end_all()
                continue
            for view in list(self.views.values()):
                view.deliver(done)

    def _end_all(self, *, withdrawn: bool = False) -> None:
        for view in list(self.views.values()):
            for watcher in list(view.watchers):
                watcher.was_withdrawn = withdrawn
                watcher.on_end()

    def join(
        self, key: object, selection: ObjectSelection, render: Render, watcher: Watcher
    ) -> View:
        """Add a watcher to the view of a key; create the view if needed."""
        view = self.views.get(key)
        if view is None:
            form = EventView if isinstance(watcher, EventWatcher) else View
            view = self.views[key] = form(selection, render, self.budget)
        view.watchers.append(watcher)
        return view

    def leave(self, key: object, watcher: Watcher) -> None:
        """Remove a watcher; a view without watchers is dropped."""
        watcher.drop()
        view = self.views.get(key)
        if view is not None and watcher in view.watchers:
            view.watchers.remove(watcher)
            if not view.watchers:
                del self.views[key]

    def close(self) -> None:
        """End all watches because the resource is no longer served."""
        self.resource.cache.listeners.remove(self._changed)
        if self._task is not None:
            self._task.cancel()
        self._end_all(withdrawn=True)


def line(type_: str, body: bytes) -> bytes:
    """Return one line of a watch stream."""
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)


def error_line(error: errors.ApiError) -> bytes:
    """Return the ERROR line that ends a watch."""
    return line("ERROR", codec.dumps(error.to_status())[:-1])
