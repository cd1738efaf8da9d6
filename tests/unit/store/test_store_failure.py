# SPDX-License-Identifier: Apache-2.0
"""Writes in flight, and disk failures."""

import asyncio
import errno
import io
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.harness import Harness, crash_copy, held_writer, read_history, turn

from rdd.cli.framework.log_handler import LogHandler
from rdd.cli.framework.logline import Log
from rdd.store.contract import ABSENT, CompareFailed, Delete, KeyValue, Put, StoreEvent, Unavailable
from rdd.store.options import StoreOptions
from rdd.store.sqlite import writer
from rdd.store.sqlite.store import SqliteStore
from rdd.store.sqlite.writer import CHECKPOINT_PAGES

BIG = b"v" * 100_000


async def run(store: SqliteStore, sql: str) -> list[object]:
    found: list[object] = []

    def work(connection: sqlite3.Connection) -> None:
        found.extend(row[0] for row in connection.execute(sql).fetchall())

    await store._writer.run(work)
    return found


async def fill_disk(store: SqliteStore) -> None:
    """Cause a real SQLITE_FULL."""
    await run(store, "PRAGMA max_page_count = 1")


async def free_disk(store: SqliteStore) -> None:
    await run(store, "PRAGMA max_page_count = 1000000")


async def test_failed_comparison_with_a_write_in_flight_is_pending(
    sqlite_store: SqliteStore,
) -> None:
    async with held_writer(sqlite_store):
        create = asyncio.ensure_future(sqlite_store.commit([Put("/a", b"1", expect=ABSENT)]))
        await turn()
        with pytest.raises(CompareFailed) as failure:
            await sqlite_store.commit([Put("/a", b"2", expect=ABSENT)])
        assert (failure.value.current, failure.value.pending) == (1, True)
        settled = asyncio.ensure_future(sqlite_store.settled("/a"))
        await turn()
        assert not settled.done()
        assert sqlite_store.revision == 0
        assert await sqlite_store.get("/a") is None
    await settled
    assert await create == 1


async def test_write_may_build_on_one_in_flight(sqlite_store: SqliteStore) -> None:
    events: list[StoreEvent] = []
    sqlite_store.observe(events.extend)
    async with held_writer(sqlite_store):
        commits = [
            asyncio.ensure_future(sqlite_store.commit([op]))
            for op in (
                Put("/a", b"1", expect=ABSENT),
                Put("/a", b"2", expect=1, previous=b"not needed"),
                Delete("/a", expect=2),
                Put("/a", b"4", expect=ABSENT),
            )
        ]
        await turn()
    assert await asyncio.gather(*commits) == [1, 2, 3, 4]
    assert [(e.previous, e.previous_revision, e.created) for e in events] == [
        (None, 0, 1),
        (b"1", 1, 1),
        (b"2", 2, 1),
        (None, 0, 4),
    ]


async def test_cancelled_caller_does_not_undo_the_write(sqlite_store: SqliteStore) -> None:
    async with held_writer(sqlite_store):
        commit = asyncio.ensure_future(sqlite_store.commit([Put("/a", b"1")]))
        await turn()
        commit.cancel()
        await turn()
    await sqlite_store.settled("/a")
    assert sqlite_store.revision == 1


async def test_full_disk_fails_the_commit_and_nothing_is_written(
    sqlite_store: SqliteStore,
) -> None:
    await sqlite_store.commit([Put("/a", b"1")])
    events: list[StoreEvent] = []
    sqlite_store.observe(events.extend)
    await fill_disk(sqlite_store)
    with pytest.raises(Unavailable, match=r"store\.db could not be written: .* full"):
        await sqlite_store.commit([Put("/a", BIG, expect=1), Put("/b", BIG)])
    await sqlite_store.settled("/a")
    assert (sqlite_store.revision, events) == (1, [])
    assert (await sqlite_store.scan("")).records == [KeyValue("/a", b"1", 1, 1)]


async def test_writes_succeed_after_a_full_disk_without_reusing_revisions(
    sqlite_store: SqliteStore, disk: Harness
) -> None:
    first = await sqlite_store.commit([Put("/a", b"1")])
    await fill_disk(sqlite_store)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await sqlite_store.commit([Put("/a", BIG, expect=first)])
    await free_disk(sqlite_store)
    second = await sqlite_store.commit([Put("/a", BIG, expect=first)])
    assert second == 5
    assert [event.revision for event in await read_history(sqlite_store, after=1)] == [5]
    await sqlite_store.close()
    again = await disk.open()
    assert await again.commit([Put("/a", b"3", expect=second)]) == 6


async def test_revisions_of_failed_writes_are_not_reused_after_a_restart(
    sqlite_store: SqliteStore, disk: Harness
) -> None:
    await sqlite_store.commit([Put("/a", b"1")])
    await fill_disk(sqlite_store)
    with pytest.raises(Unavailable):
        await sqlite_store.commit([Put("/a", BIG)])
    await sqlite_store.close()
    again = await disk.open()
    assert again.revision == 2
    assert await again.commit([Put("/a", b"1")]) == 3


