# SPDX-License-Identifier: Apache-2.0
"""Pauses between attempts that fail, for each virtual machine and each kind of attempt.

Pauses double up to a limit. What was wanted when it failed is remembered: if something else
is wanted now (another template, other params), the failures of before mean nothing and the
next attempt comes at once.
"""

from collections.abc import Callable

LONGEST_S = 60.0


class Backoff:
    """The failures of one thing that is tried again and again."""

    def __init__(self, clock: Callable[[], float], *, longest_s: float = LONGEST_S) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._due = 0.0
        self._wanted: object = None
        self.failures = 0
        """How many attempts in a row have failed."""

    def failed(self, wanted: object = None, *, first_s: float = 1.0) -> float:
        """Note a failure; the seconds until the next attempt, `first_s` after the first one."""
        pause_s = first_s if not self.failures else 2.0 ** min(self.failures, 30)
        self.failures += 1
        self._wanted = wanted
        pause_s = min(pause_s, self._longest_s)
        self._due = self._clock() + pause_s
        return pause_s

    def left_s(self, wanted: object = None) -> float:
        """The seconds until the next attempt; 0: now."""
        if not self.failures:
            return 0.0
        if wanted != self._wanted:
            self.reset()
            return 0.0
        return max(0.0, self._due - self._clock())

    def reset(self) -> None:
        """It worked, or something else is wanted."""
        self.failures = 0
        self._due = 0.0
