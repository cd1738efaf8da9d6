# SPDX-License-Identifier: Apache-2.0
"""The App with a container engine and a cluster on this machine, and all its controllers.

Only k3s is a stand-in (tests/k3s.py): build machines have none.
"""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.app.host_app import (
    RELEASE,
    app,
    assert_context_is_current,
    conditions,
    install_k3s,
    run_docker,
    short_home,
)
from tests.e2e.machine.host_world import image
from tests.e2e.service.service_world import CURRENT_CONTEXT, World
from tests.programs import run_program

from rdd.host.cgroups import Group, Layout
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.instance_dir import InstanceDirectory


@pytest.fixture(scope="module")
def world(rdd_script: Path, kubectl: Path, docker: Path) -> Iterator[World]:
    """Run a control plane with all controllers in a home whose sockets have short paths."""
    yield from short_home(rdd_script, kubectl)


def test_app_starts_stops_and_starts_again(world: World, docker: Path) -> None:
    world.rdd("set", "running=true", "kubernetes.enabled=false")
    # On the way up Settled does not wait for the condition of a disabled cluster.
    world.until(lambda: "KubernetesReady" in conditions(world))
    assert conditions(world) == {
        "Created": ("True", "Created"),
        "Running": ("True", "Started"),
        "ContainerEngineReady": ("True", "Connected"),
        "KubernetesReady": ("False", "NotApplicable"),
        "Settled": ("True", "Settled"),
    }
    assert app(world)["status"]["virtualMachineType"] == "host"
    assert_context_is_current(world, docker)
    run_docker(world, docker, "import", "-", "tools", text=image())
    assert run_docker(world, docker, "run", "--rm", "tools", "/bin/echo", "hello") == "hello"

    world.rdd("set", "running=false")
    found = conditions(world)
    assert (found["Running"], found["Settled"]) == (("False", "Stopped"), ("True", "Settled"))
    assert found["ContainerEngineReady"] == ("False", "Stopped")
    assert run_docker(world, docker, *CURRENT_CONTEXT) == "default"
    assert not world.instance.docker_socket.exists()

    world.rdd("set", "running=true")
    assert_context_is_current(world, docker)
    assert run_docker(world, docker, "images", "-q")  # the images were kept


def _limits(world: World) -> dict[str, Any]:
    found: dict[str, Any] = app(world)["status"]["resourceLimits"]
    return found


def test_cpus_and_memory_are_enforced_once_they_are_set(world: World, docker: Path) -> None:
    world.rdd("set", "running=true")
    mode = Layout.read(os.environ).mode
    spec = app(world)["spec"]["virtualMachine"]
    assert spec["cpus"] > 0  # the default, which limits nothing
    assert _limits(world) == {"mode": mode}
    for bad in ("memory=8", "memory=999Gi", "cpus=1000"):
        done = world.try_rdd("set", f"virtualMachine.{bad}")
        assert (done.code, app(world)["spec"]["virtualMachine"]) == (3, spec)

    world.rdd("set", "virtualMachine.cpus=1", "virtualMachine.memory=2Gi")
    assert _limits(world) == {"mode": mode, "cpus": 1, "memory": "2Gi"}
    machine = MachinePaths(InstanceDirectory(world.instance.lima_home / "rd"))
    group = Group(Layout.read(os.environ), machine.cgroup)
    name = "memory.limit_in_bytes" if mode == "v1" else "memory.max"
    assert int((group.directory("memory") / name).read_text()) == 2 << 30

    world.rdd("set", "virtualMachine.cpus=0", "virtualMachine.memory=")
    assert _limits(world) == {"mode": mode}
    assert app(world)["spec"]["virtualMachine"] == spec


def _process(world: World, program: str) -> int:
    """Return the process of a program of this instance."""
    mark = str(world.instance.lima_home).encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(program.encode()) and any(mark in word for word in words):
                found.append(int(entry.name))
    (pid,) = found
    return pid


def test_engine_that_hangs_is_reported_until_it_responds(world: World, docker: Path) -> None:
    world.rdd("set", "running=true")
    pid = _process(world, "dockerd")
    os.kill(pid, signal.SIGSTOP)
    try:
        world.until(lambda: conditions(world)["Settled"] == ("False", "NotResponding"))
        assert conditions(world)["ContainerEngineReady"] == ("False", "NotResponding")
        assert conditions(world)["Degraded"] == ("True", "EngineHung")
        assert conditions(world)["Running"] == ("True", "Started")
    finally:
        os.kill(pid, signal.SIGCONT)
    world.until(lambda: conditions(world)["Settled"] == ("True", "Settled"))
    assert "Degraded" not in conditions(world)
    assert _process(world, "dockerd") == pid


