# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 on a unix socket, as much of it as an engine's API uses.

A `Transport` keeps a few idle connections and gives out one `Exchange` per
request. An answer is read in one piece, in pieces as they come, or not at all:
after `101 Switching Protocols` the connection is `Hijacked` and carries raw
bytes both ways. A connection goes back to the idle ones only when its answer
was read to the end; after any failure or cancellation it is closed.

Who reads slowly is not overrun: asyncio stops reading from the socket when
64 KiB wait, and then the engine cannot write.

A general client costs five times the CPU time per request (decision 0022).
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from rdd.engine.errors import Unintelligible, Unreachable

CONNECT_S = 5.0
MAX_IDLE = 32
MAX_HEAD_BYTES = 64 * 1024
_PIECE = 64 * 1024
_REPEATABLE = ("GET", "HEAD")
_NO_HEADERS: Mapping[str, str] = {}


class Hijacked:
    """A connection that carries raw bytes in both directions."""

    def __init__(self, connection: "_Connection") -> None:
        self._connection = connection

    async def read(self) -> bytes:
        """The next bytes; empty at the end. Raises Unreachable if the connection broke."""
        try:
            return await self._connection.reader.read(_PIECE)
        except OSError as error:
            raise Unreachable(f"the engine closed the connection: {error}") from error

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the engine does not read. Raises Unreachable."""
        writer = self._connection.writer
        try:
            writer.write(data)
            await writer.drain()
        except OSError as error:
            raise Unreachable(f"the engine closed the connection: {error}") from error

    def write_eof(self) -> None:
        """Say that nothing more will be sent; reading goes on."""
        writer = self._connection.writer
        if writer.can_write_eof() and not writer.is_closing():
            writer.write_eof()

    def close(self) -> None:
        """End it, at once."""
        self._connection.close()


class Exchange:
    """One request and its answer."""

    def __init__(self, connection: "_Connection", method: str) -> None:
        self._connection = connection
        self._method = method
        self._left = 0
        self._is_chunked = False
        self._is_open_ended = False
        self.is_complete = False
        self.status = 0
        self.headers: dict[str, str] = {}
        """With names in lower case."""

    async def receive_head(self) -> None:
        """Read the status and the headers."""
        reader = self._connection.reader
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    raise Unintelligible.of("not an HTTP answer", error.partial) from None
                raise Unreachable("the engine closed the connection without an answer") from None
            except asyncio.LimitOverrunError:
                raise Unintelligible("the engine's answer has too many headers") from None
            self._parse(head)
            if self.status >= 200 or self.status == 101:
                break
        if self._method == "HEAD" or self.status in (101, 204, 304):
            self.is_complete = True
        elif self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._is_chunked = True
        elif "content-length" in self.headers:
            self._left = int(self.headers["content-length"])
            self.is_complete = self._left == 0
        else:
            self._is_open_ended = True

    def _parse(self, head: bytes) -> None:
        first, *rest = head[:-4].split(b"\r\n")
        parts = first.split(b" ", 2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
            raise Unintelligible.of("not an HTTP answer", head)
        self.status = int(parts[1])
        self.headers = {
            name.decode("latin-1").strip().lower(): value.decode("latin-1").strip()
            for name, _, value in (line.partition(b":") for line in rest)
        }

    async def read(self) -> bytes:
        """The rest of the answer."""
        if self._left and not self.is_complete:
            body = await self._exactly(self._left)
            self._left, self.is_complete = 0, True
            return body
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The answer as it comes in."""
        reader = self._connection.reader
        while not self.is_complete:
            if self._is_chunked:
                line = await self._line()
                try:
                    size = int(line.partition(b";")[0], 16)
                except ValueError:
                    raise Unintelligible.of("not a chunk", line) from None
                piece = (await self._exactly(size + 2))[:-2]
                self.is_complete = size == 0
            elif self._is_open_ended:
                piece = await self._some(_PIECE)
                self.is_complete = not piece
                self._connection.is_reusable = False
            else:
                piece = await self._some(min(self._left, _PIECE))
                if not piece:
                    raise Unreachable("the engine closed the connection in its answer")
                self._left -= len(piece)
                self.is_complete = self._left == 0
            if piece:
                yield piece
            elif reader.at_eof() and not self.is_complete:
                raise Unreachable("the engine closed the connection in its answer")

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The lines of the answer, without their ends; the last one need not have any."""
        rest = b""
        async for piece in self.pieces():
            *complete, rest = (rest + piece if rest else piece).split(b"\n")
            for line in complete:
                line = line.strip()
                if line:
                    yield line
        if rest.strip():
            yield rest.strip()

    def hijack(self) -> Hijacked:
        """The connection itself, for raw bytes."""
        self._connection.is_reusable = False
        return Hijacked(self._connection)

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._connection.reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise Unreachable("the engine closed the connection in its answer") from None

    async def _some(self, limit: int) -> bytes:
        return await self._connection.reader.read(limit)

    async def _line(self) -> bytes:
        try:
            return await self._connection.reader.readuntil(b"\r\n")
        except asyncio.IncompleteReadError:
            raise Unreachable("the engine closed the connection in its answer") from None
        except asyncio.LimitOverrunError:
            raise Unintelligible("the engine's answer is not divided into chunks") from None


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.is_reusable = True

    @property
    def is_alive(self) -> bool:
        return not (self.reader.at_eof() or self.writer.is_closing() or self.reader.exception())

    def close(self) -> None:
        self.is_reusable = False
        self.writer.close()


class Transport:
    """Connections to one unix socket."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._idle: list[_Connection] = []
        self._is_closed = False

    async def close(self) -> None:
        """Close what is idle now, and everything else when it is done."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        for connection in idle:
            try:
                await connection.writer.wait_closed()
            except OSError:
                pass  # it had gone already, which is as good

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes = b"",
        answer_s: float | None = None,
    ) -> AsyncGenerator[Exchange, None]:
        """Send a request; the answer's head has been read when the block is entered.

        `answer_s` bounds the time until then. Raises Unreachable or Unintelligible,
        also in the block when the answer breaks off.
        """
        connection, exchange = await self._begin(method, target, headers, body, answer_s)
        try:
            yield exchange
        except OSError as error:
            if isinstance(error, Unreachable | TimeoutError):
                raise
            raise Unreachable(f"the engine closed the connection: {error}") from error
        finally:
            keep = exchange.is_complete and connection.is_reusable and connection.is_alive
            if exchange.headers.get("connection", "").lower() == "close":
                keep = False
            if keep and not self._is_closed and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    async def _begin(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        answer_s: float | None,
    ) -> tuple[_Connection, Exchange]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_alive:
                connection.close()
                continue
            try:
                return await self._ask(connection, method, target, headers, body, answer_s)
            except Unreachable:
                # The engine may have been restarted since. Nobody knows whether it saw this
                # request, so it is only repeated if that does no harm.
                if method not in _REPEATABLE:
                    raise
        connection = await self._connect()
        return await self._ask(connection, method, target, headers, body, answer_s)

    async def _connect(self) -> _Connection:
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_unix_connection(
                    str(self.socket), limit=MAX_HEAD_BYTES
                )
        except TimeoutError:
            raise Unreachable(f"{self.socket}: nobody accepts the connection") from None
        except OSError as error:
            raise Unreachable(f"{self.socket}: {error.strerror or error}") from error
        return _Connection(reader, writer)

    async def _ask(
        self,
        connection: _Connection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        answer_s: float | None,
    ) -> tuple[_Connection, Exchange]:
        exchange = Exchange(connection, method)
        try:
            async with asyncio.timeout(answer_s):
                await _send(connection.writer, method, target, headers, body)
                await exchange.receive_head()
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise Unreachable(
                    f"{self.socket}: no answer to {method} {target.partition('?')[0]} "
                    f"within {answer_s:g} s"
                ) from None
            if isinstance(error, OSError) and not isinstance(error, Unreachable):
                raise Unreachable(f"{self.socket}: {error.strerror or error}") from error
            raise
        return connection, exchange


async def _send(
    writer: asyncio.StreamWriter,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
) -> None:
    lines = [f"{method} {target} HTTP/1.1", "Host: engine"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
    await writer.drain()
