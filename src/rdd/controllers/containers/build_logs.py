# SPDX-License-Identifier: Apache-2.0
"""The output of builds, and the endpoint that sends it.

    GET /passthrough/image/build-log/<namespace>/<request>?follow=true

A log is a list of texts that readers share, bounded by its size: the beginning of a very long
output is dropped. Logs of the last builds are kept, not longer than the daemon runs.
"""

import asyncio
from collections.abc import AsyncIterator

from rdd.controllers.containers.engine.background_tasks import first_of
from rdd.controllers.containers.engine.endpoints import (
    WRITE_S,
    EndpointError,
    EndpointSocket,
    check_method,
    endpoint,
    flag,
    opened,
    wants_socket,
)
from rdd.http.exchange import Exchange
from rdd.http.responses import TEXT, Response

MAX_LOG_BYTES = 4 * 1024 * 1024
MAX_LOGS = 20


class BuildLog:
    """The output of one build."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self._pieces: list[bytes] = []
        self._dropped = 0
        """Pieces at the beginning that are gone."""
        self._size = 0
        self._has_ended = False
        self._changed = asyncio.Event()

    def write(self, text: str) -> None:
        """Add output."""
        data = text.encode("utf-8", "replace")
        self._pieces.append(data)
        self._size += len(data)
        while self._size > MAX_LOG_BYTES and len(self._pieces) > 1:
            self._size -= len(self._pieces.pop(0))
            self._dropped += 1
        self._wake()

    def end(self) -> None:
        """Mark the output as complete."""
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def read(self, *, follow: bool) -> AsyncIterator[bytes]:
        """Yield the output; with `follow` until the build ends."""
        position = 0
        while True:
            position = max(position, self._dropped)
            fresh = self._pieces[position - self._dropped :]
            if fresh:
                position += len(fresh)
                yield b"".join(fresh)
            elif self._has_ended or not follow:
                return
            else:
                await self._changed.wait()


class BuildLogs:
    """The logs by request, and their endpoint."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, str], BuildLog] = {}

    def open(self, namespace: str, name: str, uid: str) -> BuildLog:
        """Begin a log; it replaces one of the same name."""
        self._logs.pop((namespace, name), None)
        while len(self._logs) >= MAX_LOGS:
            del self._logs[next(iter(self._logs))]
        log = self._logs[namespace, name] = BuildLog(uid)
        return log

    @endpoint
    async def handle(self, exchange: Exchange, rest: str) -> Response | None:
        """Send a log, as a body or over a WebSocket."""
        check_method(exchange, "GET")
        namespace, _, name = rest.strip("/").partition("/")
        follow = flag(exchange, "follow", True)
        log = self._logs.get((namespace, name))
        if log is None:
            raise EndpointError(404, f"no build {namespace}/{name} has run since the last start")
        pieces = log.read(follow=follow)
        if wants_socket(exchange):
            socket = opened(exchange)
            try:
                await first_of(_copy(pieces, socket), socket.listen(), socket.keep_alive())
            except (ConnectionError, TimeoutError):
                pass
            await socket.close()
            return None
        exchange.start(200, [("Content-Type", TEXT), ("Cache-Control", "no-store")])
        async for piece in pieces:
            exchange.write(piece)
            async with asyncio.timeout(WRITE_S):
                await exchange.drain()
        exchange.finish()
        return None


async def _copy(pieces: AsyncIterator[bytes], socket: EndpointSocket) -> None:
    async for piece in pieces:
        await socket.send(piece)
