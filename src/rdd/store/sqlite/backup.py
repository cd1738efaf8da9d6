# SPDX-License-Identifier: Apache-2.0
"""Copies of a store that is in use, and their verification.

SQLite's backup interface copies one read snapshot, so the copy is consistent
while writes continue. It is written next to the target, made durable and
renamed: the target is always the old file or the complete new one.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rdd.host.files import open_new
from rdd.store.contract import NewerFormat, Unavailable
from rdd.store.keys import ID_SHIFT, Row
from rdd.store.sqlite import integrity, schema
from rdd.store.sqlite.checksums import checksum, is_intact

SUFFIX = ".db"


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verified copy contains."""

    version: int
    revision: int
    objects: int
    damaged: tuple[str, ...]
    """Keys whose value is damaged; the rest of the copy is good."""


def automatic_path(directory: Path, reason: str) -> Path:
    """Return the path of a new copy that the program makes on its own; names sort by time."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1, 10_000):
        more = f"-{number}" if number > 1 else ""
        path = directory / f"{stamp}{more}-{reason}{SUFFIX}"
        if not path.exists():
            break
    return path


def copy(source: Path, target: Path) -> None:
    """Copy the store at source to target. Raises Unavailable; ValueError if they are the same."""
    if target.exists() and target.samefile(source):
        raise ValueError("a store cannot be its own backup")
    try:
        connection = schema.connect_reader(source)
    except sqlite3.Error as error:
        raise Unavailable(f"{source} could not be read: {error}") from error
    with contextlib.closing(connection):
        _write(target, connection.backup)


def verify(path: Path) -> Verified:
    """Read all of a copy. Raises Damaged unless it can be used as a store.

    The file is opened as immutable: neither it nor a file beside it is changed.
    """
    version = integrity.inspect(path)
    if not version:
        raise integrity.damaged(path, "does not exist")
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None
        )
        with contextlib.closing(connection):
            connection.text_factory = schema.TEXT
            (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if finding != "ok":
                raise integrity.damaged(path, f"is damaged ({finding})")
            compacted, _, reserved, _ = connection.execute(schema.STATE).fetchone()
            (last,) = connection.execute(schema.LAST_ID).fetchone()
            damaged: list[str] = []
            objects = 0
            if version == 1:
                (objects,) = connection.execute(f"SELECT count(*) FROM ({schema.LIVE})").fetchone()
            else:
                for row in connection.execute(schema.LIVE_ROWS):
                    objects += 1
                    if not is_intact(row):
                        damaged.append(str(row[1]))
    except sqlite3.Error as error:
        raise integrity.unreadable(path, error) from error
    revision = max(reserved, (last or 0) >> ID_SHIFT, compacted)
    return Verified(version, revision, objects, tuple(damaged))


def current_revision(path: Path) -> int:
    """Return the greatest revision that a store may have assigned. Raises Damaged.

    The store may have a newer format: so far, all have kept the revision in the same place.
    """
    with contextlib.suppress(NewerFormat):
        if not integrity.inspect(path):
            return 0
    try:
        with contextlib.closing(schema.connect_reader(path)) as connection:
            _, _, reserved, _ = connection.execute(schema.STATE).fetchone()
            (last,) = connection.execute(schema.LAST_ID).fetchone()
    except sqlite3.Error as error:
        raise integrity.unreadable(path, error) from error
    return max(int(reserved), (last or 0) >> ID_SHIFT)


def dump(rows: Iterable[Row], target: Path, *, compacted: int, reserved: int) -> None:
    """Write a store with these rows to target."""

    def fill(copy: sqlite3.Connection) -> None:
        schema.initialize(copy)
        copy.execute("BEGIN")
        copy.executemany(schema.insert(1), ((*row, checksum(row)) for row in rows))
        copy.execute(schema.COMPACT, (compacted,))
        copy.execute(schema.RESERVE, (reserved,))
        copy.execute("COMMIT")

    _write(target, fill)


def _write(target: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(open_new(partial))
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
