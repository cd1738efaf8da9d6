# SPDX-License-Identifier: Apache-2.0
"""Examination of the store of a daemon that does not run, for diagnostics.

Opening a store locks it, and SQLite may write to a database merely by opening it. An
examination must do neither, so it reads the database as immutable. Pages in a write-ahead log
would be missing then: a database with one is copied to a temporary directory and examined
there. A large one is not copied; of it, only the header is examined.
"""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from rdd.store.contract import StoreError, Unavailable
from rdd.store.sqlite import integrity

_LARGEST_COPY_BYTES = 256 << 20


def examine(path: Path) -> StoreError | None:
    """Return why the file cannot be used as a store; None if it can, or does not exist."""
    try:
        if not integrity.inspect(path):
            return None
        wal = path.with_name(path.name + "-wal")
        if not (wal.exists() and wal.stat().st_size):
            _check(path, "mode=ro&immutable=1")
        elif path.stat().st_size + wal.stat().st_size <= _LARGEST_COPY_BYTES:
            with tempfile.TemporaryDirectory(prefix="rdd-examination-") as directory:
                for file in (path, wal):
                    shutil.copyfile(file, Path(directory) / file.name)
                _check(Path(directory) / path.name, "mode=rw", name=path)
    except StoreError as error:
        return error
    except OSError as error:
        return Unavailable(f"{path} cannot be read: {error.strerror or error}")
    return None


def _check(path: Path, options: str, *, name: Path | None = None) -> None:
    uri = f"{path.absolute().as_uri()}?{options}"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            integrity.check_format(name or path, connection)
            (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise integrity.unreadable(name or path, error) from error
    if finding != "ok":
        raise integrity.damaged(name or path, f"is damaged ({finding})")
