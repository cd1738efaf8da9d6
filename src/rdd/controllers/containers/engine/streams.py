# SPDX-License-Identifier: Apache-2.0
"""`engine/logs` and `engine/stats`: what a container writes, and what it uses.

    GET /passthrough/engine/logs/<id>?follow=true&tail=all&since=&timestamps=false
    GET /passthrough/engine/stats/<id>?stream=true

Over a WebSocket, each piece of output and each line of statistics is a binary
message; over plain HTTP they are the body. Standard output and standard error
come in the order in which they were written, as one stream.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aiohttp import web

from rdd.controllers.containers.engine.background_tasks import first_of
from rdd.controllers.containers.engine.endpoints import (
    WRITE_S,
    Link,
    Refused,
    Socket,
    container_id,
    flag,
    opened,
    refusal,
    wants_socket,
)
from rdd.engine import Docker, EngineFailure

log = logging.getLogger("rdd.engine")

Pieces = AbstractAsyncContextManager[AsyncIterator[bytes]]


class Streams:
    """The endpoints that only send."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def logs(self, request: web.BaseRequest, rest: str) -> web.StreamResponse:
        """Answer a request for the output of a container."""
        try:
            id_ = container_id(rest)
            follow = flag(request, "follow", True)
            timestamps = flag(request, "timestamps", False)
            tail = request.query.get("tail") or "all"
            if tail != "all" and not (tail.isascii() and tail.isdigit()):
                raise Refused(400, f"invalid value {tail!r} for tail")
            since = request.query.get("since") or ""
            docker = self._link.get()
            stream = _output(
                docker, id_, follow=follow, tail=tail, since=since, timestamps=timestamps
            )
        except Refused as refused:
            return refused.response()
        return await _send(request, stream)

    async def stats(self, request: web.BaseRequest, rest: str) -> web.StreamResponse:
        """Answer a request for what a container uses."""
        try:
            id_ = container_id(rest)
            stream = _usage(self._link.get(), id_, stream=flag(request, "stream", True))
        except Refused as refused:
            return refused.response()
        return await _send(request, stream)


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


async def _send(request: web.BaseRequest, stream: Pieces) -> web.StreamResponse:
    """Send a stream; what goes wrong before its begin is a status, after it a close code."""
    try:
        pieces = await stream.__aenter__()
    except EngineFailure as error:
        return refusal(error).response()
    try:
        if wants_socket(request):
            return await _to_socket(request, pieces)
        return await _to_body(request, pieces)
    finally:
        await stream.__aexit__(None, None, None)


async def _to_socket(request: web.BaseRequest, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    async with opened(request) as socket:
        is_failure = False
        try:
            await first_of(_copy(pieces, socket), socket.listen(), socket.keep_alive())
        except (EngineFailure, ConnectionError, TimeoutError) as error:
            log.debug("a stream to a client ended: %s", error)
            is_failure = True
        await socket.close(is_failure=is_failure)
        return socket.response


async def _copy(pieces: AsyncIterator[bytes], socket: Socket) -> None:
    async for piece in pieces:
        await socket.send(piece)


async def _to_body(request: web.BaseRequest, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    await response.prepare(request)
    try:
        async for piece in pieces:
            async with asyncio.timeout(WRITE_S):
                await response.write(piece)
        await response.write_eof()
    except (EngineFailure, TimeoutError) as error:
        # The only way left to say that this is not all.
        log.debug("a stream to a client ended: %s", error)
        if request.transport is not None:
            request.transport.abort()
    return response
