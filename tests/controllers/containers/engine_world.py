# SPDX-License-Identifier: Apache-2.0
"""A control plane in this process with a real engine; the test plays the App controller.

The mirror follows the engine asynchronously, so tests never read an object before they waited
for it: `find`, `image`, `state` and `eventually` wait on a watch, `until` polls for the rest.
`get` and `list` read the present state. They are for objects that the test has waited for, and
for assertions that something does not exist.
"""

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

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.http.request import AnyResponse, Request, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.client import Client, LocalTransport
from rdd.client.resources import NAMESPACES
from rdd.controllers.containers.container import container
from rdd.controllers.containers.containernamespace import containernamespace
from rdd.controllers.containers.engine import SyncSettings, engine
from rdd.controllers.containers.image import image
from rdd.controllers.containers.network import network
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
    conditions_of,
    find_condition,
    resource_of,
)
from rdd.runtime.events import EVENTS
from rdd.runtime.passthrough import HttpPassthrough
from rdd.runtime.types import AnyResource
from rdd.store.memory import MemoryStore

ADMIN = User("admin", ("system:masters",))
NAMESPACE = "desktop"
SECRET = "for tests"
QUICK = SyncSettings(retry_s=0.05)
TIMEOUT_S = 120.0


class World:
    """One control plane."""

    def __init__(self, server: ApiServer, env: ControllerEnvironment) -> None:
        self.passthrough_url = ""
        self.server = server
        self.env = env
        self.client = Client(LocalTransport(self._handle, partial(Request, user=ADMIN)))
        self.writes: list[tuple[str, str]] = []
        """The method and path of every write."""
        self.disturb: Callable[[Request], Awaitable[None]] | None = None
        """Called before each request; an exception becomes the response."""
        self.manager: Manager | None = None

    async def _handle(self, request: Request) -> AnyResponse:
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
            network(self.env),
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
        """Return a client of the endpoints of controllers."""
        return ClientSession(
            self.passthrough_url, headers={names.PASSTHROUGH_SECRET_HEADER: SECRET}
        )

    async def restart(self, **options: Any) -> None:
        await self.stop()
        await self.start(**options)

    async def stop(self) -> None:
        if self.manager is not None:
            await self.manager.stop()
            self.manager = None

    async def crash(self) -> None:
        """Cancel the controllers without draining them."""
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
        """Create an App with a running machine, and wait until everything is mirrored."""
        await self.create_app()
        await self.set_running(True)
        await self.ready("Connected")

    async def ready(self, reason: str, *, message: str = "") -> Object:
        """Wait until the condition of the engine has a reason, and return it."""

        def has_reason(app: Object) -> bool:
            found = find_condition(conditions_of(app), "ContainerEngineReady")
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

    async def list(self, kind: AnyResource) -> Sequence[Object]:
        return (await self.client.list(resource_of(kind))).items

    async def names(self, kind: AnyResource) -> set[str]:
        """Return the engine's names of the present mirrors."""
        member = "repoTag" if kind is Image else "name"
        return {obj.get("status", {}).get(member, "") for obj in await self.list(kind)}

    async def annotate(self, name: str, **annotations: str | None) -> Object:
        names = {f"containers.rancherdesktop.io/{key}": text for key, text in annotations.items()}
        return await self.client.patch(
            resource_of(Container), name, {"metadata": {"annotations": names}}, namespace=NAMESPACE
        )

    async def delete(self, kind: AnyResource, name: str) -> None:
        await self.client.delete(resource_of(kind), name, namespace=NAMESPACE)

    async def request(
        self, kind: AnyResource, name: str, /, *, dry_run: bool = False, **spec: Any
    ) -> Object:
        """Create a request."""
        body = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        return await self.client.create(resource_of(kind), body, dry_run=dry_run)

    async def rejected(self, kind: AnyResource, message: str, **spec: Any) -> None:
        """Wait until admission, which reads a cache, rejects a request with a message."""

        async def is_rejected() -> bool:
            try:
                await self.request(kind, "rejected", dry_run=True, **spec)
            except errors.Forbidden as error:
                assert message in error.message
                return True
            return False

        await self.until(is_rejected)

    async def outcome(self, kind: AnyResource, name: str) -> tuple[str, str, str]:
        """Wait for the end of a request; return its true condition, reason and message."""

        def ended(obj: Object) -> bool:
            conditions = obj.get("status", {}).get("conditions") or ()
            return any(condition["status"] == "True" for condition in conditions)

        obj = await self.eventually(kind, name, ended)
        (found,) = (c for c in obj["status"]["conditions"] if c["status"] == "True")
        return found["type"], found["reason"], found["message"]

    async def eventually(
        self, kind: AnyResource, name: str, condition: Callable[[Object], object]
    ) -> Object:
        """Wait until a condition holds for an object, and return the object."""
        return await self._watch(kind, f"metadata.name={name}", condition)

    async def find(self, kind: AnyResource, condition: Callable[[Object], object]) -> Object:
        """Wait until a condition holds for any object with a status, and return the object."""
        return await self._watch(kind, "", lambda obj: obj.get("status") and condition(obj))

    async def image(self, tag: str) -> Object:
        """Wait for the mirror of a tag."""
        return await self.find(Image, lambda obj: obj["status"].get("repoTag") == tag)

    async def _watch(
        self, kind: AnyResource, selector: str, condition: Callable[[Object], object]
    ) -> Object:
        resource = resource_of(kind)
        namespace = NAMESPACE if resource.namespaced else ""
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
            raise AssertionError(f"{resource.kind} {selector} stayed {last}") from None
        raise AssertionError("the watch ended")

    async def state(self, id_: str, state: str) -> Object:
        """Wait until the mirror of a container has a state."""
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
        """Poll until a check that no watch can replace holds."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    if await holds():
                        return
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            raise AssertionError(f"timeout: {holds}") from None

    async def counts(self) -> tuple[int, int, int]:
        kinds = (Container, Image, Volume)
        return tuple([len(await self.list(kind)) for kind in kinds])  # type: ignore[return-value]

    async def noted(self, reason: str, text: str) -> None:
        """Wait for an event with a reason and a text in its note; events are sent in batches."""

        async def is_noted() -> bool:
            found = (await self.client.list(EVENTS)).items
            return any(event["reason"] == reason and text in event["note"] for event in found)

        await self.until(is_noted)


@asynccontextmanager
async def open_world(
    home: Path, engine_socket: Path | None, *, environment: dict[str, str] | None = None
) -> AsyncIterator[World]:
    """Start a control plane with the controllers of containers."""
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
    """Start a control plane and wait until it mirrors an engine."""
    async with open_world(home, dockerd.socket) as world:
        await world.run_app()
        yield world
