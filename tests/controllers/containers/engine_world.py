# SPDX-License-Identifier: Apache-2.0
"""A control plane in this process with a real engine below it; the App is played by the test."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import ClientSession
from tests.controllers.containers.engine_parts import Dockerd

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.http.request import Answer, Request, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.client import Client, LocalTransport
from rdd.client.resources import NAMESPACES
from rdd.controllers.containers.container import container
from rdd.controllers.containers.containernamespace import containernamespace
from rdd.controllers.containers.engine import SyncSettings, engine
from rdd.controllers.containers.image import image
from rdd.controllers.containers.volume import volume
from rdd.controllers.environment import ControllerEnvironment
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.kinds.container import Container
from rdd.kinds.image import Image
from rdd.kinds.volume import Volume
from rdd.runtime import (
    Controller,
    InProcessHost,
    Manager,
    ManagerOptions,
    ObjectKey,
    apply_status,
    find_condition,
    resource_of,
)
from rdd.runtime.events import EVENTS
from rdd.runtime.passthrough import SECRET_HEADER, HttpPassthrough
from rdd.runtime.types import AnyResource
from rdd.store.memory import MemoryStore

ADMIN = User("admin", ("system:masters",))
NAMESPACE = "desktop"
SECRET = "for tests"
QUICK = SyncSettings(retry_s=0.05)
TIMEOUT_S = 60.0


class World:
    """One control plane."""

    def __init__(self, server: ApiServer, env: ControllerEnvironment) -> None:
        self.passthrough_url = ""
        self.server = server
        self.env = env
        self.client = Client(LocalTransport(self._handle, partial(Request, user=ADMIN)))
        self.writes: list[tuple[str, str]] = []
        """Method and path of every write."""
        self.disturb: Callable[[Request], Awaitable[None]] | None = None
        """Called before each request; what it raises is the answer."""
        self.manager: Manager | None = None

    async def _handle(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            self.writes.append((request.method, request.path))
        if self.disturb is not None:
            await self.disturb(request)
        return await self.server.handle(request)

    # -- the control plane

    def controllers(self, settings: SyncSettings = QUICK) -> list[Controller]:
        return [
            containernamespace(self.env),
            container(self.env),
            image(self.env),
            volume(self.env),
            engine(self.env, settings=settings),
        ]

    async def start(
        self, *, settings: SyncSettings = QUICK, clock_shift: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.manager = Manager(
            "test",
            self.client,
            self.controllers(settings),
            host=InProcessHost(self.server.endpoints),
            options=ManagerOptions(clock=lambda: time.time() + clock_shift()),
            passthrough=self._passthrough(),
        )
        await self.manager.start()

    def _passthrough(self) -> HttpPassthrough:
        passthrough = HttpPassthrough(socket.create_server(("127.0.0.1", 0)), secret=SECRET)
        self.passthrough_url = passthrough.url
        return passthrough

    def session(self) -> ClientSession:
        """A client of the endpoints of controllers."""
        return ClientSession(self.passthrough_url, headers={SECRET_HEADER: SECRET})

    async def restart(self, **options: Any) -> None:
        await self.stop()
        await self.start(**options)

    async def stop(self) -> None:
        if self.manager is not None:
            await self.manager.stop()
            self.manager = None

    async def crash(self) -> None:
        """End the controllers in the middle of what they are at."""
        assert self.manager is not None
        tasks = list(self.manager._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.stop()

    # -- the App

    async def create_app(self, **spec: Any) -> None:
        await self.client.create(
            resource_of(App),
            {
                "metadata": {"name": "app"},
                "spec": {"running": True, "namespace": NAMESPACE, **spec},
            },
        )

    async def set_running(self, is_running: bool, *, reason: str = "") -> None:
        condition = {
            "type": "Running",
            "status": "True" if is_running else "False",
            "reason": reason or ("Started" if is_running else "Stopped"),
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        key = ObjectKey("", "app")
        await apply_status(
            self.client, App, key, {"conditions": [condition]}, field_manager="test-app"
        )

    async def run_app(self) -> None:
        """An App whose machine runs, with everything mirrored."""
        await self.create_app()
        await self.set_running(True)
        await self.ready("Connected")

    async def ready(self, reason: str, *, message: str = "") -> Object:
        """The condition of the engine, as soon as it has a reason."""

        def has_reason(app: Object) -> bool:
            found = find_condition(app.get("status", {}).get("conditions"), "ContainerEngineReady")
            return (
                found is not None
                and found["reason"] == reason
                and message in found["message"]
                and found["observedGeneration"] == app["metadata"]["generation"]
            )

        app = await self.eventually(App, "app", has_reason)
        found = find_condition(app["status"]["conditions"], "ContainerEngineReady")
        assert found is not None
        return found

    # -- objects

    async def get(self, kind: AnyResource, name: str) -> Object:
        resource = resource_of(kind)
        namespace = NAMESPACE if resource.namespaced else ""
        return await self.client.get(resource, name, namespace=namespace)

    async def all(self, kind: AnyResource) -> Sequence[Object]:
        return (await self.client.list(resource_of(kind))).items

    async def names(self, kind: AnyResource) -> set[str]:
        """The engine's names of what is mirrored."""
        member = "repoTag" if kind is Image else "name"
        return {obj.get("status", {}).get(member, "") for obj in await self.all(kind)}

    async def annotate(self, name: str, **annotations: str | None) -> Object:
        names = {f"containers.rancherdesktop.io/{key}": text for key, text in annotations.items()}
        return await self.client.patch(
            resource_of(Container), name, {"metadata": {"annotations": names}}, namespace=NAMESPACE
        )

    async def delete(self, kind: AnyResource, name: str) -> None:
        await self.client.delete(resource_of(kind), name, namespace=NAMESPACE)

    async def ask(self, kind: AnyResource, name: str, /, **spec: Any) -> Object:
        """Make a request."""
        body = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        return await self.client.create(resource_of(kind), body)

    async def outcome(self, kind: AnyResource, name: str) -> tuple[str, str, str]:
        """How a request ended: the condition that is True, its reason and its message."""

        def ended(obj: Object) -> bool:
            conditions = obj.get("status", {}).get("conditions") or ()
            return any(condition["status"] == "True" for condition in conditions)

        obj = await self.eventually(kind, name, ended)
        (found,) = (c for c in obj["status"]["conditions"] if c["status"] == "True")
        return found["type"], found["reason"], found["message"]

    async def eventually(
        self, kind: AnyResource, name: str, condition: Callable[[Object], object]
    ) -> Object:
        """The object as soon as a condition holds."""
        resource = resource_of(kind)
        namespace = NAMESPACE if resource.namespaced else ""
        selector = f"metadata.name={name}"
        last: Object = {}
        try:
            async with asyncio.timeout(TIMEOUT_S):
                async for event in self.client.list_and_watch(
                    resource, namespace=namespace, field_selector=selector
                ):
                    if event.type in ("ADDED", "MODIFIED"):
                        last = event.object
                        if condition(last):
                            return last
        except TimeoutError:
            raise AssertionError(f"{resource.kind} {name} stayed {last}") from None
        raise AssertionError("the watch ended")

    async def state(self, id_: str, state: str) -> Object:
        """The container as soon as its mirror is in a state."""
        return await self.eventually(
            Container, id_, lambda obj: obj.get("status", {}).get("status") == state
        )

    async def gone(self, kind: AnyResource, name: str) -> None:
        await self.until(lambda: self._is_gone(kind, name))

    async def _is_gone(self, kind: AnyResource, name: str) -> bool:
        try:
            await self.get(kind, name)
        except errors.NotFound:
            return True
        return False

    async def until(self, holds: Callable[[], Awaitable[object]], *, pause_s: float = 0.01) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    if await holds():
                        return
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            raise AssertionError(f"did not happen in time: {holds}") from None

    async def counts(self) -> tuple[int, int, int]:
        kinds = (Container, Image, Volume)
        return tuple([len(await self.all(kind)) for kind in kinds])  # type: ignore[return-value]

    async def notes(self, reason: str) -> list[str]:
        """The notes of events with a reason."""
        found = (await self.client.list(EVENTS)).items
        return [event["note"] for event in found if event["reason"] == reason]


@asynccontextmanager
async def open_world(
    home: Path, engine_socket: Path | None, *, environment: dict[str, str] | None = None
) -> AsyncIterator[World]:
    """A control plane with its controllers at work, whose engine is behind a socket."""
    instance = Instance("7", home)
    instance.short_dir.mkdir(parents=True, exist_ok=True)
    if engine_socket is not None:
        instance.docker_socket.unlink(missing_ok=True)
        instance.docker_socket.symlink_to(engine_socket)
    env = ControllerEnvironment(instance, home, environment or {}, ("false",), "test")
    store = MemoryStore()
    server = await open_server(store, ServerOptions())
    world = World(server, env)
    try:
        await world.client.create(resource_of(NAMESPACES), {"metadata": {"name": NAMESPACE}})
        await world.start()
        yield world
    finally:
        await world.stop()
        await server.close()
        await store.close()


@asynccontextmanager
async def running_world(home: Path, dockerd: Dockerd) -> AsyncIterator[World]:
    """A control plane in which everything of an engine is mirrored."""
    async with open_world(home, dockerd.socket) as world:
        await world.run_app()
        yield world
