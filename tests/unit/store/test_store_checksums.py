# SPDX-License-Identifier: Apache-2.0
"""Flipped bits: every one is found, costs one object at most, and can be repaired."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.store.harness import Harness

from rdd.store.contract import (
    ABSENT,
    Compacted,
    CompareFailed,
    Damaged,
    DamagedValue,
    Put,
    Unavailable,
)
from rdd.store.options import StoreOptions
from rdd.store.sqlite import backup, repair, schema
from rdd.store.sqlite.store import SqliteStore

FIXTURES = Path(__file__).parents[2] / "data" / "store"


async def closed(disk: Harness) -> Path:
    """A closed store with keys /a to /e; /a was written twice."""
    store = await disk.open()
    await store.commit([Put("/a", b"first")])
    for name in "abcde":
        await store.commit([Put(f"/{name}", b"value of " + name.encode() * 500)])
    await store.commit([Put("/temporary", b"t", ttl_s=1e6)])
    await store.close()
    return disk.path


def change(path: Path, statement: str, *arguments: object) -> None:
    """Change columns behind the back of the store; its checksum does not follow."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, arguments)


def flip(path: Path, text: bytes) -> None:
    """Flip one bit of a text in the file."""
    data = bytearray(path.read_bytes())
    at = data.index(text)
    data[at] ^= 1
    path.write_bytes(data)


async def test_flipped_bit_in_a_value_costs_one_object(disk: Harness) -> None:
    path = await closed(disk)
    flip(path, b"value of ccc")
    store = await disk.open()
    page = await store.scan("/")
    assert [record.key for record in page.records] == ["/a", "/b", "/d", "/e", "/temporary"]
    assert [record.key for record in page.damaged] == ["/c"]
    assert [record.key for record in repair.find_damaged(path)] == ["/c"]
    with pytest.raises(DamagedValue, match="the stored value of /c is damaged"):
        await store.get("/c")
    with pytest.raises(CompareFailed):  # the key stays reserved
        await store.commit([Put("/c", b"x", expect=ABSENT)])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
async def test_pages_pass_over_damaged_records(disk: Harness, limit: int) -> None:
    path = await closed(disk)
    for name in (b"a", b"c", b"e"):
        flip(path, b"value of " + name * 3)
    store = await disk.open()
    found, damaged, after, more = [], [], "", True
    while more:
        page = await store.scan("/", after=after, limit=limit)
        found += [record.key for record in page.records]
        damaged += [record.key for record in page.damaged]
        more, after = page.more, page.after
    assert (found, damaged) == (["/b", "/d", "/temporary"], ["/a", "/c", "/e"])


@pytest.mark.parametrize("column", ["created", "previous", "expires", "checksum"])
async def test_every_column_is_covered(disk: Harness, column: str) -> None:
    path = await closed(disk)
    change(path, f"UPDATE log SET {column} = {column} + 4096 WHERE key = '/c'")
    store = await disk.open()
    assert [record.key for record in (await store.scan("/")).damaged] == ["/c"]
    disk.clock.now += 1e7
    assert isinstance(store, SqliteStore)
    assert await store.expire() <= 1  # /temporary; a damaged time does not delete an object
    assert [record.key for record in repair.find_damaged(path)] == ["/c"]


async def test_history_does_not_hand_out_damaged_values(disk: Harness) -> None:
    path = await closed(disk)
    change(path, "UPDATE log SET value = x'00' WHERE value = ?", b"first")
    store = await disk.open()
    with pytest.raises(Compacted):
        await store.history("/", 0)
    assert len((await store.scan("/")).records) == 6


