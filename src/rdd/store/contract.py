# SPDX-License-Identifier: Apache-2.0
"""The contract of a store: a revisioned key-value log.

The contract covers what the API server needs from storage and nothing else:
SQLite, memory and etcd (transactions, revisions, watch, leases) implement it.
One counter, the revision, orders every change of every key; clients see it as
`resourceVersion`. A transaction is one revision: all of its operations are
applied, or none.

Changes leave a store in two ways: `observe` calls back with every committed
batch, `history` reads older changes in chunks. Fan-out to watch clients, with
queues and their limits, is the business of the API server
(`apiserver/state/watchers.py`).

Keys are text compared by code point, e.g. `/configmaps/default/settings`.
Values are opaque bytes.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ANY = -1
"""Value of `Op.expect`: no expectation."""

ABSENT = 0
"""Value of `Op.expect`: the key must not be live."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One live key at some revision."""

    key: str
    value: bytes
    revision: int  # of the last change of this key
    created: int  # revision that created the key


@dataclass(frozen=True, slots=True)
class Put:
    """Store a value. `expect` is ANY, ABSENT or the revision the key must have now.

    `previous` is a hint that saves the store a read: the bytes the caller read
    at revision `expect`. It is used only with expect > 0, and MUST be exact.
    """

    key: str
    value: bytes
    expect: int = ANY
    ttl_s: float = 0  # 0: no expiry; otherwise the key expires about this long after the write
    previous: bytes | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key. Deleting a key that is not live raises CompareFailed unless expect is ANY.

    `previous` is the same hint as in Put.
    """

    key: str
    expect: int = ANY
    previous: bytes | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but fail the transaction unless the key has this revision now."""

    key: str
    expect: int


Op = Put | Delete | Check


class EventType(enum.Enum):
    """The type of a change of a key."""

    PUT = "put"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One change of one key.

    `value` is the new value (empty for DELETE); `previous` the value before
    this change, None if the key was not live. `previous_revision` is the
    revision that wrote the previous value, 0 if none. Observers of a
    distributed store get the revision without the value.
    """

    type: EventType
    key: str
    value: bytes
    revision: int
    created: int
    previous: bytes | None
    previous_revision: int


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """A live key whose stored value is not the one that was written."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class ScanPage:
    """A part of a range, in key order, at one revision."""

    records: Sequence[KeyValue]
    revision: int  # the revision the range was read at
    more: bool  # more keys follow the last record
    damaged: Sequence[DamagedRecord] = ()  # keys of the range that are left out of the records

    @property
    def after(self) -> str:
        """The last key of the page, damaged or not: the next page follows it."""
        last = (part[-1].key for part in (self.records, self.damaged) if part)
        return max(last, default="")


@dataclass(frozen=True, slots=True)
class HistoryChunk:
    """Consecutive changes, oldest first. A chunk never splits a revision."""

    events: Sequence[StoreEvent]
    revision: int  # the chunk is complete up to and including this revision


Observer = Callable[[Sequence[StoreEvent]], None]


class StoreError(Exception):
    """Base of everything a store raises."""


class CompareFailed(StoreError):
    """An expectation did not hold; nothing was written.

    `current` is the revision of the key now (0: not live). `pending` is True
    when that is the state of a write that is not durable yet: the caller
    should await `settled` of the store and retry.
    """

    def __init__(self, key: str, expected: int, current: int, *, pending: bool = False) -> None:
        super().__init__(f"{key}: expected revision {expected}, found {current}")
        self.key, self.expected, self.current, self.pending = key, expected, current, pending


class Compacted(StoreError):
    """The requested revision is no longer retained."""

    def __init__(self, revision: int, compacted: int) -> None:
        super().__init__(f"revision {revision} has been compacted, the oldest is {compacted}")
        self.revision, self.compacted = revision, compacted


