# SPDX-License-Identifier: Apache-2.0
"""`engine/logs` and `engine/stats`: the output and the resource usage of a container.

    GET /passthrough/engine/logs/<id>?follow=true&tail=all&since=&timestamps=false
    GET /passthrough/engine/stats/<id>?stream=true

Over a WebSocket, each piece of output and each line of statistics is a binary
message; over plain HTTP they are the body. stdout and stderr are merged in the
order in which the container wrote them.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from rdd.api import timestamps as times
from rdd.controllers.containers.engine.background_tasks import first_of
from rdd.controllers.containers.engine.endpoints import (
    WRITE_S,
    EndpointError,
    EndpointSocket,
    EngineHandle,
    container_id,
    endpoint,
    flag,
    opened,
    wants_socket,
)
from rdd.engine import Docker, EngineFailure
from rdd.http.exchange import Exchange
from rdd.http.responses import Response

log = logging.getLogger("rdd.engine")

Pieces = AbstractAsyncContextManager[AsyncIterator[bytes]]


class StreamEndpoints:
    """The endpoints that only send."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle

    @endpoint
    async def logs(self, exchange: Exchange, rest: str) -> Response | None:
        """Send the output of a container."""
        id_ = container_id(rest)
        follow = flag(exchange, "follow", True)
        timestamps = flag(exchange, "timestamps", False)
        tail = exchange.first("tail") or "all"
        if tail != "all" and not (tail.isascii() and tail.isdigit()):
            raise EndpointError(400, f"invalid value {tail!r} for tail")
        since = _since(exchange.first("since"))
        docker = self._handle.get()
        await _send(
            exchange,
            _output(docker, id_, follow=follow, tail=tail, since=since, timestamps=timestamps),
        )
        return None

    @endpoint
    async def stats(self, exchange: Exchange, rest: str) -> Response | None:
        """Send the resource usage of a container."""
        id_ = container_id(rest)
        stream = flag(exchange, "stream", True)
        await _send(exchange, _usage(self._handle.get_reader(), id_, stream=stream))
        return None


def _since(text: str) -> str:
    """Return a time as the engine takes it: seconds with a fraction. Raises EndpointError."""
    if not text or re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,9})?", text):
        return text
    try:
        second, nanosecond = times.parse(text)
    except ValueError:
        raise EndpointError(
            400, f"invalid value {text!r} for since: seconds since 1970, or a time as in RFC 3339"
        ) from None
    return f"{second}.{nanosecond:09d}"


@asynccontextmanager
async def _output(
    docker: Docker, id_: str, *, follow: bool, tail: str, since: str, timestamps: bool
) -> AsyncIterator[AsyncIterator[bytes]]:
    found = await docker.inspect_container(id_)
    is_terminal = bool((found.get("Config") or {}).get("Tty"))
    async with docker.logs(
        id_,
        is_terminal=is_terminal,
        follow=follow,
        tail=tail,
        since=since,
        timestamps=timestamps,
    ) as chunks:
        yield (chunk.data async for chunk in chunks)


@asynccontextmanager
async def _usage(docker: Docker, id_: str, *, stream: bool) -> AsyncIterator[AsyncIterator[bytes]]:
    async with docker.stats(id_, stream=stream) as lines:
        yield (line + b"\n" async for line in lines)


async def _send(exchange: Exchange, stream: Pieces) -> None:
    """Send a stream; failures are a status before its start, and a close code after it."""
    try:
        pieces = await stream.__aenter__()
    except EngineFailure as error:
        raise EndpointError.of(error) from error
    try:
        if wants_socket(exchange):
            await _to_socket(exchange, pieces)
        else:
            await _to_body(exchange, pieces)
    finally:
        await stream.__aexit__(None, None, None)


async def _to_socket(exchange: Exchange, pieces: AsyncIterator[bytes]) -> None:
    socket = opened(exchange)
    is_failure = False
    try:
        await first_of(_copy(pieces, socket), socket.listen(), socket.keep_alive())
    except (EngineFailure, ConnectionError, TimeoutError) as error:
        log.debug("stream aborted: %s", error)
        is_failure = True
    await socket.close(is_failure=is_failure)


async def _copy(pieces: AsyncIterator[bytes], socket: EndpointSocket) -> None:
    async for piece in pieces:
        await socket.send(piece)


async def _to_body(exchange: Exchange, pieces: AsyncIterator[bytes]) -> None:
    exchange.start(200, [("Content-Type", "application/octet-stream")])
    try:
        async for piece in pieces:
            exchange.write(piece)
            async with asyncio.timeout(WRITE_S):
                await exchange.drain()
        exchange.finish()
    except (EngineFailure, TimeoutError) as error:
        # Aborting the response is the only way left to signal an incomplete body.
        log.debug("stream aborted: %s", error)
        exchange.abort()
