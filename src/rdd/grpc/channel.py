# SPDX-License-Identifier: Apache-2.0
"""gRPC calls to one service: unary calls and streams.

All calls of a channel share a connection (`connection`). The first call opens it, and the next
call after a loss reopens it. Calls in progress at a loss end with ConnectionLost: whether the
service executed them is unknown.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rdd.grpc.calls import StreamCall, UnaryCall
from rdd.grpc.connection import Http2Connection
from rdd.grpc.errors import GrpcFailure, GrpcTimeout, NotConnected

CONNECT_S = 5.0
RESPONSE_S = 60.0
_NO_METADATA: Mapping[str, str] = {}

Connect = Callable[[Callable[[], Http2Connection]], Awaitable[tuple[Any, Http2Connection]]]
"""Opens a connection, as `create_connection` of an event loop does."""


class Duplex:
    """A call with messages in both directions; iterate over it for the responses."""

    def __init__(self, connection: Http2Connection, number: int, call: StreamCall) -> None:
        self._connection = connection
        self._number = number
        self._call = call

    def send(self, message: bytes) -> None:
        """Send a message; the request stays open."""
        self._connection.send(self._number, message)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        messages = self._call.messages
        while True:
            found = await messages.get()
            if found is None:
                return
            if isinstance(found, GrpcFailure):
                raise found
            yield found


class Channel:
    """Makes calls to one service; `name` is its address in errors."""

    def __init__(
        self,
        connect: Connect,
        *,
        name: str,
        authority: str = "localhost",
        keepalive_s: float = 0,
        connect_s: float = CONNECT_S,
    ) -> None:
        self.name = name
        self._connect = connect
        self._connect_s = connect_s
        self._authority = authority
        self._keepalive_s = keepalive_s
        self._connection: Http2Connection | None = None
        self._connections: list[Http2Connection] = []
        self._connecting = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections and end their calls."""
        self._connection = None
        for connection in self._connections:
            connection.abort("the connection was closed")
        self._connections.clear()
        await asyncio.sleep(0)  # the transports close their sockets

    async def unary(
        self,
        path: str,
        message: bytes,
        metadata: Mapping[str, str] = _NO_METADATA,
        *,
        timeout_s: float = RESPONSE_S,
    ) -> bytes:
        """Make a unary call. Raises GrpcFailure."""
        connection = self._usable() or await self._open()
        call = UnaryCall()
        number = connection.begin(path, metadata, call, message)
        timer = asyncio.get_running_loop().call_later(timeout_s, self._time_out, call, path)
        try:
            return await call.response
        finally:
            timer.cancel()
            connection.finish(number)

    @asynccontextmanager
    async def stream(
        self, path: str, message: bytes, metadata: Mapping[str, str] = _NO_METADATA
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Make a call and yield its messages; leaving the block ends it. Raises GrpcFailure."""
        async with self._call(path, metadata, message) as duplex:
            yield aiter(duplex)

    @asynccontextmanager
    async def duplex(
        self, path: str, metadata: Mapping[str, str] = _NO_METADATA
    ) -> AsyncGenerator[Duplex, None]:
        """Make a call whose request stays open; leaving the block ends it. Raises GrpcFailure."""
        async with self._call(path, metadata, None) as duplex:
            yield duplex

    @asynccontextmanager
    async def _call(
        self, path: str, metadata: Mapping[str, str], message: bytes | None
    ) -> AsyncGenerator[Duplex, None]:
        connection = self._usable() or await self._open()
        call = StreamCall()
        number = connection.begin(path, metadata, call, message)
        try:
            yield Duplex(connection, number, call)
        finally:
            connection.finish(number)

    def _time_out(self, call: UnaryCall, path: str) -> None:
        if not call.response.done():
            call.response.set_exception(GrpcTimeout(f"{self.name}: no response to {path} in time"))

    def _usable(self) -> Http2Connection | None:
        found = self._connection
        return None if found is None or found.is_lost or found.is_retired else found

    async def _open(self) -> Http2Connection:
        async with self._connecting:
            if (found := self._usable()) is not None:
                return found
            try:
                async with asyncio.timeout(self._connect_s):
                    _, connection = await self._connect(
                        lambda: Http2Connection(
                            authority=self._authority, keepalive_s=self._keepalive_s
                        )
                    )
            except TimeoutError:
                raise NotConnected(f"{self.name}: the connection is not accepted") from None
            except OSError as error:
                reason = error.strerror or str(error) or "the service closed the connection"
                raise NotConnected(f"{self.name}: {reason}") from error
            self._connections = [kept for kept in self._connections if not kept.is_lost]
            self._connections.append(connection)
            self._connection = connection
            return connection
