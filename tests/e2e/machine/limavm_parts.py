# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of the `host` driver under a real daemon, with a real dockerd in them."""

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.controllers.containers.engine_parts import Dockerd
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program

from rdd.api.types import Object
from rdd.vm.instance_dir import InstanceDirectory, LimaHome

PLAIN = "vmType: host\n"
MOBY = """\
vmType: host
param:
  CONTAINER_ENGINE: moby
  HOST_DOCKER_SOCKET: {socket}
portForwards:
- guestSocket: /var/run/docker.sock
  hostSocket: "{{{{.Param.HOST_DOCKER_SOCKET}}}}"
probes:
- script: |
    #!/bin/sh
    echo "$PARAM_CONTAINER_ENGINE"
"""


class Engine(Dockerd):
    """A direct client of the engine in a virtual machine."""

    def __init__(self, program: Path, socket: Path) -> None:
        super().__init__(program, socket.parent)
        self.socket = socket


class VmHome:
    """A home with a short path, a daemon and virtual machines."""

    def __init__(self, world: World, dockerd: Path) -> None:
        self.world = world
        self.dockerd = dockerd
        self.lima = LimaHome(world.instance.lima_home)

    def directory(self, name: str) -> InstanceDirectory:
        return self.lima.directory(name)

    def socket(self, name: str) -> Path:
        return self.world.home / f"{name}.sock"

    def engine(self, name: str) -> Engine:
        return Engine(self.dockerd, self.socket(name))

    def template(self, name: str, text: str = "") -> Path:
        path = self.world.home / f"{name}.yaml"
        path.write_text(text or MOBY.format(socket=self.socket(name)))
        return path

    def create(self, name: str, *flags: str, text: str = "") -> Engine:
        self.world.rdd("limavm", "create", name, str(self.template(name, text)), *flags)
        return self.engine(name)

    def vm(self, name: str) -> Object:
        found: Object = json.loads(self.world.kubectl("get", "limavm", name, "-o", "json"))
        return found

    def condition(self, name: str, type_: str = "Running") -> tuple[str, str]:
        for condition in (self.vm(name).get("status") or {}).get("conditions") or ():
            if condition["type"] == type_:
                return condition["reason"], condition["message"]
        return "", ""

    def starts(self, name: str) -> int:
        return int((self.vm(name).get("status") or {}).get("restartCount") or 0)

    def until_started(self, name: str, count: int, timeout_s: float = 120) -> None:
        end = time.monotonic() + timeout_s
        while self.starts(name) < count or self.condition(name)[0] != "Started":
            assert time.monotonic() < end, f"{self.vm(name)}\n{self.world.log()}"
            time.sleep(0.05)

    def until_reason(
        self, name: str, reason: str, type_: str = "Running", timeout_s: float = 120
    ) -> str:
        end = time.monotonic() + timeout_s
        while True:
            found, message = self.condition(name, type_)
            if found == reason:
                return message
            assert time.monotonic() < end, f"{self.vm(name)}\n{self.world.log()}"
            time.sleep(0.05)

    def agent_pid(self, name: str) -> int:
        return int(self.directory(name).ha_pid.read_text())

    def driver_pid(self, name: str) -> int:
        found = self.directory(name).driver_process()
        assert found is not None
        return found.pid

    def engine_pid(self, name: str) -> int:
        """Return the pid of dockerd."""
        needle = str(self.directory(name).path).encode()
        for pid, words in processes():
            if Path(words[0].decode()).name == "dockerd" and any(needle in word for word in words):
                return pid
        raise AssertionError(f"no dockerd of {name}")

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def traces(self, *names: str) -> list[str]:
        """Return processes, mounts and sockets that remain of stopped machines."""
        found = []
        for name in names:
            path = str(self.directory(name).path)
            found += [
                f"process {pid} {words}"
                for pid, words in processes()
                if any(path.encode() in word for word in words)
            ]
            mounts = Path("/proc/self/mountinfo").read_text().splitlines()
            found += [line for line in mounts if f" {path}" in line]
            if self.socket(name).exists():
                found.append(f"socket {self.socket(name)}")
        return found

    def clean(self, *names: str) -> None:
        """Assert that nothing is left; the kernel may take a moment for namespaces."""
        end = time.monotonic() + 120
        while left := self.traces(*names):
            assert time.monotonic() < end, left
            time.sleep(0.05)


def processes() -> list[tuple[int, list[bytes]]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            continue
        if words != [b""]:
            found.append((int(path.parent.name), words))
    return found


def vm_home(script: Path, kubectl: Path, dockerd: Path) -> Iterator[VmHome]:
    """Yield a home for tests, and remove everything afterwards, also after a failure."""
    home = Path(tempfile.mkdtemp(prefix="rdd-", dir="/tmp"))
    try:
        for world in make_world(script, home, kubectl):
            world.variables["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
            made = VmHome(world, dockerd)
            try:
                world.rdd("svc", "start", "--controllers=limavm")
                yield made
            finally:
                _end(made)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _end(made: VmHome) -> None:
    """Delete what a test left; fail if the daemon cannot."""
    names = made.lima.names()
    run_program(
        [str(made.world.script), "svc", "delete", "--timeout=60s"],
        env=made.world.environment(),
    )
    for pid, words in processes():
        if any(str(made.lima.path).encode() in word for word in words):
            os.kill(pid, signal.SIGKILL)
    made.clean(*names)
