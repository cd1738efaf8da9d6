# SPDX-License-Identifier: Apache-2.0
"""Copies of a store in use."""

import asyncio
import os
import stat
from pathlib import Path

import pytest
from tests.unit.store.harness import AnyStore, Harness, LocalStore, brief, read_history

from rdd.store.contract import Compacted, Delete, KeyValue, Put, Unavailable
from rdd.store.sqlite import repair
from rdd.store.sqlite.store import SqliteStore


async def test_backup_is_a_store_with_history(local_store: LocalStore, tmp_path: Path) -> None:
    for n in range(4):
        await local_store.commit([Put("/a", b"%d" % n)])
    await local_store.commit([Put("/b", b"1"), Delete("/a")])
    await local_store.compact(2)
    target = tmp_path / "copy" / "backup.db"
    target.parent.mkdir()
    await local_store.backup(target)
    assert os.listdir(target.parent) == ["backup.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    copy = await SqliteStore.open(target)
    try:
        assert copy.revision >= 5
        assert copy.compacted == 2
        assert (await copy.scan("")).records == [KeyValue("/b", b"1", 5, 5)]
        with pytest.raises(Compacted):
            await copy.history("/", 1)
        assert brief(await read_history(copy, "/", 2)) == [
            ("put", "/a", b"2", 3),
            ("put", "/a", b"3", 4),
            ("put", "/b", b"1", 5),
            ("delete", "/a", b"", 5),
        ]
    finally:
        await copy.close()


async def test_backup_during_writes_is_consistent(store: AnyStore, tmp_path: Path) -> None:
    """Every transaction writes the same number to two keys; a copy must never mix them."""
    target = tmp_path / "backup.db"

    async def write() -> None:
        for n in range(300):
            await store.commit([Put("/a", b"%d" % n), Put("/b", b"%d" % n)], durable=False)

    writing = asyncio.ensure_future(write())
    await asyncio.sleep(0)
    await store.backup(target)
    await writing
    copy = await SqliteStore.open(target)
    first, second = await copy.get("/a"), await copy.get("/b")
    await copy.close()
    assert (first and first.value) == (second and second.value)
    assert store.revision == 300


async def test_backup_replaces_an_older_one(local_store: LocalStore, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    target.write_bytes(b"older")
    await local_store.commit([Put("/a", b"1")])
    await local_store.backup(target)
    copy = await SqliteStore.open(target)
    assert await copy.get("/a") == KeyValue("/a", b"1", 1, 1)
    await copy.close()


async def test_failed_backup_leaves_nothing_behind(store: AnyStore, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    target.mkdir()
    (target / "file").touch()
    before = set(os.listdir(tmp_path))
    await store.commit([Put("/a", b"1")])
    with pytest.raises(Unavailable, match=f"no backup was written to {target}: "):
        await store.backup(target)
    assert set(os.listdir(tmp_path)) - {"store.db-wal", "store.db-shm"} == before - {
        "store.db-wal",
        "store.db-shm",
    }
    with pytest.raises(Unavailable, match="No such file"):
        await store.backup(tmp_path / "missing" / "backup.db")


async def test_backup_onto_the_store_itself_is_rejected(
    sqlite_store: SqliteStore, disk: Harness
) -> None:
    await sqlite_store.commit([Put("/a", b"1")])
    with pytest.raises(ValueError, match="cannot be its own backup"):
        await sqlite_store.backup(disk.path)
    assert await sqlite_store.commit([Put("/a", b"2")]) == 2


async def test_watch_from_before_a_restore_cannot_resume(tmp_path: Path) -> None:
    """What a restore undoes is in no history."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    store = await SqliteStore.open(path)
    await store.commit([Put("/a", b"1")])
    await store.backup(copy)
    undone = await store.commit([Put("/b", b"1")])
    await store.close()
    repair.raise_revision(copy, undone)
    store = await SqliteStore.open(copy)
    assert [record.key for record in (await store.scan("/")).records] == ["/a"]
    for revision in range(1, undone + 1):
        with pytest.raises(Compacted):
            await store.history("/", revision)
    now = store.revision
    later = await store.commit([Put("/c", b"1")])
    assert later > now > undone
    assert [event.key for event in (await store.history("/", now)).events] == ["/c"]
    await store.close()
