# SPDX-License-Identifier: Apache-2.0
"""The cache of current objects and recent changes."""

import uuid

import pytest

from rdd.apiserver.state import codec
from rdd.apiserver.state.cache import ObjectCache, ResourceCache
from rdd.apiserver.state.entries import ADDED, DELETED, MODIFIED, ObjectChange
from rdd.store.contract import ABSENT, Delete, Put
from rdd.store.memory import MemoryStore

CONFIG_MAPS = "/registry/configmaps/"
WIDGETS = "/registry/example.com/widgets/"


def stored(name: str, **labels: str) -> bytes:
    meta = {"name": name, "uid": str(uuid.uuid4()), "labels": labels}
    return codec.encode({"metadata": meta})


async def loaded(store: MemoryStore) -> ObjectCache:
    cache = ObjectCache(store)
    await cache.load()
    return cache


async def test_write_is_in_the_cache_when_its_commit_returns() -> None:
    store = MemoryStore()
    cache = await loaded(store)
    maps = cache.resource(CONFIG_MAPS, namespaced=True)
    revision = await store.commit([Put(f"{CONFIG_MAPS}ns/a", stored("a"), ABSENT)])
    entry = maps.get("ns", "a")
    assert entry is not None and entry.revision == revision == cache.revision
    assert entry.decode()["metadata"]["resourceVersion"] == str(revision)


async def test_stored_objects_are_loaded_on_first_use_of_a_resource() -> None:
    store = MemoryStore()
    await store.commit([Put(f"{WIDGETS}ns/a", stored("a"))])
    await store.commit([Put("/registry/namespaces/ns", stored("ns"))])
    cache = await loaded(store)
    assert [e.name for e in cache.resource(WIDGETS, namespaced=True).entries("ns")] == ["a"]
    names = cache.resource("/registry/namespaces/", namespaced=False)
    assert [e.name for e in names.entries()] == ["ns"]


async def test_objects_of_all_namespaces_are_listed_in_key_order() -> None:
    store = MemoryStore()
    cache = await loaded(store)
    maps = cache.resource(CONFIG_MAPS, namespaced=True)
    for key in ("a/z", "a-b/y", "b/x", "a/c"):
        await store.commit([Put(CONFIG_MAPS + key, stored(key.rpartition("/")[2]))])
    found = [f"{e.namespace}/{e.name}" for e in maps.entries()]
    assert found == ["a-b/y", "a/c", "a/z", "b/x"]


async def test_list_shows_a_later_change_of_one_of_its_objects() -> None:
    store = MemoryStore()
    cache = await loaded(store)
    maps = cache.resource(CONFIG_MAPS, namespaced=True)
    for name in "abc":
        await store.commit([Put(f"{CONFIG_MAPS}ns/{name}", stored(name))])
    assert [e.name for e in maps.entries("ns")] == ["a", "b", "c"]
    revision = await store.commit([Put(f"{CONFIG_MAPS}ns/b", stored("b", x="1"))])
    assert [e.revision for e in maps.entries("ns")][1] == revision
    assert maps.entries("ns")[1].labels == {"x": "1"}


async def test_changes_have_the_previous_state_and_the_revision_of_a_deletion() -> None:
    store = MemoryStore()
    cache = await loaded(store)
    maps = cache.resource(CONFIG_MAPS, namespaced=True)
    seen: list[ObjectChange] = []
    maps.listeners.append(seen.extend)
    await store.commit([Put(f"{CONFIG_MAPS}ns/a", stored("a"))])
    await store.commit([Put(f"{CONFIG_MAPS}ns/a", stored("a", x="1"))])
    revision = await store.commit([Delete(f"{CONFIG_MAPS}ns/a")])
    assert [c.type for c in seen] == [ADDED, MODIFIED, DELETED]
    assert seen[0].old is None and seen[1].old is seen[0].entry
    last = seen[2].entry.decode()["metadata"]
    assert last["resourceVersion"] == str(revision) and last["labels"] == {"x": "1"}
    assert maps.count == 0 and maps.get("ns", "a") is None


async def test_ring_keeps_recent_changes_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ResourceCache, "RING_COUNT", 3)
    store = MemoryStore()
    cache = await loaded(store)
    maps = cache.resource(CONFIG_MAPS, namespaced=True)
    revisions = [await store.commit([Put(f"{CONFIG_MAPS}ns/{n}", stored(n))]) for n in "abcde"]
    recent = maps.changes_after(revisions[2])
    assert recent is not None and [c.entry.name for c in recent] == ["d", "e"]
    assert maps.changes_after(revisions[-1]) == []
    assert maps.changes_after(revisions[0]) is None


async def test_ring_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResourceCache, "RING_BYTES", 500)
    store = MemoryStore()
    cache = await loaded(store)
    maps = cache.resource(CONFIG_MAPS, namespaced=True)
    for _ in range(20):
        await store.commit([Put(f"{CONFIG_MAPS}ns/a", stored("a", x="y" * 100))])
    assert 1 <= len(maps.ring) <= 3


async def test_reform_converts_objects_written_before_a_revision() -> None:
    store = MemoryStore()
    cache = await loaded(store)
    widgets = cache.resource(WIDGETS, namespaced=True)
    await store.commit([Put(f"{WIDGETS}ns/old", stored("old"))])
    changed_at = await store.commit([Put("/registry/other/x", stored("x"))])
    await store.commit([Put(f"{WIDGETS}ns/new", stored("new"))])

    def refresh(body: bytes) -> bytes:
        obj = codec.decode(body)
        obj["spec"] = {"filled": "in"}
        return codec.encode(obj)

    revision = widgets.entries("ns")[1].revision
    widgets.reform(refresh, before=changed_at)
    new, old = widgets.entries("ns")
    assert old.decode()["spec"] == {"filled": "in"} and old.revision == revision
    assert "spec" not in new.decode()
