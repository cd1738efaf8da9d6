# SPDX-License-Identifier: Apache-2.0
"""k3s-versions: publishes the available Kubernetes versions.

Clients with a version selector (the graphical application) read the ConfigMap `k3s-versions`
in the namespace of the App: `versions` maps each version to its k3s release, `channels` each
channel to its version, both as JSON. The controller reverts changes of both keys and leaves
other keys alone. The ConfigMap cannot be deleted while the App exists.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.k3s_versions_table import CHANNELS, VERSIONS
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.runtime import (
    DELETE,
    AdmissionRequest,
    Context,
    Controller,
    ObjectKey,
    Result,
    controller_of,
    is_controlled_by,
    is_deleting,
    maps,
    owns,
    resource_of,
    validating,
    watch,
    with_controller,
)
from rdd.runtime.admission import Webhook

CONFIG_MAP = "k3s-versions"
_SELECTOR = f"metadata.name={CONFIG_MAP}"
_APP = ObjectKey("", names.APP_NAME)
_KIND_LABELS = {
    names.APP_NAME_LABEL: "rdd-k3s-versions",
    names.APP_COMPONENT_LABEL: "k3s-versions",
    names.APP_MANAGED_BY_LABEL: "rdd-k3s-versions",
}
_RETRY_S = 30.0


def k3s_versions(env: ControllerEnvironment) -> Controller:
    """Create the controller of the ConfigMap."""
    return Controller(
        "k3s-versions",
        VersionsReconciler,
        sources=(
            watch(App),
            owns(CONFIG_MAPS, App, field_selector=_SELECTOR),
            maps(NAMESPACES, _app),
        ),
        webhooks=_webhooks,
    )


def published() -> dict[str, str]:
    """Return the two keys of the ConfigMap."""
    return {"versions": _json(VERSIONS), "channels": _json(CHANNELS)}


class VersionsReconciler:
    """Reconciles the ConfigMap of an App."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._apps = context.cache.of(App)
        self._config_maps = context.cache.informer(CONFIG_MAPS, field_selector=_SELECTOR)
        self._namespaces = context.cache.informer(NAMESPACES)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Create the ConfigMap, or revert differences."""
        app = self._apps.get(key)
        if app is None or is_deleting(app.raw) or not app.spec.namespace:
            return Result.done()
        namespace = self._namespaces.get(ObjectKey("", app.spec.namespace))
        if namespace is None or is_deleting(namespace):
            return Result.done()  # a change of the namespace enqueues the App
        client = self._context.client
        place = ObjectKey(app.spec.namespace, CONFIG_MAP)
        present = self._config_maps.get(place)
        if present is None:
            try:
                await client.create(CONFIG_MAPS, _wanted(app))
            except errors.AlreadyExists:
                return Result.requeue(0.1)  # the cache is stale
            return Result.done()
        owner = controller_of(present)
        if owner is not None and not is_controlled_by(present, app.raw):
            self._context.events.event(
                app.raw,
                "Warning",
                "ConfigMapError",
                f'ConfigMap "{place}" is controlled by {owner["kind"]} {owner["name"]}',
            )
            return Result.requeue(_RETRY_S)
        patch = _difference(present, _wanted(app))
        if patch:
            await client.patch(CONFIG_MAPS, place.name, patch, namespace=place.namespace)
        return Result.done()


def _wanted(app: App) -> Object:
    metadata = {
        "name": CONFIG_MAP,
        "namespace": app.spec.namespace,
        "labels": {**_KIND_LABELS, names.APP_INSTANCE_LABEL: app.metadata.name},
    }
    return with_controller({"metadata": metadata, "data": published()}, app.raw)


def _difference(present: Object, wanted: Object) -> Object:
    """Return the merge patch that restores the own keys and leaves the rest."""
    patch: Object = {}
    metadata: Object = {}
    have = present["metadata"]
    if labels := _missing(have.get("labels"), wanted["metadata"]["labels"]):
        metadata["labels"] = labels
    if controller_of(present) is None:
        others = have.get("ownerReferences") or []
        metadata["ownerReferences"] = [*others, *wanted["metadata"]["ownerReferences"]]
        metadata["resourceVersion"] = have["resourceVersion"]
    if metadata:
        patch["metadata"] = metadata
    if data := _missing(present.get("data"), wanted["data"]):
        patch["data"] = data
    return patch


def _missing(present: Mapping[str, str] | None, wanted: Mapping[str, str]) -> dict[str, str]:
    have = present or {}
    return {key: value for key, value in wanted.items() if have.get(key) != value}


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    async def check(request: AdmissionRequest[Any]) -> None:
        """Raise Forbidden while the App exists and is not being deleted."""
        obj = request.object.raw
        owner = controller_of(obj)
        if request.key.name != CONFIG_MAP or owner is None or owner["kind"] != App.kind:
            return
        try:
            app = await context.client.get(resource_of(App), owner["name"])
        except errors.NotFound:
            return
        if is_controlled_by(obj, app) and not is_deleting(app):
            raise errors.Forbidden.to_object(
                "configmaps", "", request.key.name, f'it belongs to App "{owner["name"]}"'
            )

    return (
        validating(
            "k3s-versions-validator",
            CONFIG_MAPS,
            check,
            operations=(DELETE,),
            webhook_name=f"k3s-versions-validator.{names.APP_GROUP}",
            label_selector={"matchLabels": _KIND_LABELS},
        ),
    )


def _app(_: Object) -> Iterable[ObjectKey]:
    return (_APP,)


def _json(table: Mapping[str, str]) -> str:
    return json.dumps(dict(table), sort_keys=True, separators=(",", ":"))
