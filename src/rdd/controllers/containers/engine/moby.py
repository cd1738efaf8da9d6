# SPDX-License-Identifier: Apache-2.0
"""The Docker engine as a backend of the mirror.

Events say only that something has happened to a container, an image or a
volume; what it is like now is asked for. Some say it in other words than ours:
a pull names the image by its tag, and a tag that moves from one image to another
is no event of the image it leaves. For these, describing an image names the
other items to look at.
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
from rdd.controllers.containers.engine.items import CONTAINERS, IMAGES, VOLUMES, Mirror
from rdd.controllers.containers.engine.moby_objects import (
    NAMESPACE,
    container_mirror,
    image_mirrors,
    volume_mirror,
)
from rdd.engine import Docker, EngineEvent, NotFound
from rdd.engine.errors import EngineError
from rdd.kinds.container import Action
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.runtime import ObjectKey

log = logging.getLogger("rdd.engine")

_PLURALS = {"container": CONTAINERS, "image": IMAGES, "volume": VOLUMES}
_FILTERS: Final = {
    "type": tuple(_PLURALS),
    # Of containers, of images, of volumes. What is not here changes no mirror: health checks
    # alone make three events each.
    "event": (
        "create", "start", "stop", "die", "kill", "oom", "pause", "unpause", "restart", "rename",
        "update", "destroy",
        "pull", "import", "load", "tag", "untag", "delete",
    ),
}  # fmt: skip
_LOOK_BACK_S = 120
_MAX_STRANGE = 20


class Moby:
    """The engine behind one socket."""

    name = "moby"

    def __init__(self, socket: Path) -> None:
        self.docker = Docker(socket)
        self._since = ""
        self._strange: set[str] = set()

    async def connect(self) -> None:
        """Agree on a version, and take the time by the engine's own clock."""
        await self.docker.ping()
        said = (await self.docker.info()).get("SystemTime")
        try:
            second, nanosecond = timestamps.parse(str(said))
        except ValueError:
            second, nanosecond = int(time.time()) - _LOOK_BACK_S, 0
        self._since = f"{second}.{nanosecond:09d}"

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[ObjectKey]]:
        """Follow events since `connect`; the past ones come first, so none is missed."""
        async with self.docker.events(since=self._since, filters=_FILTERS) as events:
            yield (item async for event in events for item in self._items(event))

    def _items(self, event: EngineEvent) -> Sequence[ObjectKey]:
        plural = _PLURALS.get(event.type)
        if plural is None or not event.id:
            if event.type not in self._strange and len(self._strange) < _MAX_STRANGE:
                self._strange.add(event.type)
                log.warning("the engine sent an event that is not understood: %.200s", event)
            return ()
        return (ObjectKey(plural, event.id),)

    async def namespaces(self) -> Sequence[str]:
        """The one we say it has."""
        return (NAMESPACE,)

    async def everything(self) -> Sequence[ObjectKey]:
        """All containers, images and volumes."""
        docker = self.docker
        items = [ObjectKey(VOLUMES, str(found.get("Name"))) for found in await docker.volumes()]
        items += [ObjectKey(IMAGES, str(found.get("Id"))) for found in await docker.images()]
        items += [
            ObjectKey(CONTAINERS, str(found.get("Id"))) for found in await docker.containers()
        ]
        return items

    async def describe(self, item: ObjectKey) -> Description:
        """Ask the engine about an item."""
        kind, id_ = item
        try:
            if kind == CONTAINERS:
                return Description([container_mirror(await self.docker.inspect_container(id_))])
            if kind == VOLUMES:
                return Description([volume_mirror(await self.docker.inspect_volume(id_))])
            if kind == IMAGES:
                return await self._image(id_)
            if id_ == NAMESPACE:
                return Description([Mirror(ContainerNamespace, NAMESPACE)])
        except NotFound:
            pass
        return Description()

    async def _image(self, id_: str) -> Description:
        found = await self.docker.inspect_image(id_)
        actual = str(found.get("Id"))
        if actual != id_:  # it was named by a tag
            return Description(also=(ObjectKey(IMAGES, actual),))
        return Description(image_mirrors(found))

    async def remove(self, item: ObjectKey, mirror: Object) -> None:
        """Containers and volumes by force, images only if nobody uses them."""
        kind, id_ = item
        if kind == CONTAINERS:
            await self.docker.remove_container(id_, force=True)
        elif kind == VOLUMES:
            await self.docker.remove_volume(id_, force=True)
        elif kind == IMAGES:
            status = mirror.get("status") or {}
            await self.docker.remove_image(status.get("repoTag") or id_)

    async def act(self, item: ObjectKey, action: Action) -> None:
        """Start, stop, restart, pause or unpause a container."""
        docker, id_ = self.docker, item.name
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

    async def state(self, item: ObjectKey) -> str:
        """State and the times it last started and ended."""
        state = (await self.docker.inspect_container(item.name)).get("State") or {}
        members = (state.get("Status"), state.get("StartedAt"), state.get("FinishedAt"))
        return " ".join(map(str, members))

    async def close(self) -> None:
        """Let go of connections."""
        await self.docker.close()
