# SPDX-License-Identifier: Apache-2.0
"""Idle detection of a machine on the host, with the real dockerd: pause, wake, and the clients."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.machine.host_world import (
    IMAGE,
    HostWorld,
    Machine,
    eventually,
    fetch,
    fetch_once_served,
    free_port,
    host_world,
)
from tests.programs import start_program

from rdd.host import unix_http
from rdd.host.cgroups import Freezer, Layout
from rdd.vm.agent import client
from rdd.vm.drivers.host.teardown import cleanup
from rdd.vm.idle.docker_paths import own_socket
from rdd.vm.idle.settings import IdleSettings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's machines can be paused")

ROUNDS = 300 if os.environ.get("RDD_SOAK") == "1" else 5
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


def test_pause_gives_back_the_page_cache(machine: Machine) -> None:
    layout = Layout.read(os.environ)
    if layout.mode != "v1" or len(Path("/proc/swaps").read_text().splitlines()) > 1:
        pytest.skip("another kind of control groups is tested in a guest")
    stat = layout.controller("memory").path / machine.paths.cgroup.strip("/") / "memory.stat"

    def cache_mib() -> int:
        found = dict(line.split() for line in stat.read_text().splitlines())
        return (int(found["total_inactive_file"]) + int(found["total_active_file"])) >> 20

    write = "dd if=/dev/zero of=/f bs=1M count=64 2>/dev/null; sync; exec sleep 1000"
    machine.docker("run", "-d", IMAGE, "sh", "-c", write)
    eventually(lambda: cache_mib() >= 64, "the page cache")
    configure(machine, QUICK)
    wait_paused(machine)
    eventually(lambda: cache_mib() < 32, "the memory")
    assert is_paused(machine)
    assert machine.docker("ps", "-q")


def test_quiet_streams_stay_open_and_wake_only_for_what_the_client_sends(machine: Machine) -> None:
    command = ["docker", "-H", f"unix://{machine.docker_socket}"]
    configure(machine, QUICK)
    events = start_program([*command, "events", "--filter", "event=die"], stdout=-1)
    attached = start_program([*command, "run", "--rm", "-i", IMAGE, "cat"], stdin=-1, stdout=-1)
    assert attached.stdin is not None
    assert attached.stdout is not None
    assert events.stdout is not None
    eventually(lambda: machine.docker("ps", "-q"), "the container")
    for text in ("one", "two"):
        wait_paused(machine)
        attached.stdin.write(f"{text}\n")
        attached.stdin.flush()
        assert attached.stdout.readline() == f"{text}\n"
        assert "/attach" in idle(machine)["cause"]
    wait_paused(machine)
    attached.stdin.close()
    assert attached.wait() == 0
    attached.stdout.close()
    assert "die" in events.stdout.readline()
    events.end()
    events.stdout.close()


def test_kept_alive_connection_is_idle_and_its_next_request_is_answered(machine: Machine) -> None:
    configure(machine, QUICK)
    with socket.socket(socket.AF_UNIX) as client_:
        client_.settimeout(120)
        client_.connect(str(machine.docker_socket))
        for _ in range(ROUNDS):
            wait_paused(machine)
            client_.sendall(b"GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n")
            assert client_.recv(4096).startswith(b"HTTP/1.1 200 OK")
        assert "GET /_ping" in idle(machine)["cause"]


def test_rdd_itself_neither_counts_nor_wakes(machine: Machine) -> None:
    own = own_socket(machine.docker_socket)
    configure(machine, QUICK)

    async def ask() -> int:
        response, _ = await unix_http.request(own, "/_ping", timeout_s=120)
        return response.status

    assert asyncio.run(ask()) == 200
    wait_paused(machine)
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(asyncio.run(ask())))
    asking.start()
    eventually(asking.is_alive, "the request")
    assert is_paused(machine)
    assert not answers
    assert asyncio.run(client.wake(machine.directory.ha_sock, timeout_s=120))
    asking.join()
    assert answers == [200]


@pytest.mark.parametrize(
    ("flags", "command", "reason"),
    [
        pytest.param((), ("sh", "-c", "while :; do :; done"), "of a CPU", id="calculates"),
        pytest.param(
            ("--label", "rdd.io/keep-awake"), ("sleep", "1d"), "rdd.io/keep-awake", id="label"
        ),
    ],
)
def test_busy_container_keeps_the_machine_awake(
    machine: Machine, flags: tuple[str, ...], command: tuple[str, ...], reason: str
) -> None:
    name = machine.docker("run", "-d", *flags, IMAGE, *command)
    configure(machine, QUICK)
    eventually(lambda: reason in idle(machine).get("awake_because", ""), "the reason")
    assert name[:12] in idle(machine)["awake_because"]
    assert not is_frozen(machine)
    machine.docker("rm", "-f", name)
    wait_paused(machine)


def test_request_in_progress_prevents_a_pause(machine: Machine) -> None:
    """A request whose response takes longer than the idle time, without a byte meanwhile."""
    configure(machine, QUICK)
    name = machine.docker("run", "-d", "--stop-timeout", "2", IMAGE, "sleep", "1d")
    paused_before = [one for one in machine.statuses() if one.get("idle", {}).get("paused_since")]
    machine.docker("stop", name)  # sleep ignores SIGTERM as process 1: 2 s
    paused = [one for one in machine.statuses() if one.get("idle", {}).get("paused_since")]
    assert paused == paused_before


def test_killed_agent_is_followed_by_one_that_wakes_the_machine(machine: Machine) -> None:
    configure(machine, QUICK)
    wait_paused(machine)
    machine.kill_agent()
    assert machine.directory.paused.exists()
    assert is_frozen(machine)
    machine.start()
    assert machine.docker("version", "--format", "{{.Server.Os}}") == "linux"
    wait_paused(machine)


def test_frozen_machine_without_an_agent_can_be_removed(world: HostWorld) -> None:
    doomed = world.machine("doomed")
    QUICK.write(doomed.directory.idle_settings)
    doomed.start()
    wait_paused(doomed)
    doomed.kill_agent()
    assert is_frozen(doomed)
    asyncio.run(cleanup(doomed.directory))
    doomed.directory.paused.unlink()
    assert [one for one in doomed.traces() if "ha.pid" not in one] == []
