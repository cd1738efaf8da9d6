# SPDX-License-Identifier: Apache-2.0
"""Databases of older versions, made from the SQL that scripts/old_database.py wrote."""

import sqlite3
from contextlib import closing
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "data" / "store"


def make_old_database(version: str, path: Path) -> None:
    """Create the database that a version of rdd left behind."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript((_FOLDER / f"{version}.sql").read_text())
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    path.chmod(0o600)
