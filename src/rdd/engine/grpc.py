# SPDX-License-Identifier: Apache-2.0
"""gRPC over a unix socket: unary calls and server streams.

All calls share one HTTP/2 connection, whose state the h2 library keeps. This module
moves the bytes and splits them into messages: a zero byte, four bytes of length, the
message. The outcome of a call is in its trailers.

The first call opens the connection, and the next call after a loss reopens it. Calls in
progress at a loss end with EngineUnreachable.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from rdd.engine.errors import EngineError, EngineFailure, EngineProtocolError, EngineUnreachable

CONNECT_S = 5.0
RESPONSE_S = 60.0
MAX_MESSAGE = 64 * 1024 * 1024
_PIECE = 64 * 1024
_PREFIX = 5
_UNAVAILABLE = 14
# gRPC codes as HTTP statuses, which the rest of this package uses.
_STATUSES = {3: 400, 5: 404, 6: 409, 9: 409, 12: 501}
_NO_METADATA: Mapping[str, str] = {}


class _GrpcCall:
    """The response of one call."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[bytes | EngineFailure | None] = asyncio.Queue()
        """Messages, then None at the end or the failure."""
        self._buffer = bytearray()
        self._headers: dict[str, str] = {}
        self.is_over = False

    def take_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        self._headers |= {
            name.decode("latin-1"): value.decode("latin-1") for name, value in headers
        }

    def take_data(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _PREFIX:
            size = int.from_bytes(self._buffer[1:_PREFIX], "big")
            if self._buffer[0] or size > MAX_MESSAGE:
                self.end(EngineProtocolError.of("not a gRPC message", bytes(self._buffer[:64])))
                return
            if len(self._buffer) < _PREFIX + size:
                return
            self.messages.put_nowait(bytes(self._buffer[_PREFIX : _PREFIX + size]))
            del self._buffer[: _PREFIX + size]

    def finish(self) -> None:
        """Process the trailers: the engine has closed the stream."""
        status = self._headers.get("grpc-status", "")
        if status == "0":
            self.end(None)
            return
        message = unquote(self._headers.get("grpc-message", "")) or "the engine gave no reason"
        if not status.isdigit():
            shown = self._headers.get(":status", "nothing")
            self.end(EngineProtocolError(f"the response is not gRPC: HTTP status {shown}"))
        elif int(status) == _UNAVAILABLE:
            self.end(EngineUnreachable(message))
        else:
            self.end(EngineError.of(_STATUSES.get(int(status), 500), message))

    def end(self, failure: EngineFailure | None) -> None:
        if not self.is_over:
            self.is_over = True
            self.messages.put_nowait(failure)


class _Http2Connection:
    """One connection and its calls."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding=None)
        )
        self._calls: dict[int, _GrpcCall] = {}
        self.is_lost = False
        self._http.initiate_connection()
        self._flush()
        self._task = asyncio.get_running_loop().create_task(self._receive(), name="rdd-grpc")

    def begin(self, path: str, message: bytes, metadata: Mapping[str, str]) -> int:
        """Start a call and return the number of its stream."""
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "rdd"),
            *metadata.items(),
        ]
        try:
            number = self._http.get_next_available_stream_id()
            self._http.send_headers(number, headers)
            data = b"\0" + len(message).to_bytes(4, "big") + message
            self._http.send_data(number, data, end_stream=True)
        except h2.exceptions.ProtocolError as error:
            self.abort(f"HTTP/2: {error}")
            raise EngineUnreachable(f"cannot start the call: {error}") from error
        self._calls[number] = _GrpcCall()
        self._flush()
        return number

    def call(self, number: int) -> _GrpcCall:
        return self._calls[number]

    def finish(self, number: int) -> None:
        """Remove a call, and reset its stream if it is still open."""
        call = self._calls.pop(number)
        if not call.is_over and not self.is_lost:
            try:
                self._http.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
                self._flush()
            except h2.exceptions.ProtocolError:
                pass  # the engine closed it concurrently

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.abort("the connection was closed")

    def abort(self, reason: str) -> None:
        self.is_lost = True
        self._writer.close()
        for call in self._calls.values():
            call.end(EngineUnreachable(reason))

    async def _receive(self) -> None:
        reason = "the engine closed the connection"
        try:
            while data := await self._reader.read(_PIECE):
                for event in self._http.receive_data(data):
                    self._take(event)
                self._flush()
                await self._writer.drain()
        except (OSError, h2.exceptions.ProtocolError) as error:
            reason = f"{reason}: {error}"
        self.abort(reason)

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        call = self._calls.get(getattr(event, "stream_id", 0) or 0)
        if call is None:
            return
        if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            call.take_headers([(bytes(name), bytes(value)) for name, value in event.headers])
        elif isinstance(event, h2.events.DataReceived):
            call.take_data(event.data)
        elif isinstance(event, h2.events.StreamEnded):
            call.finish()
        elif isinstance(event, h2.events.StreamReset):
            call.end(EngineUnreachable("the engine reset the call"))

    def _flush(self) -> None:
        data = self._http.data_to_send()
        if data and not self.is_lost:
            self._writer.write(data)


class Channel:
    """Makes calls to one unix socket."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._connection: _Http2Connection | None = None
        self._connecting = asyncio.Lock()

    async def close(self) -> None:
        """Close the connection and end its calls."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def unary(
        self, path: str, message: bytes, metadata: Mapping[str, str] = _NO_METADATA
    ) -> bytes:
        """Make a unary call. Raises EngineFailure."""
        try:
            async with (
                asyncio.timeout(RESPONSE_S),
                self.stream(path, message, metadata) as messages,
            ):
                response = b""
                async for received in messages:
                    response = received
                return response
        except TimeoutError:
            raise EngineUnreachable(
                f"{self.socket}: no response to {path} within {RESPONSE_S:g} s"
            ) from None

    @asynccontextmanager
    async def stream(
        self, path: str, message: bytes, metadata: Mapping[str, str] = _NO_METADATA
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Make a call and yield its messages; leaving the block ends it. Raises EngineFailure."""
        connection = await self._connected()
        number = connection.begin(path, message, metadata)
        try:
            yield self._messages(connection.call(number))
        finally:
            connection.finish(number)

    async def _messages(self, call: _GrpcCall) -> AsyncGenerator[bytes, None]:
        while True:
            found = await call.messages.get()
            if found is None:
                return
            if isinstance(found, EngineFailure):
                raise found
            yield found

    async def _connected(self) -> _Http2Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.is_lost:
                return self._connection
            try:
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await asyncio.open_unix_connection(str(self.socket))
            except TimeoutError:
                raise EngineUnreachable(f"{self.socket}: the connection is not accepted") from None
            except OSError as error:
                raise EngineUnreachable(f"{self.socket}: {error.strerror or error}") from error
            self._connection = _Http2Connection(reader, writer)
            return self._connection
