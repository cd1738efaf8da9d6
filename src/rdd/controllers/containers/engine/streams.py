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
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aiohttp import web

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

log = logging.getLogger("rdd.engine")

Pieces = AbstractAsyncContextManager[AsyncIterator[bytes]]


class StreamEndpoints:
    """The endpoints that only send."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle

    @endpoint
    async def logs(self, request: web.BaseRequest, rest: str) -> web.StreamResponse:
        """Send the output of a container."""
        id_ = container_id(rest)
        follow = flag(request, "follow", True)
        timestamps = flag(request, "timestamps", False)
        tail = request.query.get("tail") or "all"
        if tail != "all" and not (tail.isascii() and tail.isdigit()):
            raise EndpointError(400, f"invalid value {tail!r} for tail")
        since = request.query.get("since") or ""
        docker = self._handle.get()
        return await _send(
            request,
            _output(docker, id_, follow=follow, tail=tail, since=since, timestamps=timestamps),
        )

    @endpoint
    async def stats(self, request: web.BaseRequest, rest: str) -> web.StreamResponse:
        """Send the resource usage of a container."""
        id_ = container_id(rest)
        stream = flag(request, "stream", True)
        return await _send(request, _usage(self._handle.get(), id_, stream=stream))


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
    """Send a stream; failures are a status before its start, and a close code after it."""
    try:
        pieces = await stream.__aenter__()
    except EngineFailure as error:
        raise EndpointError.of(error) from error
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
            log.debug("stream aborted: %s", error)
            is_failure = True
        await socket.close(is_failure=is_failure)
        return socket.response


async def _copy(pieces: AsyncIterator[bytes], socket: EndpointSocket) -> None:
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
        # Aborting the connection is the only way left to signal an incomplete body.
        log.debug("stream aborted: %s", error)
        if request.transport is not None:
            request.transport.abort()
    return response
