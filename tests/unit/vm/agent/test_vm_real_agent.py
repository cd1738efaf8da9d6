# SPDX-License-Identifier: Apache-2.0
"""Machines with the real host agent and the driver `host` without an engine: no fakes."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rdd.host.processes import is_alive
from rdd.vm.agent import client as agentclient
from rdd.vm.instance_dir import LimaHome
from rdd.vm.machines import InstanceStatus, Machines, Observation, Phase, StartFailed
from rdd.vm.template import HostFacts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the driver host is for Linux")

TIMEOUT_S = 120.0


class Room:
    """Machines, with methods to wait for them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = LimaHome(path / "lima")
        self.news: asyncio.Queue[str] = asyncio.Queue()
        self.machines = self.new_daemon()

    def new_daemon(self) -> Machines:
        return Machines(
            self.home,
            agent_command=(sys.executable, "-m", "rdd.vm.agent"),
            changed=self.news.put_nowait,
            environment={"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path)},
            facts=HostFacts.gather(self.path),
        )

    async def until(self, phase: Phase) -> Observation:
        async with asyncio.timeout(TIMEOUT_S):
            while (seen := self.machines.phase("vm")).phase is not phase:
                await self.news.get()
        return seen


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    with tempfile.TemporaryDirectory(prefix="rdd-vm-") as path:
        room = Room(Path(path))
        try:
            yield room
        finally:
            for name in room.home.names():
                await room.machines.delete(name, grace_s=0)
            await room.machines.close()


async def test_lifecycle_from_creation_to_deletion(room: Room) -> None:
    await room.machines.create("vm", "vmType: host\n", progress=print)
    await room.machines.start("vm")
    seen = await room.until(Phase.RUNNING)
    assert seen.ssh_local_port > 0
    assert room.machines.inspect("vm") is InstanceStatus.RUNNING
    room.machines.stop("vm", grace_s=TIMEOUT_S)
    seen = await room.until(Phase.STOPPED)
    assert not seen.crashed and not seen.reason
    assert room.machines.inspect("vm") is InstanceStatus.STOPPED
    await room.machines.delete("vm")
    assert list(room.home.path.iterdir()) == []


async def test_next_daemon_adopts_the_machine(room: Room) -> None:
    await room.machines.create("vm", "vmType: host\n", progress=print)
    await room.machines.start("vm")
    await room.until(Phase.RUNNING)
    orphan = room.home.directory("vm").agent()
    await room.machines.close()
    room.machines = room.new_daemon()
    assert await room.machines.adopt("vm") is True
    await room.until(Phase.RUNNING)
    assert orphan is not None and not is_alive(orphan)
    status, _body = await agentclient.request(room.home.directory("vm").ha_sock, "/v1/info")
    assert status == 200


async def test_machine_can_be_started_again_after_its_agent_was_killed(room: Room) -> None:
    await room.machines.create("vm", "vmType: host\n", progress=print)
    await room.machines.start("vm")
    await room.until(Phase.RUNNING)
    agent = room.home.directory("vm").agent()
    assert agent is not None
    os.kill(agent.pid, signal.SIGKILL)
    assert (await room.until(Phase.STOPPED)).crashed
    await room.machines.start("vm")
    await room.until(Phase.RUNNING)


async def test_invalid_template_is_reported_with_its_path(room: Room) -> None:
    await room.machines.create("vm", "vmType: host\n", progress=print)
    room.home.directory("vm").lima_yaml.write_text("cpus: x\n")
    with pytest.raises(
        Exception, match=r'lima\.yaml" is invalid: line 1: cpus: "x" is not a whole'
    ):
        await room.machines.start("vm")


async def test_start_fails_if_another_process_uses_the_agent_socket(room: Room) -> None:
    await room.machines.create("vm", "vmType: host\n", progress=print)
    directory = room.home.directory("vm")
    server = await asyncio.start_unix_server(lambda _r, w: w.close(), directory.ha_sock)
    try:
        await room.machines.start("vm")
        seen = await room.until(Phase.STOPPED)
        message = f"{seen.reason} {' '.join(seen.log_tail)}"
    except StartFailed as error:
        message = str(error)
    finally:
        server.close()
        await server.wait_closed()
    assert "ha.sock" in message
