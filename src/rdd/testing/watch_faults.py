# SPDX-License-Identifier: Apache-2.0
"""Watches that are slow or that break.

The server writes into a queue instead of the socket; a task reads single events
from it and forwards them, delayed or only some of them.
"""

import asyncio
from collections.abc import Awaitable, Callable

from rdd.apiserver.http.request import ResponseWriter, Stream
from rdd.apiserver.state.watchers import MAX_BEHIND_BYTES

Forward = Callable[["_Events", ResponseWriter], Awaitable[None]]


def slow_down(stream: Stream, delay_s: float) -> Stream:
    """Return the stream with each event delayed."""

    async def forward(events: "_Events", writer: ResponseWriter) -> None:
        while (line := await events.next()) is not None:
            await asyncio.sleep(delay_s)
            await writer.write(line)

    return _wrap(stream, forward)


def break_after(stream: Stream, after: int) -> Stream:
    """Return the stream up to some event, followed by a broken connection."""

    async def forward(events: "_Events", writer: ResponseWriter) -> None:
        for _ in range(after):
            line = await events.next()
            if line is None:
                return
            await writer.write(line)
        raise ConnectionResetError("injected fault: the watch breaks")

    return _wrap(stream, forward)


class _Events:
    """The writer of the server: a queue of lines."""

    def __init__(self, outer: ResponseWriter) -> None:
        self._outer = outer
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queued_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def next(self) -> bytes | None:
        line = await self._queue.get()
        self._queued_bytes -= len(line or b"")
        if self._queued_bytes <= MAX_BEHIND_BYTES:
            self._has_room.set()
        return line

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def write(self, data: bytes) -> None:
        if not self.push(data):
            self._has_room.clear()
            await self._has_room.wait()

    def push(self, data: bytes) -> bool:
        for line in data.splitlines(keepends=True):
            self._queued_bytes += len(line)
            self._queue.put_nowait(line)
        return self._queued_bytes <= MAX_BEHIND_BYTES

    async def closed(self) -> None:
        await self._outer.closed()


def _wrap(stream: Stream, forward: Forward) -> Stream:
    async def produce(writer: ResponseWriter) -> None:
        events = _Events(writer)

        async def fill() -> None:
            try:
                await stream.produce(events)
            finally:
                events.end()

        filling = asyncio.get_running_loop().create_task(fill(), name="rdd-testing-watch-fault")
        try:
            await forward(events, writer)
            await filling
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)

    return Stream(
        produce, status=stream.status, content_type=stream.content_type, headers=stream.headers
    )
