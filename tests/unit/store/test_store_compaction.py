# SPDX-License-Identifier: Apache-2.0
"""Compaction: what it removes and keeps, when it runs, and its effect on the file."""

import asyncio
import sqlite3

import pytest
from tests.unit.store.harness import AnyStore, Harness, LocalStore, Recorder, read_history

from rdd.store.contract import Compacted, Delete, EventType, KeyValue, Put
from rdd.store.options import StoreOptions
from rdd.store.sqlite import writer
from rdd.store.sqlite.store import SqliteStore


async def stored(local_store: LocalStore) -> int:
    """Return the number of rows after all compacted ones have been swept."""
    if not isinstance(local_store, SqliteStore):
        return len(local_store._log)
    counts: list[int] = []

    def count(connection: sqlite3.Connection) -> None:
        while local_store._writer._do_maintenance():
            pass
        counts.extend(connection.execute("SELECT count(*) FROM log").fetchone())

    await local_store._writer.run(count)
    return counts[0]


async def test_compaction_keeps_live_values_and_later_history(local_store: LocalStore) -> None:
    await local_store.commit([Put("/old", b"1")])
    await local_store.commit([Put("/a", b"1")])
    await local_store.commit([Put("/gone", b"1")])
    await local_store.commit([Put("/a", b"2")])
    await local_store.commit([Delete("/gone")])
    await local_store.commit([Put("/a", b"3")])
    await local_store.compact(5)
    assert local_store.compacted == 5
    assert await stored(local_store) == 3  # /old, /a at 4 as of revision 5, and /a at 6
    assert (await local_store.scan("/", revision=5)).records == [
        KeyValue("/a", b"2", 4, 2),
        KeyValue("/old", b"1", 1, 1),
    ]
    (event,) = await read_history(local_store, "/", 5)
    assert (event.value, event.previous, event.previous_revision) == (b"3", b"2", 4)


async def test_reads_before_the_compacted_revision_are_rejected(store: AnyStore) -> None:
    for _ in range(3):
        await store.commit([Put("/a", b"v")])
    await store.compact(2)
    with pytest.raises(Compacted, match="revision 1 has been compacted, the oldest is 2"):
        await store.scan("/", revision=1)
    with pytest.raises(Compacted):
        await store.get("/a", revision=1)


async def test_compacting_backwards_changes_nothing(store: AnyStore) -> None:
    for _ in range(3):
        await store.commit([Put("/a", b"v")])
    await store.compact(2)
    await store.compact(1)
    await store.compact(2)
    assert store.compacted == 2


async def test_key_can_be_created_again_after_its_delete_was_compacted(
    local_store: LocalStore,
) -> None:
    await local_store.commit([Put("/a", b"1")])
    await local_store.commit([Delete("/a")])
    await local_store.compact(2)
    assert await stored(local_store) == 0
    recorder = Recorder(local_store)
    await local_store.commit([Put("/a", b"3", expect=0)])
    (event,) = recorder.events
    assert (event.type, event.created, event.previous) == (EventType.PUT, 3, None)


async def test_later_compaction_sweeps_rows_that_an_earlier_one_kept(
    local_store: LocalStore,
) -> None:
    for n in range(10):
        await local_store.commit([Put("/a", b"%d" % n), Put(f"/{n}", b"v")])
        await local_store.compact(n + 1)
    assert await stored(local_store) == 11
    for n in range(10):
        await local_store.commit([Delete(f"/{n}")])
    await local_store.compact(20)
    assert await stored(local_store) == 1


async def test_history_is_kept_by_count_and_by_age(harness: Harness) -> None:
    store = await harness.open(StoreOptions(keep_revisions=20, keep_s=300, compact_every=10))

    async def write(count: int) -> None:
        for _ in range(count // 50):
            await asyncio.gather(*(store.commit([Put("/a", b"v")]) for _ in range(50)))
        if isinstance(store, SqliteStore):
            await asyncio.gather(*store._compactions)

    await write(600)
    assert store.compacted == 0, "young history is kept, however much it is"
    for _ in range(2):
        harness.clock.now += 301
        await write(300)
    assert 0 < store.compacted <= 900, "what is old goes"
    await store.scan("/", revision=900)
    harness.clock.now += 301
    compacted = store.compacted
    await write(0)
    assert store.compacted == compacted, "nothing happens without writes"


async def test_history_by_count_survives_any_age(harness: Harness) -> None:
    store = await harness.open(StoreOptions(keep_revisions=1_000, keep_s=1, compact_every=1))
    for _ in range(50):
        harness.clock.now += 1_000
        await store.commit([Put("/a", b"v")])
    assert store.compacted == 0
    await store.scan("/", revision=1)


async def test_compaction_continues_after_the_clock_is_set_back(harness: Harness) -> None:
    store = await harness.open(StoreOptions(keep_revisions=5, keep_s=60, compact_every=5))
    await asyncio.gather(*(store.commit([Put("/a", b"v")]) for _ in range(600)))
    harness.clock.now -= 1_000_000
    for _ in range(3):
        harness.clock.now += 61
        for _ in range(4):
            await asyncio.gather(*(store.commit([Put("/a", b"v")]) for _ in range(100)))
    assert store.compacted > 600


async def test_file_stops_growing_under_constant_updates(disk: Harness) -> None:
    store = await disk.open_local(StoreOptions(keep_revisions=100, keep_s=0, compact_every=50))
    sizes: list[int] = []
    for _ in range(10):
        for _ in range(5):
            await asyncio.gather(
                *(store.commit([Put(f"/{n % 10}", b"v" * 2_000)]) for n in range(100))
            )
        await stored(store)
        sizes.append(disk.path.stat().st_size)
    assert await stored(store) < 500
    # 10 MB were written. How much of it is still to be swept when the size is read varies
    # between runs; that the space is reused does not.
    assert max(sizes) < 3_000_000


async def test_large_file_drops_history_regardless_of_age(
    disk: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 10)
    store = await disk.open_local(
        StoreOptions(keep_revisions=10, compact_every=10, crowded_bytes=100_000)
    )
    assert isinstance(store, SqliteStore)
    for _ in range(60):
        await store.commit([Put("/a", b"v" * 20_000)])
        await stored(store)
    assert store.compacted >= 30


def truncate(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


async def test_space_of_a_burst_is_returned_to_the_file_system(disk: Harness) -> None:
    store = await disk.open_local()
    await asyncio.gather(*(store.commit([Put("/a", b"v" * 60_000)]) for _ in range(400)))
    await stored(store)
    assert isinstance(store, SqliteStore)
    await store._writer.run(truncate)
    before = disk.path.stat().st_size
    await store.compact(store.revision)
    assert await stored(store) == 1
    await store.close()
    assert disk.path.stat().st_size < before / 3


async def test_interrupted_sweep_continues_after_a_restart(
    disk: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SWEEP_ROWS", 5)
    monkeypatch.setattr(writer.LogWriter, "_do_maintenance", lambda self: False)
    store = await disk.open_local()
    for n in range(20):
        await store.commit([Put("/a", b"%d" % n)])
    await store.compact(19)
    assert isinstance(store, SqliteStore)
    await store._writer.run(lambda _: store._writer._sweep())
    await store.close()
    monkeypatch.undo()
    again = await disk.open_local()
    assert again.compacted == 19
    assert await stored(again) == 2
    (event,) = await read_history(again, "/", 19)
    assert (event.value, event.previous) == (b"19", b"18")
