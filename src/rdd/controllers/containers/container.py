# SPDX-License-Identifier: Apache-2.0
"""container: the Container kind, its rules, and requests to create containers.

The engine controller writes the conditions of mirrors together with the rest of
their status. Containers of other writers (the mock controller) get their conditions
here, derived from `status.status`, under a field manager of their own.
"""

from collections.abc import Iterable
from typing import get_args

from rdd.api import names
from rdd.api.types import Object
from rdd.controllers.containers.container_conditions import (
    UNKNOWN,
    condition_changes,
    container_conditions,
)
from rdd.controllers.containers.container_create import CreateContainer
from rdd.controllers.containers.engine.items import backend_of
from rdd.controllers.containers.request_rules import UniqueNameRule
from rdd.controllers.containers.requests import (
    RequestKey,
    RequestReconciler,
    request_controller,
    request_keys,
)
from rdd.controllers.environment import ControllerEnvironment
from rdd.engine import Docker
from rdd.kinds.container import Action, Container, ContainerCreateRequest
from rdd.kinds.parts.ports import Port
from rdd.runtime import (
    AdmissionRequest,
    Context,
    Controller,
    Denied,
    ObjectKey,
    Result,
    StatusWriter,
    Webhook,
    conditions_of,
    is_deleting,
    maps,
    validating,
)
from rdd.runtime.predicates import resource_version_changed

MANAGER = "container-controller"
_ACTIONS = get_args(Action)


def container(env: ControllerEnvironment) -> Controller:
    """Create the controller of Containers and of requests for them."""

    def make_reconciler(context: Context) -> ContainerReconciler:
        return ContainerReconciler(context, Docker(env.instance.docker_socket))

    return request_controller(
        Container,
        (ContainerCreateRequest,),
        make_reconciler,
        mirrors=maps(Container, _foreign_container, resource_version_changed),
        webhooks=_webhooks,
    )


def _foreign_container(obj: Object) -> Iterable[RequestKey]:
    """Return the key of a container that the engine controller does not write."""
    return () if backend_of(obj) or is_deleting(obj) else request_keys(Container, obj)


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    rules = ContainerCreateRules(context)
    return (
        validating("container-mutating", Container, check_container),
        validating("containercreaterequest-validator", ContainerCreateRequest, rules.check),
    )


async def check_container(request: AdmissionRequest[Container]) -> None:
    """Raise Denied for a changed spec and for invalid actions."""
    annotations = request.object.metadata.annotations
    action = annotations.get(names.ACTION)
    if request.old is None:
        if action is not None:
            raise Denied(f"{names.ACTION} annotation is not allowed on create")
        return
    if request.object.spec.raw != request.old.spec.raw:
        raise Denied("spec is immutable: a container is changed by actions")
    if action is not None and action not in _ACTIONS:
        raise Denied(f'invalid {names.ACTION} annotation "{action}"')


class ContainerCreateRules(UniqueNameRule):
    """Rejects names that are taken and invalid ports."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, Container, ContainerCreateRequest)

    async def check(self, request: AdmissionRequest[ContainerCreateRequest]) -> None:
        """Raise Denied for an invalid request."""
        if request.old is None:
            for port in request.object.spec.ports:
                check_port(port)
        await super().check(request)


def check_port(port: Port) -> None:
    """Raise Denied for a port that the engine would silently ignore."""
    number, _, protocol = port.name.partition("/")
    if not _is_port(number) or protocol not in ("tcp", "udp", "sctp"):
        raise Denied(f'spec.ports: invalid port "{port.name}": use the form 80/tcp')
    for binding in port.bindings:
        if binding.host_port and not _is_port(binding.host_port):
            raise Denied(f'spec.ports: invalid hostPort "{binding.host_port}" of {port.name}')


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


class ContainerReconciler(RequestReconciler):
    """Writes conditions of foreign containers, and executes requests."""

    def __init__(self, context: Context, docker: Docker) -> None:
        super().__init__(context, docker, {ContainerCreateRequest: CreateContainer(docker)})
        self._containers = context.cache.of(Container)
        self._status = StatusWriter(context, Container, field_manager=MANAGER, has_generation=False)

    async def reconcile(self, key: ObjectKey | RequestKey) -> Result:
        """Reconcile a container or a request."""
        if not isinstance(key, RequestKey) or key.kind != Container.plural:
            return await super().reconcile(key)
        await self._set_conditions(key.object_key)
        return Result.done()

    async def _set_conditions(self, key: ObjectKey) -> None:
        found = self._containers.get(key)
        if found is None or backend_of(found.raw) or not found.raw.get("status"):
            return
        conditions = container_conditions(found.status.status or UNKNOWN, oom_killed=None)
        written = await self._status.write(found.raw, *conditions)
        for note in condition_changes(conditions_of(found.raw), conditions_of(written)):
            self._context.events.event(found.raw, "Normal", "ConditionChanged", note)
