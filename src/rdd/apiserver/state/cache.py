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

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rdd.apiserver.state import codec
from rdd.store.contract import EventType, KeyValue, Store, StoreEvent

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_NO_LABELS: dict[str, str] = {}


class CacheEntry:
    """One object at one revision; immutable, so it can be shared."""

    __slots__ = ("_fields", "_labels", "body", "name", "namespace", "revision")

    def __init__(self, namespace: str, name: str, revision: int, body: bytes) -> None:
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.body = body
        # Decoded on first use by a selector; most objects never need them.
        self._labels: dict[str, str] | None = None
        self._fields: tuple[object, dict[str, str]] | None = None

    def decode(self) -> dict[str, Any]:
        """Return the object without kind and apiVersion, as a new dict."""
        return codec.decode(self.body)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the object."""
        if self._labels is None:
            if b'"labels":{' in self.body:
                self._labels = self.decode()["metadata"].get("labels") or _NO_LABELS
            else:
                self._labels = _NO_LABELS
        return self._labels

    def fields(self, owner: object, extract: Callable[[dict[str, Any]], Any]) -> dict[str, str]:
        """Return the values of the field-selector labels, memoised for one owner.

        The owner identifies the extractor: the API versions of an object share its entry
        and have different labels.
        """
        if self._fields is None or self._fields[0] is not owner:
            self._fields = (owner, dict(extract(self.decode())))
        return self._fields[1]


class ObjectChange:
    """One committed change of one object.

    `entry` is the new state, for DELETED the last state with the revision of
    the deletion; `old` is the state before, None for ADDED.
    """

    __slots__ = ("entry", "old", "type")

    def __init__(self, type_: str, entry: CacheEntry, old: CacheEntry | None) -> None:
        self.type = type_
        self.entry = entry
        self.old = old


ChangeListener = Callable[[Sequence[ObjectChange]], None]


class ResourceCache:
    """All objects below one store prefix."""

    # Large enough for a client that lists and then watches, small enough that a busy
    # resource does not occupy memory: 1,024 changes or 2 MiB of old states.
    RING_COUNT = 1024
    RING_BYTES = 2 * 1024 * 1024

    def __init__(self, prefix: str, *, namespaced: bool, revision: int) -> None:
        self.prefix = prefix
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
        self._sorted: dict[str, list[CacheEntry]] = {}

    # -- reading

    def get(self, namespace: str, name: str) -> CacheEntry | None:
        """Return the object of a name, None if it does not exist."""
        space = self.spaces.get(namespace)
        return space.get(name) if space is not None else None

    def entries(self, namespace: str | None = None) -> list[CacheEntry]:
        """Return the objects of one or all namespaces in key order; MUST NOT be changed."""
        if namespace is None:
            if len(self.spaces) == 1:
                return self._in_space(next(iter(self.spaces)))
            # In keys a '/' follows the namespace, so `a-b` sorts before `a`.
            names = sorted(self.spaces, key=lambda n: n + "/")
            return [e for n in names for e in self._in_space(n)]
        return self._in_space(namespace)

    def _in_space(self, namespace: str) -> list[CacheEntry]:
        found = self._sorted.get(namespace)
        if found is None:
            space = self.spaces.get(namespace)
            if space is None:
                return []
            found = self._sorted[namespace] = [space[name] for name in sorted(space)]
        return found

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
        """Add the records read at start."""
        for r in records:
            namespace, name = self.split(r.key)
            self.spaces.setdefault(namespace, {})[name] = self.entry(
                namespace, name, r.revision, r.value
            )
            self.count += 1
            self.revision = max(self.revision, r.revision)

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
            space = self.spaces[namespace] = {}
        old = space.get(name)
        if event.type is EventType.DELETE:
            if old is None:
                return None
            del space[name]
            self.count -= 1
            if not space:
                del self.spaces[namespace]
            body = codec.with_revision(codec.without_revision(old.body), revision)
            change = ObjectChange(DELETED, CacheEntry(namespace, name, revision, body), old)
            self._sorted.pop(namespace, None)
        else:
            entry = self.entry(namespace, name, revision, event.value)
            space[name] = entry
            if old is None:
                self.count += 1
                change = ObjectChange(ADDED, entry, None)
                self._sorted.pop(namespace, None)
            else:
                change = ObjectChange(MODIFIED, entry, old)
                ordered = self._sorted.get(namespace)
                if ordered is not None:
                    self._replace(ordered, entry)
        self._add_to_ring(change)
        return change

    @staticmethod
    def _replace(ordered: list[CacheEntry], entry: CacheEntry) -> None:
        low, high = 0, len(ordered)
        name = entry.name
        while low < high:
            middle = (low + high) // 2
            if ordered[middle].name < name:
                low = middle + 1
            else:
                high = middle
        ordered[low] = entry

    def _add_to_ring(self, change: ObjectChange) -> None:
        ring = self.ring
        ring.append(change)
        self._ring_bytes += len(change.entry.body)
        while len(ring) > self.RING_COUNT or (self._ring_bytes > self.RING_BYTES and len(ring) > 1):
            evicted = ring.popleft()
            self._ring_bytes -= len(evicted.entry.body)
            self.ring_floor = evicted.entry.revision

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
        for space in self.spaces.values():
            for name, e in space.items():
                if e.revision >= before:
                    continue
                stored = codec.without_revision(e.body)
                new = refresh(stored)
                if new != stored:
                    space[name] = CacheEntry(
                        e.namespace, name, e.revision, codec.with_revision(new, e.revision)
                    )
        self._sorted.clear()


class ObjectCache:
    """The caches of all resources of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.revision = store.revision
        self._by_prefix: dict[str, ResourceCache] = {}
        self._unclaimed: dict[str, list[KeyValue]] = {}
        self._stop: Callable[[], None] | None = None

    async def load(self) -> None:
        """Read everything and subscribe. MUST be called once, before any write."""
        page = await self.store.scan("/registry/")
        for record in page.records:
            self._unclaimed.setdefault(_prefix_of(record.key), []).append(record)
        self.revision = page.revision
        self._stop = self.store.observe(self._observe)

    def close(self) -> None:
        """Unsubscribe from the store."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def resource(self, prefix: str, *, namespaced: bool) -> ResourceCache:
        """Return the cache of a prefix; create it with the loaded records on first use."""
        found = self._by_prefix.get(prefix)
        if found is None:
            found = ResourceCache(prefix, namespaced=namespaced, revision=self.revision)
            found.load(self._unclaimed.pop(prefix, ()))
            self._by_prefix[prefix] = found
        return found

    def drop(self, prefix: str) -> None:
        """Drop an empty resource (its CRD was deleted)."""
        self._by_prefix.pop(prefix, None)

    def _observe(self, events: Sequence[StoreEvent]) -> None:
        touched: dict[ResourceCache, list[ObjectChange]] = {}
        for event in events:
            cache = self._by_prefix.get(_prefix_of(event.key))
            if cache is None:
                continue
            change = cache.apply(event)
            if change is not None:
                touched.setdefault(cache, []).append(change)
        if events:
            self.revision = max(self.revision, events[-1].revision)
        for cache, changes in touched.items():
            for listener in cache.listeners:
                listener(changes)


def _prefix_of(key: str) -> str:
    """Return `/registry/configmaps/` or, for groups stored by name, `/registry/a.b/things/`."""
    first = key.index("/", 10) + 1  # after "/registry/x"
    if "." in key[10:first]:
        return key[: key.index("/", first) + 1]
    return key[:first]
