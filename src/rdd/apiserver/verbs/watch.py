# SPDX-License-Identifier: Apache-2.0
"""GET with watch=true: a stream of changes.

The resourceVersion selects the start of a stream: none or "0" starts with the
current objects as ADDED events; a number starts after that revision, from the
cache's ring if it reaches back that far, otherwise from the store's history.
The watcher is registered before the first byte is written and queues live
changes until then. Invariant: no change is lost and none is sent twice.
"""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, cast

import orjson

from rdd.api import errors, mediatypes, names
from rdd.api.types import Object
from rdd.apiserver.components import Core
from rdd.apiserver.http import negotiation, options, responses, tables
from rdd.apiserver.http.negotiation import ResponseFormat
from rdd.apiserver.http.options import ListOptions
from rdd.apiserver.http.request import AnyResponse, Request, ResponseWriter, Stream
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import codec, listing, watchers
from rdd.apiserver.state.entries import ADDED, CacheEntry, ObjectChange
from rdd.apiserver.state.revisions import parse_version
from rdd.apiserver.state.selection import ObjectSelection
from rdd.apiserver.state.watchers import EventWatcher, Render, View, Watcher
from rdd.store.contract import Compacted, EventType, StoreEvent, StoreUnreachable

MIN_TIMEOUT_S = 1800
BOOKMARK_EVERY_S = 60.0
LAST_BOOKMARK_S = 2.0
"""The last bookmark precedes the end by this time, so that the client resumes close to it."""
MAX_WATCHERS = 2000
_CHUNK_BYTES = 256 * 1024
_PAUSE_AFTER = 1000
"""Objects that are rendered or skipped without a pause."""


async def watch(core: Core, request: Request, resource: Resource) -> AnyResponse:
    """Stream the changes of a selection."""
    fmt = negotiation.negotiate(request, has_protobuf=resource.has_protobuf)
    opts = options.list_options(request, is_watch=True)
    chosen = listing.selection(request, resource, opts)
    version = opts.resource_version
    after = parse_version(version) if version else 0
    if fmt.media == mediatypes.YAML:
        raise errors.NotAcceptable(
            "only the following media types are accepted: application/json;stream=watch, "
            "application/vnd.kubernetes.protobuf;stream=watch"
        )
    if core.watch_count >= MAX_WATCHERS:
        raise errors.TooManyRequests(
            "too many watches are open, please try again later", retry_after_s=5
        )
    session = _Session(core, request, resource, opts, chosen, fmt, after)
    if fmt.media == mediatypes.PROTOBUF:
        return Stream(session.run, content_type=f"{mediatypes.PROTOBUF};stream=watch")
    return Stream(session.run)


