# SPDX-License-Identifier: Apache-2.0
"""The Docker engine as a backend of the mirror.

An event only states that a container, an image or a volume has changed; the
backend inspects it for the present state. Some events do not name the item
directly: a pull names the image by its tag, and a tag that moves from one image
to another causes no event of the image that loses it. Therefore the description
of an image also names the related items to reconcile.
"""

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from rdd.api import timestamps
from rdd.api.types import Object
from rdd.controllers.containers.engine.backend import Description
from rdd.controllers.containers.engine.items import (
    CONTAINERS,
    IMAGES,
    NETWORKS,
    VOLUMES,
    EngineItem,
    Mirror,
)
from rdd.controllers.containers.engine.moby_objects import (
    NAMESPACE,
    container_mirror,
    image_mirrors,
    network_mirror,
    volume_mirror,
)
from rdd.engine import Docker, EngineEvent, EngineNotFound
from rdd.engine.errors import EngineError
from rdd.engine.files import HELPER
from rdd.engine.networks import inspect_network, list_networks, remove_network
from rdd.kinds.container import Action
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.vm.idle.docker_paths import socket_for_rdd

log = logging.getLogger("rdd.engine")

_PLURALS = {"container": CONTAINERS, "image": IMAGES, "network": NETWORKS, "volume": VOLUMES}
_FILTERS: Final = {
    "type": tuple(_PLURALS),
    # Events of containers, images, networks and volumes. The others change no mirror: each run of
    # a health check causes three events, and only a change of its result is one of these.
    "event": (
        "health_status",
        "create", "start", "stop", "die", "kill", "oom", "pause", "unpause", "restart", "rename",
        "update", "destroy",
        "pull", "import", "load", "tag", "untag", "delete",
        "connect", "disconnect", "remove",
    ),
}  # fmt: skip
_CONNECTIONS = ("connect", "disconnect")
_LOOK_BACK_S = 120
_MAX_REPORTED = 20


class MobyBackend:
    """The Docker engine on a unix socket.

    What the mirror reads goes through the socket of rdd itself, if there is one: it neither
    counts as activity nor wakes a paused machine. What a user requests goes through the
    socket of clients, and does both.
    """

    name = "moby"

    def __init__(self, socket: Path) -> None:
        self.docker = Docker(socket_for_rdd(socket), shown_as=socket)
        self.for_clients = Docker(socket)
        self._since = ""
        self._reported: set[str] = set()

    async def connect(self) -> None:
        """Negotiate the API version, and read the engine's clock."""
        await self.docker.ping()
        time_text = (await self.docker.info()).get("SystemTime")
        try:
            second, nanosecond = timestamps.parse(str(time_text))
        except ValueError:
            second, nanosecond = int(time.time()) - _LOOK_BACK_S, 0
        self._since = f"{second}.{nanosecond:09d}"

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[EngineItem]]:
        """Follow events since `connect`; the engine replays past ones first, so none is lost."""
        async with self.docker.events(since=self._since, filters=_FILTERS) as events:
            yield (item async for event in events for item in self._items(event))

    def _items(self, event: EngineEvent) -> Sequence[EngineItem]:
        plural = _PLURALS.get(event.type)
        if plural is None or not event.id:
            if event.type not in self._reported and len(self._reported) < _MAX_REPORTED:
                self._reported.add(event.type)
                log.warning("the engine sent an unknown event: %.200s", event)
            return ()
        if event.type == "network" and event.action in _CONNECTIONS:
            # The network stays as it is; the container has another one.
            container = event.attributes.get("container")
            return (EngineItem(CONTAINERS, "", container),) if container else ()
        return (EngineItem(plural, "", event.id),)

    async def namespaces(self) -> Sequence[str]:
        """Return the constant namespace: the engine has none."""
        return (NAMESPACE,)

    async def everything(self) -> Sequence[EngineItem]:
        """List all containers, images, networks and volumes."""
        found = (
            (VOLUMES, "Name", await self.docker.volumes()),
            (NETWORKS, "Id", await list_networks(self.docker)),
            (IMAGES, "Id", await self.docker.images()),
            (CONTAINERS, "Id", await self.docker.containers()),
        )
        return [
            EngineItem(kind, "", str(each.get(member)))
            for kind, member, listed in found
            for each in listed
        ]

    async def describe(self, item: EngineItem) -> Description:
        """Inspect an item."""
        kind, namespace, id_ = item
        if namespace:  # a mirror of another engine
            return Description()
        try:
            if kind == CONTAINERS:
                found = await self.docker.inspect_container(id_)
                return Description([] if _is_helper(found) else [container_mirror(found)])
            if kind == VOLUMES:
                return Description([volume_mirror(await self.docker.inspect_volume(id_))])
            if kind == NETWORKS:
                return Description([network_mirror(await inspect_network(self.docker, id_))])
            if kind == IMAGES:
                return await self._describe_image(id_)
            if id_ == NAMESPACE:
                return Description([Mirror(ContainerNamespace, NAMESPACE)])
        except EngineNotFound:
            pass
        return Description()

    async def _describe_image(self, id_: str) -> Description:
        found = await self.docker.inspect_image(id_)
        actual = str(found.get("Id"))
        if actual != id_:  # the event named a tag
            return Description(related=(EngineItem(IMAGES, "", actual),))
        return Description([] if _is_helper(found) else image_mirrors(found))

    async def remove(self, item: EngineItem, mirror: Object) -> None:
        """Remove containers and volumes by force, images only if unused."""
        kind, _, id_ = item
        if kind == CONTAINERS:
            await self.for_clients.remove_container(id_, force=True)
        elif kind == VOLUMES:
            await self.for_clients.remove_volume(id_, force=True)
        elif kind == NETWORKS:
            await remove_network(self.for_clients, id_)
        elif kind == IMAGES:
            status = mirror.get("status") or {}
            await self.for_clients.remove_image(status.get("repoTag") or id_)

    async def act(self, item: EngineItem, action: Action) -> None:
        """Start, stop, restart, pause or unpause a container."""
        docker, id_ = self.for_clients, item.name
        if action == "start":
            await docker.start_container(id_)
        elif action == "stop":
            await docker.stop_container(id_)
        elif action == "restart":
            await docker.restart_container(id_)
        else:
            state = (await docker.inspect_container(id_)).get("State") or {}
            if action == "pause" and not state.get("Paused"):
                await docker.pause_container(id_)
            elif action == "unpause":
                if not state.get("Running"):
                    raise EngineError.of(409, f"container {id_} is not running")
                if state.get("Paused"):
                    await docker.unpause_container(id_)

    async def state(self, item: EngineItem) -> str:
        """Return the state and the times of the last start and end."""
        state = (await self.for_clients.inspect_container(item.name)).get("State") or {}
        members = (state.get("Status"), state.get("StartedAt"), state.get("FinishedAt"))
        return " ".join(map(str, members))

    async def close(self) -> None:
        """Close the connections."""
        await self.docker.close()
        await self.for_clients.close()


def _is_helper(found: Object) -> bool:
    """Return whether a container or image belongs to an endpoint of ours and is not shown."""
    return HELPER in ((found.get("Config") or {}).get("Labels") or {})
