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

from aiohttp import WSCloseCode, web

from rdd.controllers.mock.objects import NAMESPACE, WRITER_LABEL
from rdd.kinds.container import Container
from rdd.runtime import Context, ObjectKey
from rdd.runtime.passthrough import Handler

LOOP_S = 1.0

_HEARTBEAT_S = 30.0
_is_id = re.compile(r"[0-9a-fA-F]+").fullmatch


def logs(context: Context) -> Handler:
    """Return the handler of the endpoint."""
    containers = context.cache.of(Container)

    async def handle(request: web.BaseRequest, rest: str) -> web.StreamResponse:
        name = rest.strip("/")
        if not _is_id(name):
            return web.Response(status=400, text=f"invalid container ID {name!r}\n")
        container = containers.get(ObjectKey(NAMESPACE, name))
        if container is None:
            return web.Response(status=404, text=f"no such container: {name}\n")
        chosen = container.status.labels.get(WRITER_LABEL, "labels")
        writer = _WRITERS.get(chosen)
        if writer is None:
            return web.Response(status=400, text=f"unknown writer of logs {chosen!r}\n")
        answer = web.WebSocketResponse(heartbeat=_HEARTBEAT_S)
        await answer.prepare(request)
        await _write(answer, writer(container))
        await answer.close(code=WSCloseCode.OK, message=b"Closing connection")
        return answer

    return handle


async def _write(answer: web.WebSocketResponse, lines: AsyncIterator[str]) -> None:
    """Send all lines, or until the client disconnects."""

    async def send() -> None:
        async for line in lines:
            await answer.send_bytes(f"{line}\n".encode())

    async def listen() -> None:
        async for _ in answer:
            pass  # messages are ignored; the loop ends when the client closes

    loop = asyncio.get_running_loop()
    tasks = {
        loop.create_task(send(), name="rdd-mock-logs"),
        loop.create_task(listen(), name="rdd-mock-logs-client"),
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
