# SPDX-License-Identifier: Apache-2.0
"""The driver that leaves the work to limactl, against a stand-in with real processes and files."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rdd.host.errors import HostError
from rdd.vm.drivers import catalog
from rdd.vm.instances import InstanceDirectory, LimaHome, Status
from rdd.vm.machines import Machines, Observation, Phase
from rdd.vm.template import HostFacts

STANDIN = Path(__file__).parents[2] / "data" / "limactl"
TEMPLATE = "vmType: qemu\nimages:\n- location: https://example.com/disk.qcow2\n"


class Lima:
    """Machines that limactl runs."""

    def __init__(self, home: Path) -> None:
        self.environment = {
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "HOME": str(home),
            "RDD_VM_TYPE": "lima",
        }
        self.home = LimaHome(home / "lima")
        self.progress: list[str] = []
        self._changed = asyncio.Event()
        self.progress_made = asyncio.Event()
        self.machines = self.new_daemon()

    def new_daemon(self) -> Machines:
        self.machines = Machines(
            self.home,
            agent_command=(sys.executable, "-c", "raise SystemExit('not our agent')"),
            changed=lambda name: self._changed.set(),
            environment=self.environment,
            facts=HostFacts.gather(Path(self.environment["HOME"])),
        )
        return self.machines

    async def create(self, text: str = TEMPLATE) -> InstanceDirectory:
        def progress(line: str) -> None:
            self.progress.append(line)
            self.progress_made.set()

        await self.machines.create("vm", text, progress=progress)
        return self.home.directory("vm")

    async def until(self, is_met: Callable[[Observation], bool]) -> Observation:
        async with asyncio.timeout(20):
            while not is_met(seen := self.machines.phase("vm")):
                self._changed.clear()
                await self._changed.wait()
        return seen

    async def start(self) -> None:
        await self.machines.start("vm")
        await self.until(lambda seen: seen.phase is Phase.RUNNING)


@pytest.fixture
async def lima(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lima]:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with tempfile.TemporaryDirectory(prefix="rl", dir="/tmp") as folder:
        home = Path(folder)
        (home / "bin").mkdir()
        (home / "bin" / "limactl").symlink_to(STANDIN)
        monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
        made = Lima(home)
        yield made
        made.machines.stop("vm", grace_s=0)
        await made.until(lambda seen: seen.phase is Phase.STOPPED)
        await made.machines.close()


def test_root_cannot_use_limactl(lima: Lima, monkeypatch: pytest.MonkeyPatch) -> None:
    assert catalog.package("lima").availability(lima.environment).usable
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    answer = catalog.package("lima").availability(lima.environment)
    assert (answer.usable, answer.reason) == (False, "limactl refuses to run as root")


def test_missing_limactl_is_told_with_the_way_to_get_it() -> None:
    answer = catalog.package("lima").availability({"PATH": "/nowhere"})
    assert (answer.usable, answer.reason) == (False, "limactl is not installed")
    assert "lima-vm.io" in answer.fix


async def test_machine_is_made_run_and_stopped_by_limactl(lima: Lima) -> None:
    directory = await lima.create()
    assert directory.driver == "lima"
    assert directory.status() is Status.STOPPED
    assert lima.progress[0] == "Attempting to download the image"
    await lima.start()
    assert directory.status() is Status.RUNNING
    assert lima.machines.phase("vm").ssh_local_port == 60022
    lima.machines.stop("vm")
    seen = await lima.until(lambda seen: seen.phase is Phase.STOPPED)
    assert (seen.reason, seen.stop_error) == ("", "")
    assert directory.status() is Status.STOPPED
    await lima.machines.delete("vm", grace_s=0, keep_logs_in=None)
    assert not directory.exists()


async def test_refused_template_leaves_nothing_and_tells_limactls_reason(
    lima: Lima, monkeypatch: pytest.MonkeyPatch
) -> None:
    lima.environment["STANDIN_FAIL"] = "create"
    lima.new_daemon()
    with pytest.raises(HostError, match="limactl create: create was told to fail"):
        await lima.create()
    assert list(lima.home.path.iterdir()) == []


async def test_cancelled_creation_ends_limactl_and_leaves_nothing(lima: Lima) -> None:
    lima.environment["STANDIN_SLOW"] = "1"
    lima.new_daemon()
    task = asyncio.create_task(lima.create())
    await lima.progress_made.wait()
    assert lima.home.directory("vm").status() is Status.UNINITIALIZED
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(lima.home.path.iterdir()) == []


async def test_crash_of_the_driver_is_told(lima: Lima) -> None:
    directory = await lima.create()
    await lima.start()
    driver = directory.driver_process()
    assert driver is not None
    os.kill(driver.pid, 9)
    seen = await lima.until(lambda seen: seen.phase is Phase.STOPPED)
    assert "the driver has ended" in seen.reason
    await lima.start()


async def test_agent_that_cannot_let_go_is_replaced_with_its_machine(lima: Lima) -> None:
    directory = await lima.create()
    await lima.start()
    agent = directory.agent()
    await lima.machines.close()
    lima.new_daemon()
    assert await lima.machines.adopt("vm")
    await lima.until(lambda seen: seen.phase is Phase.RUNNING)
    assert directory.agent() not in (None, agent)


async def test_shell_is_limactls(lima: Lima) -> None:
    directory = await lima.create()
    shell = catalog.package("lima").shell(
        directory,
        directory.template(HostFacts.gather(Path(lima.environment["HOME"]))),
        command=["echo", "hello there"],
        environment=lima.environment,
        workdir="/tmp",
    )
    process = await asyncio.create_subprocess_exec(
        *shell.argv, env=dict(shell.env), stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output == b"hello there\n"


def test_standin_rejects_flags_it_does_not_know() -> None:
    done = subprocess.run(
        [STANDIN, "create", "--fast", "x"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
