# SPDX-License-Identifier: Apache-2.0
"""Following every resource of a server, those that do not exist yet included.

Discovery says what to follow; the CRDs are watched to know when to ask again.
Each resource has a task that lists and watches it. `is_complete` tells whether
all of them have seen everything: what is not known to exist then does not.
Kubernetes asks for discovery every 30 seconds instead; here nothing happens
unless a definition changes.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from rdd.api import errors, names
from rdd.client import ApiResource, Client, Event, ServerResources, Unreachable
from rdd.client.listwatch import make_backoff
from rdd.client.resources import CUSTOM_RESOURCE_DEFINITIONS
from rdd.client.transport import Keep

log = logging.getLogger("rdd.controllers.builtin")

# Events own nothing and are owned by nobody, and there are many of them.
IGNORED = frozenset({("", "events"), (names.EVENTS_GROUP, "events")})
_VERBS = frozenset({"delete", "list", "watch"})
_SETTLE_S = 0.1

Key = tuple[str, str]
"""Group and plural: versions are views of the same objects."""


class Monitors:
    """One list-and-watch per resource, metadata only.

    `on_event` gets every event that `keep` lets through, `on_removed` the
    resources that are no longer served, `on_change` is called when the set of
    resources has changed, `on_complete` whenever everything is known (again).
    """

    def __init__(
        self,
        client: Client,
        *,
        keep: Keep,
        on_event: Callable[[ApiResource, Event], None],
        on_removed: Callable[[ApiResource], None],
        on_change: Callable[[], None],
        on_complete: Callable[[], None],
    ) -> None:
        self._client = client
        self._keep = keep
        self._on_event = on_event
        self._on_removed = on_removed
        self._on_change = on_change
        self._on_complete = on_complete
        self._resources: ServerResources | None = None
        self._followed: dict[Key, tuple[ApiResource, asyncio.Task[None]]] = {}
        self._unsynced: set[Key] = set()
        self._ended: set[Key] = set()
        self._stale = asyncio.Event()
        self._has_definitions = False

    @property
    def is_complete(self) -> bool:
        """Whether every object of every resource has been seen."""
        return self._has_definitions and not self._stale.is_set() and not self._unsynced

    async def run(self) -> None:
        """Follow everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_definitions(), name="rdd-gc-definitions")
            backoff = make_backoff()
            while True:
                await self._stale.wait()
                try:
                    await self._refresh(group)
                    backoff.reset()
                except (errors.ApiError, Unreachable) as error:
                    log.warning("gc: cannot discover resources: %s", error)
                    await self._client.sleep(backoff.next_s())

    async def resolve(self, api_version: str, kind: str) -> ApiResource | None:
        """The resource of a kind, asking the server again if the kind is not known."""
        known = self._resources
        found = known.by_kind(api_version, kind) if known is not None else None
        if found is None:
            fresh = await self._client.discover(known)
            found = fresh.by_kind(api_version, kind)
            if fresh is not known:
                self._stale.set()
        return found

    async def _follow_definitions(self) -> None:
        events = self._client.list_and_watch(CUSTOM_RESOURCE_DEFINITIONS, metadata_only=True)
        async with aclosing(events):
            async for event in events:
                if event.type == "RELIST":
                    self._has_definitions = False
                    continue
                if event.type == "SYNCED":
                    self._has_definitions = True
                if self._has_definitions:
                    self._stale.set()

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
        for key in (self._followed.keys() - wanted.keys()) | self._ended:
            resource, task = self._followed.pop(key)
            task.cancel()
            self._unsynced.discard(key)
            self._on_removed(resource)
        self._ended.clear()
        for key in wanted.keys() - self._followed.keys():
            self._unsynced.add(key)
            resource = wanted[key]
            task = group.create_task(
                self._follow(key, resource), name=f"rdd-gc-follow {resource.qualified}"
            )
            self._followed[key] = resource, task
        if found is not self._resources:
            self._resources = found
            self._on_change()
        self._tell_if_complete()

    async def _follow(self, key: Key, resource: ApiResource) -> None:
        events = self._client.list_and_watch(resource, metadata_only=True, keep=self._keep)
        try:
            async with aclosing(events):
                async for event in events:
                    if event.type == "RELIST":
                        self._unsynced.add(key)
                    self._on_event(resource, event)
                    if event.type == "SYNCED":
                        self._unsynced.discard(key)
                        self._tell_if_complete()
        except errors.NotFound:
            # Its CRD is going, or the version is; discovery will say which.
            await self._client.sleep(_SETTLE_S)
            self._ended.add(key)
            self._stale.set()

    def _tell_if_complete(self) -> None:
        if self.is_complete:
            self._on_complete()
