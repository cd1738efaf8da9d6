# SPDX-License-Identifier: Apache-2.0
"""The desktop: from `rdd start` to a container engine, and its cost at rest.

    python -m bench.desktop [--quick]

All controllers, the driver `host`, a real dockerd, a new home directory per round; it needs
root. Commands are timed from start to exit. Meanwhile one client reads the App continuously,
which shows how responsive the control plane stays. Figures go to results/desktop.json, each
the median over the rounds.
"""

import argparse
import contextlib
import http.client
import os
import shutil
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from bench.apiserver import RESULTS
from bench.server import RDD, Process
from tests.e2e.machine.host_world import image

from rdd.client.kubeconfig import load
from rdd.instance import Instance

ROUNDS = 3
IDLE_S = 10.0
SETTLE_S = 3.0
TIMEOUT_S = 120.0
READ_EVERY_S = 0.004
VMS = "/apis/lima.rancherdesktop.io/v1alpha1/namespaces/default/limavms"
APP = "/apis/app.rancherdesktop.io/v1alpha1/apps/app"
TEMPLATE = """\
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
# A first process that honours SIGTERM.
POLITE = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 100 & wait; done")

Figures = dict[str, float]


class Api:
    """One connection to the control plane."""

    def __init__(self, instance: Instance) -> None:
        login = load(instance.config)
        address = urlsplit(login.server)
        tls = ssl.create_default_context(cadata=login.authority)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=tls, timeout=30
        )
        self._headers = {"Authorization": f"Bearer {login.token}"}

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        headers = self._headers
        if body is not None:
            headers = {**headers, "Content-Type": "application/merge-patch+json"}
        data = None if body is None else orjson.dumps(body)
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        found: dict[str, Any] = orjson.loads(response.read())
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {found}")
        return found


class Desk:
    """A home directory and the commands in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.instance = Instance("2", home)
        self._environment = {"HOME": str(home), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

    def rdd(self, *words: str) -> float:
        """Run a command and return its duration."""
        began = time.perf_counter()
        done = subprocess.run(
            [RDD, *words], env=self._environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        taken = time.perf_counter() - began
        if done.returncode != 0:
            raise RuntimeError(f"rdd {' '.join(words)}: {done.stderr}")
        return taken

    def docker(self, *words: str, data: bytes | None = None) -> None:
        command = ["docker", "--context", self.instance.name, *words]
        subprocess.run(
            command,
            env=self._environment,
            input=data,
            check=True,
            timeout=TIMEOUT_S,
            stdout=subprocess.DEVNULL,
        )

    def daemon(self) -> Process:
        return Process(int(self.instance.pid_file.read_text()))

    def agent(self, name: str = "rd") -> Process:
        return Process(int((self.instance.lima_home / name / "ha.pid").read_text()))


@contextlib.contextmanager
def desk() -> Iterator[Desk]:
    """Create a home directory with a short path, because of the sockets; delete it afterwards."""
    home = Path(tempfile.mkdtemp(prefix="rddb", dir="/tmp"))
    made = Desk(home)
    try:
        yield made
    finally:
        made.rdd("svc", "delete")
        shutil.rmtree(home)


@contextlib.contextmanager
def reading(instance: Instance, path: str, times_ms: list[float]) -> Iterator[None]:
    """Read an object continuously, from a thread."""
    is_over = threading.Event()
    api = Api(instance)

    def read() -> None:
        while not is_over.wait(READ_EVERY_S):
            began = time.perf_counter()
            api.call("GET", path)
            times_ms.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def at_rest(process: Process) -> tuple[float, float]:
    """Return wake-ups per second and MiB of an idle process."""
    time.sleep(SETTLE_S)
    before = process.switches()
    time.sleep(IDLE_S)
    return (process.switches() - before) / IDLE_S, process.rss_mib()


def control_plane(*, with_rest: bool) -> Figures:
    """Measure the daemon with all controllers, without an App."""
    with desk() as here:
        found = {"svc_start_s": here.rdd("svc", "start")}
        if with_rest:
            found["wakeups_per_s"], found["rss_mib"] = at_rest(here.daemon())
    return found


def app(*, with_rest: bool, reads_ms: list[float]) -> Figures:
    """Measure the lifecycle of an App."""
    with desk() as here:
        found = {"start_s": here.rdd("start")}
        here.docker("import", "-", "tools", data=image())
        here.docker("run", "-d", "tools", *POLITE)
        if with_rest:
            found["app_wakeups_per_s"], found["app_rss_mib"] = at_rest(here.daemon())
        with reading(here.instance, APP, reads_ms):
            found["stop_s"] = here.rdd("stop")
            found["second_start_s"] = here.rdd("start")
        found["agent_rss_mib"] = here.agent().rss_mib()
        found["agent_socket_s"] = time_to_socket(here.instance.lima_home / "rd")
    return found


def machine() -> Figures:
    """Measure a LimaVM with an engine: its start and its adoption by another daemon."""
    with desk() as here:
        here.rdd("svc", "start")
        template = here.home / "t.yaml"
        template.write_text(TEMPLATE.format(socket=here.home / "t.sock"))
        here.rdd("limavm", "create", "t", str(template))
        api = Api(here.instance)
        began = time.perf_counter()
        api.call("PATCH", f"{VMS}/t", {"spec": {"running": True}})
        until_started(api, 1)
        found = {"machine_start_s": time.perf_counter() - began}
        daemon = here.daemon()
        os.kill(daemon.pid, signal.SIGKILL)
        while Path(f"/proc/{daemon.pid}").exists():
            time.sleep(0.001)
        began = time.perf_counter()
        here.rdd("svc", "start")
        ready = time.perf_counter()
        until_started(Api(here.instance), 2)
        found["adoption_s"] = time.perf_counter() - ready
        found["crash_to_adopted_s"] = time.perf_counter() - began
    return found


def until_started(api: Api, count: int) -> None:
    """Wait until the machine has started, or was adopted, a number of times."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        status = api.call("GET", f"{VMS}/t").get("status") or {}
        running = [c for c in status.get("conditions") or () if c["type"] == "Running"]
        if status.get("restartCount") == count and running[0]["status"] == "True":
            return
        time.sleep(0.002)
    raise RuntimeError(f"the machine has not started: {status}")


def time_to_socket(directory: Path) -> float:
    """Return the time from the start of a host agent to its socket, in steps of 10 ms."""
    pid = int((directory / "ha.pid").read_text())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return max(0.0, (directory / "ha.sock").stat().st_ctime - booted - since_boot)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.desktop", description="the App and its machine")
    parser.add_argument("--quick", action="store_true", help="one round")
    given = parser.parse_args(arguments)
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [n for n in ("dockerd", "docker", "iptables") if shutil.which(n, path=path) is None]
    if os.geteuid() != 0 or missing:
        why = f"no {', '.join(missing)}" if missing else "needs root"
        print(f"the desktop is not measured: {why}", file=sys.stderr)
        return 0
    rounds: list[Figures] = []
    reads_ms: list[float] = []
    for number in range(1 if given.quick else ROUNDS):
        is_first = number == 0
        figures = {
            **control_plane(with_rest=is_first),
            **app(with_rest=is_first, reads_ms=reads_ms),
            **machine(),
        }
        print(f"desktop: {figures}", file=sys.stderr)
        rounds.append(figures)
    found = {
        name: statistics.median(one[name] for one in rounds if name in one) for name in rounds[0]
    }
    found["reads"] = len(reads_ms)
    found["read_p99_ms"] = sorted(reads_ms)[int(len(reads_ms) * 0.99)]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "desktop.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