async def test_damaged_index_entry_is_built_again(
    disk: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite does not compare an index with its table at start."""
    path = await closed(disk)
    data = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        ((page,),) = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'log_by_key'"
        ).fetchall()
    start = (page - 1) * schema.PAGE_BYTES
    at = data.index(b"/c", start, start + schema.PAGE_BYTES)
    data[at + 1] ^= 2  # /c becomes /a
    path.write_bytes(data)
    store = await disk.open()
    assert "the index of keys is damaged" in caplog.text
    page_ = await store.scan("/")
    assert [r.key for r in page_.records] == ["/a", "/b", "/c", "/d", "/e", "/temporary"]
    with pytest.raises(CompareFailed):
        await store.commit([Put("/c", b"x", expect=ABSENT)])


async def test_damaged_key_is_corrected_from_the_index(disk: Harness) -> None:
    path = await closed(disk)
    data = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        pages = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'log' AND pagetype = 'leaf'"
        ).fetchall()
    for (page,) in pages:
        start = (page - 1) * schema.PAGE_BYTES
        at = data.find(b"/cvalue"[:2], start, start + schema.PAGE_BYTES)
        if at >= 0:
            data[at + 1] = 0xFF  # not even text any more
    path.write_bytes(data)
    store = await disk.open()
    page_ = await store.scan("/")
    assert "/c" in [record.key for record in page_.records]
    assert list(page_.damaged) == []


async def test_damaged_object_is_replaced_or_removed(disk: Harness) -> None:
    path = await closed(disk)
    flip(path, b"value of aaa")
    flip(path, b"value of ccc")
    value = repair.find_value(path, "/a")
    assert value is not None
    assert value.value == b"first"
    assert repair.find_value(path, "/c") is None
    repair.replace(path, "/a", value.value)
    repair.remove(path, "/c")
    with pytest.raises(LookupError):
        repair.remove(path, "/c")
    store = await disk.open()
    page = await store.scan("/")
    assert [record.key for record in page.records] == ["/a", "/b", "/d", "/e", "/temporary"]
    assert list(page.damaged) == []
    assert page.records[0].value == b"first"
    await store.commit([Put("/c", b"again", expect=ABSENT)])


async def test_store_in_use_is_not_repaired(disk: Harness) -> None:
    store = await disk.open()
    await store.commit([Put("/a", b"1")])
    with pytest.raises(Exception, match="in use by another process"):
        repair.remove(disk.path, "/a")


# -- formats


async def opened(tmp_path: Path, name: str, **options: object) -> SqliteStore:
    shutil.copy(FIXTURES / name, tmp_path / "store.db")
    return await SqliteStore.open(
        tmp_path / "store.db",
        options=StoreOptions(**options),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", ["format-1.db", "format-2.db"])
async def test_files_of_every_format_are_read(tmp_path: Path, name: str) -> None:
    store = await opened(tmp_path, name)
    page = await store.scan("/registry/configmaps/")
    assert [r.key.rpartition("/")[2] for r in page.records] == [f"c{n}" for n in (1, *range(3, 9))]
    assert list(page.damaged) == []
    assert b'"n":"100"' in page.records[0].value
    assert len((await store.history("/registry/configmaps/", 0)).events) == 10
    await store.commit([Put("/registry/configmaps/default/c2", b"new", expect=ABSENT)])
    await store.close()
    assert backup.verify(tmp_path / "store.db").version == schema.VERSION
    again = await SqliteStore.open(tmp_path / "store.db")
    assert len((await again.scan("/registry/configmaps/")).records) == 8
    await again.close()


async def test_migration_keeps_a_verified_copy_of_the_old_format(tmp_path: Path) -> None:
    store = await opened(tmp_path, "format-1.db", backup_dir=tmp_path / "kept")
    await store.close()
    (copy,) = (tmp_path / "kept").iterdir()
    found = backup.verify(copy)
    assert (found.version, found.objects) == (1, 8)


async def test_migration_without_a_copy_does_not_happen(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("no directory")
    shutil.copy(FIXTURES / "format-1.db", tmp_path / "store.db")
    before = (tmp_path / "store.db").read_bytes()
    with pytest.raises((Unavailable, OSError)):
        await SqliteStore.open(
            tmp_path / "store.db", options=StoreOptions(backup_dir=tmp_path / "kept")
        )
    assert (tmp_path / "store.db").read_bytes() == before


async def test_migration_finds_values_that_are_none(tmp_path: Path) -> None:
    store = await opened(tmp_path, "format-1.db", is_readable=lambda value: b'"c3"' not in value)
    page = await store.scan("/registry/configmaps/")
    assert [r.key for r in page.damaged] == ["/registry/configmaps/default/c3"]
    await store.close()


def test_copy_that_is_damaged_is_not_verified(tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    shutil.copy(FIXTURES / "format-2.db", path)
    data = bytearray(path.read_bytes())
    data[schema.PAGE_BYTES * 2 : schema.PAGE_BYTES * 2 + 64] = b"\xa5" * 64
    path.write_bytes(data)
    with pytest.raises(Damaged):
        backup.verify(path)
    with pytest.raises(Damaged, match="does not exist"):
        backup.verify(tmp_path / "none.db")
