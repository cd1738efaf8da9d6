# SPDX-License-Identifier: Apache-2.0
"""Limits on what is in flight.

Reading and writing requests are counted apart, so that a storm of lists cannot
starve writes. A request over the limit is answered at once with 429 and
Retry-After; clients of Kubernetes retry by themselves. Watches are not counted
here (they have a limit of their own), nor are requests made from within
admission, which would otherwise wait for the request that made them.
"""

from rdd.api import errors

MAX_READING = 400
MAX_WRITING = 200
MAX_BODY_BYTES = 3 * 1024 * 1024


class InFlight:
    """Counts requests in flight."""

    def __init__(self, *, reading: int = MAX_READING, writing: int = MAX_WRITING) -> None:
        self.max_reading, self.max_writing = reading, writing
        self.reading = self.writing = 0
        self.refused = 0

    def enter(self, method: str) -> bool:
        """Take a place; TooManyRequests if there is none. Give what it returns to `leave`."""
        if method in ("GET", "HEAD"):
            if self.reading >= self.max_reading:
                raise self._full()
            self.reading += 1
            return True
        if self.writing >= self.max_writing:
            raise self._full()
        self.writing += 1
        return False

    def leave(self, is_reading: bool) -> None:
        """Give the place back."""
        if is_reading:
            self.reading -= 1
        else:
            self.writing -= 1

    def _full(self) -> errors.TooManyRequests:
        self.refused += 1
        return errors.TooManyRequests("Too many requests, please try again later.", retry_after_s=1)
