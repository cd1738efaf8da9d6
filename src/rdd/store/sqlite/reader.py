# SPDX-License-Identifier: Apache-2.0
"""Reads of the log, off the event loop.

One thread has one read-only connection. Every read is one SQLite read
transaction, so it sees one state, never waits for the writer and never blocks
the writer. The compacted revision is read inside that transaction: a revision
that was retained when a read was requested may be compacted when it runs.
"""

import asyncio
import functools
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from rdd.store.contract import (
    Compacted,
    DamagedRecord,
    DamagedValue,
    EventType,
    HistoryChunk,
    KeyValue,
    ScanPage,
    StoreEvent,
    Unavailable,
)
from rdd.store.keys import ID_SHIFT, first_id_after, prefix_end, scan_range
from rdd.store.sqlite import schema
from rdd.store.sqlite.checksums import is_intact
from rdd.store.sqlite.integrity import unreadable

CHUNK_EVENTS = 512
CHUNK_BYTES = 1 << 20
"""Limits of a chunk of history; a chunk always ends at the end of a revision."""

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(name: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run long work in a dedicated thread, which ends with it."""
    executor = ThreadPoolExecutor(1, thread_name_prefix=name)
    try:
        return await asyncio.get_running_loop().run_in_executor(
            executor, functools.partial(work, *args, **kwargs)
        )
    finally:
        executor.shutdown(wait=False)


class LogReader:
    """Reads for the event loop."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = connection
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="store-read")

    async def get(self, key: str, revision: int) -> KeyValue | None:
        return await self._run(_get, key, revision)

    async def scan(self, prefix: str, revision: int, *, after: str, limit: int) -> ScanPage:
        return await self._run(_scan, prefix, revision, after, limit)

    async def history(self, prefix: str, after: int, *, until: int) -> HistoryChunk:
        return await self._run(_history, prefix, after, until)

    async def close(self) -> None:
        """Finish the queued reads and close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, connection.close)
            self._executor.shutdown(wait=False)

    async def _run(self, read: Callable[..., T], prefix: str, revision: int, *args: int | str) -> T:
        connection = self._connection
        if connection is None:
            raise Unavailable("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, self._read, connection, read, prefix, revision, *args
        )

    def _read(
        self,
        connection: sqlite3.Connection,
        read: Callable[..., T],
        prefix: str,
        revision: int,
        *args: int | str,
    ) -> T:
        try:
            connection.execute("BEGIN")
            try:
                (compacted, *_) = connection.execute(schema.STATE).fetchone()
                if revision < compacted:
                    raise Compacted(revision, compacted)
                return read(connection, prefix, revision, *args)
            finally:
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise unreadable(self._path, error) from error


def _get(connection: sqlite3.Connection, key: str, revision: int) -> KeyValue | None:
    row = connection.execute(schema.GET, (key, first_id_after(revision))).fetchone()
    if row is None or row[0] & 1:
        return None
    if not is_intact(row):
        raise DamagedValue(key)
    return KeyValue(key, row[5], row[0] >> ID_SHIFT, row[2])


def _scan(
    connection: sqlite3.Connection, prefix: str, revision: int, after: str, limit: int
) -> ScanPage:
    bounds = (*scan_range(prefix, after), first_id_after(revision))
    if limit:
        rows = connection.execute(schema.SCAN_PAGE, (*bounds, limit + 1))
    else:
        rows = connection.execute(schema.SCAN_ALL, bounds)
    records: list[KeyValue] = []
    damaged: list[DamagedRecord] = []
    for row in rows:
        if is_intact(row):
            records.append(KeyValue(row[1], row[5], row[0] >> ID_SHIFT, row[2]))
        else:
            damaged.append(DamagedRecord(str(row[1]), row[0] >> ID_SHIFT))
    records.sort(key=_key)
    if not damaged:
        more = bool(limit) and len(records) > limit
        if more:
            records.pop()
        return ScanPage(records, revision, more)
    return _page_with_damage(records, damaged, revision, limit)


def _key(record: KeyValue | DamagedRecord) -> str:
    return record.key


def _page_with_damage(
    records: list[KeyValue], damaged: list[DamagedRecord], revision: int, limit: int
) -> ScanPage:
    keys = sorted([record.key for record in records] + [record.key for record in damaged])
    more = bool(limit) and len(keys) > limit
    if more:
        beyond = keys.pop()
        records = [record for record in records if record.key != beyond]
        damaged = [record for record in damaged if record.key != beyond]
    return ScanPage(records, revision, more, sorted(damaged, key=_key))


def _history(connection: sqlite3.Connection, prefix: str, after: int, until: int) -> HistoryChunk:
    bounds = (first_id_after(after), first_id_after(until), prefix, prefix_end(prefix))
    events: list[StoreEvent] = []
    size = 0
    last = after
    for row in connection.execute(schema.HISTORY, bounds):
        identity, key, created, previous, _, value = row[:6]
        before = row[12]
        revision = identity >> ID_SHIFT
        if not is_intact(row[:7]) or not (row[7] is None or is_intact(row[7:])):
            # The reader cannot continue past it: as after a compaction, it has to list again.
            raise Compacted(after, revision)
        if revision != last and (len(events) >= CHUNK_EVENTS or size >= CHUNK_BYTES):
            return HistoryChunk(events, last)
        last = revision
        size += len(value) + len(before or b"")
        kind = EventType.DELETE if identity & 1 else EventType.PUT
        events.append(StoreEvent(kind, key, value, revision, created, before, previous >> ID_SHIFT))
    return HistoryChunk(events, until)