async def test_writes_queued_behind_a_failure_fail(
    sqlite_store: SqliteStore,
) -> None:
    await sqlite_store.commit([Put("/a", b"1")])
    async with held_writer(sqlite_store):
        lost = [asyncio.ensure_future(sqlite_store.commit([Put("/a", BIG, expect=1)]))]
        await turn()  # the writer has the first one; the next are separate batches
        for op in (Put("/a", b"3", expect=2), Put("/b", b"x"), Delete("/a", expect=3)):
            lost.append(asyncio.ensure_future(sqlite_store.commit([op])))
            await turn()
        # The disk is full for the first only; the others would fit.
        asyncio.get_running_loop().call_soon(lambda: None)
        original = sqlite_store._writer._write
        failures = iter([sqlite3.OperationalError("disk I/O error")])

        def write(batches: list[writer.Batch]) -> None:
            for failure in failures:
                raise failure
            original(batches)

        sqlite_store._writer._write = write  # type: ignore[method-assign]
    outcomes = await asyncio.gather(*lost, return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    await sqlite_store.settled("/a")
    assert (await sqlite_store.scan("")).records == [KeyValue("/a", b"1", 1, 1)]
    assert await sqlite_store.commit([Put("/a", b"2", expect=1)]) == 6


async def test_batches_behind_a_failure_fail_without_a_try_until_the_next_epoch(
    sqlite_store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    def write(batches: list[writer.Batch]) -> None:
        attempts.append(len(batches))
        raise OSError("no such device")

    monkeypatch.setattr(sqlite_store._writer, "_write", write)
    reports: list[Callable[[], None]] = []
    monkeypatch.setattr(
        sqlite_store._writer,
        "_report",
        lambda batches, error: reports.append(lambda: sqlite_store._report(batches, error)),
    )
    lost = []
    for n in range(3):
        lost.append(asyncio.ensure_future(sqlite_store.commit([Put(f"/{n}", b"v")])))
        await turn()
        await run(sqlite_store, "SELECT 1")
    outbox = asyncio.ensure_future(sqlite_store.commit([Put("/late", b"v")]))
    await asyncio.sleep(0)
    assert sqlite_store._outbox, "a commit of this turn is still in the outbox"
    for report in reports:
        report()
    outcomes = await asyncio.gather(*lost, outbox, return_exceptions=True)
    assert attempts == [1]
    assert [str(outcome) for outcome in outcomes[1:3]] == ["an earlier write failed"] * 2
    assert "no such device" in str(outcomes[0])
    assert "no such device" in str(outcomes[3])


async def test_store_whose_file_was_removed_rejects_writes(
    sqlite_store: SqliteStore, disk: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FILE_CHECK_INTERVAL_S", 0)
    await sqlite_store.commit([Put("/a", b"1")])
    moved = disk.path.with_name("moved.db")
    disk.path.rename(moved)
    with pytest.raises(Unavailable, match="No such file"):
        await sqlite_store.commit([Put("/a", b"2")])
    disk.path.write_bytes(b"another")
    with pytest.raises(Unavailable, match="the file was replaced while in use"):
        await sqlite_store.commit([Put("/a", b"2")])
    os.replace(moved, disk.path)
    assert await sqlite_store.commit([Put("/a", b"2")]) == 4


async def test_only_batches_of_relaxed_commits_skip_the_fsync(sqlite_store: SqliteStore) -> None:
    full, normal = 2, 1
    await sqlite_store.commit([Put("/a", b"1")], durable=False)
    assert await run(sqlite_store, "PRAGMA synchronous") == [full], "the block is reserved first"
    await sqlite_store.commit([Put("/a", b"1")], durable=False)
    assert await run(sqlite_store, "PRAGMA synchronous") == [normal]
    await asyncio.gather(
        sqlite_store.commit([Put("/b", b"1")], durable=False),
        sqlite_store.commit([Put("/c", b"1")]),
    )
    assert await run(sqlite_store, "PRAGMA synchronous") == [full]
    assert await run(sqlite_store, "PRAGMA journal_mode") == ["wal"]
    assert await run(sqlite_store, "PRAGMA fullfsync") == [1]


async def test_failed_compaction_is_logged_and_retried(
    disk: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    store = await disk.open(StoreOptions(keep_revisions=10, keep_s=0, compact_every=5))
    assert isinstance(store, SqliteStore)
    store._writer.compact = failing_compact  # type: ignore[method-assign]
    await asyncio.gather(*(store.commit([Put("/a", b"v")]) for _ in range(300)))
    await store.commit([Put("/a", b"v")])
    await asyncio.gather(*store._compactions)
    assert "history was not compacted, will retry: disk full" in caplog.text
    assert await store.commit([Put("/a", b"v")]) == 302


async def failing_compact(revision: int) -> None:
    raise Unavailable("disk full")


async def test_failed_maintenance_is_retried_with_the_next_write(
    sqlite_store: SqliteStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(50):
        await sqlite_store.commit([Put("/a", b"v")], durable=False)

    def fail() -> None:
        sqlite_store._writer._connection.execute("BEGIN")
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store._writer, "_sweep", fail)
        await sqlite_store.compact(50)
        await run(sqlite_store, "SELECT 1")
    assert "maintenance failed, will retry: database or disk is full" in caplog.text
    await sqlite_store.commit([Put("/a", b"v")])
    await run(sqlite_store, "SELECT 1")
    assert await run(sqlite_store, "SELECT count(*) FROM log") == [2]


@pytest.mark.parametrize(
    "error",
    [sqlite3.OperationalError("disk I/O error"), OSError(errno.EIO, "I/O error"), MemoryError()],
)
async def test_writer_survives_maintenance_that_fails_and_cannot_be_rolled_back(
    sqlite_store: SqliteStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Without its thread the next commit and the close would wait for ever."""
    writer = sqlite_store._writer
    begun = writer._connection

    class Failing:
        in_transaction = True

        def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
            if sql == "ROLLBACK":
                raise sqlite3.OperationalError("no transaction is active")
            return begun.execute(sql, parameters)

    def fail() -> None:
        writer._connection = Failing()  # type: ignore[assignment]
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_checkpoint", fail)
        writer._wal_pages = CHECKPOINT_PAGES
        await sqlite_store.commit([Put("/a", b"1")])
        await run(sqlite_store, "SELECT 1")
    writer._connection = begun
    writer._wal_pages = 0
    assert await sqlite_store.commit([Put("/a", b"2")]) == 2
    await asyncio.wait_for(sqlite_store.close(), 120)


async def test_writer_survives_a_log_on_a_full_disk(
    disk: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kill -9 on a full disk the first checkpoint fails, and its warning does, too."""
    store = await disk.open()
    assert isinstance(store, SqliteStore)

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    handler = LogHandler(Log(Full(), level="trace"))
    monkeypatch.setattr("rdd.store.sqlite.writer.log.handlers", [handler])
    monkeypatch.setattr(store._writer, "_checkpoint", fail)
    store._writer._wal_pages = CHECKPOINT_PAGES
    await asyncio.wait_for(store.commit([Put("/a", b"1")]), 120)
    await asyncio.wait_for(store.commit([Put("/a", b"2")]), 120)
    await asyncio.wait_for(store.close(), 120)
    assert await (await disk.open()).get("/a") is not None


async def test_lock_is_free_after_a_disk_without_space_for_the_pid(
    disk: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("rdd.store.sqlite.integrity.os.write", fail)
        with pytest.raises(Unavailable, match="No space left on device"):
            await disk.open()
    assert await (await disk.open()).commit([Put("/a", b"1")]) == 1


async def test_closing_waits_for_writes_in_flight(disk: Harness) -> None:
    store = await disk.open()
    commits = [asyncio.ensure_future(store.commit([Put(f"/{n}", b"v")])) for n in range(5)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*commits) == [1, 2, 3, 4, 5]
    again = await disk.open()
    assert len((await again.scan("")).records) == 5


async def test_store_closes_even_if_the_clean_mark_fails(
    sqlite_store: SqliteStore, disk: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    await sqlite_store.commit([Put("/a", b"1")])
    await run(sqlite_store, "PRAGMA query_only = ON")
    await sqlite_store.close()
    assert "not closed cleanly" in caplog.text
    again = await disk.open()
    assert await again.get("/a") == KeyValue("/a", b"1", 1, 1)
    assert again.revision > 1, "after an unclean end the store continues behind its reservation"


async def test_problem_lasts_until_a_write_can_succeed(
    sqlite_store: SqliteStore, disk: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rdd.store.sqlite.writer.FILE_CHECK_INTERVAL_S", 0.0)
    await sqlite_store.commit([Put("/a", b"1")])
    assert sqlite_store.problem() == ""
    away = disk.path.with_name("away.db")
    disk.path.rename(away)
    with pytest.raises(Unavailable):
        await sqlite_store.commit([Put("/a", b"2")])
    for _ in range(5):  # no write of a client follows
        await asyncio.sleep(0.01)
        assert "No such file" in sqlite_store.problem()
    away.rename(disk.path)
    for _ in range(3_000):
        if not sqlite_store.problem():
            break
        await asyncio.sleep(0.01)
    assert sqlite_store.problem() == ""
    await sqlite_store.commit([Put("/a", b"2")])


async def test_log_of_crashed_processes_does_not_grow(disk: Harness, tmp_path: Path) -> None:
    """Each run writes less than what makes a process checkpoint on its own."""
    source, sizes = disk.path, []
    store = await disk.open()
    for crash in range(6):
        assert isinstance(store, SqliteStore)
        for n in range(60):
            await store.commit([Put(f"/{n}", BIG)])
        target = tmp_path / f"crash-{crash}" / "store.db"
        await crash_copy(store, source, target)
        await store.close()
        source, store = target, await SqliteStore.open(target)
        sizes.append(target.with_name("store.db-wal").stat().st_size)
    await store.close()
    assert sizes[-1] <= 2 * sizes[0], sizes
