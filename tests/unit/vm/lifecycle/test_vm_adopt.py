# SPDX-License-Identifier: Apache-2.0
"""Adoption: drivers are kept, agents are replaced."""

import os
import signal
import socket

import pytest
from tests.unit.vm.machine_world import World

from rdd.host.exits import ended_within
from rdd.host.processes import Identity, is_alive
from rdd.vm.agent import client as agentclient
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.machines import Busy, InstanceStatus, Phase


async def orphan(world: World, **behaviour: bool) -> tuple[Identity, Identity]:
    """Return agent and driver of a machine whose daemon has crashed."""
    directory = await world.create(**behaviour)
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    found = both(directory)
    await world.machines.close()
    world.machines = world.new_daemon(response_s=1.0, detach_s=2.0, grace_s=2.0)
    return found


def both(directory: InstanceDirectory) -> tuple[Identity, Identity]:
    agent, driver = directory.agent(), directory.driver_process()
    assert agent is not None and driver is not None
    return agent, driver


async def test_orphaned_agent_is_replaced_and_its_driver_kept(world: World) -> None:
    agent, driver = await orphan(world)
    assert world.machines.phase("vm").phase is Phase.UNKNOWN
    assert await world.machines.adopt("vm") is True
    await world.until_phase(Phase.RUNNING)
    new_agent, kept = both(world.directory())
    assert kept == driver
    assert new_agent != agent and not is_alive(agent)


async def test_rejects_start_of_a_machine_with_an_orphaned_agent(world: World) -> None:
    await orphan(world)
    with pytest.raises(Busy, match="it must be adopted"):
        await world.machines.start("vm")


async def test_unresponsive_agent_is_killed_and_its_driver_kept(world: World) -> None:
    agent, driver = await orphan(world, mute=True)
    assert await world.machines.adopt("vm") is True
    world.behave()
    assert both(world.directory())[1] == driver
    assert not is_alive(agent)


async def test_frozen_agent_is_killed_and_its_driver_kept(world: World) -> None:
    agent, driver = await orphan(world)
    os.kill(agent.pid, signal.SIGSTOP)
    assert await world.machines.adopt("vm") is True
    await world.until_phase(Phase.RUNNING)
    assert both(world.directory())[1] == driver


async def test_agent_that_cannot_detach_is_stopped_with_its_driver(world: World) -> None:
    agent, driver = await orphan(world, keep=True)
    assert await world.machines.adopt("vm") is True
    await world.until_phase(Phase.RUNNING)
    assert not is_alive(agent) and await ended_within(driver, 10)
    assert both(world.directory())[1] != driver


async def test_orphaned_driver_gets_a_new_agent(world: World) -> None:
    agent, driver = await orphan(world)
    os.kill(agent.pid, signal.SIGKILL)
    assert await ended_within(agent, 10)
    assert world.machines.inspect("vm") is InstanceStatus.BROKEN
    assert await world.machines.adopt("vm") is True
    await world.until_phase(Phase.RUNNING)
    assert both(world.directory())[1] == driver


async def test_monitored_agent_that_dies_is_replaced(world: World) -> None:
    directory = await world.create()
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    agent, driver = both(directory)
    os.kill(agent.pid, signal.SIGKILL)
    await world.until_phase(Phase.STOPPED)
    assert await world.machines.adopt("vm") is True
    await world.until_phase(Phase.RUNNING)
    assert both(directory)[1] == driver


async def test_adoption_of_a_stopped_machine_returns_false(world: World) -> None:
    await world.create()
    assert await world.machines.adopt("vm") is False
    assert await world.machines.adopt("never-created") is False


async def test_adoption_of_a_monitored_machine_is_idempotent(world: World) -> None:
    directory = await world.create()
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    before = both(directory)
    assert await world.machines.adopt("vm") is True
    assert both(directory) == before


async def test_stale_socket_is_no_answer(world: World) -> None:
    world.home.path.mkdir()
    path = world.home.path / "s"
    with pytest.raises(agentclient.NoAnswer, match="did not answer"):
        await agentclient.request(path, "/v1/info")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with pytest.raises(agentclient.NoAnswer, match="did not answer"):
        await agentclient.request(path, "/v1/info")


async def test_drain_stops_orphans_too(world: World) -> None:
    await orphan(world)
    await world.machines.drain(budget_s=20)
    assert world.processes() == []
    assert (world.directory().path / "stopped-gracefully").exists()
