# SPDX-License-Identifier: Apache-2.0
"""Controllers on a real server in this process, with a virtual clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from tests.runtime.runtime_world import ADMIN, World, loop_clock

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.controllers.environment import ControllerEnvironment
from rdd.host.sockets import listen_on_loopback
from rdd.instance import Instance
from rdd.runtime import Controller, InProcessHost, InProcessPassthrough, Manager, ManagerOptions
from rdd.runtime.events import EVENTS
from rdd.runtime.types import AnyResource, resource_of


def controller_environment(home: Path = Path("/nonexistent")) -> ControllerEnvironment:
    return ControllerEnvironment(
        instance=Instance("7", home=home),
        home=home,
        environment={},
        agent_command=("false",),
        version="test",
    )


@asynccontextmanager
async def managed(world: World, *controllers: Controller, **members: Any) -> AsyncIterator[Manager]:
    """Run a manager during the block."""
    manager = Manager(
        "test",
        world.client,
        controllers,
        host=InProcessHost(world.server.endpoints),
        passthrough=InProcessPassthrough(world.server.passthroughs),
        options=ManagerOptions(clock=loop_clock),
        **members,
    )
    await manager.start()
    try:
        yield manager
    finally:
        await manager.stop()


async def eventually(
    world: World,
    kind: AnyResource,
    name: str,
    condition: Callable[[Object], object],
    *,
    namespace: str = "",
) -> Object:
    """Wait until an object exists and a condition holds for it; return the object."""
    resource = resource_of(kind)
    if resource.namespaced:
        namespace = namespace or "default"
    async with asyncio.timeout(600):
        turns = 0
        while True:
            try:
                found = await world.client.get(resource, name, namespace=namespace)
                if condition(found):
                    return found
            except errors.NotFound:
                pass
            turns += 1
            await asyncio.sleep(0 if turns < 100 else 0.1)


async def gone(world: World, kind: AnyResource, name: str, *, namespace: str = "") -> None:
    """Wait until an object does not exist."""
    resource = resource_of(kind)
    if resource.namespaced:
        namespace = namespace or "default"
    async with asyncio.timeout(600):
        while True:
            try:
                await world.client.get(resource, name, namespace=namespace)
            except errors.NotFound:
                return
            await asyncio.sleep(0.1)


async def reasons(world: World, name: str) -> dict[str, list[str]]:
    """Return the notes of the events of an object, by reason."""
    found: dict[str, list[str]] = {}
    for event in (await world.client.list(EVENTS)).items:
        if event["regarding"]["name"] == name:
            found.setdefault(event["reason"], []).append(event["note"])
    return found


async def event_about(world: World, name: str, reason: str, *, repeated: bool = False) -> Object:
    """Wait for an event of an object with a reason (and with a series); return it."""
    async with asyncio.timeout(600):
        while True:
            for event in (await world.client.list(EVENTS)).items:
                found = (event["regarding"]["name"], event["reason"])
                if found == (name, reason) and (event.get("series") or not repeated):
                    return event
            await asyncio.sleep(0.1)


@asynccontextmanager
async def connected(world: World) -> AsyncIterator[aiohttp.ClientSession]:
    """Open an HTTP client with administrator rights; the server listens during the block."""
    http = HttpServer(AdminApi(world))
    sock = listen_on_loopback(0)
    await http.listen(sock, None)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    try:
        async with aiohttp.ClientSession(url) as session:
            yield session
    finally:
        await http.close(timeout_s=1.0)


class AdminApi:
    """The API of a server that treats every caller as an administrator."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.metrics = world.server.metrics

    async def handle(self, request: Request) -> AnyResponse:
        request.user, request.is_trusted = ADMIN, True
        return await self._world.server.handle(request)
