# SPDX-License-Identifier: Apache-2.0
"""The store of the daemon: a revisioned log in one SQLite file.

This module is the part that runs on the event loop. `commit` decides against
the key index, numbers the transaction and puts it in the outbox; at the end of
the same iteration of the loop the outbox goes to the writer thread as one
batch. When the writer reports a batch durable, its transactions settle in
order: index, observers, and last the futures of the commits. When it reports a
failure, everything in flight is dropped and fails.

Revisions come from a block reserved in the file. After a crash the store
continues behind the block, so no revision is ever assigned twice, not even one
whose write was relaxed and was lost in a power failure.

SQLite is read at start, for old revisions and for history; observers keep the
current state.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.host.locks import FileLock
from rdd.store.contract import (
    Compacted,
    CompareFailed,
    Delete,
    HistoryChunk,
    KeyValue,
    Op,
    ScanPage,
    Unavailable,
)
from rdd.store.expiry import Expired
from rdd.store.index import KeyIndex, Transaction
from rdd.store.keys import ID_SHIFT, first_id_after
from rdd.store.options import StoreOptions
from rdd.store.retention import Retention
from rdd.store.revisioned import RevisionedStore
from rdd.store.sqlite import backup, integrity, migration, schema
from rdd.store.sqlite.checksums import is_intact
from rdd.store.sqlite.reader import LogReader, in_thread
from rdd.store.sqlite.writer import Batch, LogWriter

log = logging.getLogger(__name__)

RESERVE = 256
"""Revisions reserved at a time: the gap a crash may leave. A larger block means
fewer batches that carry bookkeeping."""


@dataclass(slots=True)
class _Opened:
    """The content of the file at start."""

    lock: FileLock
    reading: sqlite3.Connection
    writing: sqlite3.Connection
    compacted: int
    swept: int
    revision: int
    marks: list[tuple[int, float]]
    live: dict[str, tuple[int, int]]
    expiring: list[tuple[int, str, int]]


class SqliteStore(RevisionedStore):
    """A Store in an SQLite file; created with `open`."""

    def __init__(self, path: Path, found: _Opened, options: StoreOptions) -> None:
        retention = Retention(found.compacted, found.marks, options=options)
        retention.mark(found.revision, options.clock())
        super().__init__(KeyIndex(found.live), found.revision, retention, options)
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._lock = found.lock
        self._assigned = self._reserved = found.revision
        self._reader = LogReader(path, found.reading)
        self._writer = LogWriter(
            path,
            found.writing,
            report=self._report,
            swept=found.swept,
            sweep_to=first_id_after(found.compacted) if found.compacted else 0,
        )
        self._outbox: list[Transaction] = []
        self._epoch = 0
        self._problem = ""
        self._probe: asyncio.Task[None] | None = None
        self._compactions: set[asyncio.Task[None]] = set()
        for expires, key, identity in found.expiring:
            self._expiry.add(expires, key, identity)

    @classmethod
    async def open(cls, path: Path, *, options: StoreOptions | None = None) -> "SqliteStore":
        """Open the store at path, or create one there.

        Raises StoreInUse, or Damaged for a file that is not a healthy store.
        """
        options = options or StoreOptions()
        found = await in_thread("store-open", _open, path, options)
        return cls(path, found, options)

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        """Return the record of a key now, or as of a retained revision."""
        self._check(revision)
        while True:
            try:
                return await self._reader.get(key, revision or self._revision)
            except Compacted:
                if revision:
                    raise

    async def scan(
        self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0
    ) -> ScanPage:
        """Return live records whose key starts with prefix and sorts after `after`."""
        self._check(revision)
        while True:
            try:
                return await self._reader.scan(
                    prefix, revision or self._revision, after=after, limit=limit
                )
            except Compacted:  # the current revision may be compacted before the reader runs
                if revision:
                    raise

    async def commit(self, ops: Sequence[Op], *, durable: bool = True) -> int:
        """Apply all operations as one revision and return it."""
        future = self._submit(ops, durable)
        return self._revision if future is None else await future

    async def history(self, prefix: str, after: int) -> HistoryChunk:
        """Return the oldest changes of keys with this prefix after a revision."""
        self._check(after)
        return await self._reader.history(prefix, after, until=self._revision)

    async def compact(self, revision: int) -> None:
        """Drop history up to and including revision; live values stay."""
        if revision > self._retention.compacted:
            self._check(revision)
            self._retention.advance(revision)
            await self._writer.compact(revision)

    async def backup(self, target: Path) -> None:
        """Write a consistent copy while the store stays in use."""
        self._check(0)
        await in_thread("store-backup", backup.copy, self._path, target)

    async def close(self) -> None:
        """Make everything durable and release the files."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._expiry.close()
        self._flush()
        if self._compactions:
            await asyncio.wait(self._compactions)
        if self._probe is not None:
            await asyncio.wait({self._probe})
        try:
            await self._reader.close()
        finally:
            await self._writer.close(self._assigned)
            integrity.release_lock(self._lock)  # only now: the thread has ended

    def problem(self) -> str:
        """Return why the last write failed; empty if it did not.

        While it did, each call tries a write that changes nothing, so that the answer is right
        again soon after the disk is, without a write of a client.
        """
        if self._problem and not self._is_closed and (self._probe is None or self._probe.done()):
            self._probe = self._loop.create_task(self._try_write(), name="store-probe")
        return self._problem

    async def _try_write(self) -> None:
        try:
            await self._writer.probe()
        except Unavailable as error:
            self._problem = str(error)
        else:
            self._problem = ""

    def _submit(self, ops: Sequence[Op], durable: bool) -> asyncio.Future[int] | None:
        self._check_open()
        revision = self._assigned + 1
        transaction = self._index.plan(ops, revision, clock=self._options.clock)
        if transaction is None:
            return None
        self._assigned = revision
        transaction.durable = durable
        transaction.future = future = self._loop.create_future()
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(transaction)
        return future

    def _flush(self) -> None:
        if not self._outbox:
            return
        batch = Batch(self._outbox, self._epoch)
        self._outbox = []
        if self._assigned > self._reserved:
            self._reserved = batch.reserve = self._assigned + RESERVE
            now = self._options.clock()
            if self._retention.mark(self._assigned, now):
                batch.mark = (self._assigned, now)
        self._writer.put(batch)

    def _report(self, batches: Sequence[Batch], error: Unavailable | None) -> None:
        if error is not None:
            self._problem = str(error)
            self._fail(batches, error)
            return
        self._problem = ""
        self._settle(transaction for batch in batches for transaction in batch.transactions)
        for batch in batches:
            for transaction in batch.transactions:
                future = transaction.future
                if future is not None and not future.done():
                    future.set_result(transaction.revision)
        if self._retention.is_due(self._revision):
            self._compact_old()

    def _fail(self, batches: Sequence[Batch], error: Unavailable) -> None:
        lost = [transaction for batch in batches for transaction in batch.transactions]
        if batches[-1].epoch == self._epoch:
            # First report of this failure: everything planned so far may build on the lost
            # writes. The writer reports the batches it already has as failed on its own.
            self._epoch += 1
            self._reserved = 0
            self._index.rollback()
            lost += self._outbox
            self._outbox = []
        for transaction in lost:
            future = transaction.future
            if future is not None and not future.done():
                future.set_exception(Unavailable(str(error)))

    def _compact_old(self) -> None:
        is_crowded = self._writer.used_bytes > self._options.crowded_bytes
        target = self._retention.target(
            self._revision, self._options.clock(), is_crowded=is_crowded
        )
        if target and not self._is_closed:
            self._retention.advance(target)
            task = self._loop.create_task(self._compact_logged(target), name="store-compaction")
            self._compactions.add(task)
            task.add_done_callback(self._compactions.discard)

    async def _compact_logged(self, target: int) -> None:
        try:
            await self._writer.compact(target)
        except Unavailable as error:
            log.warning("history was not compacted, will retry: %s", error)

    async def _remove(self, expired: Sequence[Expired]) -> int:
        futures: list[asyncio.Future[int]] = []
        for key, identity in expired:
            try:
                future = self._submit((Delete(key, expect=identity >> ID_SHIFT),), durable=False)
            except CompareFailed:
                continue  # renewed or deleted meanwhile
            if future is not None:
                futures.append(future)
        await asyncio.gather(*futures)
        return len(futures)