class _Session:
    """One watch."""

    def __init__(
        self,
        core: Core,
        request: Request,
        resource: Resource,
        opts: ListOptions,
        chosen: ObjectSelection,
        fmt: ResponseFormat,
        after: int,
    ) -> None:
        self.core = core
        self.resource = resource
        self.opts = opts
        self.chosen = chosen
        self.fmt = fmt
        self.after = after
        self.ended = asyncio.Event()
        self.lags = asyncio.Event()
        self.is_local = False
        include = request.first("includeObject") or "Metadata"
        self.render = _renderer(core, resource, fmt, include)
        # A table watcher has its own view: only its first event has column definitions.
        self.key: object = (
            object()
            if fmt.transform == "Table"
            else (
                chosen.namespace,
                opts.label_selector,
                opts.field_selector,
                chosen.name,
                fmt.transform,
                fmt.version,
                fmt.media,
            )
        )

    async def run(self, writer: ResponseWriter) -> None:
        """Write the stream until the client disconnects, a timeout expires or changes are lost."""
        core = self.core
        hub = core.watchers_of(self.resource)
        starts_with_state = self._starts_with_state()
        revision = core.cache.revision
        begin = self.after if self.after and not starts_with_state else revision
        form = Watcher
        if hasattr(writer, "push_event") and not self.fmt.transform:
            # A reader in this process: events by reference, and no bookmark to resume from.
            form = EventWatcher
            self.render = _event_renderer(self.resource)
            self.key = ("in-process", self.key)
            self.is_local = True
        # The changes between `begin` and now are written first, from memory or the store.
        watcher = form(
            writer,
            max(begin, revision),
            self.ended.set,
            on_lag=self.lags.set,
            budget=core.lag,
        )
        view = hub.join(self.key, self.chosen, self.render, watcher)
        core.watch_count += 1
        try:
            if starts_with_state:
                await self._write_state(watcher)
            elif begin < revision:
                await self._write_history(watcher, view, begin, revision)
            if starts_with_state and self.opts.allow_bookmarks:
                await writer.write(self._bookmark(revision, initial_end=True))
            catching_up = asyncio.ensure_future(self._catch_up(watcher))
            await self._until_end(writer, watcher, catching_up)
        except StoreUnreachable:
            return  # the stream ends as it does at a timeout; the client resumes
        except Compacted:
            await writer.write(self._error(self._expired()))
            return
        finally:
            core.watch_count -= 1
            hub.leave(self.key, watcher)
        is_behind = self.ended.is_set() and not watcher.was_withdrawn
        if is_behind and await watcher.finish(catching_up):
            writer.push(self._error(self._behind()))

    def _starts_with_state(self) -> bool:
        if self.opts.send_initial_events is not None:
            return self.opts.send_initial_events
        return self.after == 0

    async def _write_state(self, watcher: Watcher) -> None:
        cache = self.resource.cache
        if self.chosen.name and self.chosen.namespace is not None:
            one = cache.get(self.chosen.namespace, self.chosen.name)
            entries: Iterable[CacheEntry] = [one] if one is not None else []
        elif self.chosen.name:
            entries = cache.named(self.chosen.name)
        else:
            entries = cache.entries(self.chosen.namespace)
        if self.resource.converter is not None:
            entries = await self.resource.convert_entries(list(entries))
        matches, render = self.chosen.matches, self.render
        items = (render(ADDED, e) if matches(e) else None for e in entries)
        await (_push_events if self.is_local else _write_lines)(watcher.writer, items)

    async def _write_history(self, watcher: Watcher, view: View, after: int, until: int) -> None:
        write = _push_events if self.is_local else _write_lines
        recent = self.resource.cache.changes_after(after)
        if recent is not None:
            recent = await self._converted(recent)
            await write(watcher.writer, view.items(recent))
            return
        cache = self.resource.cache
        # The revision of the cache counts this resource only and may be older than `until`.
        last = cache.revision
        while after < last and not self.ended.is_set():
            chunk = await self.core.store.history(cache.prefix, after)
            after = chunk.revision
            found = [_from_event(self.resource, e) for e in chunk.events if e.revision <= until]
            changes = [change for change in found if change is not None]
            changes = await self._converted(changes)
            await write(watcher.writer, view.items(changes))

    async def _converted(self, changes: list[ObjectChange]) -> list[ObjectChange]:
        converter = self.resource.converter
        if converter is None:
            return changes
        return await converter.convert_changes(changes, self.resource.api_version)

    async def _until_end(
        self, writer: ResponseWriter, watcher: Watcher, catching_up: "asyncio.Future[None]"
    ) -> None:
        timeout = self.opts.timeout_s or MIN_TIMEOUT_S * (1 + random.random())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        has_bookmarks = self.opts.allow_bookmarks and not self.is_local
        bookmarks = deadline - LAST_BOOKMARK_S if has_bookmarks else 0.0
        """The time of the last bookmark."""
        closed = asyncio.ensure_future(writer.closed())
        ended = asyncio.ensure_future(self.ended.wait())
        waiting: set[asyncio.Future[Any]] = {closed, ended, catching_up}
        try:
            while True:
                now = loop.time()
                wait = deadline - now
                if now < bookmarks:
                    wait = min(bookmarks - now, BOOKMARK_EVERY_S)
                done, _ = await asyncio.wait(
                    waiting, timeout=max(0.0, wait), return_when=asyncio.FIRST_COMPLETED
                )
                if closed in done:
                    return
                if ended in done:
                    return
                if catching_up in done:
                    catching_up.result()  # raises if the connection is lost
                if loop.time() >= deadline:
                    return
                if not watcher.is_live:
                    continue  # a client that does not read gets no bookmark
                if not writer.push(self._bookmark(self._reached(watcher))):
                    return
        finally:
            closed.cancel()
            ended.cancel()
            if not watcher.completes_a_line:
                catching_up.cancel()
                await asyncio.gather(catching_up, return_exceptions=True)

    async def _catch_up(self, watcher: Watcher) -> None:
        """Write the queue of the watcher whenever it lags."""
        while await watcher.catch_up():
            await self.lags.wait()
            self.lags.clear()

    def _reached(self, watcher: Watcher) -> int:
        """Return the revision up to which the watcher has received everything."""
        if self.resource.converter is not None:
            return watcher.sent  # the conversion of later changes may be pending
        return self.core.cache.revision

    def _bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        meta: dict[str, object] = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {names.INITIAL_EVENTS_END: "true"}
        if self.fmt.transform == "Table":
            obj = tables.bookmark(self.resource, meta, version=self.fmt.version)
        elif self.fmt.transform:
            obj = responses.partial({"metadata": meta}, self.fmt.version)
        else:
            obj = self.resource.strategy.bookmark(
                {
                    "kind": self.resource.kind,
                    "apiVersion": self.resource.api_version,
                    "metadata": meta,
                }
            )
        if self.fmt.media == mediatypes.PROTOBUF:
            return protobuf_frame("BOOKMARK", obj)
        return watchers.line("BOOKMARK", orjson.dumps(obj))

    def _error(self, failure: errors.ApiError) -> bytes:
        if self.fmt.media == mediatypes.PROTOBUF:
            return protobuf_frame("ERROR", failure.to_status())
        return watchers.error_line(failure)

    def _expired(self) -> errors.Expired:
        oldest = self.core.store.compacted
        return errors.Expired(f"too old resource version: {self.after} ({oldest})")

    def _behind(self) -> errors.Expired:
        return errors.Expired(
            "The watch fell too far behind and was closed; list again and watch from there."
        )


