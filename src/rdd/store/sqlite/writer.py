# SPDX-License-Identifier: Apache-2.0
"""The writer thread: group commit, and maintenance between batches.

The event loop queues batches of transactions. The writer takes all queued
batches, appends their rows in one SQLite transaction and reports once. A batch
of usual size is a single INSERT of many rows in autocommit: one call, which
releases and acquires the interpreter lock once around the whole write and its
fsync, however busy the event loop is.

A transaction may build on any earlier one. After a failed write the writer
fails everything of the same epoch without trying it; the event loop, when it
receives the failure, drops the writes in flight and starts the next epoch.

Between batches the writer sweeps compacted rows, returns free pages to the
file system and checkpoints, a few milliseconds at a time. When nothing is left
to do it blocks on the queue without timeout.

Invariant: the thread ends only in `close`, whatever fails. Without it commits and `close` itself
would wait for ever.
"""

import asyncio
import itertools
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from rdd.store.contract import Unavailable
from rdd.store.index import Transaction
from rdd.store.keys import Row, first_id_after
from rdd.store.sqlite import schema
from rdd.store.sqlite.checksums import checksum

log = logging.getLogger(__name__)

INSERT_ROWS = 64  # more rows in one statement gain nothing, and each number is prepared once
SWEEP_ROWS = 128  # about 2 ms
VACUUM_PAGES = 128
CHECKPOINT_PAGES = 1_000  # 8 MB: 5 to 8 ms to checkpoint, and to read again after a crash
FILE_CHECK_INTERVAL_S = 1.0


@dataclass(slots=True)
class Batch:
    """Transactions queued together."""

    transactions: list[Transaction]
    epoch: int
    reserve: int = 0  # revisions up to this one may be assigned from now on; 0: no change
    mark: tuple[int, float] | None = None


@dataclass(slots=True)
class Job:
    """Other work on the connection, in order with the batches."""

    work: Callable[[sqlite3.Connection], None]
    future: Future[None]


Report = Callable[[Sequence[Batch], Unavailable | None], None]


