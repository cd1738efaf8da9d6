# SPDX-License-Identifier: Apache-2.0
"""containernamespace: the ContainerNamespace kind, and its protection.

A namespace of the engine cannot be deleted while it is not empty: the mirror would
recreate it, and clients that select by it would see nothing meanwhile.
"""

from rdd.api.types import Object
from rdd.controllers.containers.engine.items import backend_of
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.container import Container
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.crd import definition_of
from rdd.kinds.image import Image
from rdd.kinds.kind import Kind
from rdd.kinds.network import Network
from rdd.kinds.volume import Volume
from rdd.runtime import (
    DELETE,
    AdmissionRequest,
    Context,
    Controller,
    Denied,
    ObjectKey,
    Result,
    Webhook,
    is_deleting,
    maps,
    validating,
)

_NAMESPACE = "status.namespace"
_INSIDE: tuple[type[Kind], ...] = (Container, Image, Network, Volume)


def containernamespace(env: ControllerEnvironment) -> Controller:
    """Create the controller of ContainerNamespaces."""
    return Controller(
        "containernamespace",
        NoOpReconciler,
        sources=tuple(maps(kind, lambda obj: ()) for kind in _INSIDE),  # for admission only
        definitions=(definition_of(ContainerNamespace), *map(definition_of, _INSIDE)),
        webhooks=_webhooks,
    )


class NoOpReconciler:
    """A reconciler for a kind without desired state."""

    def __init__(self, context: Context) -> None:
        pass

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do nothing."""
        return Result.done()


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    guard = NamespaceDeletionGuard(context)
    return (
        validating(
            "container-namespace-deleting", ContainerNamespace, guard.check, operations=(DELETE,)
        ),
    )


class NamespaceDeletionGuard:
    """Rejects the deletion of namespaces that are not empty."""

    def __init__(self, context: Context) -> None:
        self._informers = {kind.plural: context.cache.informer(kind) for kind in _INSIDE}
        for informer in self._informers.values():
            informer.add_index(_NAMESPACE, _by_namespace)

    async def check(self, request: AdmissionRequest[ContainerNamespace]) -> None:
        """Raise Denied if objects refer to the namespace."""
        name = request.key.name
        where = f"{request.key.namespace}/{name}"
        counts = {
            plural: len(informer.by_index(_NAMESPACE, where))
            for plural, informer in self._informers.items()
        }
        found = [f"{count} {plural}" for plural, count in counts.items() if count]
        if found:
            raise Denied(f'the container namespace "{name}" is not empty: {", ".join(found)}')


def _by_namespace(obj: Object) -> tuple[str, ...]:
    """Return the namespace of a mirror that is not being deleted."""
    namespace = (obj.get("status") or {}).get("namespace")
    if not namespace or not backend_of(obj) or is_deleting(obj):
        return ()
    return (f"{obj['metadata'].get('namespace')}/{namespace}",)
