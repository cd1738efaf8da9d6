# SPDX-License-Identifier: Apache-2.0
"""An exchange within this process: a request to a passthrough endpoint without a connection."""

import asyncio
from collections import deque

from rdd.http.body import EMPTY
from rdd.http.exchange import ByteStream, Exchange, UpgradeUnsupported
from rdd.http.headers import HeaderList, Headers

_MAX_BUFFERED = 1024 * 1024


class LocalExchange(Exchange):
    """A GET request; `read` returns the body of its response piece by piece."""

    __slots__ = ("_is_aborted", "_pieces", "_reader", "_size", "_writer")

    version = "1.1"

    def __init__(self, target: str) -> None:
        super().__init__("GET", target, Headers([]), EMPTY, remote="127.0.0.1")
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_aborted = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end."""
        while not self._pieces and not self.has_ended and not self._is_aborted:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        self._size -= len(piece)
        _wake(self._writer)
        return piece

    @property
    def is_closing(self) -> bool:
        return self._is_aborted

    @property
    def is_blocked(self) -> bool:
        return self._size > _MAX_BUFFERED

    @property
    def buffered_bytes(self) -> int:
        return self._size

    def send(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        self.start(status, headers)
        self.write(body)
        self.finish()

    def start(
        self, status: int, headers: HeaderList, *, length: int | None = None, flush: bool = True
    ) -> None:
        self.status = status
        self.has_started = True

    def write(self, data: bytes) -> None:
        if data and not self.has_ended:
            self._pieces.append(data)
            self._size += len(data)
            _wake(self._reader)

    def finish(self) -> None:
        self.has_ended = True
        _wake(self._reader)

    def abort(self) -> None:
        self._is_aborted = self.has_ended = True
        _wake(self._reader)
        _wake(self._writer)

    async def drained(self) -> None:
        while self.is_blocked and not self._is_aborted:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        if self._is_aborted:
            raise ConnectionResetError("the reader has left")

    def upgrade(self, headers: HeaderList) -> ByteStream:
        raise UpgradeUnsupported("a request within the process has no connection")


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
