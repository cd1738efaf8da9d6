# SPDX-License-Identifier: Apache-2.0
"""Machines of the driver `host` with real agents, engines and containers.

Each world has a directory of its own, short enough for sockets, and removes whatever its
machines leave, also after a test that failed.
"""

import asyncio
import contextlib
import io
import json
import os
import shutil
import signal
import socket
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.programs import Program, run_program, start_program

from rdd.host.tree_removal import remove_tree
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.teardown import cleanup
from rdd.vm.instance_dir import InstanceDirectory, LimaHome
from rdd.vm.lifecycle.create import create
from rdd.vm.process_files import live_process
from rdd.vm.template import HostFacts

TIMEOUT_S = 120.0
IMAGE = "tools"
_TOOLS = ("sh", "sleep", "httpd", "wget", "nc", "nslookup", "cat", "ls", "echo", "test", "chroot")
ENGINE = """
vmType: host
param:
  CONTAINER_ENGINE: {engine}
  HOST_DOCKER_SOCKET: {socket}
portForwards:
- guestIP: 0.0.0.0
  guestPortRange: [1, 65535]
  hostIP: 0.0.0.0
  hostPortRange: [1, 65535]
- guestSocket: /var/run/docker.sock
  hostSocket: "{{{{.Param.HOST_DOCKER_SOCKET}}}}"
probes:
- script: "#!/bin/sh\\nexec test {{{{.Param.CONTAINER_ENGINE}}}}"
"""


def fetch(port: int) -> str:
    """Return the page of a published port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=120) as response:
        body: bytes = response.read()
        return body.decode()


def fetch_once_served(port: int) -> str:
    """Return the page of a port whose container has just started.

    The port is forwarded before the server listens; until then connections are reset.
    """

    def body() -> str:
        try:
            return fetch(port)
        except (urllib.error.URLError, ConnectionResetError):
            return ""

    return str(eventually(body, f"a page on port {port}"))


def eventually(check: Callable[[], Any], what: str) -> Any:
    """Wait until a value is true, and return it."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen within {TIMEOUT_S:g} s")


