# SPDX-License-Identifier: Apache-2.0
"""Conditions of the App around the end of a daemon: none of them is stale.

The engine is real, k3s a stand-in (tests/k3s.py).
"""

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.app.host_app import app, conditions, install_k3s, run_docker, short_home
from tests.e2e.machine.host_world import image
from tests.e2e.machine.limavm_parts import processes
from tests.e2e.service.service_world import CURRENT_CONTEXT, World
from tests.programs import run_program

from rdd.host.contexts.docker_contexts import metadata_path
from rdd.vm.instance_dir import LimaHome


@pytest.fixture(scope="module")
def world(rdd_script: Path, kubectl: Path, docker: Path) -> Iterator[World]:
    for made in short_home(rdd_script, kubectl):
        install_k3s(made)
        (made.home / ".kube").mkdir()
        yield made


def start_app(world: World) -> None:
    """Start the App with engine and cluster."""
    world.rdd("set", "running=true", "kubernetes.enabled=true", "kubernetes.version=1.33.7")


def uids(world: World, kind: str) -> dict[str, str]:
    items = json.loads(world.kubectl("get", kind, "-A", "-o", "json"))["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}


def has_status(world: World, kind: str, text: str) -> bool:
    """Return whether an object of a kind with a text in it has a status."""
    items = json.loads(world.kubectl("get", kind, "-A", "-o", "json"))["items"]
    return any(text in json.dumps(item) for item in items if item.get("status"))


def event_notes(world: World) -> list[str]:
    """Return the notes of all events in the order of their writes."""
    listed = json.loads(world.kubectl("get", "events.events.k8s.io", "-A", "-o", "json"))["items"]
    listed.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    return [event["note"] for event in listed]


def conditions_since(world: World, version: str) -> set[tuple[str, str]]:
    """Return type and reason of all conditions of the App since a version of it."""
    query = f"watch=1&timeoutSeconds=1&resourceVersion={version}"
    path = "/apis/app.rancherdesktop.io/v1alpha1/apps"
    lines = world.kubectl("get", "--raw", f"{path}?{query}").splitlines()
    events = [json.loads(line) for line in lines]
    return {
        (found["type"], found["reason"])
        for event in events
        for found in event["object"]["status"]["conditions"]
    }


def content(path: Path) -> tuple[int, bytes]:
    """Return the inode and the content of a file."""
    return path.stat().st_ino, path.read_bytes()


def restarts(world: World) -> int:
    status = json.loads(world.kubectl("get", "limavm", "rd", "-o", "json"))["status"]
    return int(status["restartCount"])


def silent(home: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield a Docker socket and a port that accept connections and never respond."""
    path = home / "silent.sock"
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as tcp:
        unix.bind(str(path))
        unix.listen(8)
        yield unix, tcp


def test_contexts_are_current_before_the_app_is_settled(world: World, docker: Path) -> None:
    """The user's contexts never respond; their probe ends after 3 s."""
    world.rdd("stop")
    kube = world.home / ".kube" / "config"
    for unix, tcp in silent(world.home):
        run_docker(
            *(world, docker, "context", "create", "mine"),
            *("--docker", f"host=unix://{unix.getsockname()}"),
        )
        run_docker(world, docker, "context", "use", "mine")
        kube.write_text(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: mine\n  cluster:\n"
            f"    server: https://127.0.0.1:{tcp.getsockname()[1]}\n"
            "contexts:\n- name: mine\n  context: {cluster: mine, user: mine}\n"
            "users: []\ncurrent-context: mine\n"
        )
        start_app(world)
        assert run_docker(world, docker, *CURRENT_CONTEXT) == world.instance.name
        assert f"current-context: {world.instance.name}\n" in kube.read_text()
        run_docker(world, docker, "ps")


def test_a_crash_of_the_daemon_changes_nothing(world: World, docker: Path) -> None:
    start_app(world)
    run_docker(world, docker, "import", "-", "tools", text=image())
    id_ = run_docker(world, docker, "run", "-d", "--name", "kept", "tools", "/bin/sleep", "10000")
    world.until(lambda: has_status(world, "containers", id_))
    world.until(lambda: has_status(world, "images", "tools:latest"))
    kinds = ("containers", "images", "containernamespaces")
    before = {kind: uids(world, kind) for kind in kinds}
    name, directory = world.instance.name, world.home / ".docker"
    paths = (
        metadata_path(directory, name),
        directory / "config.json",
        world.home / ".kube" / "config",
        world.instance.kube_config,
    )
    files = [content(path) for path in paths]
    count, noted = restarts(world), len(event_notes(world))
    version = app(world)["metadata"]["resourceVersion"]

    world.crash()
    world.rdd("svc", "start")
    # Conditions from before the crash are replaced before the first read.
    first = conditions(world)
    assert first["Settled"] != ("True", "Settled") or restarts(world) == count + 1
    world.rdd("start")
    assert conditions(world)["Settled"] == ("True", "Settled")
    assert {kind: uids(world, kind) for kind in kinds} == before
    assert [content(path) for path in paths] == files
    assert restarts(world) == count + 1
    assert run_docker(world, docker, "inspect", "--format", "{{.State.Running}}", "kept") == "true"
    # Events are sent in batches.
    world.until(
        lambda: any(note.startswith("Running=Unknown") for note in event_notes(world)[noted:])
    )
    since = event_notes(world)[noted:]
    assert not [note for note in since if "Running=False" in note or "Stopped" in note]
    types = ("Settled", "Running", "ContainerEngineReady", "KubernetesReady")
    expected = {(type_, "Reconciling") for type_ in types}
    world.until(lambda: conditions_since(world, version) >= expected)


def kill_all(world: World) -> None:
    """Kill everything at once, as a power failure does."""
    world.crash()
    home = str(world.home).encode()
    for pid, words in processes():
        if any(home in word for word in words):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    machine = LimaHome(world.instance.lima_home).directory("rd")
    world.until(lambda: machine.agent() is None and machine.driver_process() is None)


@pytest.mark.parametrize("end", ["stop", "power failure"])
def test_a_start_returns_when_docker_works_however_the_last_run_ended(
    world: World, docker: Path, end: str, soak: bool
) -> None:
    start_app(world)
    for _ in range(10 if soak else 2):
        if end == "stop":
            world.rdd("svc", "stop")
        else:
            kill_all(world)
        world.rdd("start")
        run_docker(world, docker, "--context", world.instance.name, "ps")
        assert run_docker(world, docker, *CURRENT_CONTEXT) == world.instance.name
        found = conditions(world)
        assert found["Settled"] == ("True", "Settled")
        assert found["ContainerEngineReady"] == ("True", "Connected")
        assert found["KubernetesReady"] == ("True", "Ready")
        assert nodes(world)["items"][0]["metadata"]["name"] == "n"


def nodes(world: World) -> Any:
    """Return the nodes of the cluster of the current context."""
    done = run_program(
        [str(world.kubectl_path), "get", "--raw", "/api/v1/nodes"], env=world.environment()
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_stopped_app_stays_settled_over_a_restart(world: World) -> None:
    world.rdd("set", "running=false")
    world.crash()
    world.rdd("svc", "start")
    assert conditions(world)["Settled"] == ("True", "Settled")
    assert not app(world)["spec"]["running"]
