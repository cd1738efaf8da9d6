# SPDX-License-Identifier: Apache-2.0
"""The current state of every object, in memory, as encoded bytes.

The cache is filled from the store once and then follows it through `observe`:
the callback runs before the commit that caused it returns, so a client that
got an answer finds its write in the cache. Readers and watchers see committed
state only.

Per resource the cache also remembers the last changes (bounded by count and
bytes), so that a watch which starts a little in the past needs no disk; older
starting points are replayed from the store's log.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rdd.apiserver.state import codec
from rdd.store.contract import EventType, KeyValue, Store, StoreEvent

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_NO_LABELS: dict[str, str] = {}


class CacheEntry:
    """One object at one revision. Never changed, so it can be shared freely."""

    __slots__ = ("_fields", "_labels", "body", "name", "namespace", "revision")

    def __init__(self, namespace: str, name: str, revision: int, body: bytes) -> None:
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.body = body
        # Read from the body when a selector first asks; most objects are never asked.
        self._labels: dict[str, str] | None = None
        self._fields: dict[str, str] | None = None

    def decode(self) -> dict[str, Any]:
        """The object, without kind and apiVersion; a fresh dict the caller may change."""
        return codec.decode(self.body)

    @property
    def labels(self) -> dict[str, str]:
        """The labels, decoded once."""
        if self._labels is None:
            if b'"labels":{' in self.body:
                self._labels = self.decode()["metadata"].get("labels") or _NO_LABELS
            else:
                self._labels = _NO_LABELS
        return self._labels

    def fields(self, extract: Callable[[dict[str, Any]], Any]) -> dict[str, str]:
        """Values of the field-selector labels, extracted once (one extractor per resource)."""
        if self._fields is None:
            self._fields = dict(extract(self.decode()))
        return self._fields


class ObjectChange:
    """One committed change of one object.

    `entry` is the new state, for DELETED the last state with the revision of
    the deletion; `old` the state before, None for ADDED.
    """

    __slots__ = ("entry", "old", "type")

    def __init__(self, type_: str, entry: CacheEntry, old: CacheEntry | None) -> None:
        self.type = type_
        self.entry = entry
        self.old = old


Listener = Callable[[Sequence[ObjectChange]], None]


class ResourceCache:
    """All objects below one store prefix."""

    # Enough for a client that relists and then watches, small enough that a
    # busy resource does not hold memory: 1,024 changes or 2 MiB of old states.
    RING_COUNT = 1024
    RING_BYTES = 2 * 1024 * 1024

    def __init__(self, prefix: str, *, namespaced: bool, revision: int) -> None:
        self.prefix = prefix
        self.namespaced = namespaced
        self.revision = revision
        """The revision of the last change below this prefix."""
        self.spaces: dict[str, dict[str, CacheEntry]] = {}
        self.count = 0
        self.listeners: list[Listener] = []
        self.ring: deque[ObjectChange] = deque()
        self.ring_floor = revision
        """Every change with a greater revision is in the ring."""
        self._ring_bytes = 0
        self._sorted: dict[str, list[CacheEntry]] = {}

    # -- reading

    def get(self, namespace: str, name: str) -> CacheEntry | None:
        """The object of that name, if it exists."""
        space = self.spaces.get(namespace)
        return space.get(name) if space is not None else None

    def entries(self, namespace: str | None = None) -> list[CacheEntry]:
        """Objects in key order: of one namespace, or all. The list MUST NOT be changed."""
        if namespace is None:
            if len(self.spaces) == 1:
                return self._in_space(next(iter(self.spaces)))
            # '/' ends a namespace in the key, so `a-b` sorts before `a`.
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
        """The store key of an object."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else self.prefix + name

    def split(self, key: str) -> tuple[str, str]:
        """Namespace and name of a store key."""
        rest = key[len(self.prefix) :]
        if not self.namespaced:
            return "", rest
        namespace, _, name = rest.partition("/")
        return namespace, name

    # -- following the store

    def load(self, records: Iterable[KeyValue]) -> None:
        """Take over records read at start."""
        for r in records:
            namespace, name = self.split(r.key)
            self.spaces.setdefault(namespace, {})[name] = self.entry(
                namespace, name, r.revision, r.value
            )
            self.count += 1
            self.revision = max(self.revision, r.revision)

    @staticmethod
    def entry(namespace: str, name: str, revision: int, stored: bytes) -> CacheEntry:
        """An entry from the stored form."""
        return CacheEntry(namespace, name, revision, codec.with_revision(stored, revision))

    def apply(self, event: StoreEvent) -> ObjectChange | None:
        """Take over one committed event."""
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
        self._remember(change)
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

    def _remember(self, change: ObjectChange) -> None:
        ring = self.ring
        ring.append(change)
        self._ring_bytes += len(change.entry.body)
        while len(ring) > self.RING_COUNT or (self._ring_bytes > self.RING_BYTES and len(ring) > 1):
            gone = ring.popleft()
            self._ring_bytes -= len(gone.entry.body)
            self.ring_floor = gone.entry.revision

    def changes_after(self, revision: int) -> list[ObjectChange] | None:
        """The changes after a revision, or None if the ring does not reach back that far."""
        if revision < self.ring_floor:
            return None
        if revision >= self.revision:
            return []
        return [c for c in self.ring if c.entry.revision > revision]

    def reform(self, refresh: Callable[[bytes], bytes], *, before: int) -> None:
        """Bring what was written before a revision into the form served now: a CRD was updated.

        Revisions stay and nothing is stored; the next write of an object does that.
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
    """All resources, following one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.revision = store.revision
        self._by_prefix: dict[str, ResourceCache] = {}
        self._unclaimed: dict[str, list[KeyValue]] = {}
        self._stop: Callable[[], None] | None = None

    async def load(self) -> None:
        """Read everything and start following. MUST be called once, before any write."""
        page = await self.store.scan("/registry/")
        for record in page.records:
            self._unclaimed.setdefault(_prefix_of(record.key), []).append(record)
        self.revision = page.revision
        self._stop = self.store.observe(self._observe)

    def close(self) -> None:
        """Stop following."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def resource(self, prefix: str, *, namespaced: bool) -> ResourceCache:
        """The cache of a prefix; made, with what was loaded for it, on first use."""
        found = self._by_prefix.get(prefix)
        if found is None:
            found = ResourceCache(prefix, namespaced=namespaced, revision=self.revision)
            found.load(self._unclaimed.pop(prefix, ()))
            self._by_prefix[prefix] = found
        return found

    def drop(self, prefix: str) -> None:
        """Forget an empty resource (its CRD is gone)."""
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
    """`/registry/configmaps/` or, for groups that are stored by name, `/registry/a.b/things/`."""
    first = key.index("/", 10) + 1  # behind "/registry/x"
    if "." in key[10:first]:
        return key[: key.index("/", first) + 1]
    return key[:first]
