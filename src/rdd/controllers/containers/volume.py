# SPDX-License-Identifier: Apache-2.0
"""volume: the Volume kind, and requests to create volumes."""

from rdd.controllers.containers.request_rules import UniqueNameRule
from rdd.controllers.containers.requests import RequestReconciler, request_controller
from rdd.controllers.containers.volume_create import CreateVolume
from rdd.controllers.environment import ControllerEnvironment
from rdd.engine import Docker
from rdd.kinds.volume import Volume, VolumeCreateRequest
from rdd.runtime import Context, Controller, Webhook, maps, validating


def volume(env: ControllerEnvironment) -> Controller:
    """Create the controller of Volumes and of requests for them."""

    def make_reconciler(context: Context) -> RequestReconciler:
        docker = Docker(env.instance.docker_socket)
        return RequestReconciler(context, docker, {VolumeCreateRequest: CreateVolume(docker)})

    return request_controller(
        Volume,
        (VolumeCreateRequest,),
        make_reconciler,
        mirrors=maps(Volume, lambda obj: ()),  # for admission only
        webhooks=_webhooks,
    )


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    rule = UniqueNameRule(context, Volume, VolumeCreateRequest)
    return (validating("volumecreaterequest-validator", VolumeCreateRequest, rule.check),)
