# SPDX-License-Identifier: Apache-2.0
"""k3s-versions: publishes the available Kubernetes versions.

Clients with a version selector (the graphical application) read the ConfigMap `k3s-versions`
in the namespace of the App: `versions` maps each version to its k3s release, `channels` each
channel to its version, both as JSON. The controller reverts changes of both keys and leaves
other keys alone. The ConfigMap cannot be deleted while the App exists.

With the consent `downloads.automatic` it creates the URLMonitor `k3s-versions` of the publisher's
list of channels, and those of the lists of tools (`version_monitors`). Newer releases of the list
of channels, also of a monitor of that name that the user has created, are published, too.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.k3s_releases import Releases
from rdd.controllers.app.version_monitors import ensure_monitor, lists_of_tools
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.kinds.urlmonitor import URLMonitor
from rdd.runtime import (
    DELETE,
    AdmissionRequest,
    Change,
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
from rdd.toolbox.catalogue import Catalogue

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


async def published_releases(client: Client, namespace: str) -> Releases:
    """Return the releases of the ConfigMap; the shipped ones without it."""
    try:
        found = await client.get(CONFIG_MAPS, CONFIG_MAP, namespace=namespace)
    except errors.NotFound:
        return Releases.shipped()
    return Releases.of_config_map(found.get("data") or {})


class VersionsReconciler:
    """Reconciles the ConfigMap of an App."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._apps = context.cache.of(App)
        self._config_maps = context.cache.informer(CONFIG_MAPS, field_selector=_SELECTOR)
        self._namespaces = context.cache.informer(NAMESPACES)
        self._read = ("", Releases.shipped())
        self._consent: bool | None = None
        """The consent that the monitors of tools follow; None if they have to be looked at."""

    async def run(self) -> None:
        """Watch the monitor; not as a source, because its kind may not be served."""

        def changed(change: Change) -> None:
            self._consent = None
            self._context.enqueue(_APP)

        unsubscribe = self._context.cache.informer(URLMonitor).add_handler(changed)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            unsubscribe()

    async def reconcile(self, key: ObjectKey) -> Result:
        """Create the ConfigMap, or revert differences."""
        app = self._apps.get(key)
        if app is None or is_deleting(app.raw) or not app.spec.namespace:
            return Result.done()
        namespace = self._namespaces.get(ObjectKey("", app.spec.namespace))
        if namespace is None or is_deleting(namespace):
            return Result.done()  # a change of the namespace enqueues the App
        releases = await self._releases(await self._monitor(app))
        client = self._context.client
        place = ObjectKey(app.spec.namespace, CONFIG_MAP)
        present = self._config_maps.get(place)
        if present is None:
            try:
                await client.create(CONFIG_MAPS, _wanted(app, releases))
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
        patch = _difference(present, _wanted(app, releases))
        if patch:
            await client.patch(CONFIG_MAPS, place.name, patch, namespace=place.namespace)
        return Result.done()

    async def _monitor(self, app: App) -> URLMonitor | None:
        """Return the monitor of the list of channels; those of tools follow the consent, too."""
        client, has_consent = self._context.client, app.spec.downloads.automatic
        if self._consent is not has_consent:
            for name, url in lists_of_tools().items():
                await ensure_monitor(client, app, name, url, _KIND_LABELS)
            self._consent = has_consent
        url = Catalogue.shipped().tool("k3s").releases_url
        return await ensure_monitor(client, app, CONFIG_MAP, url, _KIND_LABELS)

    async def _releases(self, monitor: URLMonitor | None) -> Releases:
        """Return the releases to publish; the content of the monitor is read when it changes."""
        if monitor is None or not monitor.status.local_path:
            return Releases.shipped()
        digest, path = monitor.status.digest, Path(monitor.status.local_path)
        if digest != self._read[0]:
            try:
                text = await asyncio.to_thread(path.read_text, "utf-8", "replace")
            except OSError:
                return Releases.shipped()  # the next check restores it
            self._read = (digest, await asyncio.to_thread(Releases.with_published, text))
        return self._read[1]


def _wanted(app: App, releases: Releases) -> Object:
    metadata = {
        "name": CONFIG_MAP,
        "namespace": app.spec.namespace,
        "labels": {**_KIND_LABELS, names.APP_INSTANCE_LABEL: app.metadata.name},
    }
    return with_controller({"metadata": metadata, "data": releases.to_data()}, app.raw)


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
