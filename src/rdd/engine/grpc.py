# SPDX-License-Identifier: Apache-2.0
"""gRPC over a unix socket: calls with one answer, and calls with a stream of them.

All calls share one connection of HTTP/2, which the h2 library keeps in order;
what is left is to move bytes, and to cut them into messages: a zero byte, four
bytes of length, the message. How a call ended is in its trailers.

The connection is made with the first call, and anew after it was lost. What was
under way then ends in Unreachable.
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

from rdd.engine.errors import EngineError, EngineFailure, Unintelligible, Unreachable

CONNECT_S = 5.0
ANSWER_S = 60.0
MAX_MESSAGE = 64 * 1024 * 1024
_PIECE = 64 * 1024
_PREFIX = 5
_UNAVAILABLE = 14
# Codes of gRPC as statuses of HTTP, which the rest of this package speaks.
_STATUSES = {3: 400, 5: 404, 6: 409, 9: 409, 12: 501}
_NO_METADATA: Mapping[str, str] = {}


class _Call:
    """What has arrived for one call."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[bytes | EngineFailure | None] = asyncio.Queue()
        """Messages; None at the end, or what went wrong."""
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
                self.end(Unintelligible.of("not a message of gRPC", bytes(self._buffer[:64])))
                return
            if len(self._buffer) < _PREFIX + size:
                return
            self.messages.put_nowait(bytes(self._buffer[_PREFIX : _PREFIX + size]))
            del self._buffer[: _PREFIX + size]

    def finish(self) -> None:
        """The other side has said everything."""
        status = self._headers.get("grpc-status", "")
        if status == "0":
            self.end(None)
            return
        message = unquote(self._headers.get("grpc-message", "")) or "the engine gave no reason"
        if not status.isdigit():
            shown = self._headers.get(":status", "nothing")
            self.end(Unintelligible(f"the answer is no gRPC: HTTP status {shown}"))
        elif int(status) == _UNAVAILABLE:
            self.end(Unreachable(message))
        else:
            self.end(EngineError.of(_STATUSES.get(int(status), 500), message))

    def end(self, failure: EngineFailure | None) -> None:
        if not self.is_over:
            self.is_over = True
            self.messages.put_nowait(failure)


class _Connection:
    """One connection and the calls on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding=None)
        )
        self._calls: dict[int, _Call] = {}
        self.is_lost = False
        self._http.initiate_connection()
        self._flush()
        self._task = asyncio.get_running_loop().create_task(self._receive(), name="rdd-grpc")

    def begin(self, path: str, message: bytes, metadata: Mapping[str, str]) -> int:
        """Send a call; the number of its stream."""
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
            self.lose(f"HTTP/2: {error}")
            raise Unreachable(f"the engine does not take the call: {error}") from error
        self._calls[number] = _Call()
        self._flush()
        return number

    def call(self, number: int) -> _Call:
        return self._calls[number]

    def finish(self, number: int) -> None:
        """Forget a call, and tell the other side if it was not over."""
        call = self._calls.pop(number)
        if not call.is_over and not self.is_lost:
            try:
                self._http.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
                self._flush()
            except h2.exceptions.ProtocolError:
                pass  # it ended at the same moment

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.lose("the connection was closed")

    def lose(self, why: str) -> None:
        self.is_lost = True
        self._writer.close()
        for call in self._calls.values():
            call.end(Unreachable(why))

    async def _receive(self) -> None:
        why = "the engine closed the connection"
        try:
            while data := await self._reader.read(_PIECE):
                for event in self._http.receive_data(data):
                    self._take(event)
                self._flush()
                await self._writer.drain()
        except (OSError, h2.exceptions.ProtocolError) as error:
            why = f"{why}: {error}"
        self.lose(why)

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
            call.end(Unreachable("the engine broke off the call"))

    def _flush(self) -> None:
        data = self._http.data_to_send()
        if data and not self.is_lost:
            self._writer.write(data)


class Channel:
    """Calls to one unix socket."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()

    async def close(self) -> None:
        """End the connection and all calls on it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def unary(
        self, path: str, message: bytes, metadata: Mapping[str, str] = _NO_METADATA
    ) -> bytes:
        """The answer to a call. Raises EngineFailure."""
        try:
            async with asyncio.timeout(ANSWER_S), self.stream(path, message, metadata) as answers:
                found = b""
                async for answer in answers:
                    found = answer
                return found
        except TimeoutError:
            raise Unreachable(f"{self.socket}: no answer to {path} in {ANSWER_S:g} s") from None

    @asynccontextmanager
    async def stream(
        self, path: str, message: bytes, metadata: Mapping[str, str] = _NO_METADATA
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """The answers to a call; leaving the block ends it. Raises EngineFailure."""
        connection = await self._connected()
        number = connection.begin(path, message, metadata)
        try:
            yield self._answers(connection.call(number))
        finally:
            connection.finish(number)

    async def _answers(self, call: _Call) -> AsyncGenerator[bytes, None]:
        while True:
            found = await call.messages.get()
            if found is None:
                return
            if isinstance(found, EngineFailure):
                raise found
            yield found

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.is_lost:
                return self._connection
            try:
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await asyncio.open_unix_connection(str(self.socket))
            except TimeoutError:
                raise Unreachable(f"{self.socket}: nobody accepts the connection") from None
            except OSError as error:
                raise Unreachable(f"{self.socket}: {error.strerror or error}") from error
            self._connection = _Connection(reader, writer)
            return self._connection
