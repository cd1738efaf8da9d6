# SPDX-License-Identifier: Apache-2.0
"""Limits on requests in flight.

Reading and writing requests are counted separately, so that a flood of lists
cannot starve writes. A request over the limit gets 429 and Retry-After at once;
Kubernetes clients retry automatically. Watches are not counted here (they have
a limit of their own), nor are requests made by admission, which would
otherwise wait for the request that made them.
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
        self.rejected = 0

    def enter(self, method: str) -> bool:
        """Take a slot and return the argument of `leave`; raise TooManyRequests if full."""
        if method in ("GET", "HEAD"):
            if self.reading >= self.max_reading:
                raise self._reject()
            self.reading += 1
            return True
        if self.writing >= self.max_writing:
            raise self._reject()
        self.writing += 1
        return False

    def leave(self, is_reading: bool) -> None:
        """Release a slot."""
        if is_reading:
            self.reading -= 1
        else:
            self.writing -= 1

    def _reject(self) -> errors.TooManyRequests:
        self.rejected += 1
        return errors.TooManyRequests("Too many requests, please try again later.", retry_after_s=1)
