# SPDX-License-Identifier: Apache-2.0
"""Older formats of the file become the current one when a store is opened.

A verified copy of the file in its old format is written first: if it cannot be, nothing changes
and the store does not open. Then one transaction changes the tables and the version, so that a
crash at any moment leaves either format, complete.

    1 → 2   a checksum per row (`checksums.py`)

Bits that flipped under format 1 cannot be found by a checksum made now. `is_readable`, which the
owner of the values provides, finds those that are not even values any more; they get a wrong
checksum and are treated as damaged from then on.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from rdd.store.contract import Damaged, Unavailable
from rdd.store.sqlite import backup, schema
from rdd.store.sqlite.checksums import checksum

log = logging.getLogger(__name__)

IsReadable = Callable[[bytes], bool]
"""Whether a value can be one that the owner of the store has written."""


def migrate(path: Path, version: int, *, backup_dir: Path, is_readable: IsReadable) -> None:
    """Change a store to the current format. Raises Unavailable or Damaged; then it is unchanged."""
    target = backup.automatic_path(backup_dir, f"format-{version}")
    backup_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    backup.copy(path, target)
    try:
        backup.verify(target)
    except Damaged as error:
        raise Damaged(
            f"{path} has format {version} and was not changed to format {schema.VERSION}, "
            f"because its copy is damaged: {error}"
        ) from error
    try:
        with contextlib.closing(schema.connect_writer(path)) as connection:
            _add_checksums(connection, is_readable)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise Unavailable(
            f"{path} could not be changed to format {schema.VERSION}: {error}"
        ) from error
    log.info(
        "%s was changed from format %d to %d; %s is a copy of the old one",
        path, version, schema.VERSION, target,
    )  # fmt: skip


def _add_checksums(connection: sqlite3.Connection, is_readable: IsReadable) -> None:
    def make(*row: object) -> int:
        found = checksum(row)  # type: ignore[arg-type]  # the columns of a Row
        value, identity = row[5], row[0]
        assert isinstance(value, bytes)
        assert isinstance(identity, int)
        # A delete has no value.
        return found if identity & 1 or is_readable(value) else found ^ 0xFFFFFFFF

    connection.create_function("row_checksum", 6, make, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ALTER TABLE log ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
    connection.execute(
        "UPDATE log SET checksum = row_checksum(id, key, created, previous, expires, value)"
    )
    connection.execute(f"PRAGMA user_version = {schema.VERSION}")
    connection.execute("COMMIT")
