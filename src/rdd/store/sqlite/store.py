# SPDX-License-Identifier: Apache-2.0
"""The store of the daemon: a revisioned log in one SQLite file.

This is the side on the event loop. `commit` decides against the key index,
numbers the transaction and puts it in the outbox; at the end of the same turn
of the loop the outbox goes to the writer thread as one batch. When the writer
reports a batch durable, its transactions settle in order: index, observers,
watches, and last the futures of the commits. When it reports a failure,
everything in flight is forgotten and fails.

Revisions are handed out from a block reserved in the file. After a crash the
store continues behind the block, so no revision is ever given out twice, not
even one whose write was relaxed and was lost with the power.

Reads of SQLite happen at start, for old revisions and for watches that go back
further than memory; the current state is the business of who observes.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.store.contract import (
    Compacted,
    CompareFailed,
    Delete,
    Event,
    FutureRevision,
    Op,
    Page,
    Record,
    Unavailable,
    Watch,
)
from rdd.store.index import KeyIndex, Transaction
from rdd.store.keys import ID_SHIFT, first_id_after
from rdd.store.options import StoreOptions
from rdd.store.sqlite import backup, integrity, schema
from rdd.store.sqlite.compaction import Retention
from rdd.store.sqlite.reader import Reader, in_thread
from rdd.store.sqlite.writer import Batch, Writer
from rdd.store.ttl import Expired, Expiry
from rdd.store.watch import Feed

log = logging.getLogger(__name__)

RESERVE = 256
"""Revisions reserved at a time: the gap a crash may leave, and how rarely a batch
carries bookkeeping."""


@dataclass(slots=True)
class _Opened:
    """What was found in the file."""

    lock: integrity.FileLock
    reading: sqlite3.Connection
    writing: sqlite3.Connection
    compacted: int
    swept: int
    revision: int
    marks: list[tuple[int, float]]
    live: dict[str, tuple[int, int]]
    expiring: list[tuple[int, str, int]]


class SqliteStore:
    """A Store in an SQLite file; make one with `open`."""

    def __init__(self, path: Path, found: _Opened, options: StoreOptions) -> None:
        self._path = path
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._lock = found.lock
        self._index = KeyIndex(found.live)
        self._revision = self._assigned = self._reserved = found.revision
        self._retention = Retention(found.compacted, found.marks, options=options)
        self._retention.mark(found.revision, options.clock())
        self._feed = Feed(found.revision, self._history, options=options)
        self._reader = Reader(path, found.reading)
        self._writer = Writer(
            path,
            found.writing,
            report=self._report,
            swept=found.swept,
            sweep_to=first_id_after(found.compacted) if found.compacted else 0,
        )
        self._outbox: list[Transaction] = []
        self._epoch = 0
        self._is_closed = False
        self._compactions: set[asyncio.Task[None]] = set()
        self._expiry = Expiry(options.clock, remove=self._remove, is_current=self._is_current)
        for expires, key, identity in found.expiring:
            self._expiry.add(expires, key, identity)

    @classmethod
    async def open(cls, path: Path, *, options: StoreOptions | None = None) -> "SqliteStore":
        """Open the store at path, or make one there.

        Raises InUse, or Damaged for a file that is not a healthy store.
        """
        found = await in_thread("store-open", _open, path)
        return cls(path, found, options or StoreOptions())

    @property
    def revision(self) -> int:
        """The newest committed revision."""
        return self._revision

    @property
    def compacted(self) -> int:
        """History up to and including this revision is gone; 0 if nothing was compacted."""
        return self._retention.compacted

    async def get(self, key: str, *, revision: int = 0) -> Record | None:
        """The record of a key now, or as of a retained revision."""
        self._check(revision)
        while True:
            try:
                return await self._reader.get(key, revision or self._revision)
            except Compacted:
                if revision:
                    raise

    async def scan(
        self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0
    ) -> Page:
        """Live records whose key starts with prefix and sorts after `after`, in key order."""
        self._check(revision)
        while True:
            try:
                return await self._reader.scan(
                    prefix, revision or self._revision, after=after, limit=limit
                )
            except Compacted:  # now, too, may be past before the reader gets to it
                if revision:
                    raise

    async def commit(self, ops: Sequence[Op], *, durable: bool = True) -> int:
        """Apply all operations as one revision and return it."""
        future = self._submit(ops, durable)
        return self._revision if future is None else await future

    async def settled(self, key: str) -> None:
        """Return when no write to the key is in flight any more."""
        await self._index.settled(key)

    def watch(self, prefix: str, *, after: int = 0) -> Watch:
        """Every change of keys with this prefix with a revision greater than `after`."""
        self._check(after)
        return self._feed.watch(prefix, after or self._revision)

    def observe(self, callback: Callable[[Sequence[Event]], None]) -> Callable[[], None]:
        """Call back with every batch from now on; returns the function that ends it."""
        return self._feed.observe(callback)

    async def compact(self, revision: int) -> None:
        """Forget history up to and including revision; live values stay."""
        if revision > self._retention.compacted:
            self._check(revision)
            self._retention.advance(revision)
            await self._writer.compact(revision)

    async def expire(self) -> int:
        """Remove what has expired by the clock now; a timer does this by itself."""
        return await self._expiry.run()

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
        self._feed.close()
        await self._reader.close()
        await self._writer.close(self._assigned)
        self._lock.release()

    def _check(self, revision: int) -> None:
        if self._is_closed:
            raise Unavailable("the store is closed")
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if revision and revision < self._retention.compacted:
            raise Compacted(revision, self._retention.compacted)

    def _submit(self, ops: Sequence[Op], durable: bool) -> asyncio.Future[int] | None:
        if self._is_closed:
            raise Unavailable("the store is closed")
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
            self._fail(batches, error)
            return
        events: list[Event] = []
        index, expiry = self._index, self._expiry
        for batch in batches:
            for transaction in batch.transactions:
                index.settle(transaction, events)
                for row in transaction.rows:
                    if row[4]:
                        expiry.add(row[4], row[1], row[0])
        self._revision = events[-1].revision
        self._feed.publish(events)
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
            # The first news of this failure: everything planned so far may build on what
            # is lost. What the writer already has, it will report as failed by itself.
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
            log.warning("history was not compacted, the next attempt follows: %s", error)

    async def _history(self, prefix: str, after: int) -> tuple[Sequence[Event], int]:
        return await self._reader.replay(prefix, after, until=self._revision)

    async def _remove(self, expired: Sequence[Expired]) -> int:
        """Delete keys, each as a revision of its own: a watch can resume between them."""
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

    def _is_current(self, key: str, identity: int) -> bool:
        entry = self._index.live.get(key)
        return entry is not None and entry[0] == identity


def _open(path: Path) -> _Opened:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = integrity.FileLock(path)
    try:
        if not integrity.inspect(path):
            schema.create(path)
        reading = schema.connect_reader(path)
        try:
            return _load(path, lock, reading)
        except BaseException:
            reading.close()
            raise
    except sqlite3.Error as error:
        lock.release()
        raise integrity.unreadable(path, error) from error
    except BaseException:
        lock.release()
        raise


def _load(path: Path, lock: integrity.FileLock, reading: sqlite3.Connection) -> _Opened:
    compacted, swept, reserved = integrity.verify(path, reading)
    live: dict[str, tuple[int, int]] = {}
    expiring: list[tuple[int, str, int]] = []
    (last_id,) = reading.execute(schema.LAST_ID).fetchone()
    for key, identity, created, expires in reading.execute(schema.LIVE):
        live[key] = (identity, created)
        if expires:
            expiring.append((expires, key, identity))
    marks = reading.execute(schema.MARKS).fetchall()
    revision = max(reserved, (last_id or 0) >> ID_SHIFT)
    writing = schema.connect_writer(path)
    return _Opened(lock, reading, writing, compacted, swept, revision, marks, live, expiring)
