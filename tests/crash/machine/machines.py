# SPDX-License-Identifier: Apache-2.0
"""A real engine or guest in a round, and the faults of its processes.

`moby` and `containerd` run as the App of the user with the driver `host`, `guest` is a LimaVM in
qemu with the guest `small`. Faults kill or pause the agent, the engine or the emulator, or restart
the machine by command; afterwards it must run again, by itself.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

from tests.crash.machine.plane import Broken, Plane
from tests.e2e.machine.host_world import image
from tests.e2e.machine.limavm_parts import processes
from tests.programs import run_program

ROOT = Path(__file__).parents[3]
WITHIN_S = 180.0
GUEST = "vmType: qemu\ncpus: 1\nmemory: 256MiB\ndisk: 1GiB\n"
EMULATOR = "qemu"
PROGRAMS = {
    "moby": ("rdd.vm.agent", "dockerd"),
    "containerd": ("rdd.vm.agent", "containerd"),
    "guest": ("rdd.vm.agent", EMULATOR),
}


class Machine:
    """The engine or guest of a round."""

    def __init__(self, form: str, plane: Plane) -> None:
        self.form = form
        self.plane = plane
        self.name = "vm" if form == "guest" else "rd"

    # -- life

    def prepare(self) -> None:
        """Set the variables with which the daemon must start."""
        if self.form == "guest":
            guests = (ROOT / ".cache" / "guest" / "current").resolve()
            self.plane.world.variables |= {
                "RDD_GUEST_IMAGE": str(guests / "small"),
                "RDD_CACHE_DIR": str(self.plane.root / "cache"),
                "RDD_VM_TYPE": "qemu",
            }

    async def start(self) -> None:
        """Create and start the machine, and put something into it that must survive."""
        if self.form == "guest":
            template = self.plane.root / "vm.yaml"
            template.write_text(GUEST)
            await self._must("limavm", "create", self.name, str(template), "--start")
        else:
            await self._must(
                "set",
                *("running=true", "kubernetes.enabled=false"),
                *("virtualMachine.type=host", f"containerEngine.name={self.form}"),
            )
        await self.converged()
        if self.form == "moby":
            await asyncio.to_thread(self._docker, "import", "-", "tools", data=image())
            await asyncio.to_thread(
                self._docker, "create", "--name", "treasure", "tools", "sleep", "1000"
            )

    async def delete(self) -> None:
        """Delete the machine, as a user does before the instance."""
        if self.form == "guest":
            await self._must("limavm", "delete", "--force", self.name)

    async def converged(self) -> None:
        """Wait until everything runs, and check that nothing was lost."""
        await self._until(self._is_running, "the machine does not run")
        if self.form == "moby" and self._image_exists():
            await self._until(self._is_mirrored, "the container is not mirrored")

    def _image_exists(self) -> bool:
        with contextlib.suppress(AssertionError):
            return bool(self._docker("images", "-q"))
        return False

    def _is_running(self) -> bool:
        kind, name = ("limavm", self.name) if self.form == "guest" else ("app", "app")
        found = json.loads(self._kubectl("get", kind, name, "-o", "json") or "{}")
        conditions = {
            c["type"]: (c["status"], c["reason"])
            for c in (found.get("status") or {}).get("conditions") or ()
        }
        if self.form == "guest":
            if conditions.get("Running") != ("True", "Started"):
                return False
            shell = ("limavm", "shell", "--workdir", "/", self.name, "true")
            return self.plane.world.try_rdd(*shell).code == 0
        if conditions.get("Settled") != ("True", "Settled"):
            return False
        if self.form == "containerd":
            return True
        try:
            self._docker("ps")
        except AssertionError:
            return False
        return True

    def _is_mirrored(self) -> bool:
        listed = self._docker("ps", "-a", "--format", "{{.Names}}").split()
        if "treasure" not in listed:
            return False
        return "treasure" in self._kubectl("get", "containers", "-A", "-o", "json")

    # -- faults

    async def fault(self, choose: random.Random) -> str:
        """Do something to a process of the machine; return what."""
        if choose.random() < 0.2:
            await self._restart()
            return "restart"
        program = choose.choice(PROGRAMS[self.form])
        pids = self._emulator() if program == EMULATOR else self._pids(program)
        action = choose.choice(("kill", "kill", "pause"))
        number = signal.SIGKILL if action == "kill" else signal.SIGSTOP
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if action == "pause":
            await asyncio.sleep(0.5 + choose.random() * 3)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        return f"{action} {program} {pids}"

    async def _restart(self) -> None:
        if self.form == "guest":
            await self._must("limavm", "stop", self.name)
            await self._must("limavm", "start", self.name)
        else:
            await self._must("set", "running=false")
            await self._must("set", "running=true")

    def _emulator(self) -> list[int]:
        """Return the process of qemu, whose command line has no path of the home."""
        found = self.plane.machine(self.name).driver_process()
        return [found.pid] if found else []

    def _pids(self, program: str) -> list[int]:
        mark = str(self.plane.home).encode()
        return [
            pid
            for pid, words in processes()
            if any(mark in word for word in words)
            and (Path(os.fsdecode(words[0])).name == program or program.encode() in words)
        ]

    # -- parts

    async def _must(self, *words: str) -> None:
        done = await self.plane.rdd(*words)
        if done.code != 0:
            raise Broken(f"rdd {' '.join(words)}: {done.err[-1500:]}\n{self.logs()}")

    async def _until(self, check: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                while not await asyncio.to_thread(check):  # noqa: ASYNC110  (a process)
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise Broken(f"{what} within {WITHIN_S:g} s\n{self.logs()}") from None

    def logs(self) -> str:
        """Return the ends of the logs of machine and daemon."""
        texts = [
            f"== {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in self.plane.machine(self.name).path.glob("*.log")
        ]
        return "\n".join([*texts, self.plane.world.log()[-3000:]])

    def _docker(self, *words: str, data: bytes | None = None) -> str:
        socket = self.plane.world.instance.docker_socket
        done = run_program(["docker", "-H", f"unix://{socket}", *words], input=data)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _kubectl(self, *words: str) -> str:
        world = self.plane.world
        done = run_program(
            [
                world.kubectl_path,
                *("--kubeconfig", str(world.instance.config), "--insecure-skip-tls-verify"),
                *words,
            ]
        )
        return done.stdout if done.returncode == 0 else ""
