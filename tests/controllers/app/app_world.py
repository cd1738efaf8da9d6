# SPDX-License-Identifier: Apache-2.0
"""The App controllers on a real server, with a fake LimaVM controller.

The fake creates the copy of the template, reports machines as created, started and stopped,
and restarts a machine whose template has changed. Tests control it with `FakeMachines`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from tests.controllers.controller_world import controller_environment, eventually, managed
from tests.runtime.runtime_world import World

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.app import app
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.kinds.limavm import LimaVM
from rdd.runtime import (
    CLEANUP,
    DELETE,
    Condition,
    Context,
    Controller,
    ObjectKey,
    Result,
    find_condition,
    is_deleting,
    owned_by,
    owner_reference,
    owns,
    refuse_deletion_of_owned,
    remove_finalizer,
    resource_of,
    set_condition,
    update_status,
    validating,
    watch,
)
from rdd.vm.drivers.protocol import Availability

APPS = resource_of(App)
LIMAVMS = resource_of(LimaVM)


def works(driver: str, environment: Mapping[str, str]) -> Availability:
    """Report every driver as available except Lima, which rejects root and is often missing."""
    return Availability(driver, driver != "lima", "is not installed")


class FakeMachines:
    """The behaviour of the fake controller; tests change it at any time."""

    def __init__(self) -> None:
        self.is_created = True
        self.boots = True
        self.stops = True
        self.applies = True
        self.is_gone = True
        self.running: tuple[str, str, str] | None = None
        """Status, reason and message of Running, instead of the derived ones."""
        self.starts = 0
        self.context: Context | None = None

    def changed(self) -> None:
        assert self.context is not None
        self.context.enqueue(ObjectKey("default", "rd"))

    def controller(self) -> Controller:
        return Controller(
            "limavm",
            self._reconciler,
            sources=(watch(LimaVM), owns(CONFIG_MAPS, LimaVM)),
            definitions=(definition_of(LimaVM),),
            webhooks=(
                validating(
                    "limavm-validator", LimaVM, refuse_deletion_of_owned, operations=(DELETE,)
                ),
            ),
        )

    def _reconciler(self, context: Context) -> "FakeLimaVMReconciler":
        self.context = context
        return FakeLimaVMReconciler(context, self)


class FakeLimaVMReconciler:
    """A LimaVM controller without machines."""

    def __init__(self, context: Context, machines: FakeMachines) -> None:
        self.context = context
        self.machines = machines

    async def reconcile(self, key: ObjectKey) -> Result:
        client, machines = self.context.client, self.machines
        try:
            found = await client.get(LIMAVMS, key.name, namespace=key.namespace)
        except errors.NotFound:
            return Result.done()
        if is_deleting(found):
            if machines.is_gone:
                await self._finish_deletion(found)
            return Result.done()
        if CLEANUP not in found["metadata"].get("finalizers", ()):
            finalizers = [*found["metadata"].get("finalizers", ()), CLEANUP]
            patch = {"metadata": {"finalizers": finalizers}}
            found = await client.patch(LIMAVMS, key.name, patch, namespace=key.namespace)
        copy = await self._copy(found)
        await update_status(client, LimaVM, key, lambda obj: self._status(obj, copy), known=found)
        return Result.done()

    async def _copy(self, vm: Object) -> Object:
        client, metadata = self.context.client, vm["metadata"]
        name = f"{metadata['name']}-template"
        try:
            return await client.get(CONFIG_MAPS, name, namespace=metadata["namespace"])
        except errors.NotFound:
            reference = vm["spec"]["templateRef"]
            source = await client.get(
                CONFIG_MAPS, reference["name"], namespace=reference["namespace"]
            )
            return await client.create(
                CONFIG_MAPS,
                {
                    "metadata": {
                        "name": name,
                        "namespace": metadata["namespace"],
                        "labels": {names.TEMPLATE_LABEL: "true"},
                        "finalizers": [owned_by("LimaVM")],
                        "ownerReferences": [owner_reference(vm)],
                    },
                    "data": source["data"],
                },
            )

    async def _finish_deletion(self, vm: Object) -> None:
        namespace = vm["metadata"]["namespace"]
        try:
            copy = await self._copy(vm)
            await remove_finalizer(self.context.client, CONFIG_MAPS, copy, owned_by("LimaVM"))
            await self.context.client.delete(
                CONFIG_MAPS, copy["metadata"]["name"], namespace=namespace
            )
        except errors.NotFound:
            pass
        await remove_finalizer(self.context.client, LimaVM, vm, CLEANUP)

    def _status(self, obj: Object, copy: Object) -> Object:
        machines, status = self.machines, dict(obj.get("status") or {})
        status["templateConfigMap"] = copy["metadata"]["name"]
        version = copy["metadata"]["resourceVersion"]
        conditions = status.get("conditions") or []
        now = timestamps.now_text(self.context.clock)

        def report_condition(type_: str, value: Any, reason: str, message: str) -> None:
            nonlocal conditions
            conditions = set_condition(
                conditions, Condition(type_, value, reason, message), now=now
            )

        if not machines.is_created:
            report_condition("Created", "Unknown", "Pending", "Reconciliation in progress")
            return {**status, "conditions": conditions}
        report_condition("Created", "True", "Created", "Lima instance created successfully")
        if machines.applies:
            if status.get("observedTemplateResourceVersion") not in (None, version):
                machines.starts += obj["spec"]["running"] and machines.boots
            status["observedTemplateResourceVersion"] = version
        known = find_condition(conditions, "Running") or {}
        if machines.running is not None:
            report_condition("Running", *machines.running)
        elif obj["spec"]["running"]:
            if machines.boots:
                machines.starts += known.get("status") != "True"
                report_condition("Running", "True", "Started", "Lima instance is running")
            else:
                report_condition("Running", "False", "Starting", "Lima instance is starting")
        elif machines.stops:
            report_condition("Running", "False", "Stopped", "Lima instance is stopped")
        return {**status, "conditions": conditions}


@asynccontextmanager
async def apps(
    world: World,
    machines: FakeMachines | None = None,
    *others: Controller,
    home: Path = Path("/nonexistent"),
    environment: Mapping[str, str] | None = None,
    probe: Any = works,
    env: ControllerEnvironment | None = None,
) -> AsyncIterator[FakeMachines]:
    """Run the App controller and the fake LimaVM controller."""
    machines = machines or FakeMachines()
    env = env or controller_environment(home)
    env = replace(env, environment=dict(environment or {}))
    controllers = (app(env, probe=probe), machines.controller(), *others)
    async with managed(world, *controllers):
        yield machines


def app_object(**spec: Any) -> Object:
    return {"metadata": {"name": "app"}, "spec": {"running": False, **spec}}


async def enabled(world: World, *names: str) -> None:
    """List exactly these controllers in the discovery ConfigMap."""
    try:
        await world.client.create(NAMESPACES, {"metadata": {"name": "rdd-system"}})
    except errors.AlreadyExists:
        pass
    value = orjson.dumps({"enabledControllers": list(names) or None}).decode()
    metadata = {
        "name": "rdd-controller-manager",
        "namespace": "rdd-system",
        "annotations": {"rdd.rancherdesktop.io/ready": "true"},
    }
    await world.client.apply(
        CONFIG_MAPS,
        {"metadata": metadata, "data": {"embedded": value}},
        field_manager="test",
        force=True,
    )


async def patch_app(world: World, **spec: Any) -> Object:
    return await world.client.patch(APPS, "app", {"spec": spec})


def reported(obj: Object, type_: str = "Settled") -> tuple[str, str]:
    """Return status and reason of a condition."""
    found = find_condition((obj.get("status") or {}).get("conditions"), type_) or {}
    return found.get("status", ""), found.get("reason", "")


def is_settled(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions")
    found = find_condition(conditions, "Settled") or {}
    generation = obj["metadata"]["generation"]
    return found.get("status") == "True" and found.get("observedGeneration") == generation


async def settled(world: World) -> Object:
    """Wait until the App is settled at its present generation."""
    return await eventually(world, App, "app", is_settled)


async def until_reported(world: World, status: str, reason: str, type_: str = "Settled") -> Object:
    return await eventually(world, App, "app", lambda obj: reported(obj, type_) == (status, reason))


async def report(world: World, type_: str, status: Any, reason: str, **members: Any) -> None:
    """Write a condition like the engine or the kubernetes controller."""

    def change(obj: Object) -> Object:
        known = dict(obj.get("status") or {})
        generation = members.get("generation", obj["metadata"]["generation"])
        known["conditions"] = set_condition(
            known.get("conditions"),
            Condition(type_, status, reason, members.get("message", ""), generation),
            now="2026-11-15T00:00:00Z",
        )
        return known

    await update_status(world.client, App, ObjectKey("", "app"), change)
