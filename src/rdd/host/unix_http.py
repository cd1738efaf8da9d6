# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over a unix socket: the one client for engines, host agents and health probes.

The module imports nothing but asyncio, because a host agent loads it and must stay small.
A `Connection` carries requests one after another, a `Response` decodes status, headers and
body. `request` and `open_response` use a connection of their own for a single request;
`rdd.engine.http` keeps a pool of connections on top of the same two classes.

The peer is not trusted to be HTTP: it may hang, close early, or be another program on a
stale path. Every failure is an OSError: the error of the connection itself, TimeoutError,
`ConnectionLost`, or `MalformedResponse`.

Backpressure: asyncio stops reading from the socket when twice the limit (128 KiB) waits, so
a slow reader throttles the peer.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 1 << 20
_CHUNK_BYTES = 64 * 1024
_SHOWN_BYTES = 200
_LENGTH_DIGITS, _SIZE_DIGITS = 18, 15
_HEXADECIMAL = b"0123456789abcdefABCDEF"
MAX_READ_BYTES = 1 << 30
"""The largest body that is read into memory."""
MAX_LINE_BYTES = 16 << 20
_NO_HEADERS: Mapping[str, str] = {}
_CLOSE = {"Connection": "close"}


class ConnectionLost(ConnectionError):
    """The peer closed the connection before the response was complete."""


class MalformedResponse(ConnectionError):
    """The peer sent something that is not the expected HTTP/1.x."""

    def __init__(self, problem: str, data: bytes = b"") -> None:
        if data:
            excerpt = data[:_SHOWN_BYTES].decode("utf-8", "replace")
            problem = f"{problem}: {excerpt!r}{'…' if len(data) > _SHOWN_BYTES else ''}"
        super().__init__(problem)


