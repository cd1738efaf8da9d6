# SPDX-License-Identifier: Apache-2.0
"""The way of a user, with the commands a user types: from nothing to containers, and back.

Everything is real: the daemon, the host agent, dockerd, the docker client, a terminal.
"""

import contextlib
import json
import os
import pty
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
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


class Desk:
    """A home with a short path, and the programs a user has."""

    def __init__(self, world: World, docker: Path) -> None:
        self.world = world
        self._docker = docker
        self.machine = LimaHome(world.instance.lima_home).directory("rd")
        self.paths = MachinePaths(self.machine)

    def docker(self, *words: str, data: bytes | None = None) -> str:
        """The docker client as the user calls it: the current context decides."""
        done = run_program([str(self._docker), *words], env=self.world.environment(), input=data)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def contexts(self) -> list[str]:
        return self.docker("context", "ls", "--format", "{{.Name}}").splitlines()

    def dockerd(self) -> int:
        """Its process id; 0 if there is none."""
        home = str(self.world.home).encode()
        for pid, words in processes():
            if Path(words[0].decode()).name == "dockerd" and any(home in word for word in words):
                return pid
        return 0

    def traces(self) -> list[str]:
        """What there is on this machine of an App, besides the control plane and its files."""
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

    def untouched(self) -> bool:
        """Whether the user's kubeconfig is what it was."""
        return (self.world.home / ".kube" / "config").read_text() == MINE

    def gone(self) -> None:
        """Nothing is left; the kernel may take a moment for namespaces."""
        eventually(lambda: not self.traces(), f"the end of {self.traces()}")

    def on_terminal(self, *words: str) -> tuple[int, str]:
        """Run a command with a terminal for stderr; its exit code and what the terminal got."""
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


@pytest.fixture(scope="module")
def docker(real_part: Callable[[str], Path]) -> Path:
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    for name in ("dockerd", "iptables", "ip"):
        real_part(name)
    return real_part("docker")


@pytest.fixture
def desk(rdd_script: Path, kubectl: Path, docker: Path) -> Iterator[Desk]:
    home = Path(tempfile.mkdtemp(prefix="rddj", dir="/tmp"))
    for world in make_world(rdd_script, home / "h", kubectl):
        world.variables["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        (world.home / ".kube").mkdir()
        (world.home / ".kube" / "config").write_text(MINE)
        try:
            yield Desk(world, docker)
        finally:
            world.try_rdd("svc", "delete", "--timeout=60s")
    shutil.rmtree(home, ignore_errors=True)


def status_of(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.rdd("status", "-o", "json").json()
    return found


def parts_of(world: World) -> dict[str, str]:
    return {part["name"]: part["state"] for part in status_of(world)["parts"]}


def published_port(desk: Desk) -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    desk.docker("import", "-", "tools", data=image())
    desk.docker(
        *("run", "-d", "--name", "web", "-p", f"127.0.0.1:{port}:80", "tools"),
        *("/bin/httpd", "-f", "-p", "80", "-h", "/www"),
    )
    return port


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(100).startswith(b"HTTP/1.")
    except OSError:
        return False


def test_from_nothing_to_containers_and_back(desk: Desk) -> None:
    world = desk.world
    assert world.rdd("status").out.endswith("\nNext step: rdd start\n")

    code, terminal = desk.on_terminal("start", "--timings")
    assert code == 0, terminal
    # One line per phase that is over, drawn over the ones that came before it.
    lines = [line.rpartition(CLEAR)[2] for line in terminal.split("\r\n")]
    done = [line.split("  ")[0] for line in lines if line.startswith("✓ ")]
    phases = ("control plane", "virtual machine", "container engine", "settling")
    assert done[:2] == ["✓ control plane", "✓ virtual machine"]
    assert done == [f"✓ {name}" for name in phases if f"✓ {name}" in done]  # each once, in order
    assert any(frame.startswith("⠋ control plane") for frame in terminal.split(CLEAR))
    assert lines[-2].strip().startswith("total")

    desk.docker("ps")  # without a word about contexts: it is the current one now
    port = published_port(desk)
    eventually(lambda: answers(port), "an answer of the container")
    traces = "\n".join(desk.traces())
    for trace in ("process", desk.paths.link, desk.paths.comment, ".sock", world.instance.name):
        assert trace in traces
    # The status shows the mirror of the container, which follows the engine.
    eventually(lambda: status_of(world)["ports"], "the published port in the status")
    found = status_of(world)
    assert found["problems"] == []
    assert found["ports"] == [
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
    healthy = {
        entry["name"]: entry["healthy"] for entry in world.rdd("doctor", "-o", "json").json()
    }
    assert set(healthy.values()) == {"True"}, healthy
    assert "✓ engine" in world.rdd("doctor").out

    assert world.rdd("shell", "--workdir", "/", "pwd").out == "/\n"
    assert world.try_rdd("shell", "sh", "-c", "exit 7").code == 7

    engine = desk.dockerd()
    world.rdd("restart")
    assert desk.dockerd() not in (0, engine)
    assert desk.docker("images", "-q")
    assert parts_of(world)["app"] == "settled"

    world.rdd("reset")
    assert desk.dockerd()
    assert desk.docker("images", "-q") == ""
    assert desk.docker("ps", "-aq") == ""

    piped = world.rdd("stop", "--timings")
    assert "\x1b" not in piped.err
    assert "Settled=True: App has reached the desired state (Settled)" in piped.messages
    assert desk.dockerd() == 0
    desk.gone()
    assert parts_of(world)["virtualMachine"] == "stopped"

    again = world.rdd("start", "-o", "json").json()
    assert again["spec"]["running"] is True
    published_port(desk)
    assert world.rdd("delete", "-o", "json").json() == {"deleted": True}
    desk.gone()
    assert list(world.instance.lima_home.iterdir()) == []
    assert parts_of(world) == {"controlPlane": "running", "app": "none"}
    assert desk.untouched()

    world.rdd("svc", "delete")
    assert not world.instance.dir.exists()
    assert not world.instance.short_dir.exists()
    assert desk.untouched()


def test_start_ends_at_once_with_what_is_missing_and_goes_on_when_that_is_there(
    desk: Desk,
) -> None:
    world = desk.world
    path = world.home / "bin"
    path.mkdir()
    world.variables["PATH"] = str(path)
    done = world.try_rdd("start")
    assert (done.code, done.last[0]) == (1, "fatal")
    lines = done.last[1].split("\\n")
    assert lines[0] == "Nothing can run containers here:"
    assert [line.split()[0] for line in lines[1:]] == ["lima", "host", "qemu"]
    assert "containerd is not installed" in lines[1]
    assert "to change that: apt-get install" in lines[1]
    (problem,) = [p for p in status_of(world)["problems"] if p["name"] == "app"]
    assert problem["nextStep"] == "Run one of the commands above, then: rdd start"
    assert world.try_rdd("start").code == 1  # it still is

    for name in ("containerd", "containerd-shim-runc-v2", "ip", "iptables", "iptables-save"):
        (path / name).symlink_to(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") or "")
    world.rdd("start")
    assert (
        json.loads(world.kubectl("get", "app", "app", "-o", "json"))["status"]["virtualMachineType"]
        == "host"
    )
