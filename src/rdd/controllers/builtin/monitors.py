# SPDX-License-Identifier: Apache-2.0
"""Watch every resource of a server, including those that are added later.

Discovery returns the resources; a watch of the CRDs triggers the next discovery. Each resource
has a task that lists and watches it. `is_complete` is true when all tasks have synced: an
object that is not cached then does not exist. Kubernetes polls discovery every 30 seconds
instead; here only a changed definition triggers it.

A definition may be deleted before discovery has shown its kind, so that no watch reports the end
of its objects. `deleted_kinds` has such kinds: the server deletes the objects before the
definition, so an owner of one of them does not exist. A kind that is merely not served any more
(`served: false`) is not among them, because its objects are still stored.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource, Client, Event, ServerResources, Unreachable
from rdd.client.listwatch import make_backoff
from rdd.client.resources import CUSTOM_RESOURCE_DEFINITIONS
from rdd.client.transport import Keep

log = logging.getLogger("rdd.controllers.builtin")

# Events own nothing and have no owners, and there are many of them.
IGNORED = frozenset({("", "events"), (names.EVENTS_GROUP, "events")})
_VERBS = frozenset({"delete", "list", "watch"})
_SETTLE_S = 0.1
_STARTED_AT_ONCE = 10
"""Watches that begin in the same cycle of the loop; each takes half a millisecond."""
PAUSE_FACTOR = 5.0
MAX_PAUSE_S = 2.0

Key = tuple[str, str]
"""Group and plural: all versions have the same objects."""
GroupKind = tuple[str, str]


class Monitors:
    """One list-and-watch per resource, metadata only.

    `on_event` is called for every event that passes `keep`, `on_removed` for resources that are
    no longer served, `on_deleted` for kinds whose definition was deleted, `on_change` when the
    set of resources has changed, and `on_complete` whenever all resources have synced.
    """

    def __init__(
        self,
        client: Client,
        *,
        keep: Keep,
        on_event: Callable[[ApiResource, Event], None],
        on_removed: Callable[[ApiResource], None],
        on_deleted: Callable[[GroupKind], None],
        on_change: Callable[[], None],
        on_complete: Callable[[], None],
    ) -> None:
        self._client = client
        self._keep = keep
        self._on_event = on_event
        self._on_removed = on_removed
        self._on_deleted = on_deleted
        self._on_change = on_change
        self._on_complete = on_complete
        self._resources: ServerResources | None = None
        self._watched: dict[Key, tuple[ApiResource, asyncio.Task[None]]] = {}
        self._unsynced: set[Key] = set()
        self._ended: set[Key] = set()
        self._stale = asyncio.Event()
        self._has_definitions = False
        self.deleted_kinds: set[GroupKind] = set()

    @property
    def is_complete(self) -> bool:
        """Return whether all resources have synced."""
        return self._has_definitions and not self._stale.is_set() and not self._unsynced

    async def run(self) -> None:
        """Watch all resources until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_definitions(), name="rdd-gc-definitions")
            backoff = make_backoff()
            while True:
                await self._stale.wait()
                began = time.monotonic()
                try:
                    await self._refresh(group)
                    backoff.reset()
                    # Discovery costs in proportion to all kinds: a thousand CRDs in a row must
                    # not cause a thousand rounds of it.
                    pause_s = (time.monotonic() - began) * PAUSE_FACTOR
                    await self._client.sleep(min(pause_s, MAX_PAUSE_S))
                except (errors.ApiError, Unreachable) as error:
                    log.warning("gc: cannot discover resources: %s", error)
                    await self._client.sleep(backoff.next_s())

    async def resolve(self, api_version: str, kind: str) -> ApiResource | None:
        """Return the resource of a kind; runs discovery if the kind is not cached."""
        cached = self._resources
        found = cached.by_kind(api_version, kind) if cached is not None else None
        if found is None:
            fresh = await self._client.discover(cached)
            found = fresh.by_kind(api_version, kind)
            if fresh is not cached:
                self._stale.set()
        return found

    async def _watch_definitions(self) -> None:
        events = self._client.list_and_watch(CUSTOM_RESOURCE_DEFINITIONS)
        async with aclosing(events):
            async for event in events:
                if event.type == "RELIST":
                    self._has_definitions = False
                    continue
                self._note_definition(event)
                if event.type == "SYNCED":
                    self._has_definitions = True
                if self._has_definitions:
                    self._stale.set()

    def _note_definition(self, event: Event) -> None:
        if event.type == "DELETED":
            kind = _accepted_kind(event.object)
            if kind is not None:
                self.deleted_kinds.add(kind)
                self._on_deleted(kind)
        elif self.deleted_kinds and event.type in ("ADDED", "MODIFIED"):
            kind = _accepted_kind(event.object)
            if kind is not None:
                self.deleted_kinds.discard(kind)

    async def _refresh(self, group: asyncio.TaskGroup) -> None:
        self._stale.clear()
        try:
            found = await self._client.discover(self._resources)
        except BaseException:
            self._stale.set()
            raise
        wanted = {
            key: resource
            for key, resource in found.preferred().items()
            if key not in IGNORED and _VERBS.issubset(resource.verbs)
        }
        for key in (self._watched.keys() - wanted.keys()) | self._ended:
            resource, task = self._watched.pop(key)
            task.cancel()
            self._unsynced.discard(key)
            self._on_removed(resource)
        self._ended.clear()
        new = wanted.keys() - self._watched.keys()
        self._unsynced |= new  # all of them before the first pause: nothing is complete until then
        for number, key in enumerate(new):
            if number % _STARTED_AT_ONCE == _STARTED_AT_ONCE - 1:
                await asyncio.sleep(0)
            resource = wanted[key]
            task = group.create_task(
                self._watch(key, resource), name=f"rdd-gc-watch {resource.qualified}"
            )
            self._watched[key] = resource, task
        if found is not self._resources:
            self._resources = found
            self._on_change()
        self._notify_if_complete()

    async def _watch(self, key: Key, resource: ApiResource) -> None:
        events = self._client.list_and_watch(resource, metadata_only=True, keep=self._keep)
        try:
            async with aclosing(events):
                async for event in events:
                    if event.type == "RELIST":
                        self._unsynced.add(key)
                    self._on_event(resource, event)
                    if event.type == "SYNCED":
                        self._unsynced.discard(key)
                        self._notify_if_complete()
        except errors.NotFound:
            # The CRD or the version was deleted; discovery shows which.
            await self._client.sleep(_SETTLE_S)
            self._ended.add(key)
            self._stale.set()

    def _notify_if_complete(self) -> None:
        if self.is_complete:
            self._on_complete()


def _accepted_kind(definition: Object) -> GroupKind | None:
    """Return the kind that a definition serves; None if its names were never accepted."""
    kind = ((definition.get("status") or {}).get("acceptedNames") or {}).get("kind")
    return (definition["spec"]["group"], kind) if kind else None
