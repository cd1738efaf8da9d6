# SPDX-License-Identifier: Apache-2.0
"""`/passthrough/mock/logs/<container id>`: a WebSocket with mock logs.

One binary message per line. A label of the container selects the content:

    labels     (or no label) its ID and its labels
    ten        ten lines
    hundred    a hundred lines
    loop       a line per second, until the client disconnects
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType

from rdd.controllers.mock.objects import NAMESPACE, WRITER_LABEL
from rdd.http.exchange import Exchange
from rdd.http.responses import Response
from rdd.http.websocket import HandshakeError, WebSocket
from rdd.kinds.container import Container
from rdd.runtime import Context, ObjectKey
from rdd.runtime.passthrough import Handler

LOOP_S = 1.0

_HEARTBEAT_S = 30.0
_is_id = re.compile(r"[0-9a-fA-F]+").fullmatch


def logs(context: Context) -> Handler:
    """Return the handler of the endpoint."""
    containers = context.cache.of(Container)

    async def handle(exchange: Exchange, rest: str) -> Response | None:
        name = rest.strip("/")
        if not _is_id(name):
            return Response.text(f"invalid container ID {name!r}\n", status=400)
        container = containers.get(ObjectKey(NAMESPACE, name))
        if container is None:
            return Response.text(f"no such container: {name}\n", status=404)
        chosen = container.status.labels.get(WRITER_LABEL, "labels")
        writer = _WRITERS.get(chosen)
        if writer is None:
            return Response.text(f"unknown writer of logs {chosen!r}\n", status=400)
        try:
            socket = WebSocket.accept(exchange)
        except HandshakeError as error:
            return error.response
        await _write(socket, writer(container))
        await socket.close(reason="Closing connection")
        return None

    return handle


async def _write(socket: WebSocket, lines: AsyncIterator[str]) -> None:
    """Send all lines, or until the client disconnects."""

    async def send() -> None:
        async for line in lines:
            await socket.send(f"{line}\n".encode())

    async def listen() -> None:
        async for _ in socket:
            pass  # messages are ignored; the loop ends when the client closes

    async def ping() -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            await socket.ping()

    loop = asyncio.get_running_loop()
    tasks = {
        loop.create_task(send(), name="rdd-mock-logs"),
        loop.create_task(listen(), name="rdd-mock-logs-client"),
        loop.create_task(ping(), name="rdd-mock-logs-ping"),
    }
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _labels(container: Container) -> AsyncIterator[str]:
    yield f"Logs for container {container.metadata.name}"
    for key, value in sorted(container.status.labels.items()):
        yield f"Label: {key}\t{value}"


def _numbered(count: int) -> Callable[[Container], AsyncIterator[str]]:
    async def lines(container: Container) -> AsyncIterator[str]:
        for i in range(1, count + 1):
            yield f"[Line {i}]"

    return lines


async def _loop(container: Container) -> AsyncIterator[str]:
    i = 0
    while True:
        i += 1
        yield f"[Line {i}]"
        await asyncio.sleep(LOOP_S)


_WRITERS: Mapping[str, Callable[[Container], AsyncIterator[str]]] = MappingProxyType(
    {"labels": _labels, "ten": _numbered(10), "hundred": _numbered(100), "loop": _loop}
)
