# SPDX-License-Identifier: Apache-2.0
"""Checks before a file is used as a store: format, integrity and exclusive use.

The cheap checks come first and read the bytes before SQLite opens the file,
because SQLite may write to a file merely by opening and closing it: the header,
the application and format version, the length. Then `verify` uses SQLite over
a read-only connection: after a clean shutdown it reads the state only, after
anything else it checks all pages (`PRAGMA quick_check`, 1 ms per 2 MB).

A lock on a file next to the store makes use exclusive. It is not a lock on the
store itself: POSIX locks on that file would interfere with SQLite's own.
"""

import contextlib
import os
import sqlite3
import struct
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.locks import FileLock
from rdd.store.contract import Damaged, NewerFormat, StoreInUse, Unavailable
from rdd.store.sqlite import schema
from rdd.store.sqlite.checksums import is_intact

_MAGIC = b"SQLite format 3\0"
_ADVICE = (
    "The file was left unchanged. Restore a backup in its place, "
    "or move it away to start with an empty store."
)


def damaged(path: Path, what: str) -> Damaged:
    """Return the error for a file that cannot be used: the file, the finding, the fix."""
    return Damaged(f"{path} {what}. {_ADVICE}")


def unreadable(path: Path, error: sqlite3.Error) -> Damaged | Unavailable:
    """Return the error for a failed read: Damaged for the file, Unavailable for the disk."""
    primary = error.sqlite_errorcode & 0xFF  # the upper bits are the extended code
    # SQLITE_ERROR: a statement does not match the tables.
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return damaged(path, f"is damaged ({error})")
    return Unavailable(f"{path} could not be read: {error}")


def acquire_lock(path: Path) -> FileLock:
    """Lock a store for this process, for as long as it runs; raise StoreInUse if it is locked."""
    lock_path = path.with_name(path.name + ".lock")
    try:
        # Not inherited by children: a VM that outlives the daemon must not hold its store.
        lock = FileLock.try_acquire(lock_path)
    except HostError as error:
        raise Unavailable(f"{lock_path} cannot be locked: {error}") from error
    if lock is None:
        owner = lock_path.read_text(errors="replace")[:32].strip() or "unknown"
        raise StoreInUse(
            f"{path} is in use by another process (pid {owner}). "
            "Stop that process first; two processes cannot share a store."
        )
    try:
        os.ftruncate(lock.descriptor, 0)
        os.write(lock.descriptor, f"{os.getpid()}\n".encode())
    except OSError as error:
        lock.release()
        raise Unavailable(f"{lock_path} cannot be written: {error.strerror}") from error
    return lock


def release_lock(lock: FileLock) -> None:
    """Release a store. The lock file stays; removing it would race with another opener."""
    with contextlib.suppress(OSError):  # the pid of a past owner is ignored while it is unlocked
        os.ftruncate(lock.descriptor, 0)
    lock.release()


def inspect(path: Path) -> int:
    """Return the format of the store at path, 0 if there is none.

    Raises Damaged if it is another file.
    """
    wal = path.with_name(path.name + "-wal")
    has_wal = wal.exists() and wal.stat().st_size > 0
    try:
        with path.open("rb") as file:
            header = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        if has_wal:
            # SQLite would apply these pages to whatever file appears under the name.
            raise Damaged(
                f"{path} is missing, but its log {wal.name} exists. Restore the file, "
                "or move the log away to start with an empty store."
            ) from None
        return 0
    except IsADirectoryError:
        raise damaged(path, "is a directory, not a store") from None
    if not header:
        raise damaged(path, "is empty")
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise damaged(path, "is not a store: it has no SQLite header")
    return _inspect_header(path, header, size, has_wal)


def _inspect_header(path: Path, header: bytes, size: int, has_wal: bool) -> int:
    (page_bytes,) = struct.unpack_from(">H", header, 16)
    change, pages = struct.unpack_from(">II", header, 24)
    version, application = struct.unpack_from(">I4xI", header, 60)
    (pages_valid_for,) = struct.unpack_from(">I", header, 92)
    if application != schema.APPLICATION_ID:
        raise damaged(path, "is an SQLite database of another program")
    if version > schema.VERSION:
        raise _newer(path, version)
    if page_bytes != schema.PAGE_BYTES:
        raise damaged(path, f"has pages of {page_bytes} bytes instead of {schema.PAGE_BYTES}")
    # An interrupted checkpoint may have written the header before the last pages;
    # then the log still has them.
    if not has_wal and change == pages_valid_for and pages * page_bytes > size:
        raise damaged(path, f"is truncated: {size} bytes instead of {pages * page_bytes}")
    # A new format may still be in the log only; then SQLite's answer counts (`format_of`).
    return int(version) or 1


def format_of(path: Path) -> int:
    """Return the format of a store, including changes that are only in its log.

    Raises NewerFormat.
    """
    with contextlib.closing(schema.connect_reader(path)) as connection:
        return check_format(path, connection)


def check_format(path: Path, connection: sqlite3.Connection) -> int:
    """Return the format of an open database. Raises NewerFormat; `path` is its name in that."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > schema.VERSION:
        raise _newer(path, version)
    return int(version)


def _newer(path: Path, version: int) -> NewerFormat:
    return NewerFormat(
        f"{path} was written by a newer version (format {version}, this version reads up to "
        f"{schema.VERSION}). Update this program, or restore a backup that the newer one made "
        "before it changed the format; the file was left unchanged."
    )


def verify(path: Path, connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Check the content, thoroughly unless the last shutdown was clean.

    Return `compacted`, `swept` and `reserved`.
    """
    rows = connection.execute(schema.STATE).fetchall()
    if len(rows) != 1:
        raise damaged(path, "has no state")
    compacted, swept, reserved, is_clean = rows[0]
    if not is_clean:
        (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if finding != "ok":
            raise damaged(path, f"is damaged ({finding})")
    return compacted, swept, reserved


def is_index_sound(connection: sqlite3.Connection) -> bool:
    """Return whether the index leads to all rows of the table, and to those it describes."""
    (strays,) = connection.execute(schema.STRAY_INDEX_ENTRIES).fetchone()
    if strays:
        return False
    totals = [
        connection.execute(query).fetchone() for query in (schema.INDEX_TOTALS, schema.TABLE_TOTALS)
    ]
    return bool(totals[0] == totals[1])


def rebuild_index(path: Path) -> None:
    """Build the index again from the table, whose rows have checksums.

    A row whose checksum is that of the columns in the index is corrected from them.
    """
    with contextlib.closing(schema.connect_writer(path)) as connection:
        connection.text_factory = schema.TEXT
        strays = connection.execute(schema.STRAY_ROWS).fetchall()
        connection.execute(schema.REINDEX)
        for key, created, expires, *row in strays:
            identity, _, _, previous, _, value, found = row
            if is_intact((identity, key, created, previous, expires, value, found)):
                connection.execute(schema.HEAL, (key, created, expires, identity))
