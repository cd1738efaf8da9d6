# SPDX-License-Identifier: Apache-2.0
"""The key index: the only place that decides optimistic concurrency.

The index holds the newest row id of every live key, and the rows in flight:
planned, numbered, queued for the disk, not yet durable. `plan` compares the
expectations of a transaction with both and turns it into rows; `settle` makes
durable rows the committed state; `rollback` drops everything in flight, which
restores the state on disk. Values are not kept, except in rows in flight.

This code runs on the event loop once per commit and avoids allocations: rows
are plain tuples, already in the shape SQLite binds.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from rdd.store.contract import ANY, Check, CompareFailed, EventType, Op, Put, StoreEvent
from rdd.store.keys import ID_SHIFT, MAX_OPS, Row

_PUT, _DELETE = EventType.PUT, EventType.DELETE


class Transaction:
    """Rows of one revision on their way to the disk.

    `previous` runs parallel to `rows`; the owner of the log reads the previous
    values of the positions in `unread`.
    """

    __slots__ = ("durable", "future", "previous", "revision", "rows", "unread")

    def __init__(
        self,
        revision: int,
        rows: list[Row],
        previous: list[bytes | None],
        unread: list[int] | None,
    ) -> None:
        self.revision = revision
        self.rows = rows
        self.previous = previous
        self.unread = unread
        self.durable = True
        self.future: asyncio.Future[int] | None = None


class KeyIndex:
    """The newest row of every live key, and the rows in flight."""

    __slots__ = ("_waiters", "live", "pending")

    def __init__(self, live: dict[str, tuple[int, int]] | None = None) -> None:
        self.live: dict[str, tuple[int, int]] = {} if live is None else live  # key: id, created
        self.pending: dict[str, Row] = {}
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}

    def plan(
        self, ops: Sequence[Op], revision: int, *, clock: Callable[[], float]
    ) -> Transaction | None:
        """Turn ops into rows in flight at revision; return None if nothing changes.

        Raises CompareFailed, or ValueError for a transaction that no store accepts.
        """
        rows: list[Row] = []
        previous: list[bytes | None] = []
        unread: list[int] | None = None
        pending, live = self.pending, self.live
        identity = revision << ID_SHIFT
        for op in ops:
            key, expect = op.key, op.expect
            known = None
            current_id = created = 0
            in_flight = pending.get(key)
            if in_flight is not None:
                if not in_flight[0] & 1:
                    current_id, created, known = in_flight[0], in_flight[2], in_flight[5]
            else:
                entry = live.get(key)
                if entry is not None:
                    current_id, created = entry
                    if expect > 0 and not isinstance(op, Check):
                        known = op.previous
            if expect != ANY:
                current = current_id >> ID_SHIFT
                if expect != current or not (current or isinstance(op, Put)):
                    raise CompareFailed(key, expect, current, pending=in_flight is not None)
            if isinstance(op, Check):
                continue
            if current_id and known is None:
                unread = [] if unread is None else unread
                unread.append(len(rows))
            if isinstance(op, Put):
                _check_key(key)
                expires = 0
                if op.ttl_s:
                    expires = int((clock() + op.ttl_s) * 1000)
                rows.append((identity, key, created or revision, current_id, expires, op.value))
            elif current_id:
                rows.append((identity | 1, key, created, current_id, 0, b""))
            else:
                continue
            previous.append(known)
            identity += 2
        if len(ops) > 1:
            _check_ops(ops)
        if not rows:
            return None
        for row in rows:
            pending[row[1]] = row
        return Transaction(revision, rows, previous, unread)

    def settle(self, transaction: Transaction, events: list[StoreEvent]) -> None:
        """Make the transaction committed state and append its events."""
        pending, live, revision = self.pending, self.live, transaction.revision
        for row, before in zip(transaction.rows, transaction.previous, strict=True):
            identity, key, created, replaced, _, value = row
            if identity & 1:
                del live[key]
                kind = _DELETE
            else:
                live[key] = (identity, created)
                kind = _PUT
            if pending.get(key) is row:
                del pending[key]
            events.append(
                StoreEvent(kind, key, value, revision, created, before, replaced >> ID_SHIFT)
            )
        if self._waiters:
            self._wake(row[1] for row in transaction.rows)

    def rollback(self) -> None:
        """Drop everything in flight."""
        self.pending.clear()
        self._wake(list(self._waiters))

    async def settled(self, key: str) -> None:
        """Return when nothing is in flight for the key."""
        while key in self.pending:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(key, []).append(waiter)
            await waiter

    def _wake(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key not in self.pending:
                for waiter in self._waiters.pop(key, ()):
                    if not waiter.done():
                        waiter.set_result(None)


def _check_key(key: str) -> None:
    if not key:
        raise ValueError("a key must not be empty")
    if not key.isascii():
        key.encode()  # a lone surrogate has no UTF-8 form and would fail a whole batch later


def _check_ops(ops: Sequence[Op]) -> None:
    if len(ops) > MAX_OPS:
        raise ValueError(f"{len(ops)} operations in one transaction, at most {MAX_OPS} are allowed")
    keys = {op.key for op in ops}
    if len(keys) != len(ops):
        raise ValueError("a key occurs twice in one transaction")
