# SPDX-License-Identifier: Apache-2.0
"""The SQLite store after a clean and after an unclean shutdown."""

import asyncio
import errno
import fcntl
import os
import stat
import sys
from pathlib import Path

import pytest
from tests.programs import run_program
from tests.unit.store.harness import Harness, Recorder, brief, crash_copy, read_history

from rdd.store.contract import Compacted, Delete, KeyValue, Put, StoreEvent, StoreInUse, Unavailable
from rdd.store.sqlite.store import SqliteStore


async def test_all_data_is_available_after_a_restart(disk: Harness) -> None:
    store = await disk.open()
    await store.commit([Put("/a", b"1"), Put("/b", b"1")])
    await store.commit([Put("/a", b"2")])
    await store.commit([Delete("/b")])
    await store.close()
    again = await disk.open()
    assert again.revision == 3
    assert (await again.scan("")).records == [KeyValue("/a", b"2", 2, 1)]
    assert await again.commit([Put("/a", b"3", expect=2)]) == 4


async def test_history_continues_across_a_restart(disk: Harness) -> None:
    store = await disk.open()
    seen: list[StoreEvent] = []
    store.observe(seen.extend)
    for n in range(6):
        await store.commit([Put("/a", b"%d" % n)])
    await store.commit([Delete("/a")])
    await store.close()
    again = await disk.open()
    await again.commit([Put("/a", b"new")])
    events = await read_history(again, "/", 2)
    assert events[:5] == seen[2:]
    assert brief(events[5:]) == [("put", "/a", b"new", 8)]


async def test_compaction_survives_a_restart(disk: Harness) -> None:
    store = await disk.open()
    for _ in range(5):
        await store.commit([Put("/a", b"v")])
    await store.compact(3)
    await store.close()
    again = await disk.open()
    assert again.compacted == 3
    with pytest.raises(Compacted):
        await again.history("/", 2)


async def test_crash_loses_nothing_and_revisions_continue_behind_the_reservation(
    disk: Harness,
) -> None:
    store = await disk.open()
    assert isinstance(store, SqliteStore)
    for n in range(5):
        await store.commit([Put("/a", b"%d" % n)])
    crashed = Harness("sqlite", disk.directory / "crashed")
    await crash_copy(store, disk.path, crashed.path)
    again = await crashed.open()
    assert again.revision > 5
    assert (await again.scan("")).records == [KeyValue("/a", b"4", 5, 1)]
    assert [event.revision for event in await read_history(again, "/", 2)] == [3, 4, 5]
    jumped = again.revision
    assert await again.commit([Put("/a", b"5", expect=5)]) == jumped + 1
    await again.close()
    third = await crashed.open()
    assert third.revision == jumped + 1, "a clean end leaves no gap"
    await third.close()


async def test_opening_and_closing_without_a_write_changes_nothing(disk: Harness) -> None:
    store = await disk.open()
    await store.commit([Put("/a", b"1")])
    await store.close()
    for _ in range(3):
        store = await disk.open()
        assert store.revision == 1
        await store.close()


async def test_clean_shutdown_leaves_one_file_and_its_lock(disk: Harness) -> None:
    store = await disk.open()
    await store.commit([Put("/a", b"1")])
    await store.close()
    assert sorted(os.listdir(disk.directory)) == ["store.db", "store.db.lock"]


async def test_files_are_readable_by_their_owner_only(disk: Harness) -> None:
    store = await disk.open()
    await store.commit([Put("/a", b"1")])
    for name in os.listdir(disk.directory):
        assert stat.S_IMODE((disk.directory / name).stat().st_mode) == 0o600, name


async def test_missing_directories_are_created(disk: Harness) -> None:
    disk.directory = disk.directory / "one" / "two"
    store = await disk.open()
    await store.commit([Put("/a", b"1")])
    assert stat.S_IMODE(disk.directory.stat().st_mode) == 0o700


async def test_second_open_in_this_process_is_rejected(disk: Harness) -> None:
    await disk.open()
    with pytest.raises(
        StoreInUse, match=rf"store\.db is in use by another process \(pid {os.getpid()}"
    ):
        await disk.open()


async def test_second_open_in_another_process_is_rejected(disk: Harness) -> None:
    store = await disk.open()
    await store.commit([Put("/a", b"1")])
    program = (
        "import asyncio, pathlib, sys\n"
        "from rdd.store.sqlite.store import SqliteStore\n"
        "asyncio.run(SqliteStore.open(pathlib.Path(sys.argv[1])))\n"
    )
    done = run_program([sys.executable, "-c", program, str(disk.path)])
    assert done.returncode != 0
    assert f"is in use by another process (pid {os.getpid()})" in done.stderr
    assert await store.commit([Put("/a", b"2")]) == 2


async def test_closed_store_can_be_opened_by_others(disk: Harness) -> None:
    store = await disk.open()
    await store.close()
    again = await disk.open()
    assert again.revision == 0


async def test_file_system_without_locks_is_reported(
    disk: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(Unavailable, match=r"store\.db\.lock cannot be locked: .*No locks"):
        await disk.open()


def test_store_runs_on_uvloop(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def use() -> list[int]:
        store = await SqliteStore.open(tmp_path / "store.db")
        recorder = Recorder(store)
        await asyncio.gather(*(store.commit([Put(f"/{n}", b"v")]) for n in range(50)))
        await store.close()
        return [event.revision for event in recorder.events]

    assert uvloop.run(use()) == list(range(1, 51))
