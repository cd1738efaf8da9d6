# SPDX-License-Identifier: Apache-2.0
"""Holds: a machine is stopped while another one uses its files, and continues afterwards."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.controllers.lima.limavm_world import FakeMachines, VMWorld, reported
from tests.runtime.runtime_world import open_world

from rdd.api import names
from rdd.vm.lifecycle.observation import Phase

pytestmark = pytest.mark.looptime


@pytest.fixture
async def managed(tmp_path: Path) -> AsyncIterator[VMWorld]:
    async with open_world() as world:
        vms = VMWorld(world, FakeMachines(tmp_path / "lima"))
        async with vms.managed():
            await vms.source()
            yield vms


async def test_running_machine_is_stopped_and_continues(managed: VMWorld) -> None:
    await managed.create(running=True)
    await managed.until_reason("Started")
    await managed.annotate(names.HOLD, "snapshot one")
    vm = await managed.until(lambda vm: vm["status"].get("heldBy") == "snapshot one")
    assert reported(vm) == ("False", "Held", "Stopped while it is used by snapshot one")
    assert vm["spec"]["running"] is True
    assert managed.machines.phase("vm").phase is Phase.STOPPED
    starts = len(managed.machines.called("start"))

    # Nothing else starts or replaces it meanwhile.
    await managed.annotate(names.RESTART_REQUESTED)
    await managed.annotate(names.RESET_REQUESTED)
    await managed.until(lambda vm: vm["status"].get("restartNeeded"))
    assert len(managed.machines.called("start")) == starts
    assert managed.machines.called("delete") == []

    await managed.annotate(names.RESET_REQUESTED, None)
    await managed.annotate(names.HOLD, None)
    vm = await managed.until_reason("Started")
    assert "heldBy" not in vm["status"]


async def test_stopped_machine_stays_stopped(managed: VMWorld) -> None:
    await managed.create()
    await managed.until_reason("Stopped")
    await managed.annotate(names.HOLD, "snapshot one")
    await managed.until_reason("Held")
    await managed.run(True)
    await managed.annotate(names.HOLD, "snapshot two")
    await managed.until(lambda vm: vm["status"].get("heldBy") == "snapshot two")
    assert managed.machines.called("start") == []
    await managed.run(False)
    await managed.annotate(names.HOLD, None)
    vm = await managed.until_reason("Stopped")
    assert "heldBy" not in vm["status"]


async def test_held_machine_can_be_deleted(managed: VMWorld) -> None:
    from tests.controllers.controller_world import gone
    from tests.controllers.lima.limavm_world import LIMAVMS

    await managed.create()
    await managed.until_reason("Stopped")
    await managed.annotate(names.HOLD, "snapshot one")
    await managed.until_reason("Held")
    await managed.client.delete(LIMAVMS, "vm", namespace="default")
    await gone(managed.world, LIMAVMS, "vm")
