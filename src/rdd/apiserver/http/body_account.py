# SPDX-License-Identifier: Apache-2.0
"""An account of unfinished bodies, so that no client fills the memory with them.

A body is kept in memory until its last byte is there, and an honest slow client may take minutes.
So what is announced is counted before it is read: per connection, per user and in total; members of
system:masters have a reserve. A request beyond a limit gets 429 and Retry-After, which Kubernetes
clients follow. Bodies that are there with their head, as nearly all are, are not counted.
"""

from typing import TypeVar

from rdd.api import errors
from rdd.apiserver.http.limits import MAX_BODY_BYTES
from rdd.apiserver.http.request import User

K = TypeVar("K", str, int)

MAX_TOTAL_BYTES = 64 * 1024 * 1024
MAX_USER_BYTES = 32 * 1024 * 1024
MAX_CONNECTION_BYTES = 16 * 1024 * 1024
RESERVE_BYTES = 16 * 1024 * 1024
"""For administrators, beyond the total."""


class BodyAccount:
    """Counts the announced bytes of unfinished bodies."""

    def __init__(
        self,
        *,
        total: int = MAX_TOTAL_BYTES,
        user: int = MAX_USER_BYTES,
        connection: int = MAX_CONNECTION_BYTES,
        reserve: int = RESERVE_BYTES,
    ) -> None:
        self._limits = total, user, connection, reserve
        self.total = 0
        self._by_user: dict[str, int] = {}
        self._by_connection: dict[int, int] = {}

    def enter(self, length: int | None, user: User, connection: int) -> int:
        """Count a body and return its size for `leave`. Raises TooManyRequests."""
        size = MAX_BODY_BYTES if length is None else min(length, MAX_BODY_BYTES)
        total, per_user, per_connection, reserve = self._limits
        own = self._by_user.get(user.name, 0) + size
        shared = self._by_connection.get(connection, 0) + size
        allowed = total + reserve if user.is_master else total
        if self.total + size > allowed or own > per_user or shared > per_connection:
            raise errors.TooManyRequests(
                "Too many unfinished request bodies, please try again later.", retry_after_s=1
            )
        self.total += size
        self._by_user[user.name] = own
        self._by_connection[connection] = shared
        return size

    def leave(self, size: int, user: User, connection: int) -> None:
        """Remove a body that is complete or was given up."""
        self.total -= size
        _subtract(self._by_user, user.name, size)
        _subtract(self._by_connection, connection, size)


def _subtract(counts: dict[K, int], key: K, size: int) -> None:
    left = counts[key] - size
    if left:
        counts[key] = left
    else:
        del counts[key]
