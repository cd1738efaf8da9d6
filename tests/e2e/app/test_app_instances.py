# SPDX-License-Identifier: Apache-2.0
"""Two instances of one user with an App each, and deletions that a crash interrupts."""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.app.host_app import app, install_k3s
from tests.e2e.app.test_app_journey import Desktop, responds
from tests.e2e.machine.host_world import eventually, free_port, image
from tests.e2e.machine.limavm_parts import processes
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program

KUBERNETES = ("kubernetes.enabled=true", "kubernetes.version=1.33.7")


@pytest.fixture
def world(rdd_script: Path, kubectl: Path, docker: Path) -> Iterator[World]:
    home = Path(tempfile.mkdtemp(prefix="rddi", dir="/tmp"))
    for made in make_world(rdd_script, home / "h", kubectl):
        try:
            yield made
        finally:
            for suffix in ("2", "a", "b"):
                made.named(suffix).try_rdd("svc", "delete", "--timeout=120s")
    shutil.rmtree(home, ignore_errors=True)


class User:
    """A user of one instance who passes its context with each command."""

    def __init__(self, world: World, docker: Path) -> None:
        self.world = world
        self.desktop = Desktop(world, docker)
        self._docker = docker

    def docker(self, *words: str, data: bytes | None = None) -> str:
        done = run_program(
            [str(self._docker), "--context", self.world.instance.name, *words],
            env=self.world.environment(),
            input=data,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def serve(self, port: int, text: str) -> str:
        """Run a web server with a page in a container; return its address there."""
        self.docker("import", "-", "tools", data=image())
        page = f"echo {text} >/index.html; exec httpd -f -p 80 -h /"
        self.docker(
            *("run", "-d", "--name", "web", "-p", f"127.0.0.1:{port}:80", "tools"),
            *("/bin/sh", "-c", page),
        )
        eventually(lambda: responds(port), "a response")
        return self.docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", "web")

    def namespaces(self) -> dict[str, str]:
        mark = f"{self.world.instance.lima_home}/".encode()
        (pid,) = [
            pid
            for pid, words in processes()
            if words[0].endswith(b"dockerd") and any(mark in word for word in words)
        ]
        return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in ("net", "mnt")}

    def cluster(self) -> Any:
        """Return the nodes of the cluster of this instance."""
        words = ("get", "--raw", "/api/v1/nodes", "--context", self.world.instance.name)
        done = run_program([str(self.world.kubectl_path), *words], env=self.world.environment())
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["items"]


def page(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), 120) as connection:
        connection.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
        data = b""
        while chunk := connection.recv(4096):
            data += chunk
    return data.rpartition(b"\r\n\r\n")[2].decode().strip()


def test_two_instances_share_nothing(world: World, docker: Path) -> None:
    users = [User(world.named(suffix), docker) for suffix in ("a", "b")]
    install_k3s(world)
    starting = [
        user.world.begin("set", "running=true", *KUBERNETES, "--timeout=120s") for user in users
    ]
    for user, process in zip(users, starting, strict=True):
        done = user.world.end(process)
        assert done.code == 0, done
    one, two = users
    ports = [free_port() for _ in users]
    for user, port in zip(users, ports, strict=True):
        user.serve(port, user.world.suffix)
    assert [page(port) for port in ports] == ["a", "b"]
    for user in users:
        assert user.docker("ps", "--format", "{{.Names}}") == "web"
        assert len(user.cluster()) == 1

    for kind in ("net", "mnt"):
        assert one.namespaces()[kind] != two.namespaces()[kind]
    assert one.world.instance.docker_socket != two.world.instance.docker_socket
    kubernetes = [app(user.world)["status"]["kubernetesPort"] for user in users]
    assert len({*ports, *kubernetes}) == 4
    assert set(one.desktop.contexts()) == {"default", *(u.world.instance.name for u in users)}
    shared = set(files(one)) & set(files(two))
    assert not shared

    # The deletion of one does not affect the other.
    one.world.rdd("delete", "--timeout=120s")
    assert not responds(ports[0])
    assert page(ports[1]) == "b"
    assert two.docker("ps", "--format", "{{.Names}}") == "web"
    assert len(two.cluster()) == 1
    assert one.world.instance.name not in one.desktop.contexts()
    one.world.rdd("svc", "delete")
    assert page(ports[1]) == "b"
    two.world.rdd("delete", "--timeout=120s")
    two.desktop.wait_gone()


def files(user: User) -> list[Path]:
    instance = user.world.instance
    return [path for root in (instance.dir, instance.short_dir) for path in root.rglob("*")]


POINTS: dict[str, Callable[[User], object]] = {
    "accepted": lambda user: True,
    "engine gone": lambda user: not user.desktop.dockerd(),
    "machine gone": lambda user: not user.desktop.machine.exists(),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_deletion_interrupted_by_a_crash_is_completed_after_it(
    world: World, docker: Path, point: str
) -> None:
    user = User(world, docker)
    world.rdd("start")
    world.kubectl("delete", "app", "app", "--wait=false")
    world.until(lambda: POINTS[point](user))
    world.crash()
    world.rdd("svc", "start")
    world.kubectl("wait", "--for=delete", "app/app", "--timeout=120s")
    user.desktop.wait_gone()
    assert list(world.instance.lima_home.iterdir()) == []
    for kind in ("limavms", "containers"):
        world.until(lambda kind=kind: world.kubectl("get", kind, "-A", "-o", "name") == "")
    world.rdd("start")
    assert user.docker("ps", "-q") == ""
