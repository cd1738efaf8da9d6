# SPDX-License-Identifier: Apache-2.0
"""The clock of a test server.

Timestamps, token lifetimes and the expiry of events follow this clock, so that
tests need not wait. A running clock is the wall clock plus an offset; a frozen
one moves only by `advance`, which makes timestamps predictable.
"""

import time


class Clock:
    """A clock that can be moved; a call returns seconds since the epoch.

    `start` is the initial time (default: now). A `frozen` clock stands still
    between calls of `advance`.
    """

    def __init__(self, start: float | None = None, *, frozen: bool = False) -> None:
        self._start = start
        self._is_frozen = frozen
        self._time = 0.0
        self._offset = 0.0
        self.reset()

    def __call__(self) -> float:
        return self._time if self._is_frozen else time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Move forward; raise ValueError for negative seconds."""
        if seconds < 0:
            raise ValueError("a clock cannot be moved backwards")
        self._time += seconds
        self._offset += seconds

    def reset(self) -> None:
        """Return to the initial time."""
        now = time.time()
        self._time = now if self._start is None else self._start
        self._offset = self._time - now
