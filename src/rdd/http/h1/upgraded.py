# SPDX-License-Identifier: Apache-2.0
"""The bytes of an upgraded connection of HTTP/1.1."""

import asyncio
from typing import TYPE_CHECKING

from rdd.http.incoming import Incoming

if TYPE_CHECKING:
    from rdd.http.h1.connection import Http1Connection


class UpgradedConnection:
    """Both directions; the connection is not read while too much is unread."""

    def __init__(self, connection: "Http1Connection", transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        self._incoming = Incoming(transport)
        self._has_ended = False

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._incoming.feed(data)

    def feed_eof(self) -> None:
        """End the received bytes."""
        self._has_ended = True
        self._incoming.wake()

    async def read(self) -> bytes:
        while not self._incoming:
            if self._has_ended:
                return b""
            await self._incoming.changed()
        return self._incoming.take()

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        await self._connection.drained()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
