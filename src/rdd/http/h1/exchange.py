# SPDX-License-Identifier: Apache-2.0
"""Exchanges of HTTP/1.1.

A complete response is one write: head and body are joined, because a second write costs a TLS
record and a system call. A streamed body without a length is sent in chunks; a client of
HTTP/1.0 gets it up to the end of the connection.
"""

import asyncio
from typing import TYPE_CHECKING

from rdd.http.body import Body
from rdd.http.exchange import ByteStream, Exchange, UpgradeUnsupported
from rdd.http.h1 import heads
from rdd.http.headers import HeaderList, Headers

if TYPE_CHECKING:
    from rdd.http.h1.connection import Http1Connection

_CHUNKED = "Transfer-Encoding: chunked\r\n"
_NO_BODY = frozenset({204, 304})


class Http1Exchange(Exchange):
    """One request of a connection; the connection runs them one after the other."""

    __slots__ = ("_connection", "_head", "_is_chunked", "is_upgrade", "keep", "transport")

    version = "1.1"

    def __init__(
        self,
        connection: "Http1Connection",
        transport: asyncio.Transport,
        method: str,
        target: str,
        headers: Headers,
        body: Body,
        *,
        keep: bool,
        is_upgrade: bool,
    ) -> None:
        super().__init__(
            method,
            target,
            headers,
            body,
            remote=connection.remote,
            peer_certificate=connection.peer_certificate,
        )
        self.transport = transport
        self.keep = keep
        """Whether the connection serves another request afterwards."""
        self.is_upgrade = is_upgrade
        """Whether the client requests another protocol."""
        self._connection = connection
        self._head = b""
        self._is_chunked = False

    @property
    def is_repeatable(self) -> bool:
        """Whether another request with the same header lines needs no parsing."""
        return self.keep and not self.is_upgrade and self.body.is_complete

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing()

    @property
    def is_blocked(self) -> bool:
        return self._connection.is_writing_paused

    @property
    def buffered_bytes(self) -> int:
        return self._connection.buffered_bytes

    def send(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        self._begin(status)
        if self.common_headers:
            headers = headers + self.common_headers
        size = "" if status in _NO_BODY else f"Content-Length: {len(body)}\r\n"
        head = heads.render(status, headers, size=size, keep=self.keep)
        if self.method == "HEAD" or status in _NO_BODY:
            body = b""
        if not self.transport.is_closing():
            self.transport.write(head + body)
        self._end()

    def start(
        self, status: int, headers: HeaderList, *, length: int | None = None, flush: bool = True
    ) -> None:
        self._begin(status)
        if self.common_headers:
            headers = headers + self.common_headers
        size = ""
        if length is not None:
            size = f"Content-Length: {length}\r\n"
        elif status in _NO_BODY:
            pass
        elif self._connection.is_http_1_0:
            self.keep = False
        else:
            size = _CHUNKED
            self._is_chunked = self.method != "HEAD"
        self._head = heads.render(status, headers, size=size, keep=self.keep)
        if flush:
            self._flush_head()

    def write(self, data: bytes) -> None:
        if not data or self.has_ended or self.transport.is_closing() or self.method == "HEAD":
            return
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._head:
            data, self._head = self._head + data, b""
        self.transport.write(data)

    def push(self, data: bytes) -> int:
        # The path of every event of every watcher: one call instead of five.
        transport = self.transport
        if transport.is_closing() or self._head or not self._is_chunked or self.has_ended:
            return super().push(data)
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return transport.get_write_buffer_size()

    def finish(self) -> None:
        if self.has_ended:
            return
        if not self.transport.is_closing():
            if self._is_chunked:
                self.transport.write(self._head + b"0\r\n\r\n")
            elif self._head:
                self.transport.write(self._head)
        self._head = b""
        self._end()

    def abort(self) -> None:
        self.has_ended = True
        self.keep = False
        transport = self.transport
        if transport.is_closing():
            return
        if self._connection.is_writing_paused or self._connection.is_http_1_0:
            transport.abort()
            return
        # What is written still arrives; the missing end shows that it is not everything.
        if self._head:
            self._flush_head()
        transport.close()

    async def drained(self) -> None:
        await self._connection.drained()

    def upgrade(self, headers: HeaderList) -> ByteStream:
        if not self.is_upgrade:
            raise UpgradeUnsupported("the request is no upgrade")
        self.status = 101
        self.has_started = self.has_ended = True
        self.keep = False
        lines = heads.header_lines(headers)
        if not self.transport.is_closing():
            self.transport.write(
                f"HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n".encode(
                    "utf-8", "surrogateescape"
                )
            )
        return self._connection.take_over()

    def _begin(self, status: int) -> None:
        assert not self.has_started
        self.status = status
        self.has_started = True
        if not self._connection.can_keep(self):
            self.keep = False

    def _flush_head(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._head)
        self._head = b""

    def _end(self) -> None:
        self.has_ended = True
