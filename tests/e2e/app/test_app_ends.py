# SPDX-License-Identifier: Apache-2.0
"""Deletion of an App in each of its states, and the port of its cluster, with real parts."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.app import settled_world as worlds
from tests.e2e.app.settled_world import (
    APPS,
    LIMAVMS,
    TIMEOUT_S,
    VERSION,
    Desktop,
    current,
    eventually,
)

from rdd.api.names import KUBERNETES_READY, SETTLED
from rdd.api.types import Object
from rdd.kinds.app import App
from rdd.runtime import owned_by

pytestmark = pytest.mark.asyncio(loop_scope="module")

KUBERNETES = {"enabled": True, "version": VERSION}
NO_KUBERNETES = {"enabled": False}


@pytest.fixture(scope="module", autouse=True)
def parts(real_part: Callable[[str], Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    for name in ("dockerd", "iptables"):
        real_part(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Desktop]:
    async with worlds.desktop() as desktop:
        desktop.install_k3s()
        yield desktop


@pytest_asyncio.fixture(loop_scope="module")
async def desktop(shared: Desktop) -> AsyncIterator[Desktop]:
    """Return the shared desktop without an App; check afterwards that nothing of one is left."""
    await shared.delete()
    shared.observed.clear()
    yield shared
    await shared.delete()
    await eventually(lambda: not shared.traces())
    assert not list(shared.instance.lima_home.glob("rd*"))


# -- deletion


async def test_deleted_before_the_machine_is_created(desktop: Desktop) -> None:
    await desktop.set(running=True)
    await desktop.delete()


async def test_deleted_while_the_machine_is_created(desktop: Desktop) -> None:
    await desktop.set(running=True)
    await desktop.reached("Created", "Pending", "Unknown")
    await desktop.delete()


async def test_deleted_while_the_machine_boots(desktop: Desktop) -> None:
    await desktop.set(running=True)
    await desktop.reached("Running", "Starting")
    await desktop.delete()


async def test_deleted_while_the_engine_starts(desktop: Desktop) -> None:
    await desktop.set(running=True)
    await desktop.reached("Running", "Starting")
    await eventually(lambda: desktop.pids("dockerd"))
    await desktop.delete()


async def test_deleted_while_it_stops(desktop: Desktop) -> None:
    await desktop.settled(running=True)
    await desktop.set(running=False)
    await desktop.reached(SETTLED, "Started")
    await desktop.delete()


async def test_deleted_after_a_failed_start(desktop: Desktop) -> None:
    path = desktop.instance.docker_socket
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        await desktop.set(running=True)
        await desktop.reached(SETTLED, "StartFailed")
        await desktop.delete()
        assert path.is_socket()  # not ours
    path.unlink()


async def test_deleted_while_the_machine_is_being_deleted(desktop: Desktop) -> None:
    await desktop.settled(running=True)
    vm = await desktop.client.get(LIMAVMS, "rd", namespace="default")
    others = [name for name in vm["metadata"]["finalizers"] if name != owned_by(App.kind)]
    patch = {"metadata": {"finalizers": others}}
    await desktop.client.patch(LIMAVMS, "rd", patch, namespace="default")
    await desktop.client.delete(LIMAVMS, "rd", namespace="default")
    await desktop.client.delete(APPS, "app")
    await desktop.wait_gone(APPS, "app")


async def test_a_machine_deleted_by_force_is_created_again(desktop: Desktop) -> None:
    await desktop.settled(running=True)
    vm = await desktop.client.get(LIMAVMS, "rd", namespace="default")
    others = [name for name in vm["metadata"]["finalizers"] if name != owned_by(App.kind)]
    patch = {"metadata": {"finalizers": others}}
    await desktop.client.patch(LIMAVMS, "rd", patch, namespace="default")
    await desktop.client.delete(LIMAVMS, "rd", namespace="default")
    await desktop.until("another machine", lambda obj: "WaitingForLimaVM" in str(obj["status"]))
    await desktop.settled()
    again = await desktop.client.get(LIMAVMS, "rd", namespace="default")
    assert again["metadata"]["uid"] != vm["metadata"]["uid"]


async def test_deleted_with_a_cluster(desktop: Desktop) -> None:
    await desktop.settled(running=True, kubernetes=KUBERNETES)
    assert desktop.instance.name in desktop.kube_config.read_text()
    await desktop.delete()
    assert desktop.instance.name not in desktop.kube_config.read_text()
    assert not desktop.instance.kube_config.exists()


# -- the port of the cluster


def port_of(obj: Object) -> int:
    port: int = obj["status"]["kubernetesPort"]
    return port


async def test_a_port_that_was_taken_while_the_app_was_stopped_is_replaced(
    desktop: Desktop,
) -> None:
    await desktop.settled(running=False, kubernetes=KUBERNETES)
    port = port_of(await desktop.app())
    with socket.create_server(("127.0.0.1", port)):
        found = await desktop.settled(running=True)
        assert port_of(found) != port
        assert f":{port_of(found)}" in desktop.kube_config.read_text()
        await desktop.delete()


async def test_a_port_that_is_taken_during_the_start_is_replaced(desktop: Desktop) -> None:
    await desktop.set(running=True, kubernetes=KUBERNETES)
    obj = await desktop.until(
        "Starting", lambda obj: current(obj, "Running").get("reason") == "Starting"
    )
    port = port_of(obj)
    # The port is free from here to the first response of the engine.
    with await taken(port):
        found = await desktop.until(
            "another port", lambda obj: port_of(obj) not in (0, port) and settled(obj)
        )
        assert current(found, KUBERNETES_READY)["reason"] == "Ready"
        assert any(
            found.type == "Degraded" and str(port) in found.message for found in desktop.observed
        )
        assert f":{port_of(found)}" in desktop.kube_config.read_text()
        await desktop.delete()


async def taken(port: int) -> socket.socket:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                return socket.create_server(("127.0.0.1", port))
            except OSError:
                await asyncio.sleep(0)


def settled(obj: Object) -> bool:
    return bool(current(obj, SETTLED).get("status") == "True")
