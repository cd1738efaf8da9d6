# SPDX-License-Identifier: Apache-2.0
"""Real qemu machines for tests: a LIMA_HOME and the guests of `make guest-image`.

Directories have short paths because they contain sockets. The teardown ends only processes
whose identities are in the test's own directory.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.programs import TIMEOUT_S, run_program

from rdd.host.exits import ended_within
from rdd.host.processes import Identity, send_signal
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import ShellRequest
from rdd.vm.instance_dir import InstanceDirectory, LimaHome
from rdd.vm.machines import Machines, Observation, Phase
from rdd.vm.template import HostFacts

BOOT_S = 180.0
SMALL = "vmType: qemu\ncpus: 1\nmemory: 256MiB\ndisk: 1GiB\n"
DEBIAN = "vmType: qemu\ncpus: 2\nmemory: 1GiB\ndisk: 4GiB\n"


class World:
    """The machines of one test."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.home = LimaHome(home / "lima")
        self.user_home = home
        self.environment = dict(environment)
        self.progress: list[str] = []
        self._changed = asyncio.Event()
        self.machines = self.new_daemon()

    def new_daemon(self) -> Machines:
        """Return another daemon for the same machines, as after a crash."""
        self.machines = Machines(
            self.home,
            agent_command=(sys.executable, "-m", "rdd.vm.agent"),
            changed=lambda name: self._changed.set(),
            environment=self.environment,
            facts=HostFacts.gather(self.user_home),
        )
        return self.machines

    async def create(self, name: str, text: str) -> InstanceDirectory:
        """Create a machine without starting it."""
        await self.machines.create(name, text, progress=self.progress.append)
        return self.home.directory(name)

    async def until(
        self, name: str, is_met: Callable[[Observation], bool], *, timeout_s: float = BOOT_S
    ) -> Observation:
        """Wait until the observation of a machine fulfils a condition."""
        try:
            async with asyncio.timeout(timeout_s):
                while not is_met(seen := self.machines.phase(name)):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            seen = self.machines.phase(name)
            raise AssertionError(f"{seen}\n{self.logs(name)}") from None
        return seen

    async def start(self, name: str) -> Observation:
        """Start a machine and wait until it runs."""
        await self.machines.start(name)
        return await self.running(name)

    async def running(self, name: str) -> Observation:
        """Wait until a machine runs; fail at once if it ends instead."""
        seen = await self.until(name, lambda seen: seen.phase in (Phase.RUNNING, Phase.STOPPED))
        assert seen.phase is Phase.RUNNING, f"{seen}\n{self.logs(name)}"
        return seen

    async def stop(self, name: str, *, suspend: bool = False) -> Observation:
        """Stop a machine and wait until it is stopped."""
        self.machines.stop(name, suspend=suspend)
        return await self.until(name, lambda seen: seen.phase is not Phase.STOPPING)

    def logs(self, name: str) -> str:
        """Return the ends of all logs of a machine."""
        path = self.home.directory(name).path
        texts = [
            f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}"
            for log in path.glob("*.log")
        ]
        return "\n".join(texts)

    async def shell(
        self, name: str, *command: str, stdin: bytes = b"", timeout_s: float = TIMEOUT_S
    ) -> str:
        """Run a command in a guest; return its output."""
        directory = self.home.directory(name)
        template = directory.template(HostFacts.gather(self.user_home))
        request = ShellRequest(command=command, environment=self.environment)
        shell = catalog.provider("qemu").shell(directory, template, request)
        done = await asyncio.to_thread(
            run_program, shell.argv, input=stdin, env=shell.env, timeout=timeout_s
        )
        assert done.returncode == 0, (
            f"{command}: {done.returncode} {done.stderr}{done.stdout}{self.logs(name)}"
        )
        return done.stdout.strip()

    async def kill(self, process: Identity | None) -> None:
        """Kill a process and wait for its end."""
        assert process is not None
        send_signal(process, signal.SIGKILL)
        assert await ended_within(process, 10)

    async def close(self) -> None:
        """Stop all machines and clean up."""
        await self.machines.close()
        for name in self.home.names():
            directory = self.home.directory(name)
            agent = directory.agent()
            if agent is not None:
                await self.kill(agent)
            await catalog.provider("qemu").cleanup(directory)


@asynccontextmanager
async def world(guest: Path, cache: Path) -> AsyncIterator[World]:
    """Yield a world whose machines boot one of rdd's guests."""
    home = Path(tempfile.mkdtemp(prefix=f"rq{os.getpid()}-", dir="/tmp"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "RDD_GUEST_IMAGE": str(guest),
        "RDD_CACHE_DIR": str(cache),
        "RDD_VM_TYPE": "qemu",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    made = World(home, environment)
    try:
        yield made
    finally:
        await made.close()
        shutil.rmtree(home, ignore_errors=True)


async def eventually(check: Callable[[], bool], *, timeout_s: float = 120.0) -> None:
    """Poll until a condition is fulfilled."""
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.05)
