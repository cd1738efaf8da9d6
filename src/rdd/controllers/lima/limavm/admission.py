# SPDX-License-Identifier: Apache-2.0
"""Admission of LimaVMs and their templates.

    limavm-defaulter             CREATE: finalizer, template in an annotation; rejects a LimaVM
                                 that cannot become a virtual machine
    limavm-validator             CREATE: reserves the name; UPDATE: params; DELETE: owned by an App
    limavm-configmap-validator   ConfigMaps with the label: the template, the label, the owner

Admission writes no objects, so a rejected or failed creation leaves nothing behind. The
DELETE handler records the grace period of the client, because the server, like Kubernetes,
does not store the grace period of custom resources.
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
from rdd.controllers.lima.limavm.uniqueness import NameReservations, name_in_use, namespace_of
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
"""The length of a template that is validated in a few ms; longer ones use a thread."""

CONFIG_MAP_WEBHOOK = f"limavm-configmap-validator.{names.LIMA_GROUP}"


class LimaVMAdmission:
    """The admission rules; `environment` and the template determine the driver."""

    def __init__(
        self,
        context: Context,
        reservations: NameReservations,
        grace_periods: dict[str, float],
        *,
        home: LimaHome,
        environment: Mapping[str, str],
    ) -> None:
        self._client = context.client
        self._copies = templates.TemplateCopies(context.client)
        self._reservations = reservations
        self._grace_periods = grace_periods
        self._home = home
        self._environment = environment

    def webhooks(self) -> Sequence[Webhook]:
        return (
            # Published with this value since the time when it created the copy.
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
        """Add the finalizer and the template."""
        vm = request.object
        raw = dict(vm.raw)
        metadata = raw["metadata"] = dict(raw["metadata"])
        namespace, name = request.key
        if not vm.spec.template_ref.name:
            if "name" in ((vm.raw.get("spec") or {}).get("templateRef") or {}):
                raise Denied("spec.templateRef.name must not be empty")
            return vm  # schema validation reports it
        if name:
            await self._check_name(namespace, name)
        driver = _driver_of(vm)
        if driver and driver not in catalog.DRIVERS:
            known = ", ".join(sorted(catalog.DRIVERS))
            raise Denied(f'{names.DRIVER} "{driver}" is not a driver; supported are {known}')
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
        """Reject a name in use, invalid params, and the deletion of an owned LimaVM."""
        if request.operation == DELETE:
            await refuse_deletion_of_owned(request)
            grace = request.options.get("gracePeriodSeconds")
            if isinstance(grace, int) and not request.is_dry_run:
                self._grace_periods[request.object.raw["metadata"]["uid"]] = grace
        elif request.operation == CREATE:
            if request.is_dry_run:
                namespace = await namespace_of(self._client, request.key.name)
            else:
                namespace = await self._reservations.reserve(self._client, request.key)
            if namespace is not None:
                raise Denied(name_in_use(request.key.name, namespace))
        else:
            await self._check_new_params(request)

    async def _check_name(self, namespace: str, name: str) -> None:
        try:
            check_name(name)
        except ValueError as error:
            raise Denied(str(error)) from None
        used_in = await namespace_of(self._client, name)
        if used_in is not None:
            raise Denied(name_in_use(name, used_in))
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
        """Reject an invalid template; the name of a new LimaVM is empty."""
        run = _now if len(text) <= _QUICK else asyncio.to_thread
        try:
            chosen = await self._driver(await run(parse, text), name, driver)
        except (TemplateError, HostError):
            chosen = ""  # reported by validation, or when the instance is created
        has_image = selection.has_own_image(self._environment)
        check = functools.partial(
            templates.refuse_unless_valid, text, params, driver=chosen, has_image=has_image
        )
        await run(check)

    async def _driver(self, template: Template, name: str, driver: str) -> str:
        """Return the driver that runs, or would run, an instance. Raises HostError."""
        if name and (recorded := self._home.directory(name).driver):
            return recorded
        request = selection.request_of(template, self._environment, driver=driver)
        possible = selection.candidates(request, self._environment)
        if len(possible) == 1:
            return possible[0]
        # Only a real choice depends on the availability of drivers, which runs programs.
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
        """Reject an invalid template, and its removal from its LimaVM."""
        if request.operation == DELETE:
            await refuse_deletion_of_owned(request)
            return
        new: Object = request.object.raw
        old: Object | None = request.old.raw if request.old is not None else None
        if old is not None:
            if new["metadata"].get("deletionTimestamp"):
                return  # an object that is being deleted may be invalid
            if not _has_label(new):
                if any(map(_is_owned_by, finalizers_of(old))):
                    raise Denied(f"cannot remove {names.TEMPLATE_LABEL} label: resource is owned")
                return
        text = templates.text_of(new)
        if old is not None and _has_label(old) and templates.has_text(old, text):
            return  # validated before
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
    """Return the requested driver; empty for automatic selection."""
    return str((vm.raw["metadata"].get("annotations") or {}).get(names.DRIVER, ""))


async def _now(work: Callable[..., Any], *args: Any) -> Any:
    return work(*args)


def _has_label(config_map: Object) -> bool:
    return (config_map["metadata"].get("labels") or {}).get(names.TEMPLATE_LABEL) == "true"


def _is_owned_by(finalizer: str) -> bool:
    return finalizer.startswith(owned_by(""))
