# SPDX-License-Identifier: Apache-2.0
"""The SQLite file: its tables, its settings, its statements.

One table, `log`, has a row per change (see keys.py for the id). The index
covers everything but values: which keys are live, since when, until when.
`checksum` covers all other columns of its row (checksums.py).
After compaction at C the newest row up to C of each live key stays, so
`previous` leads to the previous value of every retained change.

`state` is one row: `compacted` is the compacted revision that readers see,
`swept` (row id) how far the rows have been deleted, `reserved` the greatest
revision that may have been assigned, `is_clean` whether the last shutdown was
clean. `mark` holds the time marks of retention.py.
"""

import contextlib
import fcntl
import os
import sqlite3
from functools import partial as bind
from pathlib import Path

from rdd.host.files import open_new, replace

APPLICATION_ID = 0x72646473  # "rdds", bytes 68..71 of the file
VERSION = 2  # of the tables below, bytes 60..63 of the file; older ones: migration.py

# 8 KiB holds five objects of 1.4 KiB where 4 KiB holds two, and a commit of
# one row still writes few pages: 18 µs per row in batches of 32 against 26 µs
# with 4 KiB and 26 µs with 16 KiB.
PAGE_BYTES = 8192

CREATE = f"""
CREATE TABLE log (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    created INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    value BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX log_by_key ON log (key, id, created, expires);
CREATE TABLE mark (revision INTEGER PRIMARY KEY, time REAL NOT NULL);
CREATE TABLE state (
    compacted INTEGER NOT NULL, swept INTEGER NOT NULL,
    reserved INTEGER NOT NULL, is_clean INTEGER NOT NULL
);
INSERT INTO state VALUES (0, 0, 0, 1);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""

STATE = "SELECT compacted, swept, reserved, is_clean FROM state"
LAST_ID = "SELECT max(id) FROM log"
MARKS = "SELECT revision, time FROM mark ORDER BY revision"

LIVE = """
SELECT key, max(id) AS newest, created, expires FROM log INDEXED BY log_by_key
GROUP BY key HAVING newest & 1 = 0
"""

# Whole rows, as checksums.py expects them.
_ROW = "log.id, log.key, log.created, log.previous, log.expires, log.value, log.checksum"
LIVE_ROWS = f"""
SELECT {_ROW} FROM (
    SELECT key, max(id) AS newest FROM log INDEXED BY log_by_key
    GROUP BY key HAVING newest & 1 = 0 ORDER BY newest
) AS live CROSS JOIN log ON log.id = live.newest
"""
# The index must lead to the rows that it describes, and to all of them: a key that an index
# entry lost would count as free.
STRAY_INDEX_ENTRIES = f"""
SELECT count(*) FROM ({LIVE}) AS live LEFT JOIN log ON log.id = live.newest
WHERE log.key IS NOT live.key OR log.created IS NOT live.created OR log.expires IS NOT live.expires
"""
INDEX_TOTALS = "SELECT count(*), total(id) FROM log INDEXED BY log_by_key"
TABLE_TOTALS = "SELECT count(*), total(id) FROM log NOT INDEXED"
STRAY_ROWS = f"""
SELECT live.key, live.created, live.expires, {_ROW} FROM ({LIVE}) AS live
JOIN log ON log.id = live.newest
WHERE log.key IS NOT live.key OR log.created IS NOT live.created OR log.expires IS NOT live.expires
"""
HEAL = "UPDATE log SET key = ?, created = ?, expires = ? WHERE id = ?"
REINDEX = "REINDEX log_by_key"
ROWS_OF_KEY = f"SELECT {_ROW} FROM log WHERE key = ? ORDER BY id DESC"
ROW = f"SELECT {_ROW} FROM log WHERE id = ?"

GET = f"SELECT {_ROW} FROM log WHERE key = ? AND id < ? ORDER BY id DESC LIMIT 1"

# CROSS JOIN keeps the order of the loops: one walk along the index, one lookup per live key.
# All of a range is fetched in the order of the file, a page of it in the order of keys.
_SCAN = f"""
SELECT {_ROW} FROM (
    SELECT key, max(id) AS newest FROM log INDEXED BY log_by_key
    WHERE key >= ? AND key < ? AND id < ?
    GROUP BY key HAVING newest & 1 = 0 ORDER BY {{}}
) AS live CROSS JOIN log ON log.id = live.newest
"""
SCAN_ALL = _SCAN.format("newest")
SCAN_PAGE = _SCAN.format("key LIMIT ?")

HISTORY = """
SELECT now.id, now.key, now.created, now.previous, now.expires, now.value, now.checksum,
    before.id, before.key, before.created, before.previous, before.expires, before.value,
    before.checksum
