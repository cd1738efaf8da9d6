# SPDX-License-Identifier: Apache-2.0
"""image: the Image kind, and requests to pull, push and scan images."""

from collections.abc import Callable
from functools import partial

from rdd.api.types import Object
from rdd.controllers.containers.image_scan import ScanImage
from rdd.controllers.containers.requests import (
    RequestReconciler,
    has_ended,
    is_unchanged,
    request_key,
)
from rdd.controllers.containers.transfers import PullImage, PushImage, Registries
from rdd.controllers.environment import ControllerEnvironment
from rdd.engine import Docker
from rdd.engine.references import InvalidReference, parse
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.kinds.image import Image, ImagePullRequest, ImagePushRequest, ImageScanRequest
from rdd.kinds.kind import Kind
from rdd.runtime import (
    AdmissionRequest,
    Context,
    Controller,
    Denied,
    Webhook,
    maps,
    validating,
    watch,
)

_REQUESTS: tuple[type[Kind], ...] = (ImagePullRequest, ImagePushRequest, ImageScanRequest)


def image(env: ControllerEnvironment) -> Controller:
    """The controller of Images and requests about them."""
    instance, environment = env.instance, env.environment

    def make(context: Context) -> ImageReconciler:
        docker = Docker(instance.docker_socket)
        registries = Registries(env.home, environment)
        scan = ScanImage(context, docker_host=instance.docker_endpoint, environment=environment)
        return ImageReconciler(
            context,
            docker,
            pull=PullImage(docker, registries),
            push=PushImage(context, docker, registries),
            scan=scan,
        )

    kinds: tuple[type[Kind], ...] = (App, Image, *_REQUESTS)
    return Controller(
        "image",
        make,
        sources=(
            watch(App),
            maps(Image, lambda obj: ()),  # requests look them up
            *(maps(kind, partial(request_key, kind)) for kind in _REQUESTS),
        ),
        definitions=tuple(definition_of(kind) for kind in kinds),
        webhooks=_webhooks,
    )


class ImageReconciler(RequestReconciler):
    """Requests about images."""

    def __init__(
        self,
        context: Context,
        docker: Docker,
        *,
        pull: PullImage,
        push: PushImage,
        scan: ScanImage,
    ) -> None:
        super().__init__(
            context, {ImagePullRequest: pull, ImagePushRequest: push, ImageScanRequest: scan}
        )
        self._docker = docker

    async def stop(self) -> None:
        """End what is being carried out and let go of the engine."""
        await super().stop()
        await self._docker.close()


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    return tuple(
        validating(
            f"{kind.kind.lower()}-validator",
            kind,
            OneAtATime(context, kind, name).check,
        )
        for kind, name in (
            (ImagePullRequest, _pulled),
            (ImagePushRequest, _image_ref),
            (ImageScanRequest, _image_ref),
        )
    )


def _pulled(obj: Object) -> str:
    return str(parse(obj["spec"]["repoTag"]))


def _image_ref(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['spec']['imageRef']}"


class OneAtATime:
    """Refuses a request for what another request of its kind is about."""

    def __init__(self, context: Context, kind: type[Kind], name: Callable[[Object], str]) -> None:
        self._informer = context.cache.informer(kind)
        self._kind = kind
        self._name = name

    async def check(self, request: AdmissionRequest[Kind]) -> None:
        """Look at the requests that have not ended."""
        if is_unchanged(request):
            return
        try:
            wanted = self._name({**request.object.raw, "metadata": _metadata(request)})
        except InvalidReference as error:
            raise Denied(f"spec.repoTag: {error}") from error
        for other in self._informer.list():
            if not has_ended(other) and self._name(other) == wanted:
                raise Denied(
                    f'the {self._kind.kind} "{other["metadata"]["name"]}" is about '
                    f'"{wanted}" already'
                )


def _metadata(request: AdmissionRequest[Kind]) -> Object:
    return {**request.object.raw["metadata"], "namespace": request.key.namespace}
