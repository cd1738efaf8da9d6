# SPDX-License-Identifier: Apache-2.0
"""What may be written about LimaVMs and their templates.

    limavm-defaulter             CREATE: finalizer, template to carry along; refuses what
                                 cannot become a virtual machine
    limavm-validator             CREATE: holds the name; UPDATE: params; DELETE: owned by an App
    limavm-configmap-validator   ConfigMaps with our label: the template, the label, the owner

Nothing here writes anything: what a refused or failed creation leaves behind is nothing.
The DELETE handler remembers how long the client wants to wait for the shutdown, because the
server, like Kubernetes, keeps no grace period of custom resources.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.lima.limavm import templates
from rdd.controllers.lima.limavm.uniqueness import NameHolds, holder_of, taken
from rdd.host.errors import HostError
from rdd.kinds.limavm import LimaVM
from rdd.runtime import (
    CLEANUP,
    CREATE,
    DELETE,
    UPDATE,
    AdmissionRequest,
    Context,
    Denied,
    Webhook,
    controller_of,
    defaulting,
    owned_by,
    refuse_deletion_of_owned,
    resource_of,
    validating,
)
from rdd.runtime.finalizers import finalizers_of
from rdd.vm.drivers import catalog, selection
from rdd.vm.instance_dir import LimaHome, check_name
from rdd.vm.template import Template, TemplateError, parse

_QUICK = 16 * 1024
"""Characters of a template that is checked in a few milliseconds; larger ones leave the loop."""

CONFIG_MAP_WEBHOOK = f"limavm-configmap-validator.{names.LIMA_GROUP}"


class Admission:
    """The rules; `environment` decides with the template which driver it would get."""

    def __init__(
        self,
        context: Context,
        holds: NameHolds,
        graces: dict[str, float],
        *,
        home: LimaHome,
        environment: Mapping[str, str],
    ) -> None:
        self._client = context.client
        self._copies = templates.Copies(context.client)
        self._holds = holds
        self._graces = graces
        self._home = home
        self._environment = environment

    def webhooks(self) -> Sequence[Webhook]:
        """All of them."""
        return (
            # As it was published when it still made the copy.
            replace(
                defaulting("limavm-defaulter", LimaVM, self.complete), side_effects="NoneOnDryRun"
            ),
            validating("limavm-validator", LimaVM, self.check, operations=(CREATE, UPDATE, DELETE)),
            validating(
                "limavm-configmap-validator",
                CONFIG_MAPS,
                self.check_config_map,
                operations=(CREATE, UPDATE, DELETE),
                webhook_name=CONFIG_MAP_WEBHOOK,
                label_selector={"matchLabels": {names.TEMPLATE_LABEL: "true"}},
            ),
        )

    # -- LimaVMs

    async def complete(self, request: AdmissionRequest[LimaVM]) -> LimaVM:
        """The LimaVM with its finalizer and its template."""
        vm = request.object
        raw = dict(vm.raw)
        metadata = raw["metadata"] = dict(raw["metadata"])
        namespace, name = request.key
        if not vm.spec.template_ref.name:
            if "name" in ((vm.raw.get("spec") or {}).get("templateRef") or {}):
                raise Denied("spec.templateRef.name must not be empty")
            return vm  # the schema says what is missing
        if name:
            await self._check_name(namespace, name)
        driver = _driver_of(vm)
        if driver and driver not in catalog.DRIVERS:
            known = ", ".join(sorted(catalog.DRIVERS))
            raise Denied(f'{names.DRIVER} "{driver}" is no driver; known are {known}')
        text = await self._source(vm, namespace)
        await self._check_template(text, vm.spec.params, "", driver=driver)
        finalizers = list(metadata.get("finalizers") or ())
        if CLEANUP not in finalizers:
            metadata["finalizers"] = [*finalizers, CLEANUP]
        annotations = dict(metadata.get("annotations") or {})
        annotations.pop(names.TEMPLATE, None)
        if len(text.encode()) <= templates.MAX_ANNOTATION_BYTES:
            annotations[names.TEMPLATE] = text
        metadata["annotations"] = annotations
        return LimaVM.of(raw)

    async def check(self, request: AdmissionRequest[LimaVM]) -> None:
        """Refuse a name that is taken, params that are not, and the deletion of what is owned."""
        if request.operation == DELETE:
            await refuse_deletion_of_owned(request)
            grace = request.options.get("gracePeriodSeconds")
            if isinstance(grace, int) and not request.is_dry_run:
                self._graces[request.object.raw["metadata"]["uid"]] = grace
        elif request.operation == CREATE:
            if request.is_dry_run:
                holder = await holder_of(self._client, request.key.name)
            else:
                holder = await self._holds.take(self._client, request.key)
            if holder is not None:
                raise Denied(taken(request.key.name, holder))
        else:
            await self._check_new_params(request)

    async def _check_name(self, namespace: str, name: str) -> None:
        try:
            check_name(name)
        except ValueError as error:
            raise Denied(str(error)) from None
        holder = await holder_of(self._client, name)
        if holder is not None:
            raise Denied(taken(name, holder))
        await self._copies.refuse_unless_free(namespace, name)

    async def _source(self, vm: LimaVM, namespace: str) -> str:
        reference = vm.spec.template_ref
        found = await self._client.get(
            CONFIG_MAPS, reference.name, namespace=reference.namespace or namespace
        )
        return templates.text_of(found)

    async def _check_template(
        self, text: str, params: Mapping[str, str], name: str, *, driver: str = ""
    ) -> None:
        """Refuse a template that does not work for a LimaVM; the name of a new one is empty."""
        run = _now if len(text) <= _QUICK else asyncio.to_thread
        try:
            chosen = await self._driver(await run(parse, text), name, driver)
        except (TemplateError, HostError):
            chosen = ""  # told with everything else, or when an instance is made
        has_image = selection.has_own_image(self._environment)
        check = functools.partial(
            templates.refuse_unless_valid, text, params, driver=chosen, has_image=has_image
        )
        await run(check)

    async def _driver(self, template: Template, name: str, driver: str) -> str:
        """Which driver runs, or would run, an instance. Raises HostError."""
        if name and (recorded := self._home.directory(name).driver):
            return recorded
        request = selection.request_of(template, self._environment, driver=driver)
        possible = selection.candidates(request, self._environment)
        if len(possible) == 1:
            return possible[0]
        # What works here matters only where there is a choice; programs are asked then.
        return await asyncio.to_thread(selection.driver_for, template, self._environment)

    async def _check_new_params(self, request: AdmissionRequest[LimaVM]) -> None:
        vm, old = request.object, request.old
        if old is None or vm.spec.params == old.spec.params or request.subresource:
            return
        name = vm.status.template_config_map
        if not name:
            text = (vm.raw["metadata"].get("annotations") or {}).get(names.TEMPLATE)
        else:
            try:
                found = await self._client.get(CONFIG_MAPS, name, namespace=request.key.namespace)
                text = templates.text_of(found)
            except errors.NotFound:
                text = None
        if text is not None:
            await self._check_template(
                text, vm.spec.params, request.key.name, driver=_driver_of(vm)
            )

    # -- templates

    async def check_config_map(self, request: AdmissionRequest[Any]) -> None:
        """Refuse a template that does not work, and to take one away from its LimaVM."""
        if request.operation == DELETE:
            await refuse_deletion_of_owned(request)
            return
        new: Object = request.object.raw
        old: Object | None = request.old.raw if request.old is not None else None
        if old is not None:
            if new["metadata"].get("deletionTimestamp"):
                return  # what is on its way out need not be right
            if not _has_label(new):
                if any(map(_is_owned_by, finalizers_of(old))):
                    raise Denied(f"cannot remove {names.TEMPLATE_LABEL} label: resource is owned")
                return
        text = templates.text_of(new)
        if old is not None and _has_label(old) and templates.has_text(old, text):
            return  # it was checked when it came
        owner = controller_of(new)
        if owner is None or owner["kind"] != LimaVM.kind:
            await self._check_template(text, {}, "")
        else:
            vm = await self._owner(owner["name"], new["metadata"]["namespace"])
            await self._check_template(
                text,
                vm.spec.params if vm is not None else {},
                owner["name"],
                driver=_driver_of(vm) if vm is not None else "",
            )

    async def _owner(self, name: str, namespace: str) -> LimaVM | None:
        try:
            found = await self._client.get(resource_of(LimaVM), name, namespace=namespace)
        except errors.NotFound:
            return None
        return LimaVM.of(found)


def _driver_of(vm: LimaVM) -> str:
    """The driver that was asked for; empty if it is to be chosen."""
    return str((vm.raw["metadata"].get("annotations") or {}).get(names.DRIVER, ""))


async def _now(work: Callable[..., Any], *args: Any) -> Any:
    return work(*args)


def _has_label(config_map: Object) -> bool:
    return (config_map["metadata"].get("labels") or {}).get(names.TEMPLATE_LABEL) == "true"


def _is_owned_by(finalizer: str) -> bool:
    return finalizer.startswith(owned_by(""))
