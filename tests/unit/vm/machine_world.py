# SPDX-License-Identifier: Apache-2.0
"""Machines with a fake agent (tests/data/vm) and a fake driver provider.

Everything else is real: files, processes, signals, the event stream.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rdd.fetch.network import Network
from rdd.host.processes import Identity, is_alive
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import Availability
from rdd.vm.instance_dir import InstanceDirectory, LimaHome
from rdd.vm.machines import Machines, Observation, Phase, Timeouts
from rdd.vm.template import HostFacts, Template

AGENT = Path(__file__).parents[2] / "data" / "vm" / "fake_agent.py"
FACTS = HostFacts(
    arch="x86_64", cpus=2, memory_bytes=8 << 30, user="jo", uid=1000, home=Path("/home/jo")
)
TIMEOUT_S = 120.0  # operations take milliseconds, but the host may be busy


class FakeProvider:
    """Records calls; `prepare_with` delays or breaks the preparation."""

    def __init__(self) -> None:
        self.usable = True
        self.calls: list[str] = []
        self.prepare_with: Callable[[InstanceDirectory], Any] | None = None

    def availability(
        self, environment: Mapping[str, str], template: Template | None = None
    ) -> Availability:
        return Availability("host", self.usable, "no kernel", "buy one")

    async def prepare(
        self,
        directory: InstanceDirectory,
        template: Template,
        *,
        environment: Mapping[str, str],
        progress: Callable[[str], None],
        network: Network,
    ) -> None:
        self.calls.append(f"prepare {directory.name}")
        progress("half of it")
        (directory.path / "disk").write_text("disk")
        if self.prepare_with is not None:
            await self.prepare_with(directory)

    async def cleanup(self, directory: InstanceDirectory) -> None:
        self.calls.append(f"cleanup {directory.name}")


class World:
    """Machines in a directory, and their reported changes."""

    def __init__(self, path: Path, provider: FakeProvider) -> None:
        self.home = LimaHome(path / "lima")
        self.provider = provider
        self.environment = {"PATH": os.environ["PATH"]}
        self.news: asyncio.Queue[str] = asyncio.Queue()
        self.progress: list[str] = []
        self.machines = self.new_daemon()

    def new_daemon(self, **timeouts: float) -> Machines:
        """Return a new daemon without any state."""
        return Machines(
            self.home,
            agent_command=(sys.executable, "-S", "-E", str(AGENT)),
            changed=self.news.put_nowait,
            environment=self.environment,
            facts=FACTS,
            timeouts=Timeouts(**{"force_s": 5.0, **timeouts}),
        )

    def directory(self, name: str = "vm") -> InstanceDirectory:
        return self.home.directory(name)

    async def create(self, name: str = "vm", /, **behaviour: Any) -> InstanceDirectory:
        await self.machines.create(name, "vmType: host\n", progress=self.progress.append)
        self.behave(name, **behaviour)
        return self.directory(name)

    def behave(self, name: str = "vm", /, **behaviour: Any) -> None:
        (self.directory(name).path / "behaviour.json").write_text(json.dumps(behaviour))

    async def until(
        self, condition: Callable[[Observation], object], name: str = "vm"
    ) -> Observation:
        """Wait until the observation of a machine fulfils a condition."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition(seen := self.machines.phase(name)):
                await self.news.get()
        return seen

    async def until_phase(self, phase: Phase, name: str = "vm") -> Observation:
        return await self.until(lambda seen: seen.phase is phase, name)

    def processes(self) -> list[Identity]:
        """Return every live agent and driver."""
        found = []
        for name in self.home.names():
            directory = self.directory(name)
            found += [directory.agent(), directory.driver_process()]
        return [process for process in found if process is not None and is_alive(process)]


@asynccontextmanager
async def a_world(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Yield a world and end its processes afterwards."""
    provider = FakeProvider()
    monkeypatch.setattr(catalog, "provider", lambda name: provider)
    world = World(path, provider)
    try:
        yield world
    finally:
        await world.machines.close()
        for process in world.processes():
            os.kill(process.pid, signal.SIGKILL)
