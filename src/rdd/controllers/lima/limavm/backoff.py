# SPDX-License-Identifier: Apache-2.0
"""Exponential backoff of the attempts of one virtual machine.

An `AttemptBackoff` records the desired state of the failed attempt: if the desired state
has changed since (another template, other params), earlier failures do not count and the
next attempt starts at once.
"""

from collections.abc import Callable

from rdd.base.backoff import Backoff

FIRST_S = 1.0
LONGEST_S = 60.0


class AttemptBackoff:
    """The failures of one type of attempt."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._backoff = Backoff(FIRST_S, LONGEST_S)
        self._due = 0.0
        self._desired: object = None

    @property
    def failures(self) -> int:
        """The number of consecutive failures."""
        return self._backoff.failures

    def failed(self, desired: object = None, *, first_s: float = FIRST_S) -> float:
        """Record a failure and return the delay in seconds, `first_s` for the first one."""
        is_first = not self.failures
        delay = self._backoff.next_s()
        if is_first:
            delay = first_s
        self._desired = desired
        self._due = self._clock() + delay
        return delay

    def remaining_s(self, desired: object = None) -> float:
        """Return the seconds until the next attempt; 0 means now."""
        if not self.failures:
            return 0.0
        if desired != self._desired:
            self.reset()
            return 0.0
        return max(0.0, self._due - self._clock())

    def reset(self) -> None:
        """Start over after a success or a change of the desired state."""
        self._backoff.reset()
        self._due = 0.0
