# SPDX-License-Identifier: Apache-2.0
"""What the stores of one process share: revision, retention, observers and expiry.

SQLite and memory differ in where rows are kept and in when a planned
transaction counts as committed; etcd decides by itself and uses none of this.
Everything around that is here: the key index that decides commits, the
publication of committed events to observers, the removal of expired keys and
the checks of requested revisions.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from rdd.store.contract import Compacted, FutureRevision, Observer, StoreEvent, Unavailable
from rdd.store.expiry import Expired, Expiry
from rdd.store.index import KeyIndex, Transaction
from rdd.store.options import StoreOptions
from rdd.store.retention import Retention

log = logging.getLogger(__name__)


class RevisionedStore:
    """The common part of these stores; must be created where an event loop runs."""

    def __init__(
        self, index: KeyIndex, revision: int, retention: Retention, options: StoreOptions
    ) -> None:
        self._options = options
        self._index = index
        self._revision = revision
        self._retention = retention
        self._observers: list[Observer] = []
        self._is_closed = False
        self._expiry = Expiry(options.clock, remove=self._remove, is_current=self._is_current)

    @property
    def revision(self) -> int:
        """The newest committed revision."""
        return self._revision

    @property
    def is_shared(self) -> bool:
        """Whether other servers write to it: never, the file is locked."""
        return False

    @property
    def is_distributed(self) -> bool:
        """Whether observers may be behind: never."""
        return False

    @property
    def is_current(self) -> bool:
        """Whether observers have seen every acknowledged write: always."""
        return True

    @property
    def compacted(self) -> int:
        """The newest revision whose history is compacted; 0 if none is."""
        return self._retention.compacted

    def problem(self) -> str:
        """Return why the last write failed; empty if it did not."""
        return ""

    async def settled(self, key: str) -> None:
        """Return when no write to the key is in flight."""
        await self._index.settled(key)

    async def refresh(self, at_least: int = 0) -> None:
        """Return at once: this is the only writer, and observers see its commits."""

    def observe(self, callback: Observer) -> Callable[[], None]:
        """Call back with every batch from now on; return the function that unsubscribes."""
        self._observers.append(callback)

        def stop() -> None:
            if callback in self._observers:
                self._observers.remove(callback)

        return stop

    def on_gap(self, callback: Callable[[int], None]) -> None:
        """Do nothing: observers see every change."""

    async def expire(self) -> int:
        """Remove the keys that have expired by now; a timer does this on its own."""
        return await self._expiry.run()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the store is closed")

    def _check(self, revision: int) -> None:
        """Refuse a revision that cannot be read; 0 is the current one."""
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if revision and revision < self._retention.compacted:
            raise Compacted(revision, self._retention.compacted)

    def _settle(self, transactions: Iterable[Transaction]) -> None:
        """Make transactions committed state and publish their events, in order."""
        events: list[StoreEvent] = []
        index, expiry = self._index, self._expiry
        for transaction in transactions:
            index.settle(transaction, events)
            for row in transaction.rows:
                if row[4]:
                    expiry.add(row[4], row[1], row[0])
        self._revision = events[-1].revision
        for observer in tuple(self._observers):
            try:
                observer(events)
            except Exception:  # one failing observer must not affect the others or the commit
                log.exception("an observer of the store failed at revision %d", self._revision)

    async def _remove(self, expired: Sequence[Expired]) -> int:
        """Delete expired keys, each in its own revision: a watch can resume between two."""
        raise NotImplementedError

    def _is_current(self, key: str, identity: int) -> bool:
        entry = self._index.live.get(key)
        return entry is not None and entry[0] == identity
