# SPDX-License-Identifier: Apache-2.0
"""ImagePullRequest and ImagePushRequest: images from and to registries.

Credentials come from the user's own Docker configuration. LayerProgress is the sum over
the layers that the engine has reported so far, so the total grows at first.
"""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path

from rdd.api.types import Object
from rdd.controllers.containers.container_create import check_namespace
from rdd.controllers.containers.requests import Report, RequestFailed
from rdd.engine import Docker, LayerProgress, credentials
from rdd.engine.references import ImageReference, InvalidReference, parse
from rdd.kinds.image import Image, ImagePullRequest, ImagePushRequest
from rdd.runtime import Context, ObjectKey

log = logging.getLogger("rdd.engine")

# The final states of a layer, as the engine reports them.
_DONE = ("Pull complete", "Already exists", "Pushed", "Layer already exists", "Mounted from")
# Only these states transfer bytes; unpacking counts the same bytes again.
_TRANSFERS = ("Downloading", "Pushing")


class RegistryCredentials:
    """The user's credentials for registries."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        given = environment.get("DOCKER_CONFIG")
        self._directory = Path(given) if given else home / ".docker"
        self._environment = environment

    async def auth(self, reference: ImageReference) -> Mapping[str, str]:
        """Return the credentials for the registry of an image."""
        found = await credentials.find(
            self._directory, reference.server, environment=self._environment
        )
        if found.problem:
            log.warning("no credentials for %s: %s", reference.server, found.problem)
        return found.auth


class TransferTotals:
    """The progress of a transfer, summed over its layers."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()
        self._message = ""

    def add(self, progress: LayerProgress) -> Object:
        """Add a message of the engine and return the progress."""
        layer, status = progress.layer, progress.status
        self._message = f"{layer}: {status}" if layer else status
        if layer:
            current, total = self._layers.get(layer, (0, 0))
            if status in _TRANSFERS:
                current, total = progress.current, max(total, progress.total)
            elif status.startswith(_DONE):
                self._done.add(layer)
                current = total
            self._layers[layer] = (current, total)
        return self.progress()

    def progress(self) -> Object:
        """Return the content of `status.progress`."""
        return {
            "current": sum(current for current, _ in self._layers.values()),
            "total": sum(total for _, total in self._layers.values()),
            "layers": len(self._layers),
            "layersDone": len(self._done),
            "message": self._message,
        }


async def _follow(transfer: AsyncGenerator[LayerProgress, None], report: Report) -> Object:
    total = TransferTotals()
    async with aclosing(transfer) as messages:
        async for message in messages:
            await report({"progress": total.add(message)})
    return {"progress": total.progress()}


class PullImage:
    """Executes requests to pull."""

    def __init__(self, docker: Docker, registries: RegistryCredentials) -> None:
        self._docker = docker
        self._registries = registries

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Pull the image; the engine skips layers that it has."""
        spec = ImagePullRequest.of(obj).spec
        check_namespace(spec.namespace)
        reference = parse_reference(spec.repo_tag)
        auth = await self._registries.auth(reference)
        transfer = self._docker.pull(reference.familiar, reference.version, auth=auth)
        return await _follow(transfer, report)


class PushImage:
    """Executes requests to push."""

    def __init__(self, context: Context, docker: Docker, registries: RegistryCredentials) -> None:
        self._context = context
        self._docker = docker
        self._registries = registries

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Push the tag of an Image."""
        image = referenced_image(self._context, obj, ImagePushRequest.of(obj).spec.image_ref)
        if not image.status.repo_tag:
            raise RequestFailed("NotTagged", f'image "{image.metadata.name}" has no tag to push')
        reference = parse_reference(image.status.repo_tag)
        auth = await self._registries.auth(reference)
        transfer = self._docker.push(reference.familiar, reference.version, auth=auth)
        return await _follow(transfer, report)


def parse_reference(text: str) -> ImageReference:
    """Parse the name of an image. Raises RequestFailed."""
    try:
        return parse(text)
    except InvalidReference as error:
        raise RequestFailed("Invalid", str(error)) from error


def referenced_image(context: Context, request: Object, name: str) -> Image:
    """Return the Image that a request refers to. Raises RequestFailed."""
    key = ObjectKey(request["metadata"]["namespace"], name)
    image = context.cache.of(Image).get(key)
    if image is None or not image.status.id:
        raise RequestFailed("NotFound", f'image "{name}" not found')
    return image
