# SPDX-License-Identifier: Apache-2.0
"""The contract of a store: a revisioned key-value log with watch.

Everything the API server needs from storage is here and nothing else, so that
a distributed store (etcd: transactions, revisions, watch, leases) can stand in
for SQLite. One counter, the revision, orders every change of every key; it is
what clients see as `resourceVersion`. A transaction is one revision: all of
its operations happen, or none.

Keys are text compared by code point, e.g. `/configmaps/default/settings`.
Values are opaque bytes.
"""

import enum
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ANY = -1
"""Value of `Op.expect`: whatever is stored now is fine."""

ABSENT = 0
"""Value of `Op.expect`: the key must not be live."""


@dataclass(frozen=True, slots=True)
class Record:
    """One live key at some revision."""

    key: str
    value: bytes
    revision: int  # of the last change of this key
    created: int  # revision in which the key came to life


@dataclass(frozen=True, slots=True)
class Put:
    """Store a value. `expect` is ANY, ABSENT or the revision the key must have now.

    `previous` is a hint that saves the store a read: the bytes the caller read
    at revision `expect`. It is used only with expect > 0, and MUST be exact.
    """

    key: str
    value: bytes
    expect: int = ANY
    ttl_s: float = 0  # 0: lives until deleted; otherwise removed about that long after this write
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
    """What happened to a key."""

    PUT = "put"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one key.

    `value` is the new value (empty for DELETE); `previous` the value before
    this change, None if the key was not live. `previous_revision` is the
    revision that had written it, 0 if none.
    """

    type: EventType
    key: str
    value: bytes
    revision: int
    created: int
    previous: bytes | None
    previous_revision: int


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a range, in key order, at one revision."""

    records: Sequence[Record]
    revision: int  # the revision the range was read at
    more: bool  # there are further keys after the last record


class StoreError(Exception):
    """Base of everything a store raises."""


class CompareFailed(StoreError):
    """An expectation did not hold; nothing was written.

    `current` is the revision of the key now (0: not live). `pending` is True
    when that is the state of a write that is not durable yet: the caller
    should await `settled` of the store and decide again.
    """

    def __init__(self, key: str, expected: int, current: int, *, pending: bool = False) -> None:
        super().__init__(f"{key}: expected revision {expected}, found {current}")
        self.key, self.expected, self.current, self.pending = key, expected, current, pending


class Compacted(StoreError):
    """The revision asked for is no longer retained."""

    def __init__(self, revision: int, compacted: int) -> None:
        super().__init__(f"revision {revision} has been compacted, the oldest is {compacted}")
        self.revision, self.compacted = revision, compacted


class FutureRevision(StoreError):
    """The revision asked for has not happened yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future, the newest is {current}")
        self.revision, self.current = revision, current


class Overrun(StoreError):
    """A watch fell too far behind and was closed."""


class Unavailable(StoreError):
    """The write could not be made durable (disk full, file gone). Nothing was written."""


class Damaged(StoreError):
    """The file is not a healthy store of ours; it was left as it is."""


class InUse(StoreError):
    """Another process (or another store in this one) has the file open."""


class Watch(Protocol):
    """Changes in commit order, in batches as they were committed together."""

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        """Iterate over batches; raises Overrun or Compacted when continuity is lost."""
        ...

    def close(self) -> None:
        """Stop; the iterator ends."""
        ...


class Store(Protocol):
    """A revisioned key-value log.

    All methods are called from one event loop. `commit` decides expectations
    at the moment it is called, before its first suspension, against committed
    state plus what is in flight; so two commits called one after the other
    without awaiting cannot both win.
    """

    @property
    def revision(self) -> int:
        """The newest committed revision."""
        ...

    @property
    def compacted(self) -> int:
        """History up to and including this revision is gone; 0 if nothing was compacted."""
        ...

    async def get(self, key: str, *, revision: int = 0) -> Record | None:
        """The record of a key now, or as of a retained revision."""
        ...

    async def scan(
        self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0
    ) -> Page:
        """Live records whose key starts with prefix and sorts after `after`, in key order.

        `limit` 0 means all. Raises Compacted or FutureRevision.
        """
        ...

    async def commit(self, ops: Sequence[Op], *, durable: bool = True) -> int:
        """Apply all operations as one revision and return it.

        Returns after the change is durable (`durable=False`: after it is
        visible and survives a crash of this process, though perhaps not of the
        machine) and after every watch has been given its events. Raises
        CompareFailed synchronously with nothing written, Unavailable if the
        commit failed. A key may occur only once. An Op that deletes a key that
        is not live with expect=ANY is ignored; a commit that changes nothing
        returns the current revision.
        """
        ...

    async def settled(self, key: str) -> None:
        """Return when no write to the key is in flight any more."""
        ...

    def watch(self, prefix: str, *, after: int = 0) -> Watch:
        """Every change of keys with this prefix with a revision greater than `after`.

        `after=0` means from now. History is replayed first, then live events
        follow without gap or repetition. Raises Compacted or FutureRevision.
        """
        ...

    def observe(self, callback: Callable[[Sequence[Event]], None]) -> Callable[[], None]:
        """Call back with every batch from now on; returns the function that ends it.

        The callback runs on the event loop, in commit order, before the
        commits that made the batch return: who keeps state derived from the
        store (the API server's cache) reads its own writes. It MUST NOT raise
        and MUST be quick.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forget history up to and including revision; live values stay."""
        ...

    async def backup(self, target: Path) -> None:
        """Write a consistent copy while the store stays in use."""
        ...

    async def close(self) -> None:
        """Make everything durable and release the files."""
        ...
