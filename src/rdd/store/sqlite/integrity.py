# SPDX-License-Identifier: Apache-2.0
"""Whether a file is ours, healthy and free.

The cheap questions come first and are asked of the bytes, before SQLite opens
the file, because SQLite may write to a file merely by opening and closing it:
is there a header, is it a store of this project and of a version we know, is
the file as long as it claims. Then `verify` asks SQLite over a read-only
connection: after a clean shutdown for the state only, after anything else for
a walk through all pages (`PRAGMA quick_check`, 1 ms per 2 MB).

Use is exclusive by a lock on a file beside the store, not on the store: POSIX
locks on the same file would interfere with SQLite's own.
"""

import fcntl
import os
import sqlite3
import struct
from pathlib import Path

from rdd.store.contract import Damaged, InUse, Unavailable
from rdd.store.sqlite import schema

_MAGIC = b"SQLite format 3\0"
_ADVICE = (
    "The file was left as it is. Restore a backup in its place, "
    "or move it away to start with an empty store."
)


def damaged(path: Path, what: str) -> Damaged:
    """The error for a file that cannot be used: what, which file, what to do."""
    return Damaged(f"{path} {what}. {_ADVICE}")


def unreadable(path: Path, error: sqlite3.Error) -> Damaged | Unavailable:
    """The error for a read that SQLite refused: the fault of the file, or of the disk."""
    primary = error.sqlite_errorcode & 0xFF  # the upper bits say which kind of the kind
    # SQLITE_ERROR is a statement that does not fit: a table is missing.
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return damaged(path, f"is damaged ({error})")
    return Unavailable(f"{path} could not be read: {error}")


class FileLock:
    """Exclusive use of a store by one process, for as long as it runs."""

    def __init__(self, path: Path) -> None:
        lock_path = path.with_name(path.name + ".lock")
        # Not inherited by children: a VM that outlives the daemon must not hold its store.
        self._file = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(self._file, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise InUse(
                f"{path} is in use by another process (pid {owner}). "
                "Stop that process first; two processes cannot share a store."
            ) from error
        except OSError as error:
            os.close(self._file)
            raise Unavailable(f"{lock_path} cannot be locked: {error}") from error
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others use the store. The lock file stays; removing it would race."""
        os.ftruncate(self._file, 0)
        os.close(self._file)


def inspect(path: Path) -> bool:
    """Whether there is a store at path; raises Damaged if there is something else."""
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
                f"{path} is missing, but {wal.name}, its log, is there. Restore the file, "
                "or move the log away to start with an empty store."
            ) from None
        return False
    except IsADirectoryError:
        raise damaged(path, "is a directory, not a store") from None
    if not header:
        raise damaged(path, "is empty")
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise damaged(path, "is not a store: it does not start with the header of one")
    _inspect_header(path, header, size, has_wal)
    return True


def _inspect_header(path: Path, header: bytes, size: int, has_wal: bool) -> None:
    (page_bytes,) = struct.unpack_from(">H", header, 16)
    change, pages = struct.unpack_from(">II", header, 24)
    version, application = struct.unpack_from(">I4xI", header, 60)
    (pages_valid_for,) = struct.unpack_from(">I", header, 92)
    if application != schema.APPLICATION_ID:
        raise damaged(path, "is an SQLite database of another program")
    if version > schema.VERSION:
        raise Damaged(
            f"{path} was written by a newer version (format {version}, this version reads up to "
            f"{schema.VERSION}). Update this program; the file was left as it is."
        )
    if page_bytes != schema.PAGE_BYTES:
        raise damaged(path, f"has pages of {page_bytes} bytes instead of {schema.PAGE_BYTES}")
    # A checkpoint that was cut off may have written the header before the last pages;
    # then the log still has them.
    if not has_wal and change == pages_valid_for and pages * page_bytes > size:
        raise damaged(path, f"was cut off: {size} bytes instead of {pages * page_bytes}")


def verify(path: Path, connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Check the content as thoroughly as its last use demands.

    Returns `compacted`, `swept` and `reserved`.
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
