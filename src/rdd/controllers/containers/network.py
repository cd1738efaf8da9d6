# SPDX-License-Identifier: Apache-2.0
"""network: the Network kind, requests to create networks, protection of the engine's own."""

from rdd.api import names
from rdd.controllers.containers.network_create import CreateNetwork
from rdd.controllers.containers.request_rules import UniqueNameRule
from rdd.controllers.containers.requests import RequestReconciler, request_controller
from rdd.controllers.environment import ControllerEnvironment
from rdd.engine import Docker
from rdd.kinds.network import Network, NetworkCreateRequest
from rdd.runtime import (
    DELETE,
    AdmissionRequest,
    Context,
    Controller,
    Denied,
    Webhook,
    maps,
    validating,
)
from rdd.runtime.finalizers import finalizers_of

_OWN = ("bridge", "host", "none")


def network(env: ControllerEnvironment) -> Controller:
    """Create the controller of Networks and of requests for them."""

    def make_reconciler(context: Context) -> RequestReconciler:
        docker = Docker(env.instance.docker_socket)
        return RequestReconciler(context, docker, {NetworkCreateRequest: CreateNetwork(docker)})

    return request_controller(
        Network,
        (NetworkCreateRequest,),
        make_reconciler,
        mirrors=maps(Network, lambda obj: ()),  # for admission only
        webhooks=_webhooks,
    )


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    rule = UniqueNameRule(context, Network, NetworkCreateRequest)
    return (
        validating("networkcreaterequest-validator", NetworkCreateRequest, rule.check),
        validating("network-deleting", Network, _check_deletion, operations=(DELETE,)),
    )


async def _check_deletion(request: AdmissionRequest[Network]) -> None:
    """Reject the deletion of a network that the engine always has.

    The mirror removes its finalizer before it deletes an object.
    """
    raw = (request.old or request.object).raw
    name = (raw.get("status") or {}).get("name")
    if name in _OWN and names.MIRROR_FINALIZER in finalizers_of(raw):
        raise Denied(f'the network "{name}" belongs to the engine and cannot be removed')
