# SPDX-License-Identifier: Apache-2.0
"""The bytes of an upgraded connection of HTTP/1.1."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rdd.http.h1.connection import Http1Connection

MAX_UNREAD_BYTES = 256 * 1024


class UpgradedConnection:
    """Both directions; the connection is not read while too much is unread."""

    def __init__(self, connection: "Http1Connection", transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        self._pieces: list[bytes] = []
        self._unread = 0
        self._has_ended = False
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._pieces.append(data)
        self._unread += len(data)
        if self._unread > MAX_UNREAD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def feed_eof(self) -> None:
        """End the received bytes."""
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> bytes:
        while not self._pieces:
            if self._has_ended:
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._unread = 0
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        await self._connection.drained()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
