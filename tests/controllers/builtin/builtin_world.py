# SPDX-License-Identifier: Apache-2.0
"""A real API server in this process with the built-in controllers, and helpers to wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.http import responses
from rdd.apiserver.http.request import AnyResponse, Request, User
from rdd.apiserver.server import ApiServer, open_server
from rdd.client import ApiResource, Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from rdd.controllers.builtin.manager import NAMES, BuiltinControllers
from rdd.store.memory import MemoryStore

Intercept = Callable[[Request], errors.ApiError | None]

ADMIN = User("admin", ("system:masters",))
MANAGER = User("system:kube-controller-manager", ("system:masters",))
ROOT_CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
WIDGETS = ApiResource("example.com", "v1", "widgets", "Widget")


class World:
    """A server, a client of the tests, and the controllers with another client."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.client = Client(LocalTransport(server.handle, partial(Request, user=ADMIN)))
        self.requests: list[tuple[str, str]] = []
        """Method and path of all requests of the controllers."""
        self.intercepts: list[Intercept] = []
        """Called for each request of the controllers; the first error is the response."""
        self.behind: Callable[[Request], Awaitable[AnyResponse]] = server.handle
        """Handles the requests of the controllers."""
        self.running: BuiltinControllers | None = None

    async def start(self, *names: str) -> BuiltinControllers:
        transport = LocalTransport(self._handle, partial(Request, user=MANAGER))
        client = Client(transport, user_agent="kube-controller-manager")
        self.running = BuiltinControllers(client, names or NAMES, root_ca=ROOT_CA)
        await self.running.start()
        return self.running

    async def stop(self, *, timeout_s: float = 5.0) -> None:
        if self.running is not None:
            await self.running.stop(timeout_s=timeout_s)
            self.running = None

    async def _handle(self, request: Request) -> AnyResponse:
        self.requests.append((request.method, request.path))
        for intercept in self.intercepts:
            error = intercept(request)
            if error is not None:
                return responses.error(request, error)
        return await self.behind(request)

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [r for r in self.requests if r[0] != "GET"]

    # -- objects

    async def namespace(self, name: str) -> Object:
        return await self.client.create(NAMESPACES, {"metadata": {"name": name}})

    async def create(
        self,
        name: str,
        *owners: Object,
        resource: ApiResource = CONFIG_MAPS,
        namespace: str = "default",
        block: bool | None = None,
        finalizers: tuple[str, ...] = (),
        **members: Any,
    ) -> Object:
        metadata: Object = {"name": name}
        if resource.namespaced:
            metadata["namespace"] = namespace
        if finalizers:
            metadata["finalizers"] = list(finalizers)
        if owners:
            metadata["ownerReferences"] = [reference(o, block=block) for o in owners]
        return await self.client.create(resource, {"metadata": metadata, **members})

    async def define_widgets(self, *, scope: str = "Namespaced") -> None:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
        version = {"name": "v1", "served": True, "storage": True}
        await self.client.create(
            CUSTOM_RESOURCE_DEFINITIONS,
            {
                "metadata": {"name": "widgets.example.com"},
                "spec": {
                    "group": "example.com",
                    "scope": scope,
                    "names": names,
                    "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
                },
            },
        )
        await self.until(
            CUSTOM_RESOURCE_DEFINITIONS,
            "widgets.example.com",
            lambda crd: crd is not None and condition(crd, "Established")["status"] == "True",
        )

    async def get(
        self, name: str, resource: ApiResource = CONFIG_MAPS, namespace: str = "default"
    ) -> Object | None:
        place = namespace if resource.namespaced else ""
        try:
            return await self.client.get(resource, name, namespace=place)
        except errors.NotFound:
            return None

    async def delete(self, obj: Object, resource: ApiResource = CONFIG_MAPS, **kwargs: Any) -> None:
        metadata = obj["metadata"]
        await self.client.delete(
            resource, metadata["name"], namespace=metadata.get("namespace", ""), **kwargs
        )

    async def release(self, name: str, resource: ApiResource = CONFIG_MAPS, **kwargs: Any) -> None:
        """Remove all finalizers of an object."""
        kwargs.setdefault("namespace", "default" if resource.namespaced else "")
        await self.client.patch(resource, name, {"metadata": {"finalizers": None}}, **kwargs)

    # -- waiting

    async def until(
        self,
        resource: ApiResource,
        name: str,
        holds: Callable[[Object | None], bool],
        *,
        namespace: str = "",
    ) -> Object | None:
        """Watch one object until a condition holds (None: it does not exist)."""
        seen: Object | None = None
        is_listed = False
        changes = self.client.list_and_watch(
            resource, namespace=namespace, field_selector=f"metadata.name={name}"
        )
        async with aclosing(changes):
            async for event in changes:
                if event.type == "RELIST":
                    seen, is_listed = None, False
                elif event.type == "SYNCED":
                    is_listed = True
                else:
                    seen = None if event.type == "DELETED" else event.object
                if is_listed and holds(seen):
                    return seen
        raise AssertionError("the watch has ended")

    async def gone(
        self, name: str, resource: ApiResource = CONFIG_MAPS, namespace: str = "default"
    ) -> None:
        place = namespace if resource.namespaced else ""
        await self.until(resource, name, lambda obj: obj is None, namespace=place)

    async def settled(self) -> None:
        """Return when the controllers are idle.

        Everything happens in this event loop and nothing waits for a disk, so a
        number of rounds without work means that none is left.
        """
        assert self.running is not None
        quiet = 0
        while quiet < 100:
            await asyncio.sleep(0)
            idle = all(c.queue.is_idle for c in self.running.controllers)  # type: ignore[attr-defined]
            quiet = quiet + 1 if idle else 0


def reference(owner: Object, *, block: bool | None = None) -> Object:
    metadata = owner["metadata"]
    found: Object = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    if block is not None:
        found["blockOwnerDeletion"] = block
    return found


def condition(obj: Object, type_: str) -> Object:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    found: Object = next((c for c in conditions if c["type"] == type_), {"status": ""})
    return found


def is_deleting(obj: Object | None) -> bool:
    return obj is not None and bool(obj["metadata"].get("deletionTimestamp"))


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    server = await open_server(MemoryStore())
    world = World(server)
    try:
        yield world
    finally:
        await world.stop()
        await server.close()
