# SPDX-License-Identifier: Apache-2.0
"""Fan-out of committed changes to watchers.

Watchers of the same selection and representation (resource version, namespace,
selectors, format) share a `View`. When a batch has been committed, each view
encodes its lines once, and all of its watchers get the same bytes: a hundred
watchers cost one encoding and a hundred socket writes.

The send buffer of a watcher's socket is its queue. A watcher that falls behind
by more than `MAX_BEHIND_BYTES` is closed with 410 Expired, so that a slow
client cannot grow the daemon; the client lists again and starts a new watch.

States of a watcher: starting (`backlog` is a list: lines are queued while the
initial events are written), live (`backlog` is None: lines go to the socket),
lost (`is_lost`: lines are dropped, the session is about to end).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from rdd.api import errors
from rdd.api.fieldselectors import FieldSelector
from rdd.api.selectors import LabelSelector
from rdd.apiserver.http.request import ResponseWriter
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import codec
from rdd.apiserver.state.cache import ADDED, DELETED, MODIFIED, CacheEntry, ObjectChange

log = logging.getLogger("rdd.apiserver.verbs.watch")

MAX_BEHIND_BYTES = 8 * 1024 * 1024
MAX_PENDING_BATCHES = 1000

Render = Callable[[str, CacheEntry], bytes]
"""Type of event and entry → one line of the stream."""


class ObjectSelection:
    """The selection of a list or watch: a part of a resource."""

    __slots__ = ("_extract", "_owner", "fields", "labels", "name", "namespace")

    def __init__(
        self,
        namespace: str | None,
        labels: LabelSelector | None,
        fields: FieldSelector | None,
        *,
        name: str = "",
        resource: Resource,
    ) -> None:
        self.namespace = namespace
        """None: all namespaces."""
        self.labels = labels
        self.fields = fields
        self.name = name
        """The name that the field selector requires, so that a lookup replaces a scan."""
        namespaced, from_storage = resource.namespaced, resource.from_storage

        def extract(obj: dict[str, object]) -> dict[str, str]:
            if from_storage is not None:
                obj = from_storage(obj)
            meta = obj["metadata"]
            assert isinstance(meta, dict)
            found = {"metadata.name": meta["name"]}
            if namespaced:
                found["metadata.namespace"] = meta["namespace"]
            found.update(resource.strategy.selectable_fields(obj))
            return found

        self._extract = extract
        self._owner = resource.strategy

    @property
    def selects_all(self) -> bool:
        """Whether every object of the namespace matches."""
        return self.labels is None and self.fields is None and not self.name

    def matches(self, entry: CacheEntry) -> bool:
        """Return whether an object belongs to the selection."""
        if self.namespace is not None and entry.namespace != self.namespace:
            return False
        if self.name and entry.name != self.name:
            return False
        if self.labels is not None and not self.labels.matches(entry.labels):
            return False
        return self.fields is None or self.fields.matches(entry.fields(self._owner, self._extract))

    def event_type(self, change: ObjectChange) -> str | None:
        """Return the event type of a change for this selection: an object may enter or leave it."""
        if self.namespace is not None and change.entry.namespace != self.namespace:
            return None
        if self.selects_all:
            return change.type
        # A deleted entry has the last state, so its labels are the old ones.
        now = change.type != DELETED and self.matches(change.entry)
        before = change.old is not None and self.matches(change.old)
        if now:
            return MODIFIED if before else ADDED
        return DELETED if before else None


class Watcher:
    """One open watch."""

    __slots__ = (
        "after",
        "backlog",
        "backlog_bytes",
        "is_lost",
        "on_end",
        "sent",
        "was_withdrawn",
        "writer",
    )

    def __init__(self, writer: ResponseWriter, after: int, on_end: Callable[[], None]) -> None:
        self.writer = writer
        self.after = after
        """Changes up to this revision are not sent."""
        self.sent = after
        """The revision of the last change that was delivered."""
        self.backlog: list[bytes] | None = []
        """Lines queued until the initial events have been written; None: live."""
        self.backlog_bytes = 0
        self.is_lost = False
        """The watcher fell behind; further lines are dropped."""
        self.was_withdrawn = False
        """The resource is no longer served; the stream ends without an error."""
        self.on_end = on_end

    def deliver(self, data: bytes, revision: int) -> None:
        """Send or queue the lines of a batch."""
        self.sent = revision
        if self.is_lost:
            return
        if self.backlog is not None:
            self.backlog.append(data)
            self.backlog_bytes += len(data)
            if self.backlog_bytes > MAX_BEHIND_BYTES:
                self.is_lost = True
                self.backlog.clear()
                self.on_end()
        elif not self.writer.push(data):
            self.is_lost = True  # the session ends on its next iteration
            self.on_end()


class View:
    """The watchers that receive the same lines."""

    __slots__ = ("render", "selection", "watchers")

    def __init__(self, selection: ObjectSelection, render: Render) -> None:
        self.selection = selection
        self.render = render
        self.watchers: list[Watcher] = []

    def lines(self, changes: Sequence[ObjectChange]) -> bytes:
        """Return the lines of some changes, joined; empty if none is in the selection."""
        return b"".join(self._line(c) for c in changes)

    def _line(self, change: ObjectChange) -> bytes:
        type_ = self.selection.event_type(change)
        if type_ is None:
            return b""
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
        data = self.lines(changes)
        if not data:
            return
        for watcher in list(self.watchers):
            if watcher.after < changes[0].entry.revision:
                watcher.deliver(data, revision)
            elif watcher.after < revision:
                rest = self.lines([c for c in changes if c.entry.revision > watcher.after])
                if rest:
                    watcher.deliver(rest, revision)


class Watchers:
    """All views of one resource version."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
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
            view = self.views[key] = View(selection, render)
        view.watchers.append(watcher)
        return view

    def leave(self, key: object, watcher: Watcher) -> None:
        """Remove a watcher; a view without watchers is dropped."""
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
