# SPDX-License-Identifier: Apache-2.0
"""CPUs and memory of a machine without a virtual machine, by their effect on real containers."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.machine.host_world import ENGINE, IMAGE, HostWorld, Machine, eventually, host_world

from rdd.host.cgroups import Group, Layout

MIB = 1 << 20
MEMORY = 384 * MIB
WINDOW_S = 2.0


@pytest.fixture(scope="module")
def world(real_part: Callable[[str], Path]) -> Iterator[HostWorld]:
    if os.geteuid() != 0:
        pytest.skip("only root can make the namespaces")
    for part in ("dockerd", "docker", "busybox", "ip", "iptables"):
        real_part(part)
    with host_world() as opened:
        yield opened


@pytest.fixture(scope="module")
def machine(world: HostWorld) -> Iterator[Machine]:
    """A machine with limits and an image, shared by the tests of this file."""
    text = ENGINE.format(engine="moby", socket=world.path / "m.sock")
    made = world.machine("m", text=f"cpus: 1\nmemory: {MEMORY // MIB}MiB\n{text}")
    made.start()
    made.docker.load_image()
    yield made
    assert made.stop() == 0
    assert made.traces() == []


def _layout() -> Layout:
    return Layout.read(os.environ)


def _group(machine: Machine, controller: str) -> Path:
    return Group(_layout(), machine.paths.cgroup).directory(controller)


def _groups_of(pid: int) -> dict[str, str]:
    """Return the group of a process by controller; that of version 2 by an empty name."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines}


def _is_inside(machine: Machine, pid: int) -> bool:
    found = _groups_of(pid)
    names = ("cpu", "memory") if _layout().mode == "v1" else ("",)
    groups = [group for key, group in found.items() if set(key.split(",")) & set(names)]
    return bool(groups) and all(group.startswith(machine.paths.cgroup) for group in groups)


def _cpu_ns(machine: Machine) -> int:
    """Return the CPU time of the group."""
    if _layout().mode == "v1":
        return int((_group(machine, "cpuacct") / "cpuacct.usage").read_text())
    stat = dict(
        line.split() for line in (_group(machine, "cpu") / "cpu.stat").read_text().splitlines()
    )
    return int(stat["usage_usec"]) * 1000


def _container_processes(machine: Machine, pid: int) -> list[int]:
    """Return the processes in the machine's group with this pid in the engine's namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            status = (entry / "status").read_text()
            (line,) = [row for row in status.splitlines() if row.startswith("NSpid:")]
            numbers = line.split()[1:]
            if (
                len(numbers) == 3
                and numbers[1] == str(pid)
                and _is_inside(machine, int(entry.name))
            ):
                found.append(int(entry.name))
    return found


def test_engine_and_containers_are_in_the_group(machine: Machine) -> None:
    machine.docker("run", "-d", "--name", "inside", IMAGE, "sleep", "600")
    pid = int(machine.docker("inspect", "--format", "{{.State.Pid}}", "inside"))
    assert _is_inside(machine, machine.init_pid)
    assert _is_inside(machine, machine.engine_pid())
    assert len(_container_processes(machine, pid)) == 1
    assert not _is_inside(machine, machine.agent_pid)
    machine.docker("rm", "-f", "inside")


def test_limits_are_in_the_events(machine: Machine) -> None:
    assert machine.wait("running")["limits"] == {
        "mode": _layout().mode,
        "cpus": 1,
        "memory": MEMORY,
    }


def test_container_with_too_much_memory_is_killed(machine: Machine) -> None:
    hoard = f"busybox head -c {2 * MEMORY} /dev/zero | busybox tail -n 1"  # one endless line
    machine.docker("run", "-d", "--name", "large", IMAGE, "sh", "-c", hoard)
    code = machine.docker("wait", "large")
    assert code == "137"
    machine.docker("rm", "large")
    assert machine.docker("run", "--rm", IMAGE, "echo", "alive") == "alive"


def test_busy_containers_get_at_most_their_cpus(machine: Machine) -> None:
    for name in ("busy1", "busy2"):
        machine.docker("run", "-d", "--name", name, IMAGE, "sh", "-c", "while :; do :; done")
    begun, used = time.monotonic(), _cpu_ns(machine)
    eventually(lambda: time.monotonic() - begun > WINDOW_S, "the window")
    used, took = _cpu_ns(machine) - used, time.monotonic() - begun
    machine.docker("rm", "-f", "busy1", "busy2")
    assert used <= 1.1 * took * 1e9


def test_adopted_machine_keeps_and_reports_its_limits(machine: Machine) -> None:
    machine.kill_agent()
    machine.start()
    assert machine.wait("running")["limits"]["cpus"] == 1
    assert "degraded" not in machine.wait("running")


def test_machine_without_limits_has_none(world: HostWorld) -> None:
    made = world.machine("free")
    made.start()
    assert made.wait("running")["limits"] == {"mode": _layout().mode}
    assert _is_inside(made, made.engine_pid())
    assert made.stop() == 0
    assert made.traces() == []
