# SPDX-License-Identifier: Apache-2.0
"""What watchers have not read yet: one copy for all, and a budget for the total.

A watcher that lags queues references to batches. A batch of a view is one bytes object, however
many watchers wait for it, and counts once. When the batches that anybody waits for exceed
`TOTAL_BYTES`, the watchers that are furthest behind are closed first, until the rest fits.
A closed watcher that was in the middle of a batch completes it, so that its client can read
the error behind it; if there are too many of them, their streams just end.
"""

from collections.abc import Callable
from typing import Any, Protocol

TOTAL_BYTES = 64 * 1024 * 1024
"""The budget of all watchers together."""


class Batch:
    """The events of one commit for one view."""

    __slots__ = ("data", "holders", "revision", "size")

    def __init__(self, data: Any, size: int, revision: int) -> None:
        self.data = data
        """The joined lines; in-process, a list of events."""
        self.size = size
        self.revision = revision
        self.holders = 0
        """The number of watchers that queue it."""


class Laggard(Protocol):
    """A watcher, as far as the budget needs it."""

    @property
    def lag_bytes(self) -> int:
        """The size of its queue."""
        ...

    def lose(self) -> None:
        """Drop the queue and end the watch."""
        ...


class LagBudget:
    """Accounts for the batches that watchers queue."""

    def __init__(self) -> None:
        self.total = 0
        self.closed = 0
        """Watchers that were closed for the total; those that exceed their own limit are not."""
        self._finishing = 0
        self._lagging: dict[Laggard, None] = {}
        """In the order in which they began to lag."""

    @property
    def watchers(self) -> int:
        """The number of watchers that lag."""
        return len(self._lagging)

    def hold(self, watcher: Laggard, batch: Batch) -> None:
        """Count a batch that a watcher queues. The caller calls `enforce` after its batch."""
        self._lagging[watcher] = None
        if not batch.holders:
            self.total += batch.size
        batch.holders += 1

    def release(self, batch: Batch) -> None:
        """Count a batch that a watcher has sent or dropped."""
        batch.holders -= 1
        if not batch.holders:
            self.total -= batch.size

    def keep_last(self, batch: Batch) -> bool:
        """Count the batch that a closed watcher completes; return False if there are too many."""
        if self._finishing + batch.size > TOTAL_BYTES // 4:
            return False
        self._finishing += batch.size
        return True

    def drop_last(self, batch: Batch) -> None:
        """Count a batch that was completed."""
        self._finishing -= batch.size

    def caught_up(self, watcher: Laggard) -> None:
        """Forget a watcher whose queue is empty."""
        self._lagging.pop(watcher, None)

    def enforce(self) -> None:
        """Close watchers, those that are furthest behind first, until the total fits."""
        if self.total <= TOTAL_BYTES:
            return
        by_lag: Callable[[Laggard], int] = lambda watcher: watcher.lag_bytes  # noqa: E731
        for watcher in sorted(self._lagging, key=by_lag, reverse=True):
            if self.total <= TOTAL_BYTES:
                return
            self.closed += 1
            watcher.lose()
