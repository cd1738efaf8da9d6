# SPDX-License-Identifier: Apache-2.0
"""Watches: replay, live events, the seam between them, and slow consumers."""

import asyncio

import pytest
from tests.unit.store.harness import AnyStore, Harness, brief, take

from rdd.store.contract import Compacted, Delete, Event, EventType, Overrun, Put
from rdd.store.options import StoreOptions
from rdd.store.sqlite import reader

SHORT_MEMORY = StoreOptions(ring_events=4)


async def test_a_watch_from_now_sees_only_what_comes(store: AnyStore) -> None:
    await store.commit([Put("/a", b"1")])
    watch = store.watch("/")
    await store.commit([Put("/a", b"2")])
    assert await take(watch, 1) == [Event(EventType.PUT, "/a", b"2", 2, 1, b"1", 1)]


async def test_a_watch_sees_only_its_prefix(store: AnyStore) -> None:
    watch = store.watch("/pods/")
    await store.commit([Put("/pods/a", b"1"), Put("/podsets/a", b"1")])
    await store.commit([Put("/secrets/a", b"1")])
    await store.commit([Put("/pods/b", b"1")])
    assert [event.key for event in await take(watch, 2)] == ["/pods/a", "/pods/b"]


@pytest.mark.parametrize("options", [StoreOptions(), SHORT_MEMORY, StoreOptions(ring_bytes=0)])
@pytest.mark.parametrize("after", [1, 2, 5, 9, 11, 12])
async def test_history_is_replayed_and_live_events_follow_without_gap_or_repetition(
    harness: Harness, options: StoreOptions, after: int
) -> None:
    store = await harness.open(options)
    for n in range(6):
        await store.commit([Put("/a/x", b"%d" % n), Put(f"/a/{n}", b"v")])
        await store.commit([Put("/b", b"")])
    watch = store.watch("/a", after=after)
    live = [await store.commit([Put("/a/x", b"live%d" % n)]) for n in range(3)]
    expected = [r for r in range(after + 1, 13) if r % 2 for _ in range(2)] + live
    assert [event.revision for event in await take(watch, len(expected))] == expected


@pytest.mark.parametrize("options", [StoreOptions(), SHORT_MEMORY])
async def test_replayed_events_are_those_that_were_seen_live(
    harness: Harness, options: StoreOptions
) -> None:
    store = await harness.open(options)
    seen: list[Event] = []
    store.observe(seen.extend)
    await store.commit([Put("/first", b"")])
    for n in range(5):
        await store.commit([Put("/a", b"%d" % n), Put("/b", b"x")])
        await store.commit([Delete("/a")])
    assert await take(store.watch("", after=1), len(seen) - 1) == seen[1:]


async def test_commits_during_a_replay_are_not_missed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CHUNK_EVENTS", 3)
    store = await harness.open(SHORT_MEMORY)
    for n in range(20):
        await store.commit([Put(f"/{n}", b"v")])
    watch = aiter(store.watch("/", after=1))
    seen = list(await anext(watch))
    while seen[-1].revision < 40:
        if store.revision < 40:
            await store.commit([Put("/late", b"v")])
        seen += await anext(watch)
    assert [event.revision for event in seen] == list(range(2, 41))


async def test_a_replay_never_splits_a_revision(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", 10)
    store = await harness.open(SHORT_MEMORY)
    for _ in range(5):
        await store.commit([Put(f"/{n}", b"12345") for n in range(6)])
    watch = aiter(store.watch("/", after=1))
    seen: list[int] = []
    while len(seen) < 24:
        batch = [event.revision for event in await anext(watch)]
        assert not set(batch) & set(seen)
        seen += batch
    assert sorted(seen) == seen


async def test_a_watch_waits_and_ends_when_closed(store: AnyStore) -> None:
    watch = store.watch("/")
    waiting = asyncio.ensure_future(take(watch, 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_closing_the_store_ends_its_watches(harness: Harness) -> None:
    store = await harness.open(SHORT_MEMORY)
    for n in range(10):
        await store.commit([Put(f"/{n}", b"v")])
    live, replaying = store.watch("/"), store.watch("/", after=1)
    await store.close()
    assert [batch async for batch in live] == []
    assert [batch async for batch in replaying] == []


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(StoreOptions(watch_events=5), id="by count"),
        pytest.param(StoreOptions(watch_bytes=5), id="by bytes"),
    ],
)
async def test_a_watch_that_falls_behind_ends_with_overrun_and_the_others_go_on(
    harness: Harness, options: StoreOptions
) -> None:
    store = await harness.open(options)
    slow, fast = store.watch("/"), store.watch("/")
    for n in range(6):
        await store.commit([Put(f"/{n}", b"v")])
        assert brief(await take(fast, 1)) == [("put", f"/{n}", b"v", n + 1)]
    with pytest.raises(Overrun, match="a watch of / fell 6 events behind"):
        await take(slow, 1)


async def test_a_single_batch_beyond_the_bound_is_still_delivered(harness: Harness) -> None:
    store = await harness.open(StoreOptions(watch_events=5))
    watch = store.watch("/")
    await store.commit([Put(f"/{n}", b"v") for n in range(20)])
    assert len(await take(watch, 20)) == 20


async def test_a_watch_before_the_compacted_revision_is_refused(store: AnyStore) -> None:
    for _ in range(4):
        await store.commit([Put("/a", b"v")])
    await store.compact(3)
    with pytest.raises(Compacted, match="revision 2 has been compacted, the oldest is 3"):
        store.watch("/", after=2)
    assert [event.revision for event in await take(store.watch("/", after=3), 1)] == [4]


async def test_a_replay_overtaken_by_compaction_ends_with_compacted(harness: Harness) -> None:
    store = await harness.open(SHORT_MEMORY)
    for _ in range(10):
        await store.commit([Put("/a", b"v")])
    watch = store.watch("/", after=2)
    await store.compact(5)
    with pytest.raises(Compacted, match="revision 2 has been compacted, the oldest is 5"):
        await take(watch, 1)
