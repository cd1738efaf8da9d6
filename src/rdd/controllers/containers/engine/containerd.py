# SPDX-License-Identifier: Apache-2.0
"""containerd as a backend of the mirror.

containerd has namespaces but no volumes. Starting a container needs the resources
that its client (nerdctl, the kubelet) set up around it, so this backend rejects it;
stopping, pausing and removing work.
"""

import asyncio
import logging
import platform
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from rdd.api.types import Object
from rdd.controllers.containers.engine.backend import Description
from rdd.controllers.containers.engine.containerd_objects import (
    ImageDocuments,
    container_mirror,
    digest_in,
    image_mirror,
    select_manifest,
)
from rdd.controllers.containers.engine.items import (
    CONTAINERS,
    IMAGES,
    NAMESPACES,
    EngineItem,
    Mirror,
)
from rdd.engine import EngineError, EngineNotFound
from rdd.engine import containerd as api
from rdd.kinds.container import Action
from rdd.kinds.containernamespace import ContainerNamespace

log = logging.getLogger("rdd.engine")

STOP_S: Final = 10.0
_TOPICS: Final = ("/containers/", "/tasks/", "/images/", "/namespaces/")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class ContainerdBackend:
    """containerd on a unix socket."""

    name = "containerd"

    def __init__(self, socket: Path) -> None:
        self._api = api.ContainerdClient(socket)
        self._seen: set[str] = set()
        machine = platform.machine()
        self._architecture = _ARCHITECTURES.get(machine, machine)

    async def connect(self) -> None:
        """Check that containerd responds."""
        await self._api.version()

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[EngineItem]]:
        """Follow events from the present on."""
        async with self._api.events(*_TOPICS) as events:
            yield (item async for event in events for item in self._items(event))

    def _items(self, event: api.ContainerdEvent) -> list[EngineItem]:
        kind = event.topic.split("/")[1] if event.topic.count("/") > 1 else ""
        if kind == "namespaces":
            self._seen.discard(event.id)
            return [EngineItem(NAMESPACES, "", event.id)]
        namespace = event.namespace
        if not event.id or not _is_object_name(namespace):
            return []
        items = []
        if namespace not in self._seen:  # its first object creates it without an event
            self._seen.add(namespace)
            items.append(EngineItem(NAMESPACES, "", namespace))
        plural = {"containers": CONTAINERS, "tasks": CONTAINERS, "images": IMAGES}.get(kind)
        if plural:
            items.append(EngineItem(plural, namespace, event.id))
        return items

    async def namespaces(self) -> Sequence[str]:
        """Return the namespaces whose names are valid for objects."""
        return [name for name in await self._api.namespaces() if _is_object_name(name)]

    async def everything(self) -> Sequence[EngineItem]:
        """List the containers and images of all namespaces."""
        items: list[EngineItem] = []
        for namespace in await self.namespaces():
            images = await self._api.images(namespace)
            items += [EngineItem(IMAGES, namespace, image.name) for image in images]
            containers = await self._api.containers(namespace)
            items += [EngineItem(CONTAINERS, namespace, found.id) for found in containers]
        return items

    async def describe(self, item: EngineItem) -> Description:
        """Look up an item."""
        kind, namespace, name = item
        if kind == NAMESPACES:
            exists = name in await self.namespaces()
            return Description([Mirror(ContainerNamespace, name)] if exists else ())
        if not namespace:  # a mirror of another engine
            return Description()
        try:
            if kind == CONTAINERS:
                found = await self._api.container(namespace, name)
                task = await self._api.task(namespace, name)
                return Description([container_mirror(namespace, found, task)])
            if kind == IMAGES:
                image = await self._api.image(namespace, name)
                documents = await self._documents(namespace, image)
                return Description([image_mirror(namespace, image, documents)])
        except EngineNotFound:
            pass
        return Description()

    async def _documents(self, namespace: str, image: api.ContainerdImage) -> ImageDocuments:
        manifest = await self._api.document(namespace, image.digest)
        if chosen := select_manifest(manifest, self._architecture):
            manifest = await self._api.document(namespace, chosen)
        digest = digest_in(manifest, "config")
        config = await self._api.document(namespace, digest) if digest else {}
        return ImageDocuments(manifest, config)

    async def remove(self, item: EngineItem, mirror: Object) -> None:
        """Remove containers by force, images only if no container uses them."""
        kind, namespace, name = item
        if kind == CONTAINERS:
            await self._remove_container(namespace, name)
        elif kind == IMAGES:
            users = [
                found.id for found in await self._api.containers(namespace) if found.image == name
            ]
            if users:
                raise EngineError.of(409, f"image {name} is used by container {users[0]}")
            await self._api.delete_image(namespace, name)

    async def _remove_container(self, namespace: str, id_: str) -> None:
        found = await self._api.container(namespace, id_)
        task = await self._api.task(namespace, id_)
        if task is not None:
            if task.state != "stopped":
                await self._api.kill_task(namespace, id_, signal.SIGKILL)
                await self._api.wait_task(namespace, id_)
            await self._api.delete_task(namespace, id_)
        await self._api.delete_container(namespace, id_)
        if found.snapshot:
            try:
                await self._api.remove_snapshot(namespace, found.snapshotter, found.snapshot)
            except EngineError as error:
                log.warning("cannot remove the snapshot of container %s: %s", id_, error)

    async def act(self, item: EngineItem, action: Action) -> None:
        """Stop, pause or unpause a container."""
        _, namespace, id_ = item
        task = await self._api.task(namespace, id_)
        state = task.state if task is not None else "stopped"
        if action in ("start", "restart"):
            if action == "start" and state == "running":
                return
            raise EngineError.of(501, f"containerd cannot {action} a container by itself")
        if action == "stop":
            if state != "stopped":
                await self._stop(namespace, id_)
        elif state not in ("running", "paused", "pausing"):
            raise EngineError.of(409, f"container {id_} is not running")
        elif action == "pause" and state == "running":
            await self._api.pause_task(namespace, id_)
        elif action == "unpause" and state != "running":
            await self._api.resume_task(namespace, id_)

    async def _stop(self, namespace: str, id_: str) -> None:
        await self._api.kill_task(namespace, id_, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await self._api.wait_task(namespace, id_)
        except TimeoutError:
            await self._api.kill_task(namespace, id_, signal.SIGKILL)
            await self._api.wait_task(namespace, id_)

    async def state(self, item: EngineItem) -> str:
        """Return the state of the task and its process."""
        _, namespace, id_ = item
        await self._api.container(namespace, id_)
        task = await self._api.task(namespace, id_)
        return f"{task.state} {task.pid} {task.exited_s}" if task is not None else "no task"

    async def close(self) -> None:
        """Close the connection."""
        await self._api.close()


def _is_object_name(name: str) -> bool:
    """Return whether a namespace, which may have underscores and capitals, can name an object."""
    return bool(name) and name == name.lower() and "_" not in name
