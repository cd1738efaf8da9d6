# SPDX-License-Identifier: Apache-2.0
"""`store_writer.py` for simulated power cuts: every reported write is a durable one.

Usage: power_writer.py PATH SEED on|off. With "off" the store never syncs, which the check must
find.
"""

import asyncio
import sqlite3
import sys
from pathlib import Path

from tests.crash import store_writer

from rdd.store.sqlite import schema
from rdd.store.sqlite.store import SqliteStore
from rdd.store.sqlite.writer import LogWriter

_commit, _connect = SqliteStore.commit, schema.connect_writer


async def _durable(self: SqliteStore, ops: object, *, durable: bool = True) -> int:
    return await _commit(self, ops)  # type: ignore[arg-type]


def _without_sync(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


if __name__ == "__main__":
    SqliteStore.commit = _durable  # type: ignore[method-assign]
    if sys.argv[3] == "off":
        schema.connect_writer = _without_sync
        LogWriter._set_sync = lambda self, is_full: None  # type: ignore[method-assign]
    asyncio.run(store_writer.main(Path(sys.argv[1]), int(sys.argv[2])))
