# SPDX-License-Identifier: Apache-2.0
"""A store in memory, without persistence.

It implements the contract of the SQLite store without disk and thread: a
transaction is committed as soon as `commit` has decided it, so no write is
ever in flight. It serves tests and short-lived servers. The log is a list in
id order; reads of old revisions walk it, which is fast enough for that use.
"""

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from rdd.store.contract import (
    Compacted,
    CompareFailed,
    Delete,
    EventType,
    HistoryChunk,
    KeyValue,
    Op,
    ScanPage,
    StoreEvent,
)
from rdd.store.expiry import Expired
from rdd.store.index import KeyIndex
from rdd.store.keys import ID_SHIFT, Row, first_id_after
from rdd.store.options import StoreOptions
from rdd.store.retention import Retention
from rdd.store.revisioned import RevisionedStore
from rdd.store.sqlite import backup
from rdd.store.sqlite.reader import in_thread


class MemoryStore(RevisionedStore):
    """A Store in memory; must be created where an event loop runs."""

    def __init__(self, *, options: StoreOptions | None = None) -> None:
        options = options or StoreOptions()
        super().__init__(KeyIndex(), 0, Retention(0, (), options=options), options)
        self._log: list[Row] = []

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        """Return the record of a key now, or as of a retained revision."""
        self._check(revision)
        row = self._at(revision).get(key)
        return None if row is None else _record(row)

    async def scan(
        self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0
    ) -> ScanPage:
        """Return live records whose key starts with prefix and sorts after `after`."""
        self._check(revision)
        rows = self._at(revision)
        keys = sorted(key for key in rows if key.startswith(prefix) and key > after)
        more = bool(limit) and len(keys) > limit
        chosen = keys[:limit] if limit else keys
        return ScanPage([_record(rows[key]) for key in chosen], revision or self._revision, more)

    async def commit(self, ops: Sequence[Op], *, durable: bool = True) -> int:
        """Apply all operations as one revision and return it."""
        self._check_open()
        transaction = self._index.plan(ops, self._revision + 1, clock=self._options.clock)
        if transaction is None:
            return self._revision
        for position in transaction.unread or ():
            transaction.previous[position] = self._row(transaction.rows[position][3])[5]
        self._log += transaction.rows
        self._settle((transaction,))
        self._compact_old()
        return transaction.revision

    async def history(self, prefix: str, after: int) -> HistoryChunk:
        """Return all changes of keys with this prefix and a revision greater than `after`."""
        self._check(after)
        if after < self._retention.compacted:
            raise Compacted(after, self._retention.compacted)
        rows = self._log[self._position(after) :]
        events = [self._event(row) for row in rows if row[1].startswith(prefix)]
        return HistoryChunk(events, self._revision)

    async def compact(self, revision: int) -> None:
        """Drop history up to and including revision; live values stay."""
        if revision > self._retention.compacted:
            self._check(revision)
            self._compact(revision)

    async def backup(self, target: Path) -> None:
        """Write a consistent copy, as a file that SqliteStore opens."""
        self._check(0)
        await in_thread(
            "store-backup",
            backup.dump,
            tuple(self._log),
            target,
            compacted=self._retention.compacted,
            reserved=self._revision,
        )

    async def close(self) -> None:
        """Refuse further reads and writes."""
        self._is_closed = True
        await self._expiry.close()

    def _at(self, revision: int) -> dict[str, Row]:
        """Return the live rows as of a revision, 0 for now."""
        rows: dict[str, Row] = {}
        for row in self._log[: self._position(revision or self._revision)]:
            if row[0] & 1:
                del rows[row[1]]
            else:
                rows[row[1]] = row
        return rows

    def _position(self, revision: int) -> int:
        """Return where in the log the rows after a revision begin."""
        return bisect_left(self._log, first_id_after(revision), key=lambda row: row[0])

    def _row(self, identity: int) -> Row:
        return self._log[bisect_left(self._log, identity, key=lambda row: row[0])]

    def _compact_old(self) -> None:
        if self._retention.is_due(self._revision):
            now = self._options.clock()
            if target := self._retention.target(self._revision, now):
                self._compact(target)
            self._retention.mark(self._revision, now)

    def _compact(self, revision: int) -> None:
        end = self._position(revision)
        replaced = {row[3] for row in self._log[:end]}
        kept = [row for row in self._log[:end] if not (row[0] & 1 or row[0] in replaced)]
        self._log[:end] = kept
        self._retention.advance(revision)

    def _event(self, row: Row) -> StoreEvent:
        identity, key, created, replaced, _, value = row
        return StoreEvent(
            EventType.DELETE if identity & 1 else EventType.PUT,
            key,
            value,
            identity >> ID_SHIFT,
            created,
            self._row(replaced)[5] if replaced else None,
            replaced >> ID_SHIFT,
        )

    async def _remove(self, expired: Sequence[Expired]) -> int:
        removed = 0
        for key, identity in expired:
            try:
                await self.commit((Delete(key, expect=identity >> ID_SHIFT),))
            except CompareFailed:
                continue  # an observer of an earlier removal has renewed the key
            removed += 1
        return removed


def _record(row: Row) -> KeyValue:
    return KeyValue(row[1], row[5], row[0] >> ID_SHIFT, row[2])
