# SPDX-License-Identifier: Apache-2.0
"""The current state of every object, in memory, as encoded bytes.

The cache is filled from the store once and then follows it through `observe`:
the callback runs before the commit that caused it returns. Invariant: when a
client receives the response to a write, the cache contains it. Readers and
watchers see committed state only.

Per resource the cache also keeps a ring of the last changes (bounded by count
and bytes), so that a watch which starts at a recent revision needs no disk;
older starts are replayed from the history of the store.
"""

import gc
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from rdd.apiserver.state import codec
from rdd.apiserver.state.entries import ADDED, DELETED, MODIFIED, CacheEntry, ObjectChange
from rdd.apiserver.state.ordered import OrderedEntries, bounds
from rdd.store.contract import DamagedRecord, EventType, KeyValue, Store, StoreEvent

log = logging.getLogger("rdd.apiserver.state")

LOAD_PAGE = 2000
"""Records read at a time at start, so that the file is never in memory twice."""

NOTHING_DAMAGED: Mapping[str, DamagedRecord] = MappingProxyType({})

ChangeListener = Callable[[Sequence[ObjectChange]], None]


class ResourceCache:
    """All objects below one store prefix."""

    # Large enough for a client that lists and then watches, small enough that a busy
    # resource does not occupy memory: 1,024 changes or 2 MiB of old states.
    RING_COUNT = 1024
    RING_BYTES = 2 * 1024 * 1024

    def __init__(
        self,
        prefix: str,
        *,
        namespaced: bool,
        revision: int,
        damaged: Mapping[str, DamagedRecord] = NOTHING_DAMAGED,
    ) -> None:
        self.prefix = prefix
        self.damaged = damaged
        """Damaged objects of all resources, by store key (`rdd.apiserver.state.quarantine`)."""
        self.namespaced = namespaced
        self.revision = revision
        """The revision of the last change below this prefix."""
        self.spaces: dict[str, dict[str, CacheEntry]] = {}
        self.count = 0
        self.listeners: list[ChangeListener] = []
        self.ring: deque[ObjectChange] = deque()
        self.ring_floor = revision
        """Every change with a greater revision is in the ring."""
        self._ring_bytes = 0
        self._ordered = OrderedEntries()

    # -- reading

    def get(self, namespace: str, name: str) -> CacheEntry | None:
        """Return the object of a name, None if it does not exist."""
        space = self.spaces.get(namespace)
        return space.get(name) if space is not None else None

    def entries(self, namespace: str | None = None) -> list[CacheEntry]:
        """Return the objects of one or all namespaces in key order, as a new list."""
        return self._ordered.page(*bounds(namespace))

    def page(self, namespace: str | None, start: str, limit: int) -> list[CacheEntry]:
        """Return at most `limit` (0: all) of these objects, from a position `ns/name` on."""
        low, high = bounds(namespace)
        return self._ordered.page(max(low, start), high, limit)

    def count_from(self, namespace: str | None, start: str) -> int:
        """Return the number of these objects from a position on."""
        low, high = bounds(namespace)
        return self._ordered.count(max(low, start), high)

    def named(self, name: str) -> list[CacheEntry]:
        """Return the objects with a name in all namespaces, in key order."""
        found = [space[name] for space in self.spaces.values() if name in space]
        return sorted(found, key=lambda entry: entry.namespace + "/")

    def key(self, namespace: str, name: str) -> str:
        """Return the store key of an object."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else self.prefix + name

    def split(self, key: str) -> tuple[str, str]:
        """Return the namespace and name of a store key."""
        rest = key[len(self.prefix) :]
        if not self.namespaced:
            return "", rest
        namespace, _, name = rest.partition("/")
        return namespace, name

    # -- following the store

    def load(self, records: Iterable[KeyValue]) -> None:
        """Add records read at start, in key order and behind those of earlier calls."""
        loaded: list[CacheEntry] = []
        namespace: str | None = None
        space: dict[str, CacheEntry] = {}
        for r in records:
            found, name = self.split(r.key)
            if found != namespace:
                namespace = sys.intern(found)  # shared by all entries
                space = self.spaces.setdefault(namespace, {})
            entry = space[name] = self.entry(namespace, name, r.revision, r.value)
            loaded.append(entry)
        self.count += len(loaded)
        self._ordered.extend(loaded)

    @staticmethod
    def entry(namespace: str, name: str, revision: int, stored: bytes) -> CacheEntry:
        """Return an entry from the stored form."""
        return CacheEntry(namespace, name, revision, codec.with_revision(stored, revision))

    def apply(self, event: StoreEvent) -> ObjectChange | None:
        """Apply one committed event."""
        namespace, name = self.split(event.key)
        revision = event.revision
        self.revision = revision
        space = self.spaces.get(namespace)
        if space is None:
            namespace = sys.intern(namespace)
            space = self.spaces[namespace] = {}
        old = space.get(name)
        if old is not None:
            namespace, name = old.namespace, old.name  # one copy of both texts
        if event.type is EventType.DELETE:
            if old is None:
                return None
            del space[name]
            self.count -= 1
            if not space:
                del self.spaces[namespace]
            body = codec.with_revision(codec.without_revision(old.body), revision)
            change = ObjectChange(DELETED, CacheEntry(namespace, name, revision, body), old)
            self._ordered.remove(old)
        else:
            entry = self.entry(namespace, name, revision, event.value)
            space[name] = entry
            self._ordered.put(entry)
            if old is None:
                self.count += 1
                change = ObjectChange(ADDED, entry, None)
            else:
                change = ObjectChange(MODIFIED, entry, old)
        self._add_to_ring(change)
        return change

    def _add_to_ring(self, change: ObjectChange) -> None:
        ring = self.ring
        ring.append(change)
        self._ring_bytes += len(change.entry.body)
        while len(ring) > self.RING_COUNT or (self._ring_bytes > self.RING_BYTES and len(ring) > 1):
            evicted = ring.popleft()
            self._ring_bytes -= len(evicted.entry.body)
            self.ring_floor = max(self.ring_floor, evicted.entry.revision)

    def forget_changes(self, revision: int) -> None:
        """Drop the recent changes: those up to a revision are incomplete."""
        self.ring.clear()
        self._ring_bytes = 0
        self.ring_floor = revision

    def changes_after(self, revision: int) -> list[ObjectChange] | None:
        """Return the changes after a revision, None if the ring does not reach back that far."""
        if revision < self.ring_floor:
            return None
        if revision >= self.revision:
            return []
        return [c for c in self.ring if c.entry.revision > revision]

    def reform(self, refresh: Callable[[bytes], bytes], *, before: int) -> None:
        """Convert the objects written before a revision to the schema of an updated CRD.

        Revisions stay and nothing is stored; the next write of an object stores it.
        """
        for e in self.entries():
            if e.revision >= before:
                continue
            stored = codec.without_revision(e.body)
            new = refresh(stored)
            if new != stored:
                entry = self.entry(e.namespace, e.name, e.revision, new)
                self.spaces[e.namespace][e.name] = entry
                self._ordered.put(entry)


class ObjectCache:
    """The caches of all resources of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.revision = store.revision
        self.damaged: dict[str, DamagedRecord] = {}
        """Objects that were not loaded, by store key."""
        self._by_prefix: dict[str, ResourceCache] = {}
        self._stop: Callable[[], None] | None = None

    async def load(self) -> None:
        """Read everything and subscribe. MUST be called once, before any write.

        A resource is filled before its kind is known: whether it is namespaced follows from
        the keys, and a resource without objects is created by `resource`.
        """
        self.revision = self.store.revision
        early: list[StoreEvent] = []
        self._stop = self.store.observe(early.extend)  # keys that expire meanwhile
        was_enabled = gc.isenabled()
        gc.disable()  # nothing read here is garbage, and each pass would visit all of it
        try:
            after, more = "", True
            while more:
                page = await self.store.scan(
                    "/registry/", revision=self.revision, after=after, limit=LOAD_PAGE
                )
                more, after = page.more, page.after
                self.damaged.update((record.key, record) for record in page.damaged)
                if records := self._objects_of(page.records):
                    self._take(records)
        finally:
            if was_enabled:
                gc.enable()
        self._stop()
        self._stop = self.store.observe(self._observe)
        self._observe(early)
        self.store.on_gap(self.forget_changes)

    def _objects_of(self, records: Sequence[KeyValue]) -> Sequence[KeyValue]:
        """Return the records without those of other programs."""
        if not self.store.is_distributed:
            return records
        return [r for r in records if _is_object(r.key, r.value)]

    def _take(self, records: Sequence[KeyValue]) -> None:
        """Add a page of records, in key order."""
        first, prefix = 0, ""
        for i, record in enumerate(records):
            if not prefix or not record.key.startswith(prefix):
                if prefix:
                    self._cache_of(prefix, records[first]).load(records[first:i])
                first, prefix = i, _prefix_of(record.key)
        if prefix:
            self._cache_of(prefix, records[first]).load(records[first:])

    def _cache_of(self, prefix: str, record: KeyValue) -> ResourceCache:
        return self.resource(prefix, namespaced="/" in record.key[len(prefix) :])

    def forget_changes(self, revision: int) -> None:
        """Record that changes up to a revision are incomplete: no watch can resume before it."""
        for cache in self._by_prefix.values():
            cache.forget_changes(revision)

    def advance(self, revision: int) -> None:
        """Record that the store has reached a revision, and that no change was missed."""
        self.revision = max(self.revision, revision)

    def close(self) -> None:
        """Unsubscribe from the store."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def resource(self, prefix: str, *, namespaced: bool) -> ResourceCache:
        """Return the cache of a prefix; create it on first use."""
        found = self._by_prefix.get(prefix)
        if found is None:
            found = ResourceCache(
                prefix, namespaced=namespaced, revision=self.revision, damaged=self.damaged
            )
            self._by_prefix[prefix] = found
        return found

    def drop(self, prefix: str) -> None:
        """Drop an empty resource (its CRD was deleted)."""
        self._by_prefix.pop(prefix, None)

    def _observe(self, events: Sequence[StoreEvent]) -> None:
        touched: dict[ResourceCache, list[ObjectChange]] = {}
        for event in events:
            prefix = _prefix_of(event.key)
            if not prefix:
                continue
            cache = self._by_prefix.get(prefix)
            if cache is None:
                if event.type is EventType.DELETE:
                    continue
                # Another server wrote it, and this one does not serve the CRD yet.
                cache = self.resource(prefix, namespaced="/" in event.key[len(prefix) :])
            if (
                event.type is EventType.PUT
                and self.store.is_distributed
                and not _is_object(event.key, event.value)
            ):  # what was there before is gone
                event = replace(event, type=EventType.DELETE, value=b"")
            change = cache.apply(event)
            if change is not None:
                touched.setdefault(cache, []).append(change)
        if events:
            self.revision = max(self.revision, events[-1].revision)
        for cache, changes in touched.items():
            for listener in cache.listeners:
                listener(changes)


def _is_object(key: str, value: bytes) -> bool:
    """Return whether a value is an object; log one of another program."""
    if codec.is_object(key.rpartition("/")[2], value):
        return True
    log.warning("%s was written by another program and is not an object", key)
    return False


def _prefix_of(key: str) -> str:
    """Return `/registry/configmaps/` or, for groups stored by name, `/registry/a.b/things/`.

    Empty for a key that is none of the API's: a distributed store has other writers.
    """
    first = key.find("/", 10) + 1  # after "/registry/x"
    if "." in key[10:first]:
        first = key.find("/", first) + 1
    return key[:first]
