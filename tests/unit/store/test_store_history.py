# SPDX-License-Identifier: Apache-2.0
"""History in chunks, and the seam between history and observed events."""

import asyncio
import threading
from dataclasses import replace

import pytest
from tests.unit.store.harness import AnyStore, Harness, Recorder, read_history, turn

from rdd.store.contract import Compacted, Delete, EventType, Put, StoreEvent
from rdd.store.sqlite import reader
from rdd.store.sqlite.store import SqliteStore


async def test_observer_receives_only_later_changes(store: AnyStore) -> None:
    await store.commit([Put("/a", b"1")])
    recorder = Recorder(store)
    await store.commit([Put("/a", b"2")])
    previous = None if store.is_distributed else b"1"
    assert recorder.events == [StoreEvent(EventType.PUT, "/a", b"2", 2, 1, previous, 1)]


async def test_history_is_limited_to_its_prefix(store: AnyStore) -> None:
    await store.commit([Put("/pods/a", b"1"), Put("/podsets/a", b"1")])
    await store.commit([Put("/secrets/a", b"1")])
    await store.commit([Put("/pods/b", b"1")])
    events = await read_history(store, "/pods/")
    assert [event.key for event in events] == ["/pods/a", "/pods/b"]


async def test_history_without_matching_keys_is_complete_up_to_the_newest_revision(
    store: AnyStore,
) -> None:
    for _ in range(3):
        await store.commit([Put("/a", b"v")])
    chunk = await store.history("/b", 1)
    assert (chunk.events, chunk.revision) == ([], 3)


@pytest.mark.parametrize("chunk", [1, 4, 512])
@pytest.mark.parametrize("after", [1, 2, 5, 9, 11, 12])
async def test_history_and_observed_events_join_without_gap_or_repetition(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch, chunk: int, after: int
) -> None:
    monkeypatch.setattr(reader, "CHUNK_EVENTS", chunk)
    for n in range(6):
        await store.commit([Put("/a/x", b"%d" % n), Put(f"/a/{n}", b"v")])
        await store.commit([Put("/b", b"")])
    recorder, joined_at = Recorder(store), store.revision
    live = [await store.commit([Put("/a/x", b"live%d" % n)]) for n in range(3)]
    past = [e for e in await read_history(store, "/a", after) if e.revision <= joined_at]
    expected = [r for r in range(after + 1, 13) if r % 2 for _ in range(2)] + live
    assert [event.revision for event in past + recorder.events] == expected


@pytest.mark.parametrize("chunk", [3, 512])
async def test_history_equals_the_observed_events(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(reader, "CHUNK_EVENTS", chunk)
    recorder = Recorder(store)
    await store.commit([Put("/first", b"")])
    for n in range(5):
        await store.commit([Put("/a", b"%d" % n), Put("/b", b"x")])
        await store.commit([Delete("/a")])
    found = await read_history(store, after=1)
    assert [e.previous for e in found if e.type is EventType.DELETE] == [
        b"%d" % n for n in range(5)
    ]
    if store.is_distributed:  # observers get no previous values
        found = [replace(event, previous=None) for event in found]
    assert found == recorder.events[1:]


async def test_commits_between_two_chunks_are_part_of_the_history(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CHUNK_EVENTS", 3)
    for n in range(20):
        await store.commit([Put(f"/{n}", b"v")])
    seen: list[StoreEvent] = []
    after = 1
    while after < 40:
        chunk = await store.history("/", after)
        seen += chunk.events
        after = chunk.revision
        if store.revision < 40:
            await store.commit([Put("/late", b"v")])
    assert [event.revision for event in seen] == list(range(2, 41))


async def test_chunk_never_splits_a_revision(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", 10)
    for _ in range(5):
        await store.commit([Put(f"/{n}", b"12345") for n in range(6)])
    after, seen = 1, list[int]()
    while after < store.revision:
        chunk = await store.history("/", after)
        revisions = [event.revision for event in chunk.events]
        assert not set(revisions) & set(seen)
        assert chunk.revision == revisions[-1]
        seen += revisions
        after = chunk.revision
    assert len(seen) == 24
    assert sorted(seen) == seen


@pytest.mark.parametrize("after", [0, 2])
async def test_history_before_the_compacted_revision_is_rejected(
    store: AnyStore, after: int
) -> None:
    for _ in range(4):
        await store.commit([Put("/a", b"v")])
    await store.compact(3)
    with pytest.raises(Compacted, match=f"revision {after} has been compacted, the oldest is 3"):
        await store.history("/", after)
    assert [event.revision for event in await read_history(store, "/", 3)] == [4]


async def test_compaction_before_the_read_starts_is_detected(sqlite_store: SqliteStore) -> None:
    for _ in range(10):
        await sqlite_store.commit([Put("/a", b"v")])
    release = threading.Event()
    sqlite_store._reader._executor.submit(release.wait)
    reading = asyncio.ensure_future(sqlite_store.history("/", 2))
    await turn()
    await sqlite_store.compact(5)
    release.set()
    with pytest.raises(Compacted, match="revision 2 has been compacted, the oldest is 5"):
        await reading


async def test_closing_the_store_finishes_a_read_that_has_started(local: Harness) -> None:
    store = await local.open()
    for n in range(10):
        await store.commit([Put(f"/{n}", b"v")])
    reading = asyncio.ensure_future(store.history("/", 1))
    await turn()
    await store.close()
    assert len((await reading).events) == 9
