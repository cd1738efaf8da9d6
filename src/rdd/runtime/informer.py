# SPDX-License-Identifier: Apache-2.0
"""A cache of the objects of one resource, kept up to date by one list and one watch.

Informers are shared: the `Cache` has one per resource and selection, for all readers and
handlers. An informer stores the JSON of the objects and decodes them on demand; the most
recently used decoded objects are kept. In the process of the API server the bytes are those of
the server, by reference: objects that no reconciler reads cost an entry in a dict, and a
reconciler that reads its object does not decode it twice.

Objects are shared between all readers and MUST NOT be modified; copy them, or use `replace`
of typed kinds.

After a lost watch the informer lists again and passes the differences to the handlers as if
it had watched them. There is no periodic resync: handlers receive every difference.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import orjson

from rdd.api import errors, selectors
from rdd.api.types import Object
from rdd.client import ApiResource, Client, Event
from rdd.client.listwatch import make_backoff
from rdd.runtime.metrics import Metrics
from rdd.runtime.types import ObjectKey

log = logging.getLogger("rdd.runtime")

IndexFunction = Callable[[Object], Iterable[str]]
"""Return the values under which an index lists an object."""

# Decoded objects kept per informer: more than a busy reconciler reads in a row, and at most
# about 3 MiB.
DECODED = 256


class Cached:
    """One object at one resource version, decoded when it is first read."""

    __slots__ = ("_body", "_head", "_object", "_owner", "index_values", "resource_version")

    def __init__(self, owner: "Informer", head: bytes, body: bytes, obj: Object) -> None:
        self._owner = owner
        self._head = head
        self._body = body
        self._object: Object | None = None
        self.resource_version: str = obj["metadata"].get("resourceVersion", "")
        self.index_values: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def object(self) -> Object:
        """Return the object; it is shared and MUST NOT be modified."""
        found = self._object
        if found is None:
            decoded: Object = orjson.loads(self._head + self._body)
            found = decoded
            self.keep(found)
        return found

    def keep(self, obj: Object) -> None:
        """Keep the decoded form until newer ones evict it."""
        self._object = obj
        self._owner.retain(self)

    def drop(self) -> None:
        self._object = None


class Change:
    """One difference: `old` is None for a new object, `new` is None for a deleted one."""

    __slots__ = ("_new", "_old", "key")

    def __init__(self, key: ObjectKey, old: Cached | None, new: Cached | None) -> None:
        self.key = key
        self._old = old
        self._new = new

    @property
    def old(self) -> Object | None:
        return self._old.object if self._old is not None else None

    @property
    def new(self) -> Object | None:
        return self._new.object if self._new is not None else None


Handler = Callable[[Change], None]


class Informer:
    """The objects of one resource; created by `Cache.informer`."""

    def __init__(
        self,
        client: Client,
        resource: ApiResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        metrics: Metrics | None = None,
    ) -> None:
        self.resource = resource
        self.metadata_only = metadata_only
        self._client = client
        self._selection: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "metadata_only": metadata_only,
        }
        self._metrics = metrics or Metrics()
        self._objects: dict[ObjectKey, Cached] = {}
        self._indexers: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[ObjectKey, None]]] = {}
        self._handlers: list[Handler] = []
        self._decoded: deque[Cached] = deque()
        self._seen: set[ObjectKey] | None = None
        self.synced = asyncio.Event()
        """Set after the first complete list; it stays set."""

    # -- reading

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def has_synced(self) -> bool:
        """Return whether the first list is complete."""
        return self.synced.is_set()

    def get(self, key: ObjectKey) -> Object | None:
        """Return the object of a key, or None; it MUST NOT be modified."""
        found = self._objects.get(key)
        return found.object if found is not None else None

    def keys(self) -> list[ObjectKey]:
        return list(self._objects)

    def list(self, *, namespace: str = "", label_selector: str = "") -> Iterator[Object]:
        """Iterate over objects, so that not all have to be decoded at once."""
        matches = selectors.parse_label_selector(label_selector).matches if label_selector else None
        for key, cached in list(self._objects.items()):
            if namespace and key.namespace != namespace:
                continue
            obj = cached.object
            if matches is None or matches(obj["metadata"].get("labels") or {}):
                yield obj

    def by_index(self, index: str, value: str) -> Sequence[Object]:
        """Return the objects that an index lists under a value. KeyError without that index."""
        self._indexers[index]
        keys = self._indexes[index].get(value, ())
        return [self._objects[key].object for key in keys]

    # -- handlers

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index all objects. Idempotent; ValueError if the name has another function."""
        if self._indexers.get(name) is function:
            return
        if name in self._indexers:
            raise ValueError(f"{self.resource.qualified} already has an index {name}")
        self._indexers[name] = function
        self._indexes[name] = {}
        for key, cached in self._objects.items():
            self._unindex(key, cached)
            self._index(key, cached, cached.object)

    def add_handler(self, handler: Handler) -> Callable[[], None]:
        """Call a handler for every current object and every change; the result unsubscribes."""
        for key, cached in list(self._objects.items()):
            self._notify(handler, Change(key, None, cached))
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    # -- watching

    async def run(self) -> None:
        """List and watch the resource until cancelled.

        A resource that is not served is retried with exponential backoff: its CRD may follow.
        """
        backoff = make_backoff()
        while True:
            try:
                events = self._client.list_and_watch(self.resource, **self._selection)
                async with aclosing(events):
                    async for event in events:
                        self._handle(event)
                        if event.type == "SYNCED":
                            backoff.reset()
            except errors.NotFound:
                log.debug("%s is not served", self.resource.qualified)
            await asyncio.sleep(backoff.next_s())

    def retain(self, cached: Cached) -> None:
        """Keep a decoded object and evict the oldest one beyond the limit."""
        self._decoded.append(cached)
        if len(self._decoded) > DECODED:
            self._decoded.popleft().drop()

    def _handle(self, event: Event) -> None:
        if event.type == "RELIST":
            self._seen = set()
            self._metrics.relists.add(self.resource.qualified)
            return
        if event.type == "SYNCED":
            seen, self._seen = self._seen or set(), None
            for key in [key for key in self._objects if key not in seen]:
                self._remove(key)
            self.synced.set()
            return
        obj = event.object
        key = ObjectKey.of(obj)
        if event.type == "DELETED":
            self._remove(key, self._cached(event, obj))
        else:
            if self._seen is not None:
                self._seen.add(key)
            self._put(key, event, obj)

    def _cached(self, event: Event, obj: Object) -> Cached:
        encoded = event.encoded
        # The event of a watch has the complete object, not only its metadata.
        if encoded is not None and not self.metadata_only:
            return Cached(self, encoded.head, encoded.body, obj)
        # The bytes of the encoder keep a buffer of several KiB each; a copy is exact.
        return Cached(self, b"", bytes(memoryview(orjson.dumps(obj))), obj)

    def _put(self, key: ObjectKey, event: Event, obj: Object) -> None:
        old = self._objects.get(key)
        if old is not None and old.resource_version == obj["metadata"].get("resourceVersion"):
            return
        new = self._cached(event, obj)
        if self._seen is None:  # a change is read soon; a listed object perhaps never
            new.keep(obj)
        self._objects[key] = new
        if old is not None:
            self._unindex(key, old)
        self._index(key, new, obj)
        self._notify_all(Change(key, old, new))

    def _remove(self, key: ObjectKey, last: Cached | None = None) -> None:
        old = self._objects.pop(key, None)
        if old is None:
            return
        self._unindex(key, old)
        self._notify_all(Change(key, last or old, None))

    def _index(self, key: ObjectKey, cached: Cached, obj: Object) -> None:
        if not self._indexers:
            return
        found: list[tuple[str, tuple[str, ...]]] = []
        for name, function in self._indexers.items():
            try:
                values = tuple(function(obj))
            except Exception:
                log.exception("index %s of %s %s", name, self.resource.qualified, key)
                continue
            for value in values:
                self._indexes[name].setdefault(value, {})[key] = None
            found.append((name, values))
        cached.index_values = tuple(found)

    def _unindex(self, key: ObjectKey, cached: Cached) -> None:
        for name, values in cached.index_values:
            index = self._indexes[name]
            for value in values:
                keys = index.get(value)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del index[value]

    def _notify_all(self, change: Change) -> None:
        for handler in list(self._handlers):
            self._notify(handler, change)

    def _notify(self, handler: Handler, change: Change) -> None:
        try:
            handler(change)
        except Exception:  # a failing handler must not stop the others
            log.exception("a handler of %s failed at %s", self.resource.qualified, change.key)
