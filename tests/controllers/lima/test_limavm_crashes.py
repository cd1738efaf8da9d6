# SPDX-License-Identifier: Apache-2.0
"""The daemon crashes between any two writes of the controller; the next one completes the work.

The test cuts the controller's connection after its n-th write, for every n until a whole
lifecycle needs fewer writes. Then a new manager continues from the present state.
"""

import asyncio
from pathlib import Path

import pytest
from tests.controllers.controller_world import controller_environment, gone
from tests.controllers.lima.limavm_world import LIMAVMS, FakeMachines, VMWorld, limavm, reported
from tests.runtime.runtime_world import Process, World, loop_clock, open_world, until

from rdd.api import names
from rdd.client import Call, Client, Reply
from rdd.client.errors import Unreachable
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.lima.limavm import controller
from rdd.runtime import InProcessHost, Manager, ManagerOptions
from rdd.vm.instance_dir import InstanceStatus
from rdd.vm.lifecycle.observation import Observation

pytestmark = pytest.mark.looptime

TIMEOUT_S = 3.0  # of the virtual clock


class LimitedProcess(Process):
    """A connection that is cut after a number of writes."""

    def __init__(self, world: World, writes: int) -> None:
        super().__init__(world.handle)
        self.left = writes

    async def request(self, call: Call) -> Reply:
        is_ours = "limavms" in call.path or "configmaps" in call.path
        if call.method != "GET" and is_ours:
            if self.left == 0:
                self.is_cut_off = True
            self.left -= 1
        return await super().request(call)


def limited_manager(vms: VMWorld, writes: int) -> tuple[Manager, LimitedProcess]:
    connection = LimitedProcess(vms.world, writes)
    manager = Manager(
        "limited",
        Client(connection),
        [controller(controller_environment(vms.machines.home.path.parent), vms.machines)],
        host=InProcessHost(vms.world.server.endpoints),
        options=ManagerOptions(clock=loop_clock, drain_s=0.5),
    )
    return manager, connection


async def act_as_user(vms: VMWorld, annotation: str) -> None:
    await vms.client.create(LIMAVMS, limavm("vm", running=True))
    if annotation:
        await vms.until_reason("Started")
        await vms.annotate(annotation)


@pytest.mark.parametrize("annotation", ["", names.RESTART_REQUESTED, names.RESET_REQUESTED])
async def test_lifecycle_interrupted_anywhere_is_completed(tmp_path: Path, annotation: str) -> None:
    writes = 0
    while True:
        home = tmp_path / f"{annotation.rpartition('/')[2]}{writes}"
        async with open_world() as world:
            vms = VMWorld(world, FakeMachines(home / "lima"))
            await vms.source()
            is_cut_off = await _interrupted(vms, writes, annotation)
            # As after a crash: machines keep running, the in-memory state is lost.
            assert not [name for name in vms.machines.alive if name != "vm"]
            async with vms.managed():
                if not (await world.client.list(LIMAVMS)).items:
                    await vms.create(running=True)  # the creation itself failed
                vm = await vms.until(lambda vm: reported(vm)[1] == "Started")
                assert reported(vm, "Created")[1] == "Created"
                if annotation:
                    await vms.until(
                        lambda vm: annotation not in (vm["metadata"].get("annotations") or {})
                    )
                    await vms.until(lambda vm: "restartNeeded" not in vm["status"])
                    await vms.until_reason("Started")
                await vms.client.delete(LIMAVMS, "vm", namespace="default")
                await gone(world, LIMAVMS, "vm")
                await gone(world, CONFIG_MAPS, "vm-template")
            assert not vms.machines.home.directory("vm").exists()
        if not is_cut_off:
            break
        writes += 1
    assert writes > 5


async def _interrupted(vms: VMWorld, writes: int, annotation: str) -> bool:
    manager, connection = limited_manager(vms, writes)
    await manager.start()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await act_as_user(vms, annotation)
            await until(lambda: connection.is_cut_off)
    except (TimeoutError, Unreachable):
        pass
    running = dict(vms.machines.alive)
    await manager.stop()
    vms.machines.alive.update(running)  # a crash does not drain
    vms.machines.seen = {name: Observation() for name in vms.machines.seen}
    if (
        running.get("vm") is InstanceStatus.RUNNING
        and not vms.machines.home.directory("vm").exists()
    ):
        vms.machines.alive.pop("vm")
    return connection.is_cut_off


@pytest.mark.parametrize("writes", range(6))
async def test_deletion_interrupted_anywhere_is_completed(tmp_path: Path, writes: int) -> None:
    async with open_world() as world:
        vms = VMWorld(world, FakeMachines(tmp_path / "lima"))
        async with vms.managed():
            await vms.source()
            await vms.create(running=True)
            await vms.until_reason("Started")
        vms.machines.alive["vm"] = InstanceStatus.RUNNING
        manager, connection = limited_manager(vms, writes)
        await manager.start()
        await vms.client.delete(LIMAVMS, "vm", namespace="default")
        try:
            await until(lambda: connection.is_cut_off, timeout_s=TIMEOUT_S)
        except TimeoutError:
            pass
        await manager.stop()
        async with vms.managed():
            await gone(world, LIMAVMS, "vm")
            await gone(world, CONFIG_MAPS, "vm-template")
        assert not vms.machines.home.directory("vm").exists()