class Connection:
    """A pair of streams that carries requests one after another."""

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

    async def send(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes = b"",
        host: str = "localhost",
    ) -> None:
        """Send a request. Raises OSError."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
        await self.writer.drain()


class Response:
    """The response to one request."""

    def __init__(self, connection: Connection, method: str) -> None:
        self._connection = connection
        self._method = method
        self._remaining = 0
        self._is_chunked = False
        self._ends_with_connection = False
        self.is_complete = False
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        """Headers with names in lower case."""

    async def receive_head(self) -> None:
        """Read status and headers; skips interim responses such as 100 Continue."""
        while True:
            try:
                head = await self._connection.reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    raise MalformedResponse("not an HTTP response", error.partial) from None
                raise ConnectionLost("connection closed without a response") from None
            except asyncio.LimitOverrunError:
                raise MalformedResponse("the response has too many headers") from None
            self._parse(head)
            if self.status >= 200 or self.status == 101:
                break
        if self._method == "HEAD" or self.status in (101, 204, 304):
            self.is_complete = True
        elif self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._is_chunked = True
        elif "content-length" in self.headers:
            length = self.headers["content-length"]
            if not (length.isascii() and length.isdigit()) or len(length) > _LENGTH_DIGITS:
                raise MalformedResponse("not a content length", length.encode("latin-1"))
            self._remaining = int(length)
            self.is_complete = self._remaining == 0
        else:
            self._ends_with_connection = True

    def _parse(self, head: bytes) -> None:
        first, *rest = head[:-4].split(b"\r\n")
        parts = first.split(b" ", 2)
        if (
            len(parts) < 2
            or not parts[0].startswith(b"HTTP/1.")
            or not parts[1].isdigit()
            or len(parts[1]) != 3
        ):
            raise MalformedResponse("not an HTTP response", head)
        self.status = int(parts[1])
        self.reason = parts[2].decode("latin-1") if len(parts) > 2 else ""
        self.headers = {
            name.decode("latin-1").strip().lower(): value.decode("latin-1").strip()
            for name, _, value in (line.partition(b":") for line in rest)
        }

    async def read(self, max_bytes: int | None = None) -> bytes:
        """Return the rest of the body. MalformedResponse if it is longer than `max_bytes`.

        Without a limit of its own it is MAX_READ_BYTES.
        """
        if max_bytes is None:
            max_bytes = MAX_READ_BYTES
            if self._remaining > max_bytes:
                raise MalformedResponse(f"the response is larger than {max_bytes} bytes")
        if self._remaining and not self._is_chunked and self._remaining <= max_bytes:
            body = await self._read_exactly(self._remaining)
            self._remaining, self.is_complete = 0, True
            return body
        chunks, size = [], 0
        async for chunk in self.chunks():
            chunks.append(chunk)
            size += len(chunk)
            if max_bytes is not None and size > max_bytes:
                raise MalformedResponse(f"the response is larger than {max_bytes} bytes")
        return b"".join(chunks)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives."""
        reader = self._connection.reader
        while not self.is_complete:
            if self._is_chunked:
                chunk = await self._read_chunk()
            elif self._ends_with_connection:
                chunk = await reader.read(_CHUNK_BYTES)
                self.is_complete = not chunk
                self._connection.is_reusable = False
            else:
                chunk = await reader.read(min(self._remaining, _CHUNK_BYTES))
                if not chunk:
                    raise ConnectionLost("connection closed in the middle of the response")
                self._remaining -= len(chunk)
                self.is_complete = self._remaining == 0
            if chunk:
                yield chunk

    async def _read_chunk(self) -> bytes:
        """Return a piece of a chunked body; what a chunk announces is not waited for at once."""
        if not self._remaining:
            line = await self._read_line()
            size = line.partition(b";")[0].strip()
            if not size or len(size) > _SIZE_DIGITS or size.strip(_HEXADECIMAL):
                raise MalformedResponse("not a chunk", line)
            self._remaining = int(size, 16)
            if not self._remaining:
                await self._read_exactly(2)
                self.is_complete = True
                return b""
        piece = await self._connection.reader.read(min(self._remaining, _CHUNK_BYTES))
        if not piece:
            raise ConnectionLost("connection closed in the middle of the response")
        self._remaining -= len(piece)
        if not self._remaining:
            await self._read_exactly(2)
        return piece

    async def lines(self, max_bytes: int = MAX_LINE_BYTES) -> AsyncGenerator[bytes, None]:
        """Yield the non-empty lines of the body, stripped; the last one needs no newline.

        MalformedResponse if a line is longer than `max_bytes`.
        """
        rest = b""
        async for chunk in self.chunks():
            *complete, rest = (rest + chunk if rest else chunk).split(b"\n")
            for line in complete:
                line = line.strip()
                if line:
                    yield line
            if len(rest) > max_bytes:
                raise MalformedResponse(f"the response has a line of more than {max_bytes} bytes")
        if rest.strip():
            yield rest.strip()

    def detach(self) -> Connection:
        """Return the connection for raw bytes, after an upgrade to another protocol."""
        self._connection.is_reusable = False
        return self._connection

    async def _read_exactly(self, size: int) -> bytes:
        try:
            return await self._connection.reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise ConnectionLost("connection closed in the middle of the response") from None

    async def _read_line(self) -> bytes:
        try:
            return await self._connection.reader.readuntil(b"\r\n")
        except asyncio.IncompleteReadError:
            raise ConnectionLost("connection closed in the middle of the response") from None
        except asyncio.LimitOverrunError:
            raise MalformedResponse("the response is not divided into chunks") from None


async def connect(socket: Path) -> Connection:
    """Open a connection. Raises OSError."""
    return Connection(*await asyncio.open_unix_connection(str(socket), limit=MAX_HEAD_BYTES))


@asynccontextmanager
async def open_response(
    socket: Path, target: str, *, method: str = "GET"
) -> AsyncGenerator[Response, None]:
    """Send one request on a connection of its own, for a body that is a stream. No timeout."""
    connection = await connect(socket)
    try:
        await connection.send(method, target, headers=_CLOSE)
        response = Response(connection, method)
        await response.receive_head()
        yield response
    finally:
        connection.close()


async def request(
    socket: Path,
    target: str,
    *,
    method: str = "GET",
    timeout_s: float,
    max_bytes: int | None = MAX_BODY_BYTES,
) -> tuple[Response, bytes]:
    """Return a response and its body. Raises OSError."""
    try:
        async with asyncio.timeout(timeout_s), open_response(socket, target, method=method) as got:
            return got, await got.read(max_bytes)
    except TimeoutError:
        raise TimeoutError(f"no response within {timeout_s:g} s") from None