def _open(path: Path, options: StoreOptions) -> _Opened:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = integrity.acquire_lock(path)
    try:
        if not integrity.inspect(path):
            schema.create(path)
        version = integrity.format_of(path)
        if version < schema.VERSION:
            migration.migrate(
                path,
                version,
                backup_dir=options.backup_dir or path.parent / "backups",
                is_readable=options.is_readable,
            )
        reading = schema.connect_reader(path)
        try:
            return _load(path, lock, reading)
        except BaseException:
            reading.close()
            raise
    except sqlite3.Error as error:
        integrity.release_lock(lock)
        raise integrity.unreadable(path, error) from error
    except BaseException:
        integrity.release_lock(lock)
        raise


def _load(path: Path, lock: FileLock, reading: sqlite3.Connection) -> _Opened:
    compacted, swept, reserved = integrity.verify(path, reading)
    if not integrity.is_index_sound(reading):
        log.warning("%s: the index of keys is damaged and is built again", path)
        integrity.rebuild_index(path)
    live: dict[str, tuple[int, int]] = {}
    expiring: list[tuple[int, str, int]] = []
    (last_id,) = reading.execute(schema.LAST_ID).fetchone()
    for key, identity, created, expires in reading.execute(schema.LIVE):
        live[key] = (identity, created)
        if expires and is_intact(reading.execute(schema.ROW, (identity,)).fetchone()):
            expiring.append((expires, key, identity))
    marks = reading.execute(schema.MARKS).fetchall()
    revision = max(reserved, (last_id or 0) >> ID_SHIFT)
    writing = schema.connect_writer(path)
    return _Opened(lock, reading, writing, compacted, swept, revision, marks, live, expiring)
