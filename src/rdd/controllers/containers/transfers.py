# SPDX-License-Identifier: Apache-2.0
"""ImagePullRequest and ImagePushRequest: images from and to registries.

The registry is told who the user is by the user's own Docker configuration.
Progress is the sum over the layers the engine has named so far, so the total
grows at first.
"""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path

from rdd.api.types import Object
from rdd.controllers.containers.container_create import check_namespace
from rdd.controllers.containers.requests import Report, RequestFailed
from rdd.engine import Docker, Progress, credentials
from rdd.engine.references import InvalidReference, Reference, parse
from rdd.kinds.image import Image, ImagePullRequest, ImagePushRequest
from rdd.runtime import Context, ObjectKey

log = logging.getLogger("rdd.engine")

# What the engine says when nothing is left to do for a layer.
_DONE = ("Pull complete", "Already exists", "Pushed", "Layer already exists", "Mounted from")
# Transfers proper; unpacking counts the same bytes again.
_MOVES = ("Downloading", "Pushing")


class Registries:
    """Who we are to registries."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        given = environment.get("DOCKER_CONFIG")
        self._directory = Path(given) if given else home / ".docker"
        self._environment = environment

    async def auth(self, reference: Reference) -> Mapping[str, str]:
        """What to send along to the registry of an image."""
        found = await credentials.find(
            self._directory, reference.server, environment=self._environment
        )
        if found.problem:
            log.warning("no credentials for %s: %s", reference.server, found.problem)
        return found.auth


class Tally:
    """The progress of a transfer, added up."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()
        self._message = ""

    def add(self, progress: Progress) -> Object:
        """The progress after one more message of the engine."""
        layer, status = progress.layer, progress.status
        self._message = f"{layer}: {status}" if layer else status
        if layer:
            current, total = self._layers.get(layer, (0, 0))
            if status in _MOVES:
                current, total = progress.current, max(total, progress.total)
            elif status.startswith(_DONE):
                self._done.add(layer)
                current = total
            self._layers[layer] = (current, total)
        return self.progress()

    def progress(self) -> Object:
        """As `status.progress` has it."""
        return {
            "current": sum(current for current, _ in self._layers.values()),
            "total": sum(total for _, total in self._layers.values()),
            "layers": len(self._layers),
            "layersDone": len(self._done),
            "message": self._message,
        }


async def _follow(transfer: AsyncGenerator[Progress, None], report: Report) -> Object:
    tally = Tally()
    async with aclosing(transfer) as messages:
        async for message in messages:
            await report({"progress": tally.add(message)})
    return {"progress": tally.progress()}


class PullImage:
    """Carries out requests to pull."""

    def __init__(self, docker: Docker, registries: Registries) -> None:
        self._docker = docker
        self._registries = registries

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Pull; what is there already is not transferred again."""
        spec = ImagePullRequest.of(obj).spec
        check_namespace(spec.namespace)
        reference = parsed(spec.repo_tag)
        auth = await self._registries.auth(reference)
        transfer = self._docker.pull(reference.familiar, reference.version, auth=auth)
        return await _follow(transfer, report)


class PushImage:
    """Carries out requests to push."""

    def __init__(self, context: Context, docker: Docker, registries: Registries) -> None:
        self._context = context
        self._docker = docker
        self._registries = registries

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Push the tag an Image stands for."""
        image = referred(self._context, obj, ImagePushRequest.of(obj).spec.image_ref)
        if not image.status.repo_tag:
            raise RequestFailed("NotTagged", f'image "{image.metadata.name}" has no tag to push')
        reference = parsed(image.status.repo_tag)
        auth = await self._registries.auth(reference)
        transfer = self._docker.push(reference.familiar, reference.version, auth=auth)
        return await _follow(transfer, report)


def parsed(text: str) -> Reference:
    """The name of an image taken apart. Raises RequestFailed."""
    try:
        return parse(text)
    except InvalidReference as error:
        raise RequestFailed("Invalid", str(error)) from error


def referred(context: Context, request: Object, name: str) -> Image:
    """The Image a request names. Raises RequestFailed if there is none."""
    key = ObjectKey(request["metadata"]["namespace"], name)
    image = context.cache.of(Image).get(key)
    if image is None or not image.status.id:
        raise RequestFailed("NotFound", f'image "{name}" not found')
    return image