def _from_event(resource: Resource, event: StoreEvent) -> ObjectChange | None:
    """Return the change of an object; None if neither value is one (`codec.is_object`)."""
    cache = resource.cache
    namespace, name = cache.split(event.key)
    old = None
    if event.previous is not None and codec.is_object(name, event.previous):
        old = cache.entry(namespace, name, event.previous_revision, event.previous)
    if event.type is EventType.DELETE or not codec.is_object(name, event.value):
        if old is None:
            return None
        assert event.previous is not None
        deleted = cache.entry(namespace, name, event.revision, event.previous)
        return ObjectChange("DELETED", deleted, old)
    entry = cache.entry(namespace, name, event.revision, event.value)
    return ObjectChange("MODIFIED" if old is not None else ADDED, entry, old)


async def _write_lines(writer: ResponseWriter, lines: Iterable[bytes | None]) -> None:
    """Write many lines in chunks; None is an object that is not selected."""
    held: list[bytes] = []
    size = 0
    for number, text in enumerate(lines, 1):
        if text:
            held.append(text)
            size += len(text)
        if size >= _CHUNK_BYTES:
            await writer.write(b"".join(held))
            held, size = [], 0
            await asyncio.sleep(0)
        elif number % _PAUSE_AFTER == 0:
            await asyncio.sleep(0)
    if size:
        await writer.write(b"".join(held))


async def _push_events(writer: ResponseWriter, events: Iterable[watchers.Event | None]) -> None:
    """Pass many events to a reader in this process."""
    push = cast(watchers.EventWriter, writer).push_event
    for number, event in enumerate(events, 1):
        if event is not None and not push(*event):
            await writer.write(b"")
        if number % _PAUSE_AFTER == 0:
            await writer.write(b"")
            await asyncio.sleep(0)


def _event_renderer(resource: Resource) -> Render:
    """Return the function that makes an event for a reader in this process."""
    parts = resource.parts
    return lambda type_, e: (type_, *parts(e))


def protobuf_frame(type_: str, obj: Object) -> bytes:
    """Return a watch event in protobuf."""
    from rdd.schema.wire import protobuf_encoding

    return protobuf_encoding.watch_frame(type_, obj)


def _renderer(core: Core, resource: Resource, fmt: ResponseFormat, include: str) -> Render:
    """Return the function that encodes an event of this watch."""
    if fmt.media == mediatypes.PROTOBUF:
        if fmt.transform:
            return lambda type_, e: protobuf_frame(
                type_, responses.partial(resource.object(e), fmt.version)
            )
        return lambda type_, e: protobuf_frame(type_, resource.object(e))
    if not fmt.transform:
        if resource.from_storage is None:
            head = resource.head
            return lambda type_, e: (
                b'{"type":"%b","object":%b%b}\n'
                % (
                    type_.encode(),
                    head,
                    e.body,
                )
            )
        return lambda type_, e: watchers.line(type_, resource.full(e))
    if fmt.transform == "Table":
        first = [True]

        def table_line(type_: str, e: CacheEntry) -> bytes:
            table = tables.table(
                resource,
                [resource.object(e)],
                now=core.clock(),
                include_object=include,
                version=fmt.version,
                revision=str(e.revision),
            )
            if first[0]:
                first[0] = False
            else:
                table["columnDefinitions"] = None
            return watchers.line(type_, orjson.dumps(table))

        return table_line
    return lambda type_, e: watchers.line(
        type_, codec.dumps(responses.partial(resource.object(e), fmt.version))[:-1]
    )
