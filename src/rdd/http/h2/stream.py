# SPDX-License-Identifier: Apache-2.0
"""Streams of HTTP/2: one request and its response.

What the client has no window for waits in the stream, not in the transport: a slow reader
costs the memory of its own response, and other streams of the connection go on.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from rdd.http.body import Body
from rdd.http.exchange import ByteStream, Exchange, UpgradeUnsupported
from rdd.http.h2 import frames
from rdd.http.h2.flow import STREAM_WINDOW, ReceiveWindow, SendWindow
from rdd.http.h2.heads import RequestHead, encode_response
from rdd.http.headers import HeaderList

if TYPE_CHECKING:
    from rdd.http.h2.connection import Http2Connection

MAX_PENDING_BYTES = 64 * 1024
"""A stream with more than this waiting is blocked."""


class Http2Exchange(Exchange):
    """One stream."""

    __slots__ = (
        "_connection", "_head", "_waiter", "id", "is_reset", "is_sent", "pending",
        "pending_bytes", "receive_window", "send_window",
    )  # fmt: skip

    version = "2"

    def __init__(
        self, connection: "Http2Connection", id_: int, head: RequestHead, body: Body, window: int
    ) -> None:
        super().__init__(
            head.method,
            head.target,
            head.headers,
            body,
            remote=connection.remote,
            peer_certificate=connection.peer_certificate,
        )
        self.id = id_
        self.send_window = SendWindow(window)
        self.receive_window = ReceiveWindow(STREAM_WINDOW)
        self.pending: deque[memoryview] = deque()
        self.pending_bytes = 0
        self.is_reset = False
        """Whether either side has broken the stream off, or the connection is lost."""
        self.is_sent = False
        """Whether END_STREAM is sent."""
        self._connection = connection
        self._head = b""
        self._waiter: asyncio.Future[None] | None = None

    @property
    def connection_key(self) -> int:
        return id(self._connection)

    @property
    def is_closing(self) -> bool:
        return self.is_reset

    @property
    def is_blocked(self) -> bool:
        if self.is_reset:
            return False
        return self.pending_bytes > (0 if self.has_ended else MAX_PENDING_BYTES)

    @property
    def buffered_bytes(self) -> int:
        return self.pending_bytes

    def send(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        self._begin(status)
        self.has_ended = True
        if self.is_reset:
            return
        if self.common_headers:
            headers = headers + self.common_headers
        has_length = status not in (204, 304)
        block = self._connection.outbox.take_size_update()
        block += encode_response(status, headers, length=len(body) if has_length else None)
        if self.method == "HEAD" or not has_length:
            body = b""
        flags = frames.END_HEADERS if body else frames.END_HEADERS | frames.END_STREAM
        head = _header_frames(self.id, flags, block)
        if not body:
            self.is_sent = True
            self._connection.outbox.write(head)
            return
        self._queue(body)
        self._connection.outbox.flush(self, head)

    def start(
        self, status: int, headers: HeaderList, *, length: int | None = None, flush: bool = True
    ) -> None:
        self._begin(status)
        if self.common_headers:
            headers = headers + self.common_headers
        block = self._connection.outbox.take_size_update()
        block += encode_response(status, headers, length=length)
        self._head = _header_frames(self.id, frames.END_HEADERS, block)
        if flush and not self.is_reset:
            self._connection.outbox.write(self._take_head())

    def write(self, data: bytes) -> None:
        if not data or self.has_ended or self.is_reset or self.method == "HEAD":
            return
        self._queue(data)
        self._connection.outbox.flush(self, self._take_head())

    def finish(self) -> None:
        if self.has_ended:
            return
        self.has_ended = True
        if not self.is_reset:
            self._connection.outbox.flush(self, self._take_head())

    def abort(self) -> None:
        self.has_ended = True
        if not self.is_reset and not self.is_sent:
            self._connection.reset(self, frames.INTERNAL_ERROR)

    async def drained(self) -> None:
        while self.is_blocked:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.is_reset:
            raise ConnectionResetError("the client has disconnected")

    def upgrade(self, headers: HeaderList) -> ByteStream:
        raise UpgradeUnsupported("HTTP/2 has no upgrades")

    def wake(self) -> None:
        """Continue a handler that waits in `drained`."""
        if self._waiter is not None and not self.is_blocked and not self._waiter.done():
            self._waiter.set_result(None)

    def lose(self) -> None:
        """End the stream: it was reset, or its connection is lost."""
        if self.is_reset:
            return
        self.is_reset = True
        self.pending.clear()
        self.pending_bytes = 0
        self.wake()
        if self.on_lost is not None:
            self.on_lost()

    def _begin(self, status: int) -> None:
        assert not self.has_started
        self.status = status
        self.has_started = True

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        return head

    def _queue(self, data: bytes) -> None:
        self.pending.append(memoryview(data))
        self.pending_bytes += len(data)


def _header_frames(stream: int, flags: int, block: bytes) -> bytes:
    """Return a HEADERS frame and, for a large block, CONTINUATION frames."""
    size = frames.MAX_FRAME_BYTES
    if len(block) <= size:
        return frames.frame(frames.HEADERS, flags, stream, block)
    parts = [block[i : i + size] for i in range(0, len(block), size)]
    first = frames.frame(frames.HEADERS, flags & ~frames.END_HEADERS, stream, parts[0])
    middle = [frames.frame(frames.CONTINUATION, 0, stream, part) for part in parts[1:-1]]
    last = frames.frame(frames.CONTINUATION, frames.END_HEADERS, stream, parts[-1])
    return b"".join([first, *middle, last])
