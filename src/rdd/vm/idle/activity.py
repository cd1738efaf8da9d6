# SPDX-License-Identifier: Apache-2.0
"""What the clients of a machine do: the time of the last byte, and requests in progress.

Relays call `touch` for each piece of data, so it must cost next to nothing. While the machine
is paused, the first call wakes it up.
"""

import asyncio
from collections.abc import Callable


class Activity:
    """The activity of all clients of one machine."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.last_s = self._loop.time()
        """The time of the last activity, by the clock of the loop."""
        self._in_progress: dict[object, str] = {}
        self.wake: Callable[[str], None] | None = None
        """Called with the cause of an activity; set while the machine is paused."""

    def touch(self, cause: str) -> None:
        """Record an activity; `cause` names it for users."""
        self.last_s = self._loop.time()
        if self.wake is not None:
            self.wake(cause)

    def begin(self, request: object, cause: str) -> None:
        """Record that a request is in progress until `end`."""
        self._in_progress[request] = cause
        self.touch(cause)

    def end(self, request: object) -> None:
        """Record the end of a request; idle time begins with it."""
        if self._in_progress.pop(request, None) is not None:
            self.last_s = self._loop.time()

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""
        return bool(self._in_progress)


class PauseState:
    """Whether a machine is paused, for everything that waits for its answers."""

    def __init__(self) -> None:
        self.awake = asyncio.Event()
        """Cleared while the machine is paused."""
        self.awake.set()
        self.pauses = 0
        """How many pauses have begun: an answer that a pause delayed is not late."""

    def begin(self) -> None:
        """Record the begin of a pause."""
        self.pauses += 1
        self.awake.clear()
