# SPDX-License-Identifier: Apache-2.0
"""The time a test server believes in.

Timestamps, token lifetimes and the expiry of events follow this clock, so a
test that is about an hour passing takes no hour. A running clock is the wall
clock plus an offset; a frozen one moves only when told to, which makes
timestamps predictable.
"""

import time


class Clock:
    """A clock that can be moved; calling it gives seconds since the epoch.

    `start` is the time it shows at first (default: now). `frozen` clocks stand
    still between calls of `advance`.
    """

    def __init__(self, start: float | None = None, *, frozen: bool = False) -> None:
        self._start = start
        self._is_frozen = frozen
        self._shown = 0.0
        self._offset = 0.0
        self.reset()

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self._shown if self._is_frozen else time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Move forward. Going back raises ValueError: revisions never do either."""
        if seconds < 0:
            raise ValueError("a clock cannot be moved backwards")
        self._shown += seconds
        self._offset += seconds

    def reset(self) -> None:
        """Show the first time again."""
        now = time.time()
        self._shown = now if self._start is None else self._start
        self._offset = self._shown - now
