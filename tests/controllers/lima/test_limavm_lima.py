# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of LimaVMs of the driver lima: real server, real controller, real machines.

Only limactl is a fake (tests/data/limactl), with real processes and files.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.controllers.controller_world import controller_environment, gone, managed
from tests.controllers.lima.limavm_world import LIMAVMS, FakeMachines, VMWorld, reported
from tests.runtime.runtime_world import World, open_world
from tests.unit.vm.drivers.lima_world import TEMPLATE, Lima, a_lima

from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.lima.limavm import controller
from rdd.instance import Instance
from rdd.runtime import Manager
from rdd.vm.machines import Machines

WITH_PARAM = f"""\
{TEMPLATE}param:
  GREETING: hello
provision:
- mode: system
  script: "echo {{{{.Param.GREETING}}}}"
"""


class UndrainedMachines(Machines):
    """Machines of a daemon that crashes: they are not stopped."""

    async def drain(self, *, budget_s: float) -> None:
        pass


class LimaVMs(VMWorld):
    """A server, and machines that limactl runs."""

    def __init__(self, world: World, lima: Lima) -> None:
        super().__init__(world, FakeMachines(lima.home.path))
        self.lima = lima

    @asynccontextmanager
    async def daemon(self, *, dies: bool = False) -> AsyncIterator[Manager]:
        lima = self.lima
        env = replace(controller_environment(lima.folder), environment=lima.environment)
        kind = UndrainedMachines if dies else Machines

        def make(changed: Callable[[str], None]) -> Machines:
            return kind(
                lima.home,
                agent_command=("false",),
                changed=changed,
                environment=lima.environment,
                facts=lima.facts,
            )

        async with managed(self.world, controller(env, make)) as manager:
            yield manager

    async def until_started(self, count: int) -> Object:
        return await self.until(
            lambda vm: reported(vm)[1] == "Started" and vm["status"].get("restartCount") == count
        )


@pytest.fixture
async def vms(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LimaVMs]:
    home = controller_environment().home
    relative = Instance("7", home=home).lima_home.relative_to(home)
    async with a_lima(monkeypatch, lima_home=str(relative)) as lima, open_world() as world:
        yield LimaVMs(world, lima)


async def test_lifecycle_leaves_nothing(vms: LimaVMs) -> None:
    async with vms.daemon():
        await vms.source(TEMPLATE)
        await vms.create(running=True)
        vm = await vms.until_started(1)
        assert reported(vm, "Created") == ("True", "Created", "Lima instance created successfully")
        assert vms.lima.directory.driver == "lima"
        before = vms.lima.both()

        await vms.edit(f"cpus: 1\n{TEMPLATE}")
        await vms.until_started(2)
        assert vms.lima.directory.read_lima_yaml() == f"cpus: 1\n{TEMPLATE}"
        assert vms.lima.both() != before
        assert (vms.lima.directory.path / "shut-down").exists()

        await vms.run(False)
        vm = await vms.until_reason("Stopped")
        assert reported(vm) == ("False", "Stopped", "Lima instance stopped successfully")

        await vms.client.delete(LIMAVMS, "vm", namespace="default")
        await gone(vms.world, LIMAVMS, "vm")
        await gone(vms.world, CONFIG_MAPS, "vm-template")
    assert list(vms.lima.home.path.iterdir()) == []


async def test_params_reach_limactl_and_a_change_restarts(vms: LimaVMs) -> None:
    async with vms.daemon():
        await vms.source(WITH_PARAM)
        await vms.create(running=True, params={"GREETING": "good morning"})
        await vms.until_started(1)
        assert "GREETING: good morning\n" in vms.lima.directory.lima_yaml.read_text()
        await vms.patch({"spec": {"params": {"GREETING": "good night"}}})
        await vms.until_started(2)
        assert "GREETING: good night\n" in vms.lima.directory.lima_yaml.read_text()


async def test_recovers_from_crashes_of_machine_and_agent(vms: LimaVMs) -> None:
    async with vms.daemon():
        await vms.source(TEMPLATE)
        await vms.create(running=True)
        await vms.until_started(1)
        os.kill(vms.lima.both()[1].pid, signal.SIGKILL)
        await vms.until_started(2)
        agent, driver = vms.lima.both()
        os.kill(agent.pid, signal.SIGKILL)
        await vms.until_started(3)
        assert driver not in vms.lima.both()


async def test_crash_of_the_daemon_does_not_affect_the_machine(vms: LimaVMs) -> None:
    async with vms.daemon(dies=True):
        await vms.source(TEMPLATE)
        await vms.create(running=True)
        await vms.until_started(1)
    before = vms.lima.both()
    async with vms.daemon():
        await vms.until_reason("Started")
        assert vms.lima.both() == before
    assert vms.lima.directory.agent() is None  # the second daemon has stopped it


async def test_conditions_have_the_messages_of_limactl(vms: LimaVMs) -> None:
    async with vms.daemon():
        vms.lima.behave(fail={"create late": "failed to download: no route to host"})
        await vms.source(TEMPLATE)
        await vms.create(running=True)
        vm = await vms.until_reason("CreateFailed", "Created")
        message = reported(vm, "Created")[2]
        assert message.startswith("limactl create failed: ")
        assert message.endswith(" / failed to download: no route to host")

        vms.lima.behave(fail={"start": "failed to find the QEMU binary"})
        vm = await vms.until_reason("StartFailed")
        assert "the host agent ended with exit code 1" in reported(vm)[2]
        assert "failed to find the QEMU binary" in reported(vm)[2]

        (vms.lima.folder / "bin" / "limactl").rename(vms.lima.folder / "limactl")
        vm = await vms.until(lambda vm: "no longer on the PATH" in reported(vm)[2])
        assert reported(vm)[1] == "StartFailed"
        (vms.lima.folder / "limactl").rename(vms.lima.folder / "bin" / "limactl")
        vms.lima.behave()
        await vms.until_started(1)


async def test_deletion_cancels_a_download(vms: LimaVMs) -> None:
    async with vms.daemon():
        vms.lima.behave(hang=["create"])
        await vms.source(TEMPLATE)
        await vms.create()
        vm = await vms.until(lambda vm: "Attempting to download" in reported(vm, "Created")[2])
        assert reported(vm, "Created")[:2] == ("Unknown", "Pending")
        await vms.client.delete(LIMAVMS, "vm", namespace="default")
        await gone(vms.world, LIMAVMS, "vm")
    assert list(vms.lima.home.path.iterdir()) == []


async def test_degraded_condition_has_the_errors_of_lima(vms: LimaVMs) -> None:
    async with vms.daemon():
        vms.lima.behave(errors=["mounts do not work"])
        await vms.source(TEMPLATE)
        await vms.create(running=True)
        vm = await vms.until(lambda vm: reported(vm, "Degraded")[0] == "True")
        assert "mounts do not work" in reported(vm, "Degraded")[2]
        assert reported(vm)[1] == "Started"
        async with asyncio.timeout(120):
            await vms.client.delete(LIMAVMS, "vm", namespace="default")
            await gone(vms.world, LIMAVMS, "vm")
