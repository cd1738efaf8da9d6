# SPDX-License-Identifier: Apache-2.0
"""Limits of a machine by their effect: a program for a guest, which prints what it observed.

`python3 -m tests.e2e.machine.limits_inside` runs one machine with limits as the present user. The
guest has only rdd's sources, the modules named here and Debian's Python, so this is no test file:
the assertions are in test_host_driver_guest.py.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from tests.e2e.machine.host_world import ENGINE, IMAGE, Machine, eventually, host_world

MIB = 1 << 20
MEMORY = 320 * MIB
WINDOW_S = 4.0
ROOT = Path("/sys/fs/cgroup")
FILES = ("cpu.max", "memory.max", "memory.swap.max")
LOOP = "while :; do :; done"


def main() -> None:
    with host_world() as world:
        text = ENGINE.format(engine="moby", socket=world.path / "m.sock")
        machine = world.machine("m", text=f"cpus: 1\nmemory: {MEMORY // MIB}MiB\n{text}")
        machine.start()
        machine.docker.load_image()
        group = ROOT / group_of_machine(machine)
        found = {
            "limits": machine.wait("running")["limits"],
            "degraded": "degraded" in machine.wait("running"),
            "files": {name: (group / name).read_text().strip() for name in FILES},
            "memory": exceed_memory(machine, group),
            **exceed_cpus(machine, group),
        }
        found["exit"] = machine.stop()
        found["remains"] = group.exists()
        print(json.dumps(found))


def group_of(pid: int | str) -> str:
    """Return the group of a process in the hierarchy of version 2, without the first slash."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("0::")]
    return line.removeprefix("0::/")


def group_of_machine(machine: Machine) -> str:
    """Return the group with the limits: rdd's own, or the scope of systemd."""
    if os.geteuid() == 0:
        return machine.paths.cgroup.lstrip("/")
    return str(Path(group_of(machine.init_pid)).parent)


def is_inside(pid: int | str, group: Path) -> bool:
    return (ROOT / group_of(pid)).is_relative_to(group)


def numbers(path: Path) -> dict[str, int]:
    return {key: int(value) for key, value in map(str.split, path.read_text().splitlines())}


def exceed_memory(machine: Machine, group: Path) -> dict[str, Any]:
    """Run a container that takes twice the memory: its buffer is one block."""
    hoard = ("busybox", "dd", "if=/dev/zero", "of=/dev/null", f"bs={2 * MEMORY}", "count=1")
    machine.docker("run", "-d", "--name", "large", IMAGE, *hoard)
    code = machine.docker("wait", "large")
    return {"code": code, "kills": numbers(group / "memory.events")["oom_kill"]}


def exceed_cpus(machine: Machine, group: Path) -> dict[str, Any]:
    """Run two endless loops with one CPU; return what they got, and which processes are inside."""
    machine.docker("run", "-d", "--name", "busy", IMAGE, "sh", "-c", f"{LOOP} & {LOOP}")
    loops = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if is_loop(path)]
    begun, before = time.monotonic(), numbers(group / "cpu.stat")
    eventually(lambda: time.monotonic() - begun > WINDOW_S, "the window")
    after, took = numbers(group / "cpu.stat"), time.monotonic() - begun
    inside = {
        "engine": is_inside(machine.engine_pid(), group),
        "containers": [is_inside(pid, group) for pid in loops],
        "agent": is_inside(machine.agent_pid, group),
    }
    machine.docker("rm", "-f", "busy")
    change = {name: after[name] - before[name] for name in before}
    return {
        "inside": inside,
        "cpus": change["usage_usec"] / 1e6 / took,
        "throttled": change["nr_throttled"],
    }


def is_loop(path: Path) -> bool:
    """Return whether a command line is that of a loop, and not that of the client or a shim."""
    try:
        return path.read_bytes().startswith(f"sh\0-c\0{LOOP}".encode())
    except OSError:  # it has ended
        return False


if __name__ == "__main__":
    main()
