# SPDX-License-Identifier: Apache-2.0
"""The body of a request.

A handler gets the request as soon as its head is complete, and decides whether it wants the
body. The connection feeds what arrives and stops reading while too much of it is unread, so
an unread body costs at most `MAX_UNREAD_BYTES`. `read` collects a body of bounded size
at a minimum rate; iteration streams a body of any size and duration.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

MAX_UNREAD_BYTES = 256 * 1024


class BodyError(Exception):
    """A body that cannot be read."""


class BodyTooLarge(BodyError):
    """The body exceeds the limit of its reader."""


class BodyTimeout(BodyError):
    """The body arrives more slowly than its reader accepts."""


class BodyIncomplete(BodyError):
    """The body is malformed, or the client disconnected before its end."""


@dataclass(frozen=True, slots=True)
class BodyPace:
    """How fast a body must arrive: an honest slow client passes, one that stalls does not."""

    grace_s: float = 30.0
    """The time every body has."""
    bytes_per_s: float = 16 * 1024
    """Received bytes extend the time at this rate."""


class Body:
    """The body of one request, while it arrives."""

    __slots__ = (
        "_pieces", "_unread", "_waiter", "failure", "is_complete", "is_discarded",
        "length", "on_consumed", "on_wanted", "received",
    )  # fmt: skip

    def __init__(self, *, length: int | None = 0) -> None:
        self.length = length
        """The announced length; None if it is unknown."""
        self.is_complete = length == 0
        self.is_discarded = False
        """Whether the rest is dropped as it arrives."""
        self.received = 0
        self.failure: BodyError | None = None
        self.on_wanted: Callable[[], None] | None = None
        """Called before the first wait for data: the place to send `100 Continue`."""
        self.on_consumed: Callable[[int], None] | None = None
        """Called with the number of bytes that a reader has taken."""
        self._pieces: list[bytes] = []
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None

    @classmethod
    def of(cls, data: bytes) -> "Body":
        """Return a body that has arrived completely."""
        if not data:
            return EMPTY
        body = cls(length=len(data))
        body.feed(data)
        body.is_complete = True
        return body

    @property
    def exists(self) -> bool:
        """Whether the request has a body."""
        return self.length != 0

    @property
    def unread_bytes(self) -> int:
        """The bytes that have arrived and are not read."""
        return self._unread

    # -- the side of the connection

    def feed(self, data: bytes) -> None:
        """Add data."""
        self.received += len(data)
        if self.is_discarded:
            if self.on_consumed is not None:
                self.on_consumed(len(data))
            return
        self._pieces.append(data)
        self._unread += len(data)
        self._wake()

    def complete(self) -> None:
        """End the body."""
        self.is_complete = True
        self._wake()

    def fail(self, failure: BodyError) -> None:
        """End the body before its end."""
        if not self.is_complete and self.failure is None:
            self.failure = failure
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the side of the handler

    async def read(self, *, limit: int, pace: BodyPace | None = None) -> bytes:
        """Return the whole body. Raises a BodyError."""
        if self.length is not None and self.length > limit:
            raise BodyTooLarge
        started = 0.0
        parts: list[bytes] = []
        while not self.is_complete:
            if self.received > limit:
                raise BodyTooLarge
            parts += self._take()
            if pace is None:
                await self._wait()
                continue
            loop = asyncio.get_running_loop()
            started = started or loop.time()
            deadline = started + pace.grace_s + self.received / pace.bytes_per_s
            try:
                async with asyncio.timeout_at(deadline):
                    await self._wait()
            except TimeoutError:
                self.failure = BodyTimeout()
                raise self.failure from None
        if self.received > limit:
            raise BodyTooLarge
        parts += self._take()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body in the pieces in which it arrives. Raises BodyIncomplete."""
        while True:
            for piece in self._take():
                yield piece
            if self._unread:
                continue
            if self.is_complete:
                return
            await self._wait()

    def discard(self) -> None:
        """Drop the rest of the body."""
        if not self.is_complete:
            self.is_discarded = True
            self._take()

    def _take(self) -> list[bytes]:
        pieces, size = self._pieces, self._unread
        self._pieces, self._unread = [], 0
        if size and self.on_consumed is not None:
            self.on_consumed(size)
        return pieces

    async def _wait(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.on_wanted is not None:
            self.on_wanted()
            self.on_wanted = None
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self.failure is not None and not self._pieces:
            raise self.failure


EMPTY = Body()
"""The body of every request without one; nothing changes it."""
