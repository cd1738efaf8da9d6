# SPDX-License-Identifier: Apache-2.0
"""The commands a user types, from the first start to running containers and to the deletion.

Everything is real: the daemon, the host agent, dockerd, the docker client, a terminal.
"""

import contextlib
import json
import os
import pty
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.machine.host_world import eventually, image, run
from tests.e2e.machine.limavm_parts import processes
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import DEVNULL, run_program, start_program

from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.instance_dir import LimaHome

CLEAR = "\r\x1b[K"
MINE = "# mine\napiVersion: v1\nkind: Config\nclusters: []\n"


class Desktop:
    """A home with a short path, and the docker client."""

    def __init__(self, world: World, docker: Path) -> None:
        self.world = world
        self._docker = docker
        self.machine = LimaHome(world.instance.lima_home).directory("rd")
        self.paths = MachinePaths(self.machine)

    def docker(self, *words: str, data: bytes | None = None) -> str:
        """Run docker with the current context."""
        done = run_program([str(self._docker), *words], env=self.world.environment(), input=data)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def contexts(self) -> list[str]:
        return self.docker("context", "ls", "--format", "{{.Name}}").splitlines()

    def dockerd(self) -> int:
        """Return its process id; 0 if it does not run."""
        home = str(self.world.home).encode()
        for pid, words in processes():
            if Path(words[0].decode()).name == "dockerd" and any(home in word for word in words):
                return pid
        return 0

    def traces(self) -> list[str]:
        """Return everything that exists of the App besides the control plane and its files."""
        home = str(self.world.home)
        found = [
            f"process {pid} {words}"
            for pid, words in processes()
            if any(home.encode() in word for word in words) and pid != self.world.pid()
        ]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [line for line in mounts if f" {home}" in line]
        found += [line for line in run("ip", "-o", "link").splitlines() if self.paths.link in line]
        rules = run("iptables-save").splitlines()
        found += [line for line in rules if self.paths.comment in line]
        found += [str(path) for path in self.world.home.rglob("*") if path.is_socket()]
        found += [str(p) for p in Path("/sys/fs/cgroup").glob(f"**{self.paths.cgroup}")]
        found += [name for name in self.contexts() if name != "default"]
        return found

    def is_kubeconfig_unchanged(self) -> bool:
        return (self.world.home / ".kube" / "config").read_text() == MINE

    def wait_gone(self) -> None:
        """Wait until nothing is left: the kernel removes namespaces later."""
        eventually(lambda: not self.traces(), f"the end of {self.traces()}")

    def on_terminal(self, *words: str) -> tuple[int, str]:
        """Run a command with a terminal as stderr; return its exit code and its output there."""
        ours, theirs = pty.openpty()
        variables = self.world.environment(RDD_LOG_LEVEL="warn", TERM="xterm")
        with (
            start_program(
                [str(self.world.script), *words], env=variables, stdout=DEVNULL, stderr=theirs
            ) as process,
            open(ours, "rb", buffering=0) as terminal,
        ):
            os.close(theirs)
            seen = b""
            with contextlib.suppress(OSError):  # EIO: the other end is closed
                while data := terminal.read(4096):
                    seen += data
            return process.wait(), seen.decode()