FROM log AS now LEFT JOIN log AS before ON before.id = now.previous
WHERE now.id >= ? AND now.id < ? AND now.key >= ? AND now.key < ? ORDER BY now.id
"""

VALUE = "SELECT value FROM log WHERE id = ?"

RESERVE = "UPDATE state SET reserved = ?, is_clean = 0"
PROBE = "UPDATE state SET is_clean = 0"
MARK = "INSERT OR REPLACE INTO mark VALUES (?, ?)"
CLOSE = "UPDATE state SET reserved = ?, is_clean = 1"

COMPACT = "UPDATE state SET compacted = max(compacted, ?)"
SWEEP_END = """
SELECT max(id) FROM (SELECT id FROM log WHERE id > ? AND id < ? ORDER BY id LIMIT ?)
"""
# A row that was replaced before the end is not the newest row of its key there, and a
# delete before the end carries no state: everything else stays. The comparison of keys keeps a
# damaged `previous` from deleting another object.
SWEEP = (
    "DELETE FROM log WHERE id IN (SELECT before.id FROM log AS now JOIN log AS before "
    "ON before.id = now.previous AND before.key = now.key WHERE now.id > ? AND now.id <= ?)",
    "DELETE FROM log WHERE id > ? AND id <= ? AND id & 1",
)
SWEPT = "UPDATE state SET swept = ?"
DELETE_OLD_MARKS = "DELETE FROM mark WHERE revision < (SELECT compacted FROM state)"


TEXT = bind(str, encoding="utf-8", errors="surrogateescape")
"""Reads text whose bytes are damaged; by default, sqlite3 fails the whole query."""


def insert(rows: int) -> str:
    """Return the statement that appends that many rows."""
    return "INSERT INTO log VALUES " + ",".join(["(?,?,?,?,?,?,?)"] * rows)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot change the file, not even when it is closed."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.text_factory = TEXT
        connection.execute("PRAGMA cache_size = -1024")  # KiB; the OS caches the file as well
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_writer(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    for pragma in (
        "synchronous = FULL",
        "fullfsync = ON",  # macOS: a plain fsync leaves data in the cache of the drive
        "checkpoint_fullfsync = ON",
        "cache_size = -1024",
        # Some builds overwrite everything that is deleted, which doubles what compaction
        # writes; FAST does so where the page is written anyway.
        "secure_delete = FAST",
        # The writer checkpoints between batches by its own estimate; this is the fallback.
        "wal_autocheckpoint = 16000",
        f"journal_size_limit = {64 << 20}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def create(path: Path) -> None:
    """Create an empty store atomically: at its name it is complete and durable, or absent."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        os.close(open_new(partial))
        with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as connection:
            initialize(connection)
        publish(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def initialize(connection: sqlite3.Connection) -> None:
    """Create the tables of a store in an empty database."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.executescript(CREATE)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()


def publish(partial: Path, path: Path) -> None:
    """Rename a finished file to its final name and make both durable."""
    with partial.open("rb+") as file:
        _sync(file.fileno())
    replace(partial, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        _sync(directory)
    finally:
        os.close(directory)


def _sync(file: int) -> None:
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)  # macOS, as in connect_writer
    if full_sync is None:
        os.fsync(file)
    else:
        fcntl.fcntl(file, full_sync)
