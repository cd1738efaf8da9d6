# SPDX-License-Identifier: Apache-2.0
"""container: the Container kind, its rules, and requests for containers.

Mirrors get their conditions from the engine controller together with the rest of
their status. Containers that somebody else writes (the mock controller) get them
here, derived from `status.status`, as a part of the status of their own.
"""

from functools import partial
from typing import get_args

from rdd.api import timestamps
from rdd.api.types import Object
from rdd.controllers.containers.container_conditions import (
    UNKNOWN,
    changes,
    container_conditions,
)
from rdd.controllers.containers.container_create import CreateContainer
from rdd.controllers.containers.engine.items import backend_of
from rdd.controllers.containers.requests import (
    RequestReconciler,
    has_ended,
    is_unchanged,
    request_key,
)
from rdd.controllers.environment import ControllerEnvironment
from rdd.engine import Docker
from rdd.kinds.app import App
from rdd.kinds.container import ACTION, Action, Container, ContainerCreateRequest
from rdd.kinds.crd import definition_of
from rdd.kinds.kind import Kind
from rdd.kinds.ports import Port
from rdd.runtime import (
    AdmissionRequest,
    Context,
    Controller,
    Denied,
    ObjectKey,
    Result,
    Webhook,
    apply_status,
    is_deleting,
    maps,
    validating,
    watch,
)
from rdd.runtime.predicates import resource_version_changed

MANAGER = "container-controller"
_ACTIONS = get_args(Action)
_NAME = "status.name"
_KINDS: tuple[type[Kind], ...] = (App, Container, ContainerCreateRequest)


def container(env: ControllerEnvironment) -> Controller:
    """The controller of Containers and requests for them."""

    def make(context: Context) -> ContainerReconciler:
        return ContainerReconciler(context, Docker(env.instance.docker_socket))

    return Controller(
        "container",
        make,
        sources=(
            watch(App),
            maps(Container, _foreign, resource_version_changed),
            maps(ContainerCreateRequest, partial(request_key, ContainerCreateRequest)),
        ),
        definitions=tuple(definition_of(kind) for kind in _KINDS),
        webhooks=_webhooks,
    )


def _foreign(obj: Object) -> list[ObjectKey]:
    """Containers that the engine controller does not write."""
    return [] if backend_of(obj) or is_deleting(obj) else [*request_key(Container, obj)]


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    rules = CreateRules(context)
    return (
        validating("container-mutating", Container, check_container),
        validating(
            "containercreaterequest-validator",
            ContainerCreateRequest,
            rules.check,
        ),
    )


async def check_container(request: AdmissionRequest[Container]) -> None:
    """A container is changed by actions only, and only by those there are."""
    annotations = request.object.metadata.annotations
    action = annotations.get(ACTION)
    if request.old is None:
        if action is not None:
            raise Denied(f"{ACTION} annotation is not allowed on create")
        return
    if request.object.spec.raw != request.old.spec.raw:
        raise Denied("spec is immutable: a container is changed by actions")
    if action is not None and action not in _ACTIONS:
        raise Denied(f'invalid {ACTION} annotation "{action}"')


class CreateRules:
    """One container per name, also while the first one is only asked for."""

    def __init__(self, context: Context) -> None:
        self._containers = context.cache.of(Container)
        self._containers.informer.add_index(_NAME, _by_name)
        self._requests = context.cache.of(ContainerCreateRequest)

    async def check(self, request: AdmissionRequest[ContainerCreateRequest]) -> None:
        """Refuse a name that is taken, and ports that are none."""
        if is_unchanged(request):
            return
        for port in request.object.spec.ports:
            check_port(port)
        name = request.object.spec.name
        if not name:
            return
        if self._containers.by_index(_NAME, name):
            raise Denied(f'there is a container "{name}" already')
        for other in self._requests.list():
            if other.spec.name == name and not has_ended(other.raw):
                raise Denied(
                    f'the ContainerCreateRequest "{other.metadata.name}" asks for a container '
                    f'"{name}" already'
                )


def check_port(port: Port) -> None:
    """Raise Denied for what the engine would take without a word and then ignore."""
    number, _, protocol = port.name.partition("/")
    if not _is_port(number) or protocol not in ("tcp", "udp", "sctp"):
        raise Denied(f'spec.ports: invalid port "{port.name}": it must be like 80/tcp')
    for binding in port.bindings:
        if binding.host_port and not _is_port(binding.host_port):
            raise Denied(f'spec.ports: invalid hostPort "{binding.host_port}" of {port.name}')


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def _by_name(obj: Object) -> tuple[str, ...]:
    name = (obj.get("status") or {}).get("name")
    return (name,) if name else ()


class ContainerReconciler:
    """Conditions of containers of others, and requests."""

    def __init__(self, context: Context, docker: Docker) -> None:
        self._context = context
        self._docker = docker
        self._containers = context.cache.of(Container)
        self._requests = RequestReconciler(
            context, {ContainerCreateRequest: CreateContainer(docker)}
        )

    async def run(self) -> None:
        """End what is being carried out when the controller ends."""
        try:
            await self._requests.run()
        finally:
            await self._docker.close()

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at a container or a request."""
        plural, _, name = key.name.partition("/")
        if plural != Container.plural:
            return await self._requests.reconcile(key)
        await self._set_conditions(ObjectKey(key.namespace, name))
        return Result.done()

    async def _set_conditions(self, key: ObjectKey) -> None:
        found = self._containers.get(key)
        if found is None or backend_of(found.raw) or not found.raw.get("status"):
            return
        present = found.raw["status"].get("conditions") or []
        conditions = container_conditions(
            present,
            found.status.status or UNKNOWN,
            oom_killed=None,
            now=timestamps.now_text(self._context.clock),
        )
        if conditions == present:
            return
        await apply_status(
            self._context.client, Container, key, {"conditions": conditions}, field_manager=MANAGER
        )
        for note in changes(present, conditions):
            self._context.events.event(found.raw, "Normal", "ConditionChanged", note)
