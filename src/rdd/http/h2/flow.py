# SPDX-License-Identifier: Apache-2.0
"""Flow control of HTTP/2, and the budget of frames that only cost us work.

A stream gets credit for what its handler has read, so an unread body costs one window. The
connection gets credit for what arrives: one stream that is not read must not stop the others.
"""

MAX_WINDOW = 0x7FFFFFFF
DEFAULT_WINDOW = 65_535
STREAM_WINDOW = 128 * 1024
"""What a client may send on a stream before its handler reads."""
CONNECTION_WINDOW = 4 * 1024 * 1024

CONTROL_BURST = 1000
CONTROL_PER_S = 100.0


class WindowOverflow(Exception):
    """A window beyond 2^31 - 1."""


class SendWindow:
    """What the peer allows us to send; negative after it shrinks its initial window."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def grow(self, size: int) -> None:
        """Add credit, which may be negative. Raises WindowOverflow."""
        if self.size + size > MAX_WINDOW:
            raise WindowOverflow
        self.size += size


class ReceiveWindow:
    """What the peer may send us; credit is returned in large portions."""

    __slots__ = ("_owed", "_size", "left")

    def __init__(self, size: int) -> None:
        self._size = size
        self._owed = 0
        self.left = size

    def receive(self, size: int) -> bool:
        """Count received bytes; return False if the peer has exceeded the window."""
        self.left -= size
        return self.left >= 0

    def consume(self, size: int) -> int:
        """Count consumed bytes; return the credit to announce now, or 0."""
        self._owed += size
        if self._owed * 2 < self._size:
            return 0
        credit, self._owed = self._owed, 0
        self.left += credit
        return credit


class ControlBudget:
    """A token bucket for PING, SETTINGS, RST_STREAM, PRIORITY, empty and unknown frames."""

    __slots__ = ("_at", "_left")

    def __init__(self, now: float) -> None:
        self._left = float(CONTROL_BURST)
        self._at = now

    def take(self, now: float) -> bool:
        """Take one; return False if the peer sends too many."""
        self._left = min(float(CONTROL_BURST), self._left + (now - self._at) * CONTROL_PER_S)
        self._at = now
        self._left -= 1
        return self._left >= 0
