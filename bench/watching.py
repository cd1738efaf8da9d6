# SPDX-License-Identifier: Apache-2.0
"""Latency of watch events: one watcher at a steady rate, a hundred in a burst."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import orjson
from bench import objects
from bench.load import Call, Client, Phase, Result, UnexpectedResponse, Usage, run
from bench.server import Process

NAMES = 20
ALL_WITHIN_S = 30.0


async def latency(
    client: Client, server: Process, namespace: str, *, writes: int, per_second: int
) -> Result:
    """PUT at a fixed rate; measure the time from the start of a PUT to its event.

    Writes start on schedule, not when the previous one is complete, so that a slow moment
    shows in the latency of every write during it.
    """
    path = objects.CONFIGMAPS.format(namespace)
    began: dict[str, float] = {}
    taken: list[float] = []

    async def write(number: int) -> None:
        name, mark = f"watched-{number % NAMES}", str(number)
        began[mark] = time.perf_counter()
        await client.send(Call("PUT", f"{path}/{name}", objects.configmap(name, number, mark=mark)))

    async def read(stream: aiohttp.StreamReader) -> None:
        async for line in stream:
            arrived = time.perf_counter()
            mark = orjson.loads(line)["object"]["data"].get("mark")
            if mark in began:
                taken.append((arrived - began.pop(mark)) * 1000)
            if len(taken) == writes:
                return

    async with _watch(client, path) as response:
        usage = Usage(server)
        start = time.perf_counter()
        async with (
            asyncio.timeout(writes / per_second + ALL_WITHIN_S),
            asyncio.TaskGroup() as group,
        ):
            group.create_task(read(response.content))
            for number in range(writes):
                await asyncio.sleep(max(0.0, start + number / per_second - time.perf_counter()))
                group.create_task(write(number))
        return usage.result(taken)


async def fan_out(
    client: Client, server: Process, namespace: str, *, watchers: int, writes: int
) -> Result:
    """PUT with 8 clients and many watches; measure events per second until all are received."""
    path = objects.CONFIGMAPS.format(namespace)

    def put(number: int) -> Call:
        name = f"watched-{number % NAMES}"
        return Call("PUT", f"{path}/{name}", objects.configmap(name, number, mark=f"fan-{number}"))

    async def count(stream: aiohttp.StreamReader) -> None:
        seen = 0
        while seen < writes:
            piece, _ = await stream.readchunk()
            if not piece:
                raise UnexpectedResponse("a watch ended early")
            seen += piece.count(b"\n")

    async with asyncio.timeout(ALL_WITHIN_S), _watches(client, path, watchers) as responses:
        await asyncio.sleep(0.2)
        usage = Usage(server)
        async with asyncio.TaskGroup() as group:
            for response in responses:
                group.create_task(count(response.content))
            phase = Phase("fan-out", 8, put, operations=writes)
            writing = group.create_task(run(client, server, phase))
        result = usage.result([], operations=watchers * writes)
        result.p50_ms, result.p99_ms = writing.result().p50_ms, writing.result().p99_ms
        return result


async def prepare(client: Client, namespace: str) -> None:
    """Create the watched objects."""
    path = objects.CONFIGMAPS.format(namespace)
    for number in range(NAMES):
        body = objects.configmap(f"watched-{number}", number)
        await client.send(Call("POST", path, body, statuses=(201,)))


@asynccontextmanager
async def _watch(client: Client, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
    listed = await client.json(Call("GET", f"{path}?limit=1"))
    version = listed["metadata"]["resourceVersion"]
    call = Call("GET", f"{path}?watch=1&resourceVersion={version}")
    async with client.session.get(client.url(call.path), headers=client.headers(call)) as response:
        if response.status != 200:
            raise UnexpectedResponse(f"watch: {response.status}")
        yield response


@asynccontextmanager
async def _watches(
    client: Client, path: str, count: int
) -> AsyncIterator[list[aiohttp.ClientResponse]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(_watch(client, path)) for _ in range(count)]
