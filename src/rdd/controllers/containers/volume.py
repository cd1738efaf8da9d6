# SPDX-License-Identifier: Apache-2.0
"""volume: the Volume kind, and requests for volumes."""

from functools import partial

from rdd.controllers.containers.requests import (
    RequestReconciler,
    has_ended,
    is_unchanged,
    request_key,
)
from rdd.controllers.containers.volume_create import CreateVolume
from rdd.controllers.environment import ControllerEnvironment
from rdd.engine import Docker
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.kinds.volume import Volume, VolumeCreateRequest
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


def volume(env: ControllerEnvironment) -> Controller:
    """The controller of Volumes and requests for them."""

    def make(context: Context) -> VolumeReconciler:
        return VolumeReconciler(context, Docker(env.instance.docker_socket))

    return Controller(
        "volume",
        make,
        sources=(
            watch(App),
            maps(Volume, lambda obj: ()),  # admission looks them up
            maps(VolumeCreateRequest, partial(request_key, VolumeCreateRequest)),
        ),
        definitions=(definition_of(App), definition_of(Volume), definition_of(VolumeCreateRequest)),
        webhooks=_webhooks,
    )


class VolumeReconciler(RequestReconciler):
    """Requests for volumes."""

    def __init__(self, context: Context, docker: Docker) -> None:
        super().__init__(context, {VolumeCreateRequest: CreateVolume(docker)})
        self._docker = docker

    async def stop(self) -> None:
        """End what is being carried out and let go of the engine."""
        await super().stop()
        await self._docker.close()


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    rules = CreateRules(context)
    return (validating("volumecreaterequest-validator", VolumeCreateRequest, rules.check),)


class CreateRules:
    """One volume per name, also while the first one is only asked for."""

    def __init__(self, context: Context) -> None:
        self._volumes = context.cache.of(Volume)
        self._requests = context.cache.of(VolumeCreateRequest)

    async def check(self, request: AdmissionRequest[VolumeCreateRequest]) -> None:
        """Refuse a name that is taken."""
        name = request.object.spec.name
        if is_unchanged(request) or not name:
            return
        if any(found.status.name == name for found in self._volumes.list()):
            raise Denied(f'there is a volume "{name}" already')
        for other in self._requests.list():
            if other.spec.name == name and not has_ended(other.raw):
                raise Denied(
                    f'the VolumeCreateRequest "{other.metadata.name}" asks for a volume '
                    f'"{name}" already'
                )