class LogWriter:
    """The owner of the writing connection. `report` is called on the event loop."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        *,
        report: Report,
        swept: int,
        sweep_to: int,
    ) -> None:
        self.used_bytes = 0  # by data, free pages excluded; as of the last checkpoint
        self._path = path
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Batch | Job | None] = SimpleQueue()
        self._connection = connection
        self._inode = path.stat().st_ino
        self._file_checked_at = 0.0
        self._is_full_sync = True
        self._failed_epoch = -1
        # Estimate. The log of a crashed process counts, or it would grow with every crash.
        self._wal_pages = _size(path.with_name(path.name + "-wal")) // schema.PAGE_BYTES
        self._swept = swept  # row id
        self._sweep_to = sweep_to  # row id
        self._vacuum_pages = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="store-write", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> None:
        self._queue.put(batch)

    async def run(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Run work on the writing connection after everything queued so far."""
        future: Future[None] = Future()
        self._queue.put(Job(work, future))
        try:
            # Shielded: cancelling the caller does not stop the writer.
            await asyncio.shield(asyncio.wrap_future(future))
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"{self._path}: {error}") from error

    async def probe(self) -> None:
        """Make a write durable that changes nothing. Raises Unavailable."""

        def write(connection: sqlite3.Connection) -> None:
            self._check_file()
            self._set_sync(True)
            connection.execute(schema.PROBE)

        await self.run(write)

    async def compact(self, revision: int) -> None:
        """Record the compacted revision; the rows are deleted in the background."""

        def begin(connection: sqlite3.Connection) -> None:
            connection.execute(schema.COMPACT, (revision,))
            self._sweep_to = max(self._sweep_to, first_id_after(revision))

        await self.run(begin)

    async def close(self, reserved: int) -> None:
        """Finish, mark the file clean and end the thread."""

        def finish(connection: sqlite3.Connection) -> None:
            try:
                connection.execute(schema.CLOSE, (reserved,))
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                log.warning("%s: not closed cleanly: %s", self._path, error)
            finally:
                connection.close()
                self._is_closed = True

        await self.run(finish)
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        queue = self._queue
        has_maintenance = True
        while True:
            if has_maintenance and queue.empty():
                has_maintenance = self._do_maintenance()
                continue
            items = [queue.get()]
            items += [queue.get() for _ in range(queue.qsize())]
            for is_batch, group in itertools.groupby(items, lambda item: isinstance(item, Batch)):
                if is_batch:
                    self._commit([item for item in group if isinstance(item, Batch)])
                    continue
                for item in group:
                    if not isinstance(item, Job):
                        return
                    _run_job(item, self._connection)
            has_maintenance = items[-1] is not None and self._do_maintenance()

    def _commit(self, batches: list[Batch]) -> None:
        error: Unavailable | None = None
        lost = [batch for batch in batches if batch.epoch <= self._failed_epoch]
        if lost:
            self._report_later(lost, Unavailable("an earlier write failed"))
            batches = [batch for batch in batches if batch.epoch > self._failed_epoch]
            if not batches:
                return
        try:
            self._write(batches)
        except Exception as cause:  # whatever the cause, nothing of this batch may be acknowledged
            self._failed_epoch = batches[-1].epoch
            error = Unavailable(f"{self._path} could not be written: {cause}")
            error.__cause__ = cause
            self._roll_back()
        self._report_later(batches, error)

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            log.warning("%s: rollback failed: %s", self._path, error)

    def _write(self, batches: list[Batch]) -> None:
        self._check_file()
        connection = self._connection
        transactions = [entry for batch in batches for entry in batch.transactions]
        reserve = max(batch.reserve for batch in batches)
        for transaction in transactions:
            if transaction.unread is not None:
                self._read_previous(transaction)
        rows: list[Row] = [row for entry in transactions for row in entry.rows]
        self._set_sync(bool(reserve) or any(entry.durable for entry in transactions))
        if len(rows) <= INSERT_ROWS and not reserve:
            connection.execute(schema.insert(len(rows)), _parameters(rows))
        else:
            connection.execute("BEGIN IMMEDIATE")
            for start in range(0, len(rows), INSERT_ROWS):
                part = rows[start : start + INSERT_ROWS]
                connection.execute(schema.insert(len(part)), _parameters(part))
            if reserve:
                connection.execute(schema.RESERVE, (reserve,))
                for batch in batches:
                    if batch.mark is not None:
                        connection.execute(schema.MARK, batch.mark)
            connection.execute("COMMIT")
        # A row is a page of the index and its share of pages of the table.
        self._wal_pages += 2 + len(rows) + sum(len(row[5]) for row in rows) // schema.PAGE_BYTES

    def _read_previous(self, transaction: Transaction) -> None:
        # The newest row of a key is never swept, and rows in flight carry their own value.
        for position in transaction.unread or ():
            found = self._connection.execute(
                schema.VALUE, (transaction.rows[position][3],)
            ).fetchone()
            transaction.previous[position] = found[0]

    def _set_sync(self, is_full: bool) -> None:
        if is_full != self._is_full_sync:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_full else 'NORMAL'}")
            self._is_full_sync = is_full

    def _check_file(self) -> None:
        """Fail if the file was removed or replaced: writes to it would succeed and be lost."""
        now = time.monotonic()
        if now - self._file_checked_at >= FILE_CHECK_INTERVAL_S:
            if self._path.stat().st_ino != self._inode:
                raise OSError("the file was replaced while in use")
            self._file_checked_at = now

    def _report_later(self, batches: list[Batch], error: Unavailable | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._report, batches, error)
        except RuntimeError:
            log.warning("%s: the event loop ended before the store was closed", self._path)

    def _do_maintenance(self) -> bool:
        """Do one slice of maintenance; return whether more is left."""
        if self._is_closed:
            return False
        try:
            if self._wal_pages >= CHECKPOINT_PAGES:
                self._checkpoint()
            elif self._swept + 1 < self._sweep_to:
                self._sweep()
            elif self._vacuum_pages > 0:
                self._vacuum()
            else:
                return False
        except Exception as error:  # maintenance is never worth the thread
            self._roll_back()
            log.warning("%s: maintenance failed, will retry: %s", self._path, error)
            return False
        return True

    def _checkpoint(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._wal_pages = 0
        pages, free = self._pages()
        self.used_bytes = (pages - free) * schema.PAGE_BYTES

    def _sweep(self) -> None:
        connection = self._connection
        self._set_sync(False)
        connection.execute("BEGIN IMMEDIATE")
        (end,) = connection.execute(
            schema.SWEEP_END, (self._swept, self._sweep_to, SWEEP_ROWS)
        ).fetchone()
        if end is None:
            end = self._sweep_to - 1
            connection.execute(schema.DELETE_OLD_MARKS)
        else:
            for statement in schema.SWEEP:
                connection.execute(statement, (self._swept, end))
        connection.execute(schema.SWEPT, (end,))
        connection.execute("COMMIT")
        self._swept = end
        self._wal_pages += SWEEP_ROWS
        if end + 1 == self._sweep_to:
            pages, free = self._pages()
            # Free pages are reused; only the surplus of a burst is returned.
            self._vacuum_pages = free - pages // 4 if free > max(1_000, pages // 2) else 0

    def _vacuum(self) -> None:
        self._set_sync(False)
        # Not execute: the pragma returns a row without columns per page, and execute stops there.
        self._connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        self._vacuum_pages -= VACUUM_PAGES
        self._wal_pages += VACUUM_PAGES

    def _pages(self) -> tuple[int, int]:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        return pages, free


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _parameters(rows: list[Row]) -> list[object]:
    """Return the parameters of an insert: each row, followed by its checksum."""
    found: list[object] = []
    for row in rows:
        found += row
        found.append(checksum(row))
    return found


def _run_job(job: Job, connection: sqlite3.Connection) -> None:
    try:
        job.work(connection)
    except Exception as error:  # the caller of `run` handles it
        job.future.set_exception(error)
    else:
        job.future.set_result(None)
