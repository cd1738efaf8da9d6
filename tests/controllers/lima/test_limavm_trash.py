# SPDX-License-Identifier: Apache-2.0
"""Resets and deletions with the trash: what is kept, and how it returns."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.controllers.controller_world import gone
from tests.controllers.lima.limavm_world import LIMAVMS, FakeMachines, VMWorld, limavm, reported
from tests.runtime.runtime_world import open_world

from rdd.api import names
from rdd.client.resources import NAMESPACES
from rdd.host.errors import HostError
from rdd.runtime import owner_reference


@pytest.fixture
async def managed(tmp_path: Path) -> AsyncIterator[VMWorld]:
    async with open_world() as world:
        vms = VMWorld(world, FakeMachines(tmp_path / "lima"))
        async with vms.managed():
            yield vms


@pytest.mark.parametrize("skips", [False, True])
async def test_reset_uses_the_trash_unless_it_is_skipped(managed: VMWorld, skips: bool) -> None:
    await managed.source()
    await managed.create()
    await managed.until_reason("Stopped")
    annotations = {names.RESET_REQUESTED: "now", **({names.SKIP_TRASH: "true"} if skips else {})}
    await managed.patch({"metadata": {"annotations": annotations}})
    await managed.until(lambda vm: len(managed.machines.called("create")) == 2)
    vm = await managed.until(lambda vm: reported(vm, "Created")[1] == "Created")
    assert managed.machines.trashed == {"vm": not skips}
    assert not {names.RESET_REQUESTED, names.SKIP_TRASH} & set(
        vm["metadata"].get("annotations") or ()
    )


@pytest.mark.parametrize("skips", [False, True])
async def test_deletion_uses_the_trash_unless_it_is_skipped(managed: VMWorld, skips: bool) -> None:
    await managed.source()
    await managed.create()
    await managed.until_reason("Stopped")
    if skips:
        await managed.annotate(names.SKIP_TRASH, "true")
    await managed.client.delete(LIMAVMS, "vm", namespace="default")
    await gone(managed.world, LIMAVMS, "vm")
    assert managed.machines.trashed == {"vm": not skips}


async def test_trash_gets_the_namespace_the_params_and_the_owner(managed: VMWorld) -> None:
    await managed.source(
        "vmType: host\nparam: {COLOR: red}\nprovision: [{script: echo $PARAM_COLOR}]\n"
    )
    namespace = await managed.client.get(NAMESPACES, "default")
    wanted = limavm("vm", "default", running=False)
    wanted["metadata"]["ownerReferences"] = [owner_reference(namespace)]
    wanted["spec"]["params"] = {"COLOR": "blue"}
    await managed.client.create(LIMAVMS, wanted)
    await managed.until_reason("Stopped")
    await managed.client.delete(LIMAVMS, "vm", namespace="default")
    await gone(managed.world, LIMAVMS, "vm")
    assert managed.machines.trash_details["vm"] == {
        "namespace": "default",
        "params": '{"COLOR": "blue"}',
        "owner": namespace["metadata"]["uid"],
    }


async def test_new_machine_is_restored_instead_of_created(managed: VMWorld) -> None:
    await managed.source()
    wanted = limavm("vm", "default", running=False)
    wanted["metadata"]["annotations"] = {names.RESTORE_FROM: "2-vm-1"}
    await managed.client.create(LIMAVMS, wanted)
    vm = await managed.until(
        lambda vm: names.RESTORE_FROM not in (vm["metadata"].get("annotations") or {})
    )
    assert managed.machines.called("restore") == [("restore", "vm", "2-vm-1")]
    assert managed.machines.called("create") == []
    assert reported(vm, "Created")[1] == "Created"


async def test_failed_restoration_is_reported_and_withdrawn_by_the_user(managed: VMWorld) -> None:
    await managed.source()
    managed.machines.errors["restore"] = [HostError("the trash is empty")] * 100
    wanted = limavm("vm", "default", running=False)
    wanted["metadata"]["annotations"] = {names.RESTORE_FROM: "2-vm-1"}
    await managed.client.create(LIMAVMS, wanted)
    vm = await managed.until(lambda vm: reported(vm, "Created")[1] == "CreateFailed")
    assert reported(vm, "Created")[2] == "the trash is empty"
    await managed.annotate(names.RESTORE_FROM, None)
    await managed.until(lambda vm: reported(vm, "Created")[1] == "Created")
    assert managed.machines.called("create") == [("create", "vm")]
