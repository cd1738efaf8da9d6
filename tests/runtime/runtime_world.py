# SPDX-License-Identifier: Apache-2.0
"""A real API server in this process, on the clock of the event loop, for tests of the runtime.

The loop's clock is a fake one (looptime): waiting takes no time, and the
server, the leases and the queues all see the same time pass.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from rdd.api.types import Object
from rdd.apiserver.http.request import AnyResponse, Request, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.client import Call, Client, LocalTransport, Reply
from rdd.client.errors import Unreachable
from rdd.client.resources import CONFIG_MAPS
from rdd.runtime import Context, Controller, ObjectKey, Result, watch
from rdd.store.memory import MemoryStore
from rdd.store.options import StoreOptions

ADMIN = User("admin", ("system:masters",))
EPOCH = 1_800_000_000.0


def loop_clock() -> float:
    return EPOCH + asyncio.get_running_loop().time()


class Process(LocalTransport):
    """The connection of one process, which can be suspended or cut off."""

    def __init__(self, handle: Callable[[Request], Awaitable[AnyResponse]]) -> None:
        super().__init__(handle, partial(Request, user=ADMIN))
        self.is_cut_off = False
        self.runs = asyncio.Event()
        self.runs.set()

    async def request(self, call: Call) -> Reply:
        await self.runs.wait()
        if self.is_cut_off:
            raise Unreachable("https://127.0.0.1:1: connection refused")
        return await super().request(call)

    def freeze(self) -> None:
        self.runs.clear()

    def resume(self) -> None:
        self.runs.set()


class World:
    """A server, its requests, and its clients."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.client = Client(LocalTransport(self.handle, partial(Request, user=ADMIN)))
        self.writes: list[tuple[str, str, int]] = []
        """Owner, path and status of every write with an owner header."""

    async def handle(self, request: Request) -> AnyResponse:
        answer = await self.server.handle(request)
        owner = request.headers.get("X-Rdd-Owner")
        if owner is not None:
            self.writes.append((owner, request.path, answer.status))
        return answer

    def process(self) -> Process:
        return Process(self.handle)

    async def create(self, name: str, **members: Any) -> Object:
        return await self.client.create(CONFIG_MAPS, config_map(name, **members))

    async def patch(self, name: str, patch: Object) -> Object:
        return await self.client.patch(CONFIG_MAPS, name, patch, namespace="default")

    async def get(self, name: str) -> Object:
        return await self.client.get(CONFIG_MAPS, name, namespace="default")


def config_map(name: str, **members: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, **members}


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    store = MemoryStore(options=StoreOptions(clock=loop_clock))
    server = await open_server(store, ServerOptions(clock=loop_clock))
    try:
        yield World(server)
    finally:
        await server.close()
        await store.close()


async def until(condition: Callable[[], object], *, timeout_s: float = 60) -> None:
    """Wait for a condition; everything runs in this loop, so yielding to it is enough."""
    async with asyncio.timeout(timeout_s):
        turns = 0
        while not condition():
            turns += 1
            # The first iterations take no time; later ones advance the clock.
            await asyncio.sleep(0 if turns < 200 else 0.05)


class Recorder:
    """A reconciler that records its keys and calls a function of the test."""

    def __init__(self, context: Context | None = None) -> None:
        self.context = context
        self.keys: list[ObjectKey] = []
        self.do: Callable[[ObjectKey], Awaitable[Result]] | None = None

    async def reconcile(self, key: ObjectKey) -> Result:
        self.keys.append(key)
        return await self.do(key) if self.do is not None else Result.done()

    @property
    def names(self) -> list[str]:
        return [key.name for key in self.keys if not key.name.startswith("kube-")]


def recorded(name: str, recorder: Recorder, *sources: Any, **members: Any) -> Controller:
    """Return a controller with a recorder as its reconciler."""

    def make(context: Context) -> Recorder:
        recorder.context = context
        return recorder

    return Controller(name, make, sources=sources or (watch(CONFIG_MAPS),), **members)