@pytest.fixture
def desktop(rdd_script: Path, kubectl: Path, docker: Path) -> Iterator[Desktop]:
    home = Path(tempfile.mkdtemp(prefix="rddj", dir="/tmp"))
    for world in make_world(rdd_script, home / "h", kubectl):
        world.variables["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        (world.home / ".kube").mkdir()
        (world.home / ".kube" / "config").write_text(MINE)
        try:
            yield Desktop(world, docker)
        finally:
            world.try_rdd("svc", "delete", "--timeout=120s")
    shutil.rmtree(home, ignore_errors=True)


def status_of(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.rdd("status", "-o", "json").json()
    return found


def parts_of(world: World) -> dict[str, str]:
    return {part["name"]: part["state"] for part in status_of(world)["parts"]}


def diagnostics(world: World) -> dict[str, str]:
    return {entry["name"]: entry["healthy"] for entry in world.rdd("doctor", "-o", "json").json()}


def published_port(desktop: Desktop) -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    desktop.docker("import", "-", "tools", data=image())
    desktop.docker(
        *("run", "-d", "--name", "web", "-p", f"127.0.0.1:{port}:80", "tools"),
        *("/bin/httpd", "-f", "-p", "80", "-h", "/www"),
    )
    return port


def responds(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 120) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(100).startswith(b"HTTP/1.")
    except OSError:
        return False


def test_from_first_start_to_containers_and_deletion(desktop: Desktop) -> None:
    world = desktop.world
    assert world.rdd("status").out.endswith("\nNext step: rdd start\n")

    code, terminal = desktop.on_terminal("start", "--timings")
    assert code == 0, terminal
    # One line per completed phase, drawn over the previous ones.
    lines = [line.rpartition(CLEAR)[2] for line in terminal.split("\r\n")]
    done = [line.split("  ")[0] for line in lines if line.startswith("✓ ")]
    phases = ("control plane", "virtual machine", "container engine", "settling")
    assert done[:2] == ["✓ control plane", "✓ virtual machine"]
    assert done == [f"✓ {name}" for name in phases if f"✓ {name}" in done]  # each once, in order
    assert any(frame.startswith("⠋ control plane") for frame in terminal.split(CLEAR))
    assert lines[-3].strip().startswith("total")
    assert lines[-2].endswith("open the dashboard with: rdd dashboard")

    desktop.docker("ps")  # without --context: ours is the current one
    port = published_port(desktop)
    eventually(lambda: responds(port), "a response of the container")
    traces = "\n".join(desktop.traces())
    for trace in (
        "process",
        desktop.paths.link,
        desktop.paths.comment,
        ".sock",
        world.instance.name,
    ):
        assert trace in traces
    # The status shows the mirror of the container, which follows the engine.
    eventually(lambda: status_of(world)["ports"], "the published port in the status")
    eventually(lambda: status_of(world)["problems"] == [], "a status without problems")
    assert status_of(world)["ports"] == [
        {"host": f"127.0.0.1:{port}", "container": "web", "port": "80/tcp"},
    ]
    eventually(lambda: parts_of(world).get("dockerContext") == "current", "the context in status")
    assert parts_of(world) == {
        "controlPlane": "running",
        "app": "settled",
        "virtualMachine": "running",
        "containerEngine": "connected",
        "kubernetes": "off",
        "dockerContext": "current",
        "kubeContext": "-",
    }
    text = world.rdd("status").out
    assert f"127.0.0.1:{port}" in text
    assert "\x1b" not in text
    eventually(lambda: set(diagnostics(world).values()) == {"True"}, "healthy diagnostics")
    assert "✓ engine" in world.rdd("doctor").out

    assert world.rdd("shell", "--workdir", "/", "pwd").out == "/\n"
    assert world.try_rdd("shell", "sh", "-c", "exit 7").code == 7

    engine = desktop.dockerd()
    world.rdd("restart")
    assert desktop.dockerd() not in (0, engine)
    assert desktop.docker("images", "-q")
    assert parts_of(world)["app"] == "settled"

    world.rdd("reset")
    assert desktop.dockerd()
    assert desktop.docker("images", "-q") == ""
    assert desktop.docker("ps", "-aq") == ""

    piped = world.rdd("stop", "--timings")
    assert "\x1b" not in piped.err
    assert "Settled=True: App has reached the desired state (Settled)" in piped.messages
    assert desktop.dockerd() == 0
    desktop.wait_gone()
    assert parts_of(world)["virtualMachine"] == "stopped"

    again = world.rdd("start", "-o", "json").json()
    assert again["spec"]["running"] is True
    published_port(desktop)
    assert world.rdd("delete", "-o", "json").json() == {"deleted": True}
    desktop.wait_gone()
    assert list(world.instance.lima_home.iterdir()) == []
    assert parts_of(world) == {"controlPlane": "running", "app": "none"}
    assert desktop.is_kubeconfig_unchanged()

    world.rdd("svc", "delete")
    assert not world.instance.dir.exists()
    assert not world.instance.short_dir.exists()
    assert desktop.is_kubeconfig_unchanged()


def test_start_fails_at_once_with_what_is_missing_and_works_once_installed(
    desktop: Desktop,
) -> None:
    world = desktop.world
    path = world.home / "bin"
    path.mkdir()
    world.variables["PATH"] = str(path)
    done = world.try_rdd("start")
    assert (done.code, done.last[0]) == (1, "fatal")
    lines = done.last[1].split("\\n")
    assert lines[0] == "Nothing can run containers here:"
    assert [line.split()[0] for line in lines[1:]] == ["lima", "host", "qemu"]
    assert "containerd is not installed" in lines[2]
    assert "to change that: apt-get install" in lines[2]
    (problem,) = [p for p in status_of(world)["problems"] if p["name"] == "app"]
    assert problem["nextStep"].startswith("apt-get install -y --no-install-recommends containerd")
    assert world.try_rdd("start").code == 1  # nothing has changed

    for name in ("containerd", "containerd-shim-runc-v2", "ip", "iptables", "iptables-save"):
        (path / name).symlink_to(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") or "")
    world.rdd("start")
    assert (
        json.loads(world.kubectl("get", "app", "app", "-o", "json"))["status"]["virtualMachineType"]
        == "host"
    )
