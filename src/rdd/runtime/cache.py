# SPDX-License-Identifier: Apache-2.0
"""The informers of a manager, shared by all its controllers.

    cache = Cache(client)
    vms = cache.of(LimaVM)                     # typed reading
    vms.get(key)                               # LimaVM | None
    cache.informer(CONFIG_MAPS)                # plain dicts, handlers, indexes
    async with cache:                          # start all informers
        await cache.wait_for_sync()

An informer that is requested while the cache runs is started at once.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Generic, Self

from rdd.api.types import Object
from rdd.client import ApiResource, Client
from rdd.runtime.informer import Informer
from rdd.runtime.metrics import Metrics
from rdd.runtime.types import AnyResource, K, ObjectKey, resource_of

_Selection = tuple[ApiResource, str, str, str, bool]


class Lister(Generic[K]):
    """The cached objects of one kind, as typed views."""

    def __init__(self, kind: type[K], informer: Informer) -> None:
        self._kind = kind
        self.informer = informer

    def get(self, key: ObjectKey) -> K | None:
        """Return the object of a key, or None."""
        found = self.informer.get(key)
        return self._kind.of(found) if found is not None else None

    def list(self, *, namespace: str = "", label_selector: str = "") -> Iterator[K]:
        """Iterate over the objects."""
        found = self.informer.list(namespace=namespace, label_selector=label_selector)
        return map(self._kind.of, found)

    def by_index(self, index: str, value: str) -> Sequence[K]:
        """Return the objects that an index lists under a value."""
        return [self._kind.of(obj) for obj in self.informer.by_index(index, value)]


class Cache:
    """Informers by resource and selection."""

    def __init__(self, client: Client, *, metrics: Metrics | None = None) -> None:
        self._client = client
        self._metrics = metrics or Metrics()
        self._informers: dict[_Selection, Informer] = {}
        self._tasks: dict[_Selection, asyncio.Task[None]] = {}
        self._is_running = False

    def informer(
        self,
        resource: AnyResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> Informer:
        """Return the shared informer of a selection."""
        wanted = resource_of(resource)
        # Discovered details (verbs, short names) do not make it another resource.
        same = ApiResource(
            wanted.group, wanted.version, wanted.plural, wanted.kind, namespaced=wanted.namespaced
        )
        selection = (same, namespace, label_selector, field_selector, metadata_only)
        found = self._informers.get(selection)
        if found is None:
            found = self._informers[selection] = Informer(
                self._client,
                same,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                metadata_only=metadata_only,
                metrics=self._metrics,
            )
            if self._is_running:
                self._start(selection, found)
        return found

    def of(self, kind: type[K]) -> Lister[K]:
        """Return a lister for all objects of a typed kind."""
        return Lister(kind, self.informer(kind))

    def get(self, resource: AnyResource, key: ObjectKey) -> Object | None:
        """Return one object; it MUST NOT be modified."""
        return self.informer(resource).get(key)

    def list(self, resource: AnyResource, *, namespace: str = "") -> Iterator[Object]:
        """Iterate over objects; they MUST NOT be modified."""
        return self.informer(resource).list(namespace=namespace)

    # -- lifecycle

    def start(self) -> None:
        """Start all informers, and every informer that is requested later."""
        self._is_running = True
        for selection, informer in self._informers.items():
            self._start(selection, informer)

    async def stop(self) -> None:
        """Stop all informers; cached objects can still be read."""
        self._is_running = False
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_for_sync(self) -> None:
        """Return when all informers have completed their first list."""
        for informer in list(self._informers.values()):
            await informer.synced.wait()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _start(self, selection: _Selection, informer: Informer) -> None:
        if selection not in self._tasks:
            self._tasks[selection] = asyncio.get_running_loop().create_task(
                informer.run(), name=f"rdd-informer {informer.resource.qualified}"
            )
