# SPDX-License-Identifier: Apache-2.0
"""A system Docker beside a machine of rdd is not affected.

The system is a network namespace of the test, with a dockerd that is configured as by a
distribution; the machine starts in the same namespace.
"""

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.machine.host_world import Docker, HostWorld, Machine, eventually, host_world, run
from tests.programs import TimeoutExpired, run_program, start_program

_HOLD = "ip link set lo up && echo ready && exec sleep 3600"


class System:
    """A network with a dockerd in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._holder = start_program(["unshare", "--net", "sh", "-c", _HOLD])
        assert self._holder.read_until() == ["ready\n"]
        self.prefix = ("nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--")
        socket = path / "s.sock"
        (path / "c").write_text("{}")  # not the configuration of the host's own Docker
        with (path / "dockerd.log").open("wb") as log:
            self._engine = start_program(
                [
                    *(*self.prefix, "dockerd", "--config-file", path / "c"),
                    *("--data-root", path / "d", "--exec-root", path / "e"),
                    *("--pidfile", path / "p", "-H", f"unix://{socket}"),
                ],
                stdout=log,
                stderr=log,
            )
        self.docker = Docker(socket)
        self._socket = socket

    def wait(self) -> None:
        """Wait until dockerd responds."""

        def look() -> bool:
            assert self._engine.poll() is None, (self._path / "dockerd.log").read_text()
            return self._socket.exists()

        eventually(look, "dockerd of the system")

    def picture(self) -> dict[str, str]:
        """Return everything that must not change."""
        return {
            "rules": self.rules(),
            "links": run(*self.prefix, "ip", "-brief", "link"),
            "addresses": run(*self.prefix, "ip", "-brief", "-4", "addr"),
            "routes": run(*self.prefix, "ip", "route"),
            "forwarding": run(*self.prefix, "cat", "/proc/sys/net/ipv4/ip_forward"),
            "containers": self.docker("ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.State}}"),
            "networks": self.docker("network", "ls", "--no-trunc"),
            "images": self.docker("images", "-q"),
        }

    def rules(self) -> str:
        """Return the firewall rules without counters and rules of rdd."""
        shown = run(*self.prefix, "iptables-save")
        lines = [line for line in shown.splitlines() if not line.startswith("#")]
        return re.sub(r"\[\d+:\d+\]", "", "\n".join(lines))

    def close(self) -> None:
        if self._socket.exists():
            containers = self.docker("ps", "-q").split()
            if containers:
                self.docker("kill", *containers)  # they have no handler for the stop signal
        with self._holder, self._engine:
            self._engine.terminate()
            with contextlib.suppress(TimeoutExpired):
                self._engine.wait(30)
        for mount in _mounts(self._path):
            run_program(["umount", "--lazy", mount])


def _mounts(path: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1] for line in reversed(lines) if line.split()[1].startswith(str(path))]


@pytest.fixture
def system(real_part: Callable[[str], Path]) -> Iterator[tuple[System, HostWorld]]:
    if os.geteuid() != 0:
        pytest.skip("only root can make the namespaces")
    for part in ("dockerd", "docker", "busybox", "ip", "iptables"):
        real_part(part)
    with host_world() as world:
        directory = world.path / "system"
        directory.mkdir()
        made = System(directory)
        try:
            made.wait()
            yield made, world
        finally:
            for machine in world.machines:
                machine.close()
            made.close()


def _publishes(system: System, machine: Machine | None) -> None:
    """Containers of the system and of rdd respond on their addresses."""
    for docker in [system.docker, *([machine.docker] if machine else [])]:
        assert docker("exec", "web", "wget", "-qO-", "http://127.0.0.1/") == "hello"
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8001/').read())"
    assert run(*system.prefix, "python3", "-c", script) == "b'hello'"


def test_system_docker_is_not_affected(system: tuple[System, HostWorld]) -> None:
    beside, world = system
    beside.docker.load_image()
    beside.docker("network", "create", "theirs")
    beside.docker.serve("web", "-p", "8001:80")
    eventually(lambda: beside.docker("ps", "-q"), "a container of the system")
    before = beside.picture()
    _publishes(beside, None)

    machine = world.machine("m", prefix=beside.prefix)
    machine.start()
    machine.docker.load_image()
    machine.docker("network", "create", "ours")
    machine.docker.serve("web", "--network", "ours", "-p", "8002:80")
    machine.wait_forward("forwarding", "0.0.0.0:8002")
    during = beside.picture()
    ours = machine.paths.comment
    theirs = [line for line in during["rules"].splitlines() if ours not in line]
    assert ours in during["rules"]
    assert "\n".join(theirs) == before["rules"]
    assert during["containers"] == before["containers"]
    assert during["networks"] == before["networks"]
    assert during["images"] == before["images"]
    _publishes(beside, machine)
    # Containers of rdd do not use the networks of the system.
    used = machine.docker("network", "inspect", "bridge", "-f", "{{(index .IPAM.Config 0).Subnet}}")
    assert not used.startswith("172.17.")

    assert machine.stop() == 0
    assert beside.picture() == before
    _publishes(beside, None)
    assert machine.traces() == []


def test_killed_machine_does_not_affect_the_system(
    system: tuple[System, HostWorld],
) -> None:
    beside, world = system
    beside.docker.load_image()
    beside.docker.serve("web", "-p", "8001:80")
    before = beside.picture()
    machine = world.machine("m", prefix=beside.prefix)
    machine.start()
    machine.kill_agent()
    os.kill(machine.init_pid, signal.SIGKILL)
    machine.start()
    assert machine.stop() == 0
    assert beside.picture() == before
    _publishes(beside, None)
