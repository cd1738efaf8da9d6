# SPDX-License-Identifier: Apache-2.0
"""Damaged values of a store that no process uses: find them, replace them, remove them.

A repair appends to the log as any write does, at a revision that was never assigned, so clients
that watch see it as a change. The damaged row stays until it is compacted.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rdd.store.contract import DamagedRecord, Unavailable
from rdd.store.keys import ID_SHIFT, Row
from rdd.store.sqlite import integrity, schema
from rdd.store.sqlite.checksums import checksum, is_intact


@dataclass(frozen=True, slots=True)
class GoodValue:
    """An undamaged earlier value of a key."""

    value: bytes
    revision: int


def find_damaged(path: Path) -> list[DamagedRecord]:
    """Return the damaged live records of a store, which may be in use. Raises Damaged."""
    with _reading(path) as connection:
        return [
            DamagedRecord(str(row[1]), row[0] >> ID_SHIFT)
            for row in connection.execute(schema.LIVE_ROWS)
            if not is_intact(row)
        ]


def find_value(path: Path, key: str) -> GoodValue | None:
    """Return the newest undamaged value of a key in a store or a copy of one."""
    with _reading(path) as connection:
        for row in connection.execute(schema.ROWS_OF_KEY, (key,)):
            if not row[0] & 1 and is_intact(row):
                return GoodValue(row[5], row[0] >> ID_SHIFT)
    return None


def replace(path: Path, key: str, value: bytes) -> None:
    """Store a value in place of the damaged one. Raises LookupError if the key is not live."""
    _append(path, key, value)


def remove(path: Path, key: str) -> None:
    """Delete a damaged key. Raises LookupError if the key is not live."""
    _append(path, key, None)


def raise_revision(path: Path, revision: int) -> None:
    """Let the next revision of a store be greater than `revision`, and all up to it compacted."""
    with _exclusive(path) as connection:
        connection.execute(
            "UPDATE state SET reserved = max(reserved, ?1), compacted = max(compacted, ?1)",
            (revision + 1,),
        )


def _append(path: Path, key: str, value: bytes | None) -> None:
    with _exclusive(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(
            "SELECT id, created FROM log INDEXED BY log_by_key WHERE key = ? "
            "ORDER BY id DESC LIMIT 1",
            (key,),
        ).fetchone()
        if found is None or found[0] & 1:
            connection.execute("ROLLBACK")
            raise LookupError(key)
        (_, _, reserved, _) = connection.execute(schema.STATE).fetchone()
        (last,) = connection.execute(schema.LAST_ID).fetchone()
        revision = max(reserved, last >> ID_SHIFT) + 1
        identity = revision << ID_SHIFT | (value is None)
        row: Row = (identity, key, found[1], found[0], 0, value or b"")
        connection.execute(schema.insert(1), (*row, checksum(row)))
        connection.execute("UPDATE state SET reserved = ?", (revision,))
        connection.execute("COMMIT")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    integrity.inspect(path)
    try:
        with contextlib.closing(schema.connect_reader(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise integrity.unreadable(path, error) from error


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[sqlite3.Connection]:
    lock = integrity.acquire_lock(path)
    try:
        with contextlib.closing(schema.connect_writer(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise Unavailable(f"{path} could not be changed: {error}") from error
    finally:
        integrity.release_lock(lock)
