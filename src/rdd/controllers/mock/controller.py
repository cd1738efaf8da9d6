# SPDX-License-Identifier: Apache-2.0
"""mock: keeps mock objects, in place of the controllers that create real ones.

It is for programs that show containers, and for their tests: they need no engine and no
virtual machine. Objects are applied whenever they differ from the table, so changes and
deletions are reverted; fields of other managers are kept. An App is settled at once.

Do not run the real controllers beside it, except those of the group containers without the
engine.
"""

from collections.abc import Iterable

from rdd.api import names
from rdd.api.types import Object
from rdd.client.resources import NAMESPACES
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.mock.logs import logs
from rdd.controllers.mock.objects import NAMESPACE, OWNER, Mock, mocks
from rdd.kinds.app import App
from rdd.kinds.catalog import crds_of
from rdd.kinds.kind import Kind
from rdd.runtime import (
    DELETE,
    AdmissionRequest,
    Condition,
    Context,
    Controller,
    Denied,
    ObjectKey,
    Result,
    StatusWriter,
    apply_status,
    is_deleting,
    maps,
    owner_reference,
    resource_of,
    validating,
)
from rdd.runtime.sources import Source

FIELD_MANAGER = "mock-controller"
REASON = "MockController"

_NAMESPACES = "namespaces"
_OWN_NAMESPACES = (OWNER, NAMESPACE)


def mock(env: ControllerEnvironment) -> Controller:
    """Return the controller of mock objects."""
    return Controller(
        "mock",
        MockReconciler,
        sources=(
            *(_of_kind(kind) for kind in {each.kind: None for each in mocks()}),
            _of_kind(App),
            maps(NAMESPACES, _in_namespace),
        ),
        definitions=crds_of("mock"),
        webhooks=(
            validating(
                "mock-namespace-no-delete",
                NAMESPACES,
                refuse,
                operations=(DELETE,),
                webhook_name=f"mock-namespace-no-delete.mock.{names.DOMAIN}",
                label_selector={"matchLabels": {names.METADATA_NAME: OWNER}},
            ),
        ),
        passthroughs=lambda context: {"logs": logs(context)},
    )


async def refuse(request: AdmissionRequest[Kind]) -> None:
    """Reject the deletion of the namespace that owns all mock objects."""
    if request.key.name == OWNER:
        raise Denied("deletion of mock namespace is not allowed")


# Objects of several kinds share one queue: keys have the plural in place of the namespace.


def _key(kind: type[Kind], name: str) -> ObjectKey:
    return ObjectKey(kind.plural, name)


def _of_kind(kind: type[Kind]) -> Source:
    def keys(obj: Object) -> Iterable[ObjectKey]:
        return (_key(kind, obj["metadata"]["name"]),)

    return maps(kind, keys)


def _in_namespace(obj: Object) -> Iterable[ObjectKey]:
    name = obj["metadata"]["name"]
    if name in _OWN_NAMESPACES:
        yield ObjectKey(_NAMESPACES, name)
        yield from (_key(each.kind, each.name) for each in mocks())


class MockReconciler:
    """Applies the objects of the table."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._mocks = {_key(each.kind, each.name): each for each in mocks()}
        self._apps = context.cache.of(App)
        self._app_status = StatusWriter(context, App, field_manager=FIELD_MANAGER)
        self._namespaces = context.cache.informer(NAMESPACES)
        for name in _OWN_NAMESPACES:
            context.enqueue(ObjectKey(_NAMESPACES, name))

    async def reconcile(self, key: ObjectKey) -> Result:
        if key.namespace == _NAMESPACES:
            await self._make_namespace(key.name)
        elif key.namespace == App.plural:
            await self._settle(ObjectKey("", key.name))
        elif key in self._mocks:
            await self._apply(self._mocks[key])
        return Result.done()

    async def _make_namespace(self, name: str) -> None:
        if self._namespaces.get(ObjectKey("", name)) is None:
            await self._context.client.apply(
                NAMESPACES, {"metadata": {"name": name}}, field_manager=FIELD_MANAGER, force=True
            )

    async def _apply(self, wanted: Mock) -> None:
        owner = self._namespaces.get(ObjectKey("", OWNER))
        place = self._namespaces.get(ObjectKey("", NAMESPACE))
        if owner is None or place is None or is_deleting(place):
            return  # the creation of the namespaces enqueues the key
        reference = owner_reference(owner, is_controller=False, block=False)
        metadata: Object = {"name": wanted.name, "ownerReferences": [reference]}
        if wanted.namespace:
            metadata["namespace"] = wanted.namespace
        client = self._context.client
        await client.apply(
            resource_of(wanted.kind),
            {"metadata": metadata},
            field_manager=FIELD_MANAGER,
            force=True,
        )
        if wanted.status is not None:
            await apply_status(
                client,
                wanted.kind,
                ObjectKey(wanted.namespace, wanted.name),
                wanted.status.raw,
                field_manager=FIELD_MANAGER,
            )

    async def _settle(self, key: ObjectKey) -> None:
        app = self._apps.get(key)
        if app is None or is_deleting(app.raw):
            return
        running = str(app.spec.running).lower()
        condition = Condition(
            names.SETTLED,
            "True" if app.spec.running else "False",
            REASON,
            f"The mock controller reports running={running} as settled",
        )
        await self._app_status.write(app.raw, condition)
