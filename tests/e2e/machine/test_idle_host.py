# SPDX-License-Identifier: Apache-2.0
"""Idle detection of a machine on the host, with the real dockerd: pause, wake, and the clients."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.machine.host_world import (
    HostWorld,
    Machine,
    eventually,
    fetch,
    fetch_once_served,
    free_port,
    host_world,
)

from rdd.host.cgroups import Freezer, Layout
from rdd.vm.agent import client
from rdd.vm.idle.settings import IdleSettings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's machines can be paused")

QUICK = IdleSettings(action="pause", after_s=0.4)


@pytest.fixture(scope="module")
def world(dockerd_path: Path) -> Iterator[HostWorld]:
    with host_world() as made:
        yield made


@pytest.fixture(scope="module")
def booted(world: HostWorld) -> Machine:
    machine = world.machine("idle")
    machine.start()
    machine.docker.load_image()
    return machine


@pytest.fixture
def machine(booted: Machine) -> Iterator[Machine]:
    """Yield the machine with idle detection switched off, and leave it so, without containers."""
    yield booted
    configure(booted, IdleSettings())
    for name in booted.docker("ps", "-aq").split():
        booted.docker("rm", "-f", name)


def configure(machine: Machine, settings: IdleSettings) -> None:
    settings.write(machine.directory.idle_settings)
    asyncio.run(client.reload_idle_settings(machine.directory.ha_sock))
    if settings.action == "none":
        eventually(lambda: "action" not in idle(machine), "idle detection is off")
    else:
        eventually(lambda: idle(machine).get("action"), "idle detection is on")


def idle(machine: Machine) -> dict[str, Any]:
    """Return the last report of idle detection."""
    found: dict[str, Any] = machine.statuses()[-1].get("idle", {})
    return found


def is_paused(machine: Machine) -> bool:
    return bool(idle(machine).get("paused_since")) and is_frozen(machine)


def is_frozen(machine: Machine) -> bool:
    return Freezer(Layout.read(os.environ), machine.paths.cgroup).is_frozen


def wait_paused(machine: Machine) -> None:
    eventually(lambda: is_paused(machine), "the pause")


def test_pauses_an_idle_machine_and_wakes_it_with_a_request(machine: Machine) -> None:
    port = free_port()
    machine.docker.serve("web", "-p", f"{port}:80")
    fetch_once_served(port)
    configure(machine, QUICK)
    wait_paused(machine)
    assert json.loads(machine.directory.paused.read_text())["cause"] == "no activity for 0.4 s"
    assert machine.docker("ps", "-q")
    assert idle(machine)["cause"].endswith("on the Docker socket")
    wait_paused(machine)
    assert fetch(port) == "hello"
    assert idle(machine)["cause"] == f"a client of 0.0.0.0:{port}"
    assert not machine.directory.paused.exists() or is_paused(machine)
