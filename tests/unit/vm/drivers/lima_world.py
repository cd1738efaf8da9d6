# SPDX-License-Identifier: Apache-2.0
"""Machines of a fake limactl (tests/data/limactl) with real processes and files."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.programs import CompletedProcess, run_program

from rdd.host.processes import Identity
from rdd.vm.drivers.lima import availability
from rdd.vm.instance_dir import InstanceDirectory, LimaHome
from rdd.vm.machines import Machines, Observation, Phase, Timeouts
from rdd.vm.template import HostFacts

FAKE_LIMACTL = Path(__file__).parents[3] / "data" / "limactl"
TEMPLATE = "vmType: qemu\nimages:\n- location: https://example.com/disk.qcow2\n"
TIMEOUT_S = 120.0  # operations take milliseconds, but the host may be busy


def install(folder: Path, *, emulator: bool = True) -> Path:
    """Install the fake in a new directory for PATH."""
    binaries = folder / "bin"
    binaries.mkdir()
    program(binaries / "limactl", f'exec {sys.executable} -S -E {FAKE_LIMACTL} "$@"')
    if emulator:
        program(binaries / f"qemu-system-{os.uname().machine}", "exit 1")
    return binaries


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


class Lima:
    """The machines of one LIMA_HOME."""

    def __init__(self, folder: Path, lima_home: Path) -> None:
        self.folder = folder
        binaries = install(folder)
        self.environment = {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "HOME": str(folder),
            "FAKE_BEHAVIOUR": str(folder / "behaviour.json"),
        }
        self.behave()
        self.home = LimaHome(lima_home)
        self.facts = HostFacts.gather(folder)
        self.progress: list[str] = []
        self.has_progress = asyncio.Event()
        self._changed = asyncio.Event()
        self.machines = self.new_daemon()

    def behave(self, **behaviour: Any) -> None:
        """Configure the fake."""
        text = json.dumps({"as_root": True, **behaviour})
        Path(self.environment["FAKE_BEHAVIOUR"]).write_text(text)

    def go(self) -> None:
        """Release the fake from `hang` and `wait`."""
        (self.folder / "go").touch()

    def new_daemon(self) -> Machines:
        """Return a new daemon without any state."""
        self.machines = Machines(
            self.home,
            agent_command=(sys.executable, "-c", "raise SystemExit('not our agent')"),
            changed=lambda name: self._changed.set(),
            environment=self.environment,
            facts=self.facts,
            timeouts=Timeouts(force_s=5.0),
        )
        return self.machines

    @property
    def directory(self) -> InstanceDirectory:
        return self.home.directory("vm")

    async def create(self, text: str = TEMPLATE) -> InstanceDirectory:
        def progress(line: str) -> None:
            self.progress.append(line)
            self.has_progress.set()

        await self.machines.create("vm", text, progress=progress)
        return self.directory

    async def until(self, is_met: Callable[[Observation], object]) -> Observation:
        async with asyncio.timeout(TIMEOUT_S):
            while not is_met(seen := self.machines.phase("vm")):
                self._changed.clear()
                await self._changed.wait()
        return seen

    async def until_phase(self, phase: Phase) -> Observation:
        return await self.until(lambda seen: seen.phase is phase)

    async def start(self) -> None:
        await self.machines.start("vm")
        await self.until_phase(Phase.RUNNING)

    def both(self) -> tuple[Identity, Identity]:
        """Return agent and driver, both alive."""
        agent, driver = self.directory.agent(), self.directory.driver_process()
        assert agent is not None and driver is not None
        return agent, driver

    def limactl(self, *arguments: str) -> CompletedProcess[str]:
        """Run limactl as a user would."""
        return run_program(
            [f"{self.folder}/bin/limactl", *arguments],
            env={**self.environment, "LIMA_HOME": str(self.home.path)},
        )


@asynccontextmanager
async def a_lima(
    monkeypatch: pytest.MonkeyPatch, *, lima_home: str = "lima"
) -> AsyncIterator[Lima]:
    """Yield a Lima with a short path, and end its processes afterwards."""
    monkeypatch.setattr(availability, "is_root", lambda: False)
    with tempfile.TemporaryDirectory(prefix="rl", dir="/tmp") as folder:
        lima = Lima(Path(folder), Path(folder) / lima_home)
        monkeypatch.setenv("PATH", lima.environment["PATH"])
        monkeypatch.setenv("FAKE_BEHAVIOUR", lima.environment["FAKE_BEHAVIOUR"])
        try:
            yield lima
        finally:
            lima.go()
            await lima.machines.close()
            for name in lima.home.names():
                directory = lima.home.directory(name)
                for process in {directory.agent(), directory.driver_process()} - {None}:
                    assert process is not None
                    os.kill(process.pid, signal.SIGKILL)
