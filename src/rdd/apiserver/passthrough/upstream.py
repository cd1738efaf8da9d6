# SPDX-License-Identifier: Apache-2.0
"""One request to a backend over HTTP/1.1, with its raw connection after an upgrade.

The proxy needs what HTTP clients do not offer: bodies streamed in both directions at once, and
the bytes of an upgraded connection. Every request has a connection of its own: a pooled one
may be closed by the time it is reused, a request whose body was streamed cannot be retried,
and a new connection over the loopback costs 0.2 ms.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from rdd.http.headers import HeaderList, Headers, clean
from rdd.http.incoming import Incoming

MAX_HEAD_BYTES = 256 * 1024


class UpstreamError(Exception):
    """The backend disconnected, or sent no HTTP."""


class Upstream(asyncio.Protocol):
    """A connection to a backend and the response to its request."""

    def __init__(self) -> None:
        self.status = 0
        self.headers = Headers([])
        self._loop = asyncio.get_running_loop()
        self._parser = HttpResponseParser(self)
        self._pairs: HeaderList = []
        self._head_bytes = 0
        self._head: asyncio.Future[None] = self._loop.create_future()
        self._is_writing_paused = False
        self._is_complete = False
        self._is_upgraded = False
        self._failure: UpstreamError | None = None
        self._drain_waiter: asyncio.Future[None] | None = None
        self._is_interim = False
        self._is_head_request = False

    # -- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._incoming = Incoming(self._transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if not self._is_complete:
            if self.status and not self._is_upgraded and self._is_delimited_by_end():
                self._is_complete = True
            else:
                self._fail(str(exc) if exc else "Server disconnected")
        if self._drain_waiter is not None and not self._drain_waiter.done():
            self._drain_waiter.set_result(None)
        self._incoming.wake()

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        if self._drain_waiter is not None and not self._drain_waiter.done():
            self._drain_waiter.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._is_upgraded:
            self._incoming.feed(data)
            return
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._is_upgraded = True
            self._is_complete = False
            if rest := data[upgrade.args[0] :]:
                self._incoming.feed(rest)
            return
        except HttpParserError as error:
            self._fail(f"malformed response: {error}")
            self._transport.abort()
            return
        if not self.status and self._head_bytes > MAX_HEAD_BYTES:
            self._fail("the head of the response is too large")
            self._transport.abort()

    # -- the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self._pairs.append((name.decode("ascii"), value.decode("utf-8", "surrogateescape")))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._is_interim = 100 <= status < 200 and status != 101
        if self._is_interim:
            self._pairs = []
            return
        self.status = status
        self.headers = Headers(self._pairs)
        if self._is_head_request:
            self._is_complete = True  # whatever its Content-Length announces
        if not self._head.done():
            self._head.set_result(None)

    def on_body(self, data: bytes) -> None:
        self._incoming.feed(data)

    def on_message_complete(self) -> None:
        if not self._is_interim:
            self._is_complete = True
            self._incoming.wake()

    def _is_delimited_by_end(self) -> bool:
        return "Content-Length" not in self.headers and "Transfer-Encoding" not in self.headers

    def _fail(self, text: str) -> None:
        if self._failure is None:
            self._failure = UpstreamError(text)
        if not self._head.done():
            self._head.set_exception(self._failure)
            self._head.exception()  # the request may have been cancelled
        self._incoming.wake()

    # -- the request

    def send_head(self, method: str, target: str, headers: HeaderList) -> None:
        """Send the head of the request."""
        self._is_head_request = method == "HEAD"
        lines = "".join([f"{name}: {clean(value)}\r\n" for name, value in headers])
        head = f"{method} {target} HTTP/1.1\r\n{lines}\r\n"
        self.write(head.encode("utf-8", "surrogateescape"))

    async def send_body(self, pieces: AsyncIterator[bytes], *, is_chunked: bool) -> None:
        """Send the body of the request as it arrives."""
        async for piece in pieces:
            self.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            await self.drain()
        if is_chunked:
            self.write(b"0\r\n\r\n")

    async def response(self) -> None:
        """Wait for the head of the response. Raises UpstreamError."""
        await self._head

    async def read(self) -> bytes:
        """Return the next bytes of the body or of the upgraded connection; empty at the end."""
        while not self._incoming:
            if self._failure is not None and not self._is_upgraded:
                raise self._failure
            if self._is_complete or self._failure is not None:
                return b""
            await self._incoming.changed()
        return self._incoming.take()

    def write(self, data: bytes) -> None:
        """Send bytes without waiting."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the backend can receive more. Raises ConnectionResetError."""
        while self._is_writing_paused and not self._transport.is_closing():
            self._drain_waiter = self._loop.create_future()
            await self._drain_waiter
        if self._transport.is_closing():
            raise ConnectionResetError("the controller disconnected")

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort()