def test_stopped_agent_is_reported_until_it_continues(world: World, docker: Path) -> None:
    world.rdd("set", "running=true")
    pid = int((world.instance.lima_home / "rd" / "ha.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        world.until(lambda: conditions(world).get("Degraded") == ("True", "AgentHung"))
        assert run_docker(world, docker, "ps", "-q") == ""
    finally:
        os.kill(pid, signal.SIGCONT)
    world.until(lambda: "Degraded" not in conditions(world))
    assert int((world.instance.lima_home / "rd" / "ha.pid").read_text()) == pid


def test_registries_and_proxy_reach_the_engine(world: World, docker: Path) -> None:
    world.rdd("set", "running=true")
    restarts = json.loads(world.kubectl("get", "limavm", "rd", "-o", "json"))["status"]
    patch = {
        "spec": {
            "registries": {
                "mirrors": [{"registry": "docker.io", "endpoints": ["http://127.0.0.1:5999"]}],
                "insecure": ["reg.example.com:5000"],
            },
            "proxy": {"httpProxy": "http://proxy.example.com:3128", "noProxy": ["x.org"]},
        }
    }
    world.kubectl("patch", "app", "app", "--type=merge", "-p", json.dumps(patch))
    world.rdd("set", "running=true")  # waits until it is settled
    assert_context_is_current(world, docker)
    info = json.loads(run_docker(world, docker, "info", "--format", "{{json .}}"))
    assert info["RegistryConfig"]["Mirrors"] == ["http://127.0.0.1:5999/"]
    assert "reg.example.com:5000" in info["RegistryConfig"]["IndexConfigs"]
    assert info["HttpProxy"] == "http://proxy.example.com:3128"
    assert "x.org" in info["NoProxy"]
    after = json.loads(world.kubectl("get", "limavm", "rd", "-o", "json"))["status"]
    assert after["restartCount"] == restarts["restartCount"] + 1
    gone = {"spec": {"registries": None, "proxy": None}}
    world.kubectl("patch", "app", "app", "--type=merge", "-p", json.dumps(gone))
    world.rdd("set", "running=true")
    assert_context_is_current(world, docker)
    info = json.loads(run_docker(world, docker, "info", "--format", "{{json .}}"))
    assert (info["RegistryConfig"]["Mirrors"] or [], info["HttpProxy"]) == ([], "")


def test_kubernetes_reports_a_missing_k3s_and_runs_once_installed(
    world: World, docker: Path
) -> None:
    mine = world.home / ".kube" / "config"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("# mine\napiVersion: v1\nkind: Config\nclusters: []\n")
    done = world.try_rdd(
        "set", "running=true", "kubernetes.enabled=true", "kubernetes.version=1.33.7"
    )
    assert done.code == 1  # waiting does not help
    assert f"k3s {RELEASE} is not installed; to change that: " in done.last[1]
    assert conditions(world)["KubernetesReady"] == ("False", "NotInstalled")
    install_k3s(world)
    world.rdd("set", "running=false")
    world.rdd("set", "running=true")
    assert conditions(world)["KubernetesReady"] == ("True", "Ready")
    name, port = world.instance.name, app(world)["status"]["kubernetesPort"]
    config = yaml.safe_load(mine.read_text())
    assert config["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{port}"
    assert config["current-context"] == name
    nodes = run_program(
        [str(world.kubectl_path), "get", "--raw", "/api/v1/nodes"], env=world.environment()
    )
    assert json.loads(nodes.stdout)["items"][0]["metadata"]["name"] == "n", nodes.stderr
    assert_context_is_current(world, docker)
    world.rdd("set", "running=false")
    assert name not in mine.read_text()
    assert mine.read_text().startswith("# mine\napiVersion: v1\nkind: Config\nclusters: []\n")
    assert not world.instance.kube_config.exists()


def test_deletion_leaves_nothing(world: World, docker: Path) -> None:
    world.rdd("set", "running=true")
    agent = world.instance.lima_home / "rd" / "ha.pid"
    pid = int(agent.read_text())
    world.kubectl("delete", "app", "app", "--timeout=120s")
    world.until(lambda: not Path("/proc", str(pid)).exists())
    assert list(world.instance.lima_home.glob("rd*")) == []
    assert not world.instance.docker_socket.exists()
    assert run_docker(world, docker, "context", "ls", "--format", "{{.Name}}") == "default"
    assert json.loads(world.kubectl("get", "limavms", "-A", "-o", "json"))["items"] == []


def test_dry_run_predicts_what_restarts(world: World) -> None:
    world.rdd("set", "running=true", "kubernetes.enabled=false")

    def starts() -> int:
        found = json.loads(world.kubectl("get", "limavm", "rd", "-o", "json"))
        return int(found["status"]["restartCount"])

    for change, restarts in {
        "idle.afterSeconds=77": False,
        "downloads.automatic=true": False,
        "proxy.noProxy=a.example": False,  # without a proxy
        "registries.insecure=a.example": True,
    }.items():
        preview = world.rdd("set", "--dry-run", change).out.splitlines()[-1]
        before = starts()
        world.rdd("set", change)
        assert (starts() > before) is restarts
        expected = (
            "This restarts the machine; no container runs." if restarts else "Nothing restarts."
        )
        assert preview == expected
    world.rdd("set", "registries.insecure=", "proxy.noProxy=", "downloads.automatic=false")


def test_default_that_is_set_explicitly_is_a_change(world: World) -> None:
    world.rdd("set", "running=true", "virtualMachine.cpus=0")
    cpus = app(world)["spec"]["virtualMachine"]["cpus"]
    out = world.rdd("set", "--dry-run", f"virtualMachine.cpus={cpus}").out
    assert out.splitlines()[1].split() == ["virtualMachine.cpus", f"{cpus}", "(default)", f"{cpus}"]