class FutureRevision(StoreError):
    """The requested revision has not been committed yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future, the newest is {current}")
        self.revision, self.current = revision, current


class Unavailable(StoreError):
    """The write could not be made durable (disk full, file removed). Nothing was written."""


class ValueTooLarge(Unavailable):
    """A distributed store does not accept a value of this size."""


class StoreUnreachable(Unavailable):
    """A distributed store does not answer, has no quorum or no space; it may recover by itself."""


class OutcomeUnknown(StoreUnreachable):
    """The connection to a distributed store was lost: the write may have been executed."""


class Damaged(StoreError):
    """The file is not a healthy store of this project; it was left unchanged."""


class NewerFormat(Damaged):
    """The file was written by a newer version of this project."""


class DamagedValue(StoreError):
    """The stored value of a key is not the one that was written."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the stored value of {key} is damaged")
        self.key = key


class StoreInUse(StoreError):
    """Another process (or another store in this one) has the file open."""


class Store(Protocol):
    """A revisioned key-value log.

    All methods are called from one event loop. Invariant: of several commits
    that expect the same revision of a key, at most one succeeds. A store with
    one writer decides when `commit` is called, before its first suspension; a
    distributed one when the cluster answers.
    """

    @property
    def revision(self) -> int:
        """The newest committed revision."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other servers write to it."""
        ...

    @property
    def is_distributed(self) -> bool:
        """Whether observers may be behind, so that a read may have to wait (`is_current`)."""
        ...

    @property
    def is_current(self) -> bool:
        """Whether observers have seen every acknowledged write, without a `refresh`."""
        ...

    @property
    def compacted(self) -> int:
        """The newest revision whose history is compacted; 0 if none is."""
        ...

    def problem(self) -> str:
        """Return why the store cannot be used now; empty if it can."""
        ...

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        """Return the record of a key now, or as of a retained revision.

        Raises DamagedValue if the store can tell that the value is damaged.
        """
        ...

    async def scan(
        self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0
    ) -> ScanPage:
        """Return live records whose key starts with prefix and sorts after `after`, in key order.

        `limit` 0 means all. Records whose value is damaged are named in `damaged` and count
        for the limit; their keys stay live. Raises Compacted or FutureRevision.
        """
        ...

    async def commit(self, ops: Sequence[Op], *, durable: bool = True) -> int:
        """Apply all operations as one revision and return it.

        Returns after the change is durable (`durable=False`: after it is
        visible and survives a crash of this process, though perhaps not of the
        machine) and after every observer has received its events. Raises
        CompareFailed with nothing written, Unavailable if the commit failed,
        OutcomeUnknown if a distributed store may have executed it. A key may
        occur only once. An Op that deletes a key that is not live with
        expect=ANY is ignored; a commit that changes nothing returns the
        current revision.
        """
        ...

    async def settled(self, key: str) -> None:
        """Return when no write to the key is in flight."""
        ...

    async def refresh(self, at_least: int = 0) -> None:
        """Return when observers have seen every write acknowledged before the call.

        Immediate in a store with one writer; a distributed store asks what other servers
        have written. With `at_least` the revision also reaches that one, if the store has
        counted so far. Raises Unavailable.
        """
        ...

    def observe(self, callback: Observer) -> Callable[[], None]:
        """Call back with every batch from now on; return the function that unsubscribes.

        The callback runs on the event loop, in commit order, before the
        commits of the batch return: state derived from the store (the API
        server's cache) includes a write when its commit returns. The callback
        MUST NOT raise and MUST be quick.
        """
        ...

    def on_gap(self, callback: Callable[[int], None]) -> None:
        """Call back before observers get only the differences up to a revision.

        A distributed store does so when changes were compacted before it could read them. The
        observers' state is complete afterwards, but changes in between are missing.
        """
        ...

    async def history(self, prefix: str, after: int) -> HistoryChunk:
        """Return the oldest changes of keys with this prefix and a revision greater than `after`.

        A chunk is bounded; the next one starts after its `revision`. A reader
        that continues until `revision` is that of an event it observed misses
        and repeats nothing. Raises Compacted (also for a damaged value) or FutureRevision.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Drop history up to and including revision; live values stay."""
        ...

    async def backup(self, target: Path) -> None:
        """Write a consistent copy while the store stays in use."""
        ...

    async def close(self) -> None:
        """Make everything durable and release the files."""
        ...
