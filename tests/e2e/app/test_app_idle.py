# SPDX-License-Identifier: Apache-2.0
"""Idle pause of the App, with the daemon, the agent and dockerd: what users and programs see."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.app.host_app import run_docker, short_home
from tests.e2e.machine.host_world import IMAGE, fetch, fetch_once_served, free_port, image
from tests.e2e.service.service_world import World

from rdd.host.cgroups import Freezer, Layout
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.instance_dir import InstanceDirectory

QUICK = ("idle.action=pause", "idle.afterSeconds=1")


IN_ORDER = True  # one App with one container, which the last test stops


@pytest.fixture(scope="module")
def world(rdd_script: Path, kubectl: Path, docker: Path) -> Iterator[World]:
    for made in short_home(rdd_script, kubectl):
        made.rdd("set", "running=true", "virtualMachine.type=host")
        run_docker(made, docker, "import", "-", IMAGE, text=image())
        yield made


def condition(world: World, type_: str) -> dict[str, Any]:
    obj = json.loads(world.kubectl("get", "app", "app", "-o", "json"))
    found = {each["type"]: each for each in obj["status"]["conditions"]}
    current: dict[str, Any] = found.get(type_, {})
    return current


def states(world: World) -> dict[str, tuple[str, str]]:
    types = ("Running", "ContainerEngineReady", "Settled", "Paused")
    found = {type_: condition(world, type_) for type_ in types}
    return {type_: (c.get("status", ""), c.get("reason", "")) for type_, c in found.items()}


def machine(world: World) -> InstanceDirectory:
    return InstanceDirectory(world.instance.lima_home / "rd")


def is_frozen(world: World) -> bool:
    return Freezer(Layout.read(os.environ), MachinePaths(machine(world)).cgroup).is_frozen


def until_paused(world: World) -> None:
    world.until(
        lambda: is_frozen(world) and condition(world, "ContainerEngineReady")["reason"] == "Paused"
    )


PAUSED = {
    "Running": ("True", "Started"),
    "ContainerEngineReady": ("True", "Paused"),
    "Settled": ("True", "Settled"),
    "Paused": ("True", "Idle"),
}


def test_idle_app_is_paused_and_only_clients_wake_it(world: World, docker: Path) -> None:
    port = free_port()
    serve = ("httpd", "-f", "-p", "80", "-h", "/www")
    run_docker(world, docker, "run", "-d", "--name", "web", "-p", f"{port}:80", IMAGE, *serve)
    fetch_once_served(port)
    world.rdd("set", *QUICK)
    until_paused(world)
    assert states(world) == PAUSED
    assert "no activity for 1 s" in condition(world, "Paused")["message"]
    starts = world.kubectl("get", "limavm", "rd", "-o", "jsonpath={.status.restartCount}")

    # The mirror, the status and the checks answer without the engine.
    assert "web" in world.kubectl("get", "containers.containers.rancherdesktop.io", "-o", "json")
    assert re.search(r"paused since [0-9T:-]{19}Z: ", world.rdd("status").out)
    world.rdd("doctor")
    assert is_frozen(world)

    assert fetch(port) == "hello"
    world.until(lambda: f"a client of 0.0.0.0:{port}" in condition(world, "Paused")["message"])
    assert states(world)["ContainerEngineReady"] == ("True", "Connected")
    assert run_docker(world, docker, "ps", "--format", "{{.Names}}") == "web"
    assert world.kubectl("get", "limavm", "rd", "-o", "jsonpath={.status.restartCount}") == starts


def test_commands_wake_a_paused_app(world: World) -> None:
    world.rdd("set", *QUICK)
    until_paused(world)
    assert world.rdd("shell", "echo", "awake").out.strip() == "awake"
    until_paused(world)
    assert "hello" in world.rdd("exec", "web", "cat", "/www/index.html").out
    until_paused(world)
    world.rdd("set", "idle.action=none")
    world.until(lambda: not condition(world, "Paused"))
    assert not is_frozen(world)


@pytest.mark.parametrize("victim", ["daemon", "agent", "both"])
def test_paused_app_survives_the_kill_of_a_process(world: World, victim: str) -> None:
    world.rdd("set", *QUICK)
    until_paused(world)
    agent = machine(world).agent()
    assert agent is not None
    if victim in ("daemon", "both"):
        world.crash()
    if victim in ("agent", "both"):
        os.kill(agent.pid, signal.SIGKILL)
    if victim == "daemon":
        assert is_frozen(world)
    if victim != "agent":
        world.rdd("svc", "start")
    # The new agent wakes the machine, whose last report is that of the pause.
    world.until(lambda: machine(world).agent() not in (None, agent))
    world.until(lambda: states(world) in (PAUSED, {**PAUSED, **AWAKE}))
    until_paused(world)
    assert states(world) == PAUSED


AWAKE = {"ContainerEngineReady": ("True", "Connected"), "Paused": ("False", "Awake")}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("idle.afterSeconds=0", "1"),
        ("idle.afterSeconds=604801", "604800"),
        ("idle.cpuPercent=0", "1"),
        ("idle.cpuPercent=101", "100"),
        ("idle.networkBytesPerSecond=-1", "0"),
        ("idle.action=sleep", "suspend"),
    ],
)
def test_rejects_settings_out_of_range(world: World, setting: str, message: str) -> None:
    done = world.try_rdd("set", setting)
    assert done.code != 0
    assert setting.partition("=")[0] in done.err
    assert message in done.err


def test_suspend_falls_back_to_pause_with_the_reason(world: World) -> None:
    world.rdd("set", "idle.action=suspend", "idle.afterSeconds=1")
    until_paused(world)
    assert "it is paused instead" in condition(world, "Paused")["message"]


def test_idle_app_is_stopped(world: World) -> None:
    world.rdd("set", "idle.action=stop", "idle.afterSeconds=1")
    world.until(lambda: states(world)["Running"] == ("False", "Stopped"))
    world.until(lambda: states(world)["Settled"] == ("True", "Settled"))
    assert not condition(world, "Paused")
