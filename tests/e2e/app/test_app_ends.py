# SPDX-License-Identifier: Apache-2.0
"""The end of an App in every state it can be in, and the port of its cluster, with real parts."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.app import settled_world as worlds
from tests.e2e.app.settled_world import APPS, LIMAVMS, VERSION, Desk, current, happened

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
async def shared() -> AsyncIterator[Desk]:
    async with worlds.desk() as desk:
        desk.install_k3s()
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def desk(shared: Desk) -> AsyncIterator[Desk]:
    """A desk without an App; afterwards, too, and nothing of one is left."""
    await shared.delete()
    shared.heard.clear()
    yield shared
    await shared.delete()
    await happened(lambda: not shared.traces())
    assert not list(shared.instance.lima_home.glob("rd*"))


# -- deletion


async def test_deleted_before_anything_was_made(desk: Desk) -> None:
    await desk.set(running=True)
    await desk.delete()


async def test_deleted_while_the_machine_is_made(desk: Desk) -> None:
    await desk.set(running=True)
    await desk.said("Created", "Pending", "Unknown")
    await desk.delete()


async def test_deleted_while_the_machine_boots(desk: Desk) -> None:
    await desk.set(running=True)
    await desk.said("Running", "Starting")
    await desk.delete()


async def test_deleted_while_the_engine_comes_up(desk: Desk) -> None:
    await desk.set(running=True)
    await desk.said("Running", "Starting")
    await happened(lambda: desk.pids("dockerd"))
    await desk.delete()


async def test_deleted_while_it_stops(desk: Desk) -> None:
    await desk.settled(running=True)
    await desk.set(running=False)
    await desk.said(SETTLED, "Started")
    await desk.delete()


async def test_deleted_while_it_does_not_come_up(desk: Desk) -> None:
    path = desk.instance.docker_socket
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        await desk.set(running=True)
        await desk.said(SETTLED, "StartFailed")
        await desk.delete()
        assert path.is_socket()  # not ours
    path.unlink()


async def test_deleted_while_the_machine_is_on_its_way_out_already(desk: Desk) -> None:
    await desk.settled(running=True)
    vm = await desk.client.get(LIMAVMS, "rd", namespace="default")
    others = [name for name in vm["metadata"]["finalizers"] if name != owned_by(App.kind)]
    patch = {"metadata": {"finalizers": others}}
    await desk.client.patch(LIMAVMS, "rd", patch, namespace="default")
    await desk.client.delete(LIMAVMS, "rd", namespace="default")
    await desk.client.delete(APPS, "app")
    await desk.gone(APPS, "app")


async def test_a_machine_that_somebody_deletes_by_force_is_made_again(desk: Desk) -> None:
    await desk.settled(running=True)
    vm = await desk.client.get(LIMAVMS, "rd", namespace="default")
    others = [name for name in vm["metadata"]["finalizers"] if name != owned_by(App.kind)]
    patch = {"metadata": {"finalizers": others}}
    await desk.client.patch(LIMAVMS, "rd", patch, namespace="default")
    await desk.client.delete(LIMAVMS, "rd", namespace="default")
    await desk.until("another machine", lambda obj: "WaitingForLimaVM" in str(obj["status"]))
    await desk.settled()
    again = await desk.client.get(LIMAVMS, "rd", namespace="default")
    assert again["metadata"]["uid"] != vm["metadata"]["uid"]


async def test_deleted_with_a_cluster(desk: Desk) -> None:
    await desk.settled(running=True, kubernetes=KUBERNETES)
    assert desk.instance.name in desk.kube_config.read_text()
    await desk.delete()
    assert desk.instance.name not in desk.kube_config.read_text()
    assert not desk.instance.kube_config.exists()


# -- the port of the cluster


def port_of(obj: Object) -> int:
    port: int = obj["status"]["kubernetesPort"]
    return port


async def test_a_port_that_was_taken_while_the_app_was_stopped_is_replaced(desk: Desk) -> None:
    await desk.settled(running=False, kubernetes=KUBERNETES)
    port = port_of(await desk.app())
    with socket.create_server(("127.0.0.1", port)):
        found = await desk.settled(running=True)
        assert port_of(found) != port
        assert f":{port_of(found)}" in desk.kube_config.read_text()
        await desk.delete()


async def test_a_port_that_is_taken_during_the_start_is_replaced(desk: Desk) -> None:
    await desk.set(running=True, kubernetes=KUBERNETES)
    obj = await desk.until(
        "Starting", lambda obj: current(obj, "Running").get("reason") == "Starting"
    )
    port = port_of(obj)
    # From here to the first answer of the engine nobody holds the port.
    with await taken(port):
        found = await desk.until(
            "another port", lambda obj: port_of(obj) not in (0, port) and settled(obj)
        )
        assert current(found, KUBERNETES_READY)["reason"] == "Ready"
        assert any(said.type == "Degraded" and str(port) in said.message for said in desk.heard)
        assert f":{port_of(found)}" in desk.kube_config.read_text()
        await desk.delete()


async def taken(port: int) -> socket.socket:
    async with asyncio.timeout(5):
        while True:
            try:
                return socket.create_server(("127.0.0.1", port))
            except OSError:
                await asyncio.sleep(0)


def settled(obj: Object) -> bool:
    return bool(current(obj, SETTLED).get("status") == "True")
