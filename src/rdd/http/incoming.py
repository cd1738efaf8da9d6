# SPDX-License-Identifier: Apache-2.0
"""The received bytes of a raw connection, until they are read.

The connection is not read while more than `MAX_UNREAD_BYTES` wait, so a slow reader costs a bounded
amount of memory.
"""

import asyncio

MAX_UNREAD_BYTES = 256 * 1024


class Incoming:
    """The bytes of one transport."""

    __slots__ = ("_is_paused", "_pieces", "_transport", "_unread", "_waiter")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._pieces: list[bytes] = []
        self._unread = 0
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._pieces.append(data)
        self._unread += len(data)
        if self._unread > MAX_UNREAD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self.wake()

    def wake(self) -> None:
        """Make `changed` return."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def changed(self) -> None:
        """Wait for bytes, or for `wake`."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def take(self) -> bytes:
        """Return all bytes, and receive more."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._unread = 0
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()
        return data
