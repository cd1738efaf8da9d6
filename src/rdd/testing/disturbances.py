# SPDX-License-Identifier: Apache-2.0
"""Watches that are slow or that break: streams around streams.

The server pushes into a queue instead of the socket; a task takes single
events out of it, late or only some, and passes them on.
"""

import asyncio
from collections.abc import Awaitable, Callable

from rdd.apiserver.http.request import ResponseWriter, Stream
from rdd.apiserver.state.watchers import MAX_BEHIND_BYTES

Pump = Callable[["_Events", ResponseWriter], Awaitable[None]]


def slowed(stream: Stream, delay_s: float) -> Stream:
    """The stream with each event held back."""

    async def pump(events: "_Events", writer: ResponseWriter) -> None:
        while (line := await events.next()) is not None:
            await asyncio.sleep(delay_s)
            await writer.write(line)

    return _around(stream, pump)


def cut(stream: Stream, after: int) -> Stream:
    """The stream up to some event, then a broken connection."""

    async def pump(events: "_Events", writer: ResponseWriter) -> None:
        for _ in range(after):
            line = await events.next()
            if line is None:
                return
            await writer.write(line)
        raise ConnectionResetError("the watch was cut on purpose")

    return _around(stream, pump)


class _Events:
    """The writer the server sees: it takes everything, and gives it out in lines."""

    def __init__(self, outer: ResponseWriter) -> None:
        self._outer = outer
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting_bytes = 0

    async def next(self) -> bytes | None:
        line = await self._queue.get()
        self._waiting_bytes -= len(line or b"")
        return line

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def write(self, data: bytes) -> None:
        self.push(data)

    def push(self, data: bytes) -> bool:
        for line in data.splitlines(keepends=True):
            self._waiting_bytes += len(line)
            self._queue.put_nowait(line)
        return self._waiting_bytes <= MAX_BEHIND_BYTES

    async def closed(self) -> None:
        await self._outer.closed()


def _around(stream: Stream, pump: Pump) -> Stream:
    async def produce(writer: ResponseWriter) -> None:
        events = _Events(writer)

        async def fill() -> None:
            try:
                await stream.produce(events)
            finally:
                events.end()

        filling = asyncio.get_running_loop().create_task(fill(), name="rdd-testing-disturbed")
        try:
            await pump(events, writer)
            await filling
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)

    return Stream(
        produce, status=stream.status, content_type=stream.content_type, headers=stream.headers
    )
