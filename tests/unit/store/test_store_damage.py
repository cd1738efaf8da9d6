# SPDX-License-Identifier: Apache-2.0
"""Files that are not healthy stores: each is rejected by name and left unchanged."""

import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.store.harness import Harness, crash_copy

from rdd.store.contract import Damaged, NewerFormat, Put, Unavailable
from rdd.store.sqlite import integrity, schema
from rdd.store.sqlite.examination import examine
from rdd.store.sqlite.store import SqliteStore

ADVICE = (
    "The file was left unchanged. Restore a backup in its place, "
    "or move it away to start with an empty store."
)


@pytest.fixture
async def healthy(disk: Harness) -> Path:
    """Create a cleanly closed file with enough pages to damage some."""
    store = await disk.open()
    for n in range(60):
        await store.commit([Put(f"/{n:02}/{'k' * 200}", b"%02d" % n * 1_000)])
    await store.close()
    return disk.path


def patch(offset: int, data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with path.open("rb+") as file:
            file.seek(offset)
            file.write(data)

    return damage


def cut(keep: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        os.truncate(path, int(path.stat().st_size * keep))

    return damage


def write(data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipe (name TEXT)")


def page_size(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 4096")
        connection.executescript(schema.CREATE)


def stateless(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM state")


def page_of(name: str, path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)
        ).fetchone()
    return int(page)


def garbage_in(name: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        patch((page_of(name, path) - 1) * schema.PAGE_BYTES, b"\xa5" * schema.PAGE_BYTES)(path)

    return damage


def tableless(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE mark")


def content(path: Path) -> bytes:
    return path.read_bytes()


def mark_unclean(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE state SET is_clean = 0")


def unclean_garbage(path: Path) -> None:
    """Damage a page in the middle of the data, which only a full check finds."""
    mark_unclean(path)
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'log' AND pagetype = 'leaf' LIMIT 1 OFFSET 5"
        ).fetchone()
    patch((page - 1) * schema.PAGE_BYTES, b"\xa5" * 64)(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(write(b""), " is empty. ", id="empty"),
        pytest.param(write(b"\0" * 9_000), " is not a store: ", id="zeros"),
        pytest.param(write(b"kind: ConfigMap\n" * 99), " is not a store: ", id="text"),
        pytest.param(write(b"SQLite format 3\0"), " is not a store: ", id="header only"),
        pytest.param(foreign, " is an SQLite database of another program. ", id="foreign"),
        pytest.param(page_size, " has pages of 4096 bytes instead of 8192. ", id="page size"),
        pytest.param(cut(0.5), " is truncated: ", id="half a file"),
        pytest.param(cut(0.99), " is truncated: ", id="a little too short"),
        pytest.param(stateless, " has no state. ", id="no state"),
        pytest.param(tableless, " is damaged (no such table: mark). ", id="no table"),
        pytest.param(garbage_in("state"), " is damaged (", id="garbage in state"),
        pytest.param(garbage_in("log_by_key"), " is damaged (", id="garbage in the index"),
        pytest.param(patch(100, b"\xa5" * 1_000), " is damaged (", id="garbage in the schema"),
        pytest.param(unclean_garbage, " is damaged (", id="garbage after an unclean end"),
    ],
)
async def test_damaged_file_is_rejected_and_left_unchanged(
    disk: Harness, healthy: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(healthy)
    before = content(healthy)
    with pytest.raises(Damaged) as failure:
        await disk.open()
    assert str(failure.value).startswith(f"{healthy}{message}")
    assert str(failure.value).endswith(ADVICE)
    assert content(healthy) == before
    with pytest.raises(Damaged):
        await disk.open()  # the lock was released


async def test_file_of_a_newer_version_is_rejected(disk: Harness, healthy: Path) -> None:
    patch(60, struct.pack(">I", schema.VERSION + 1))(healthy)
    with pytest.raises(Damaged, match=r"was written by a newer version \(format 3, this version"):
        await disk.open()


async def test_newer_version_that_is_only_in_the_log_is_rejected(
    disk: Harness, healthy: Path
) -> None:
    """As after a crash between the end of a change of the format and its checkpoint."""
    crashed = disk.directory / "crashed.db"
    with closing(sqlite3.connect(healthy, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        for suffix in ("", "-wal"):
            shutil.copy(f"{healthy}{suffix}", f"{crashed}{suffix}")
    assert integrity.inspect(crashed) == schema.VERSION  # the header is the old one
    assert isinstance(examine(crashed), NewerFormat)
    for _ in range(2):  # the lock was released
        with pytest.raises(NewerFormat, match="was written by a newer version"):
            await SqliteStore.open(crashed)


async def test_directory_is_not_a_store(disk: Harness) -> None:
    disk.path.mkdir()
    with pytest.raises(Damaged, match="is a directory, not a store"):
        await disk.open()


async def test_log_of_a_missing_file_is_not_applied_to_a_new_one(disk: Harness) -> None:
    store = await disk.open()
    assert isinstance(store, SqliteStore)
    await store.commit([Put("/a", b"1")])
    crashed = Harness("sqlite", disk.directory / "crashed")
    await crash_copy(store, disk.path, crashed.path)
    crashed.path.unlink()
    with pytest.raises(Damaged, match=r"store\.db is missing, but its log store\.db-wal exists"):
        await crashed.open()
    assert not crashed.path.exists()


async def test_damaged_pages_are_found_after_a_clean_shutdown(disk: Harness, healthy: Path) -> None:
    with closing(sqlite3.connect(healthy)) as connection:
        pages = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'log' AND pagetype = 'leaf'"
        ).fetchall()
    for (page,) in pages[1:-1]:  # the last page is read at the start, for the newest revision
        patch((page - 1) * schema.PAGE_BYTES, b"\xa5" * 64)(healthy)
    with pytest.raises(Damaged, match=r"store\.db is damaged \(database disk image is malformed"):
        await disk.open()


async def test_unreadable_file_is_not_reported_as_damaged(
    disk: Harness, healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "connect_reader", lambda path: sqlite3.connect("/nowhere/a.db"))
    with pytest.raises(Unavailable, match="could not be read: unable to open database file"):
        await disk.open()


async def test_healthy_file_passes_the_full_check(disk: Harness, healthy: Path) -> None:
    mark_unclean(healthy)
    store = await disk.open()
    assert len((await store.scan("")).records) == 60
