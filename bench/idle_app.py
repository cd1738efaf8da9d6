# SPDX-License-Identifier: Apache-2.0
"""What an App without work costs: daemon, host agent, dockerd and containerd, running and paused.

    python -m bench.idle_app [SECONDS]

Root only. An App of the type host with one container that waits for connections. Prints a line
of JSON with context switches per second, CPU in percent and resident memory (proportional share)
in MiB of each process, over SECONDS (30) while it runs, and again while it is paused.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.idle import counters
from bench.server import RDD
from tests.e2e.machine.host_world import IMAGE, fetch_once_served, free_port, image
from tests.e2e.service.service_world import World, world
from tests.programs import run_program

from rdd.host.cgroups import Freezer, Layout
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.instance_dir import InstanceDirectory

_SETTLE_S = 15.0


def main() -> None:
    window_s = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    docker, kubectl = shutil.which("docker"), shutil.which("kubectl")
    assert docker is not None
    home = Path(tempfile.mkdtemp(prefix="rdd", dir="/tmp"))
    for app in world(Path(RDD), home / "h", Path(kubectl or "kubectl")):
        try:
            app.rdd("set", "running=true", "virtualMachine.type=host")
            port = free_port()
            run = (docker, "-H", app.instance.docker_endpoint)
            assert run_program([*run, "import", "-", IMAGE], input=image()).returncode == 0
            serve = ("-p", f"{port}:80", IMAGE, "httpd", "-f", "-p", "80", "-h", "/www")
            assert run_program([*run, "run", "-d", *serve]).returncode == 0
            fetch_once_served(port)
            machine = InstanceDirectory(app.instance.lima_home / "rd")
            freezer = Freezer(Layout.read(os.environ), MachinePaths(machine).cgroup)
            found: dict[str, object] = {"load": os.getloadavg()[0], "seconds": window_s}
            time.sleep(_SETTLE_S)
            found["running"] = _measure(app, machine, window_s)
            app.rdd("set", "idle.action=pause", "idle.afterSeconds=2")
            _wait_frozen(app, freezer)
            time.sleep(_SETTLE_S)
            found["paused"] = _measure(app, machine, window_s)
            assert freezer.is_frozen
            print(json.dumps(found))
        finally:
            app.try_rdd("svc", "delete")
    shutil.rmtree(home, ignore_errors=True)


def _wait_frozen(app: World, freezer: Freezer) -> None:
    app.until(lambda: freezer.is_frozen)


def _measure(app: World, machine: InstanceDirectory, window_s: float) -> dict[str, object]:
    pids = _processes(app, machine)
    before = {name: counters(pid) for name, pid in pids.items()}
    time.sleep(window_s)
    found: dict[str, object] = {}
    for name, pid in pids.items():
        switches, cpu_s = counters(pid)
        found[name] = {
            "switches_per_s": round((switches - before[name][0]) / window_s, 2),
            "cpu_percent": round((cpu_s - before[name][1]) / window_s * 100, 2),
            "MiB": round(_share_kib(pid) / 1024, 1),
        }
    return found


def _processes(app: World, machine: InstanceDirectory) -> dict[str, int]:
    agent, engine = machine.agent(), machine.driver_process()
    assert agent is not None
    assert engine is not None
    found = {"daemon": app.pid(), "agent": agent.pid}
    parents = {engine.pid}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) in parents:
            parents.add(pid)
            if name in ("dockerd", "containerd"):
                found[name] = pid
    return found


def _share_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