def run(*command: object, **more: Any) -> str:
    """Run a program that must succeed; return its output."""
    words = [str(word) for word in command]
    done = run_program(words, **more)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def free_port() -> int:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def image() -> bytes:
    """Return a tar archive of a file system with only busybox."""
    buffer = io.BytesIO()
    program = Path(os.path.realpath(shutil.which("busybox") or "/bin/busybox"))
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(program, "bin/busybox")
        for name in _TOOLS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for name, content in (("www/index.html", b"hello"), ("etc/passwd", b"root:x:0:0::/:\n")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


class Docker:
    """The docker client for one socket."""

    def __init__(self, path: Path, prefix: Sequence[str] = ()) -> None:
        self._path = path
        self._prefix = prefix

    def __call__(self, *words: object, data: bytes | None = None) -> str:
        done = run_program(
            [*self._prefix, "docker", "-H", f"unix://{self._path}", *map(str, words)], input=data
        )
        assert done.returncode == 0, f"docker {words}: {done.stderr}"
        return done.stdout.strip()

    def load_image(self) -> None:
        self("import", "-", IMAGE, data=image())

    def serve(self, name: str, *flags: object) -> str:
        """Start a container with a web server; return its id."""
        return self(
            "run", "-d", "--name", name, *flags, IMAGE, "httpd", "-f", "-p", "80", "-h", "/www"
        )


class Machine:
    """One machine: its directory and its agent."""

    def __init__(
        self, directory: InstanceDirectory, docker_socket: Path, prefix: Sequence[str]
    ) -> None:
        self.directory = directory
        self.docker_socket = docker_socket
        self.prefix = prefix
        self.docker = Docker(docker_socket)
        self.paths = MachinePaths(directory)
        self.agent: Program[str] | None = None

    def start(self, *, until: str = "running") -> None:
        """Start an agent and wait for an event with this member."""
        self.spawn()
        self.wait(until)

    @property
    def command(self) -> list[str]:
        """Return the command line of an agent."""
        directory = self.directory
        return [
            *self.prefix,
            *(sys.executable, "-m", "rdd.vm.agent", "--pidfile", str(directory.ha_pid)),
            *("--socket", str(directory.ha_sock), directory.name),
        ]

    def spawn(self) -> None:
        directory = self.directory
        with directory.ha_stdout.open("wb") as out, directory.ha_stderr.open("wb") as err:
            self.agent = start_program(
                self.command,
                stdout=out,
                stderr=err,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": os.environ["HOME"],
                    "LIMA_HOME": str(directory.path.parent),
                },
            )

    def statuses(self) -> list[dict[str, Any]]:
        lines = self.directory.ha_stdout.read_bytes().split(b"\n")[:-1]
        return [json.loads(line)["status"] for line in lines]

    def wait(self, member: str) -> dict[str, Any]:
        """Return the first event with a member."""

        def look() -> dict[str, Any] | None:
            found = [status for status in self.statuses() if member in status]
            if not found and self.agent is not None and self.agent.poll() is not None:
                raise AssertionError(f"the agent ended: {self.log()}")
            return found[0] if found else None

        found: dict[str, Any] = eventually(look, f"an event with {member}")
        return found

    def wait_forward(self, kind: str, host: str) -> dict[str, Any]:
        """Wait for an event about a forward."""

        def look() -> dict[str, Any] | None:
            every = [status.get("portForward", {}) for status in self.statuses()]
            return next(
                (f for f in every if f.get("type") == kind and f.get("hostAddr") == host), None
            )

        found: dict[str, Any] = eventually(look, f"{kind} {host}")
        return found

    def log(self) -> str:
        return self.directory.ha_stderr.read_text()

    def ended(self) -> int:
        """Wait for the end of the agent; return its exit code."""
        assert self.agent is not None
        code = self.agent.wait()
        self.agent = None
        return code

    def stop(self) -> int:
        """Shut the machine down; return the exit code of the agent."""
        assert self.agent is not None
        os.kill(self.agent_pid, signal.SIGINT)
        return self.ended()

    @property
    def agent_pid(self) -> int:
        return int(self.directory.ha_pid.read_text())

    def kill_agent(self) -> None:
        os.kill(self.agent_pid, signal.SIGKILL)
        assert self.agent is not None
        self.agent.wait()
        self.agent = None

    @property
    def init_pid(self) -> int:
        return int(self.paths.pid_file.read_text())

    def engine_pid(self, program: str = "dockerd") -> int:
        """Return the pid of the engine on this host."""
        config = str(self.paths.config(program)).encode()
        (found,) = [
            pid
            for pid, words in _command_lines()
            if config in words and os.path.basename(words[0]) == program.encode()
        ]
        return found

    def traces(self) -> list[str]:
        """Return the traces of this machine outside its directory."""
        mark = str(self.directory.path).encode()
        found = [
            f"process {pid}: {b' '.join(words).decode()}"
            for pid, words in _command_lines()
            if any(mark in word for word in words)
        ]
        mounts = Path("/proc/self/mounts").read_text()
        found += [line for line in mounts.splitlines() if str(self.directory.path) in line]
        links = run(*self.prefix, "ip", "-oneline", "link")
        found += [line for line in links.splitlines() if self.paths.link in line]
        rules = run(*self.prefix, "iptables-save")
        found += [line for line in rules.splitlines() if self.paths.comment in line]
        found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*{self.paths.cgroup}")]
        found += [str(path) for path in self.directory.path.glob("*.pid")]
        if self.docker_socket.exists():
            found.append(str(self.docker_socket))
        return found

    def close(self) -> None:
        for pid_file in (self.directory.ha_pid,):
            process = live_process(pid_file, pid_file.with_suffix(".identity"))
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        if self.agent is not None:
            self.agent.end()
        asyncio.run(cleanup(self.directory))


def _command_lines() -> Iterator[tuple[int, list[bytes]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0]:
                    yield int(entry.name), words


class HostWorld:
    """Machines in one directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = LimaHome(path / "lima")
        self.machines: list[Machine] = []

    def machine(
        self, name: str, *, engine: str = "moby", text: str = "", prefix: Sequence[str] = ()
    ) -> Machine:
        """Create a machine without starting it."""
        docker_socket = self.path / f"{name}.sock"
        text = text or ENGINE.format(engine=engine, socket=docker_socket)
        asyncio.run(
            create(
                self.home,
                name,
                text,
                facts=HostFacts.gather(self.path),
                environment={"PATH": os.environ["PATH"]},
                version="test",
                progress=lambda _: None,
            )
        )
        made = Machine(self.home.directory(name), docker_socket, prefix)
        self.machines.append(made)
        return made


@contextlib.contextmanager
def host_world() -> Iterator[HostWorld]:
    """Yield a world and clean up afterwards."""
    path = Path(tempfile.mkdtemp(prefix="rdd-hd-"))
    world = HostWorld(path)
    try:
        yield world
    finally:
        for machine in world.machines:
            machine.close()
        remove_tree(path)  # a rootless engine leaves files of subordinate ids
