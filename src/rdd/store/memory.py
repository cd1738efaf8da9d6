# SPDX-License-Identifier: Apache-2.0
"""A store that lives and dies with its process.

The same contract as the SQLite store without disk and thread: a commit is
committed when `commit` has decided it, so nothing is ever in flight. For tests
and for servers that exist for the time of one. The log is a list in id order;
reads that go back in time walk it, which is fine for what this is for.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path

from rdd.store.contract import (
    Compacted,
    CompareFailed,
    Delete,
    Event,
    EventType,
    FutureRevision,
    Op,
    Page,
    Record,
    Unavailable,
    Watch,
)
from rdd.store.index import KeyIndex
from rdd.store.keys import ID_SHIFT, Row, first_id_after
from rdd.store.options import StoreOptions
from rdd.store.sqlite import backup
from rdd.store.sqlite.compaction import Retention
from rdd.store.sqlite.reader import in_thread
from rdd.store.ttl import Expired, Expiry
from rdd.store.watch import Feed


class MemoryStore:
    """A Store in memory. Must be made where an event loop runs."""

    def __init__(self, *, options: StoreOptions | None = None) -> None:
        self._options = options or StoreOptions()
        self._log: list[Row] = []
        self._index = KeyIndex()
        self._revision = 0
        self._is_closed = False
        self._retention = Retention(0, (), options=self._options)
        self._feed = Feed(0, self._history, options=self._options)
        self._expiry = Expiry(self._options.clock, remove=self._remove, is_current=self._is_current)

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
        row = self._at(revision).get(key)
        return None if row is None else _record(row)

    async def scan(
        self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0
    ) -> Page:
        """Live records whose key starts with prefix and sorts after `after`, in key order."""
        self._check(revision)
        rows = self._at(revision)
        keys = sorted(key for key in rows if key.startswith(prefix) and key > after)
        more = bool(limit) and len(keys) > limit
        chosen = keys[:limit] if limit else keys
        return Page([_record(rows[key]) for key in chosen], revision or self._revision, more)

    async def commit(self, ops: Sequence[Op], *, durable: bool = True) -> int:
        """Apply all operations as one revision and return it."""
        if self._is_closed:
            raise Unavailable("the store is closed")
        transaction = self._index.plan(ops, self._revision + 1, clock=self._options.clock)
        if transaction is None:
            return self._revision
        for position in transaction.unread or ():
            transaction.previous[position] = self._row(transaction.rows[position][3])[5]
        self._log += transaction.rows
        self._revision = transaction.revision
        events: list[Event] = []
        self._index.settle(transaction, events)
        for row in transaction.rows:
            if row[4]:
                self._expiry.add(row[4], row[1], row[0])
        self._feed.publish(events)
        self._compact_old()
        return transaction.revision

    async def settled(self, key: str) -> None:
        """Return when no write to the key is in flight any more: nothing ever is."""
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
            self._compact(revision)

    async def expire(self) -> int:
        """Remove what has expired by the clock now; a timer does this by itself."""
        return await self._expiry.run()

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
        """End watches and refuse further writes."""
        self._is_closed = True
        await self._expiry.close()
        self._feed.close()

    def _check(self, revision: int) -> None:
        if self._is_closed:
            raise Unavailable("the store is closed")
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if revision and revision < self._retention.compacted:
            raise Compacted(revision, self._retention.compacted)

    def _at(self, revision: int) -> dict[str, Row]:
        """Live rows as of a revision, 0 for now."""
        rows: dict[str, Row] = {}
        for row in self._log[: self._position(revision or self._revision)]:
            if row[0] & 1:
                del rows[row[1]]
            else:
                rows[row[1]] = row
        return rows

    def _position(self, revision: int) -> int:
        """Where in the log the rows after a revision begin."""
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

    async def _history(self, prefix: str, after: int) -> tuple[Sequence[Event], int]:
        if after < self._retention.compacted:
            raise Compacted(after, self._retention.compacted)
        events = [
            self._event(row)
            for row in self._log[self._position(after) :]
            if row[1].startswith(prefix)
        ]
        return events, self._revision

    def _event(self, row: Row) -> Event:
        identity, key, created, replaced, _, value = row
        return Event(
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
                continue  # an observer of the one before has renewed it
            removed += 1
        return removed

    def _is_current(self, key: str, identity: int) -> bool:
        entry = self._index.live.get(key)
        return entry is not None and entry[0] == identity


def _record(row: Row) -> Record:
    return Record(row[1], row[5], row[0] >> ID_SHIFT, row[2])
