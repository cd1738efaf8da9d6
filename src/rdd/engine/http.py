# SPDX-License-Identifier: Apache-2.0
"""A pool of HTTP/1.1 connections to an engine's unix socket.

A `EngineTransport` keeps a few idle connections of `rdd.host.unix_http` and uses one for each
request. The response is read in one piece, in chunks as they arrive, or not at all: after
`101 Switching Protocols` the connection is `Hijacked` and carries raw bytes both ways. A
connection returns to the pool only when its response was read to the end; after any failure
or cancellation it is closed.

A general client costs five times the CPU time per request (decision 0022).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from rdd.engine.errors import EngineFailure, EngineProtocolError, EngineUnreachable
from rdd.host import unix_http
from rdd.host.unix_http import Connection, MalformedResponse, Response

CONNECT_S = 5.0
MAX_IDLE = 32
_PIECE = 64 * 1024
_REPEATABLE = ("GET", "HEAD")
_NO_HEADERS: Mapping[str, str] = {}


class Hijacked:
    """A connection that carries raw bytes in both directions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end. Raises EngineUnreachable."""
        try:
            return await self._connection.reader.read(_PIECE)
        except OSError as error:
            raise EngineUnreachable(f"the engine closed the connection: {error}") from error

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the engine does not read. Raises EngineUnreachable."""
        writer = self._connection.writer
        try:
            writer.write(data)
            await writer.drain()
        except OSError as error:
            raise EngineUnreachable(f"the engine closed the connection: {error}") from error

    def write_eof(self) -> None:
        """Close the direction to the engine; reading stays possible."""
        writer = self._connection.writer
        if writer.can_write_eof() and not writer.is_closing():
            writer.write_eof()

    def close(self) -> None:
        """Close both directions immediately."""
        self._connection.close()


class EngineExchange(Response):
    """A request and its response. Reading raises EngineUnreachable or EngineProtocolError."""

    async def read(self, max_bytes: int | None = None) -> bytes:
        with _engine_failures():
            return await super().read(max_bytes)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        with _engine_failures():
            async for chunk in super().chunks():
                yield chunk

    def hijack(self) -> Hijacked:
        """Return the connection for raw bytes."""
        return Hijacked(self.detach())


@contextmanager
def _engine_failures() -> Iterator[None]:
    try:
        yield
    except EngineFailure:
        raise
    except MalformedResponse as error:
        raise EngineProtocolError(str(error)) from error
    except OSError as error:
        raise EngineUnreachable(f"the engine closed the connection: {error}") from error


class EngineTransport:
    """Connections to one unix socket; errors name `shown_as`, if that is given."""

    def __init__(self, socket: Path, *, shown_as: Path | None = None) -> None:
        self.socket = socket
        self._name = shown_as or socket
        self._idle: list[Connection] = []
        self._is_closed = False

    async def close(self) -> None:
        """Close idle connections now, and busy ones when their response is complete."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        for connection in idle:
            try:
                await connection.writer.wait_closed()
            except OSError:
                pass  # the engine closed it first

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes = b"",
        response_s: float | None = None,
    ) -> AsyncGenerator[EngineExchange, None]:
        """Send a request; the head of the response has been read when the block is entered.

        `response_s` bounds the time until then. Raises EngineUnreachable or EngineProtocolError,
        also in the block when the response breaks off.
        """
        connection, exchange = await self._begin(method, target, headers, body, response_s)
        try:
            yield exchange
        except OSError as error:
            if isinstance(error, EngineUnreachable | TimeoutError):
                raise
            raise EngineUnreachable(f"the engine closed the connection: {error}") from error
        finally:
            keep = exchange.is_complete and connection.is_reusable and connection.is_alive
            if exchange.headers.get("connection", "").lower() == "close":
                keep = False
            if keep and not self._is_closed and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    @asynccontextmanager
    async def upload(
        self, method: str, target: str, headers: Mapping[str, str], pieces: AsyncIterator[bytes]
    ) -> AsyncGenerator[EngineExchange, None]:
        """Send a request with a streamed body, on a connection of its own.

        The engine may answer before it has read everything, such as with an error.
        """
        connection = await self._connect()
        sending = asyncio.ensure_future(_send_chunks(connection, pieces))
        exchange = EngineExchange(connection, method)
        try:
            given = {**headers, "Transfer-Encoding": "chunked"}
            lines = [f"{method} {target} HTTP/1.1", "Host: engine"]
            lines += [f"{name}: {value}" for name, value in given.items()]
            connection.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
            receiving = asyncio.ensure_future(exchange.receive_head())
            try:
                await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
                if not receiving.done() and sending.exception() is not None:
                    await asyncio.wait({receiving}, timeout=1.0)  # an answer explains it better
                    if not receiving.done():
                        sending.result()
                await receiving
            finally:
                receiving.cancel()
            yield exchange
        except OSError as error:
            if isinstance(error, EngineUnreachable):
                raise
            raise EngineUnreachable(f"the engine closed the connection: {error}") from error
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            connection.close()

    async def _begin(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        response_s: float | None,
    ) -> tuple[Connection, EngineExchange]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_alive:
                connection.close()
                continue
            try:
                return await self._send(connection, method, target, headers, body, response_s)
            except EngineUnreachable:
                # The engine may have restarted, and may have received this request: only
                # an idempotent one is repeated.
                if method not in _REPEATABLE:
                    raise
        connection = await self._connect()
        return await self._send(connection, method, target, headers, body, response_s)

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await unix_http.connect(self.socket)
        except TimeoutError:
            raise EngineUnreachable(f"{self._name}: the connection is not accepted") from None
        except OSError as error:
            raise EngineUnreachable(f"{self._name}: {error.strerror or error}") from error

    async def _send(
        self,
        connection: Connection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        response_s: float | None,
    ) -> tuple[Connection, EngineExchange]:
        exchange = EngineExchange(connection, method)
        try:
            async with asyncio.timeout(response_s):
                await connection.send(method, target, headers=headers, body=body, host="engine")
                await exchange.receive_head()
                return connection, exchange
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise EngineUnreachable(
                    f"{self._name}: no response to {method} {target.partition('?')[0]} "
                    f"within {response_s:g} s"
                ) from None
            if isinstance(error, MalformedResponse):
                raise EngineProtocolError(str(error)) from error
            if isinstance(error, OSError):
                raise EngineUnreachable(f"{self._name}: {error.strerror or error}") from error
            raise


async def _send_chunks(connection: Connection, pieces: AsyncIterator[bytes]) -> None:
    await asyncio.sleep(0)  # the head is written first
    writer = connection.writer
    async for piece in pieces:
        if piece:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
