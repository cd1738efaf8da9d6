# SPDX-License-Identifier: Apache-2.0
"""containerd as a backend of the mirror.

It has namespaces, and names in them; an item is `<namespace>/<name>`. There are
no volumes. Starting a container needs what its client (nerdctl, the kubelet) set
up around it, so that is refused; stopping, pausing and removing are not.
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
    Document,
    chosen_manifest,
    container_mirror,
    digest_in,
    image_mirror,
)
from rdd.controllers.containers.engine.items import CONTAINERS, IMAGES, NAMESPACES, Mirror
from rdd.engine import EngineError, NotFound
from rdd.engine import containerd as api
from rdd.kinds.container import Action
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.runtime import ObjectKey

log = logging.getLogger("rdd.engine")

STOP_S: Final = 10.0
_TOPICS: Final = ("/containers/", "/tasks/", "/images/", "/namespaces/")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Containerd:
    """The engine behind one socket."""

    name = "containerd"

    def __init__(self, socket: Path) -> None:
        self._api = api.Containerd(socket)
        self._seen: set[str] = set()
        machine = platform.machine()
        self._architecture = _ARCHITECTURES.get(machine, machine)

    async def connect(self) -> None:
        """Find out whether it answers."""
        await self._api.version()

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[ObjectKey]]:
        """Follow events from now on."""
        async with self._api.events(*_TOPICS) as events:
            yield (item async for event in events for item in self._items(event))

    def _items(self, event: api.Event) -> list[ObjectKey]:
        kind = event.topic.split("/")[1] if event.topic.count("/") > 1 else ""
        if kind == "namespaces":
            self._seen.discard(event.id)
            return [ObjectKey(NAMESPACES, event.id)]
        namespace = event.namespace
        if not event.id or not _is_object_name(namespace):
            return []
        items = []
        if namespace not in self._seen:  # the first thing in it makes it, without an event
            self._seen.add(namespace)
            items.append(ObjectKey(NAMESPACES, namespace))
        plural = {"containers": CONTAINERS, "tasks": CONTAINERS, "images": IMAGES}.get(kind)
        if plural:
            items.append(ObjectKey(plural, f"{namespace}/{event.id}"))
        return items

    async def namespaces(self) -> Sequence[str]:
        """All namespaces; those whose names no object can have are left out."""
        return [name for name in await self._api.namespaces() if _is_object_name(name)]

    async def everything(self) -> Sequence[ObjectKey]:
        """All containers and images of all namespaces."""
        items: list[ObjectKey] = []
        for namespace in await self.namespaces():
            images = await self._api.images(namespace)
            items += [ObjectKey(IMAGES, f"{namespace}/{image.name}") for image in images]
            containers = await self._api.containers(namespace)
            items += [ObjectKey(CONTAINERS, f"{namespace}/{found.id}") for found in containers]
        return items

    async def describe(self, item: ObjectKey) -> Description:
        """Ask about an item."""
        if item.namespace == NAMESPACES:
            is_there = item.name in await self.namespaces()
            return Description([Mirror(ContainerNamespace, item.name)] if is_there else ())
        namespace, _, name = item.name.partition("/")
        try:
            if item.namespace == CONTAINERS:
                found = await self._api.container(namespace, name)
                task = await self._api.task(namespace, name)
                return Description([container_mirror(namespace, found, task)])
            if item.namespace == IMAGES:
                image = await self._api.image(namespace, name)
                document = await self._document(namespace, image)
                return Description([image_mirror(namespace, image, document)])
        except NotFound:
            pass
        return Description()

    async def _document(self, namespace: str, image: api.Image) -> Document:
        manifest = await self._api.document(namespace, image.digest)
        if chosen := chosen_manifest(manifest, self._architecture):
            manifest = await self._api.document(namespace, chosen)
        digest = digest_in(manifest, "config")
        config = await self._api.document(namespace, digest) if digest else {}
        return Document(manifest, config)

    async def remove(self, item: ObjectKey, mirror: Object) -> None:
        """Containers by force; images only if no container uses them."""
        namespace, _, name = item.name.partition("/")
        if item.namespace == CONTAINERS:
            await self._remove_container(namespace, name)
        elif item.namespace == IMAGES:
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
                log.warning("the snapshot of container %s stays: %s", id_, error)

    async def act(self, item: ObjectKey, action: Action) -> None:
        """Stop, pause or unpause a container."""
        namespace, _, id_ = item.name.partition("/")
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

    async def state(self, item: ObjectKey) -> str:
        """The state of the task and its process."""
        namespace, _, id_ = item.name.partition("/")
        await self._api.container(namespace, id_)
        task = await self._api.task(namespace, id_)
        return f"{task.state} {task.pid} {task.exited_s}" if task is not None else "no task"

    async def close(self) -> None:
        """Let go of the connection."""
        await self._api.close()


def _is_object_name(name: str) -> bool:
    """Namespaces of containerd may have underscores and capitals; names of objects may not."""
    return bool(name) and name == name.lower() and "_" not in name
