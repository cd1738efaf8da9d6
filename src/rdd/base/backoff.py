# SPDX-License-Identifier: Apache-2.0
"""Exponential backoff: the delay before the next attempt doubles up to a limit.

`delay_s` is the formula, for callers that count failures themselves (a queue counts
them per key). `Backoff` counts for callers with one sequence of attempts. There is no
jitter: everything here retries against a daemon or an engine of one user, so there is
no thundering herd to spread, and tests can rely on the exact delays.
"""

from dataclasses import dataclass

# 2.0 ** 1024 overflows a float; long before that every limit is reached.
_LARGEST_EXPONENT = 60


def delay_s(failures: int, *, first_s: float, longest_s: float) -> float:
    """Return the delay after `failures` earlier failures in a row (0: the first one)."""
    return min(first_s * 2.0 ** min(failures, _LARGEST_EXPONENT), longest_s)


@dataclass(slots=True)
class Backoff:
    """The delays of one sequence of attempts."""

    first_s: float
    longest_s: float
    failures: int = 0

    def next_s(self) -> float:
        """Count a failure and return the delay before the next attempt."""
        delay = delay_s(self.failures, first_s=self.first_s, longest_s=self.longest_s)
        self.failures += 1
        return delay

    def reset(self) -> None:
        """Start over after a success."""
        self.failures = 0
