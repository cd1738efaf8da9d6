# SPDX-License-Identifier: Apache-2.0
"""Objects of a machine that does not report: every kind with conditions gets MachineUnreachable."""

import asyncio
from typing import Any

import pytest
from tests.runtime.runtime_world import World, open_world
from tests.unit.kinds.samples import SAMPLES

from rdd.api import errors, names
from rdd.api.conditions import conditions_of
from rdd.api.types import Object
from rdd.client.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NAMESPACES
from rdd.daemon.managers.discovery import NAMESPACE
from rdd.daemon.managers.machines import CONDITION, UNREACHABLE, MachineMonitor
from rdd.kinds import catalog
from rdd.kinds.container import Container
from rdd.kinds.crd import definition_of
from rdd.runtime import resource_of

pytestmark = pytest.mark.looptime

HOLDER = "embedded-b"
BOUND = [
    kind
    for kind in catalog.ALL
    if resource_of(kind).group in names.MACHINE_GROUPS
    or (resource_of(kind).group, resource_of(kind).plural) in names.MACHINE_RESOURCES
]


def lease(name: str, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": names.SYSTEM_NAMESPACE}
    return {"metadata": metadata, "spec": {"leaseDurationSeconds": 4, **spec}}


async def create_object(
    world: World, kind: Any, name: str = "", *, has_status: bool = True
) -> Object:
    sample, resource = SAMPLES[kind].raw, resource_of(kind)
    metadata = {**sample["metadata"], "labels": {names.MACHINE_LABEL: "beta"}}
    metadata["name"] = name or metadata["name"]
    if resource.namespaced:
        metadata["namespace"] = "default"
    while True:
        try:
            created = await world.client.create(resource, {**sample, "metadata": metadata})
            break
        except errors.NotFound:  # the CRD is not established yet
            await asyncio.sleep(0.1)
    if not has_status or "status" not in sample:
        return created
    return await world.client.patch(
        resource,
        metadata["name"],
        {"status": sample["status"]},
        namespace=metadata.get("namespace", ""),
        subresource="status",
    )


async def condition_of(world: World, kind: Any, obj: Object) -> tuple[Any, ...]:
    metadata = obj["metadata"]
    found = await world.client.get(
        resource_of(kind), metadata["name"], namespace=metadata.get("namespace", "")
    )
    for condition in conditions_of(found):
        if condition["type"] == CONDITION:
            return condition["status"], condition["reason"]
    return ()


async def until(world: World, objects: dict[Any, Object], expected: tuple[Any, ...]) -> None:
    async with asyncio.timeout(600):
        for kind, obj in objects.items():
            while await condition_of(world, kind, obj) != expected:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_every_kind_of_a_machine_reports_that_it_is_unreachable() -> None:
    async with open_world() as world:
        for kind in BOUND:
            await world.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition_of(kind))
        await world.client.create(NAMESPACES, NAMESPACE)
        objects = {kind: await create_object(world, kind) for kind in BOUND}
        await create_object(world, Container, "new", has_status=False)
        with_conditions = {kind: obj for kind, obj in objects.items() if _may_have_conditions(kind)}
        await world.client.create(
            LEASES,
            lease(f"{names.CONTROLLER_LEASE_PREFIX}limavm.beta", holderIdentity=HOLDER),
        )
        monitor = MachineMonitor(world.client)
        await monitor.start()
        try:
            await until(world, with_conditions, ("False", UNREACHABLE))
            heartbeat = f"{names.MANAGER_LEASE_PREFIX}{HOLDER}"
            await world.client.create(LEASES, lease(heartbeat))
            await until(world, with_conditions, ())
        finally:
            await monitor.stop()
        assert len(with_conditions) > 10


def _may_have_conditions(kind: Any) -> bool:
    return "conditions" in (SAMPLES[kind].raw.get("status") or {})
