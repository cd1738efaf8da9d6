# SPDX-License-Identifier: Apache-2.0
"""Copies of a store that is in use.

SQLite's backup interface copies one read snapshot, so the copy is consistent
while writes continue. It is written next to the target, made durable and
renamed: the target is always the old file or the complete new one.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from rdd.store.contract import Unavailable
from rdd.store.keys import Row
from rdd.store.sqlite import schema


def copy(source: Path, target: Path) -> None:
    """Copy the store at source to target. Raises Unavailable; ValueError if they are the same."""
    if target.exists() and target.samefile(source):
        raise ValueError("a store cannot be its own backup")
    with contextlib.closing(schema.connect_reader(source)) as connection:
        _write(target, connection.backup)


def dump(rows: Iterable[Row], target: Path, *, compacted: int, reserved: int) -> None:
    """Write a store with these rows to target."""

    def fill(copy: sqlite3.Connection) -> None:
        schema.initialize(copy)
        copy.execute("BEGIN")
        copy.executemany(schema.insert(1), rows)
        copy.execute(schema.COMPACT, (compacted,))
        copy.execute(schema.RESERVE, (reserved,))
        copy.execute("COMMIT")

    _write(target, fill)


def _write(target: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
        with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as connection:
            # A partial file needs no journal; `publish` syncs it as a whole.
            connection.execute("PRAGMA journal_mode = OFF").fetchall()
            connection.execute("PRAGMA synchronous = OFF")
            fill(connection)
        schema.publish(partial, target)
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"no backup was written to {target}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
