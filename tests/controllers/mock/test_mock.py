# SPDX-License-Identifier: Apache-2.0
"""mock: objects that revert to their defined state."""

import asyncio
import hashlib
from functools import partial
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType
from tests.controllers.controller_world import (
    connected,
    controller_environment,
    eventually,
    managed,
)
from tests.runtime.runtime_world import World, until

from rdd.api import errors
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.k3s_releases import Releases
from rdd.controllers.app.k3s_versions import k3s_versions
from rdd.controllers.containers.container import container
from rdd.controllers.mock import logs as logs_module
from rdd.controllers.mock.controller import mock
from rdd.controllers.mock.objects import NAMESPACE, OWNER, WRITER_LABEL, Mock, mocks
from rdd.kinds.app import App
from rdd.kinds.container import Container
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.hostinfo import HostInfo
from rdd.kinds.image import Image
from rdd.kinds.volume import Volume
from rdd.runtime import find_condition, resource_of

fake_time = pytest.mark.looptime

CONTAINERS, IMAGES = resource_of(Container), resource_of(Image)


async def complete(world: World) -> None:
    """Return when every object of the mock has its status."""
    for wanted in mocks():
        await eventually(
            world,
            wanted.kind,
            wanted.name,
            partial(has_status, wanted),
            namespace=wanted.namespace,
        )


def has_status(wanted: Mock, obj: Object) -> bool:
    return wanted.status is None or "status" in obj


async def listed(world: World, kind: Any) -> list[Object]:
    return (await world.client.list(resource_of(kind))).items


def id_of(name: str) -> str:
    return hashlib.sha256(f"mock container {name}".encode()).hexdigest()


@fake_time
async def test_all_objects_exist_and_have_one_owner(world: World) -> None:
    async with managed(world, mock(controller_environment())):
        await complete(world)
        containers = await listed(world, Container)
        images = await listed(world, Image)
        (volume,) = await listed(world, Volume)
        namespaces = await listed(world, ContainerNamespace)
        info = await world.client.get(resource_of(HostInfo), "system")
        owner = await world.client.get(NAMESPACES, OWNER)
    states = sorted(each["status"]["status"] for each in containers)
    assert states == ["exited", "running", "running", "running"]
    assert len({each["status"]["id"] for each in images}) == 2
    for image in images:
        status = image["status"]
        tag = hashlib.sha256(status["repoTag"].encode()).hexdigest()
        assert image["metadata"]["name"] == f"{status['id'].replace(':', '.')}-{tag}"
    assert len(images) == 3
    assert volume["metadata"]["name"] == "data"
    assert "buildkit" in {each["metadata"]["name"] for each in namespaces}
    assert info["status"] == {"cpus": 32, "memory": "12Gi"}
    for obj in (*containers, *images, volume, *namespaces):
        assert obj["metadata"]["namespace"] == NAMESPACE
        (reference,) = obj["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["uid"]) == ("Namespace", owner["metadata"]["uid"])


@fake_time
async def test_reverts_changes_and_deletions(world: World) -> None:
    async with managed(world, mock(controller_environment())):
        await complete(world)
        name = id_of("web")
        patch = {"status": {"status": "dead", "image": "other"}}
        await world.client.patch(CONTAINERS, name, patch, namespace=NAMESPACE, subresource="status")
        back = await eventually(
            world,
            CONTAINERS,
            name,
            lambda obj: obj["status"]["status"] == "running",
            namespace=NAMESPACE,
        )
        assert back["status"]["image"].startswith("sha256:")
        image = (await listed(world, Image))[0]["metadata"]
        await world.client.delete(IMAGES, image["name"], namespace=NAMESPACE)
        await eventually(
            world,
            IMAGES,
            image["name"],
            lambda obj: obj["metadata"]["uid"] != image["uid"] and obj.get("status"),
            namespace=NAMESPACE,
        )


@fake_time
async def test_keeps_objects_and_fields_of_other_managers(world: World) -> None:
    async with managed(world, mock(controller_environment())) as manager:
        await complete(world)
        own = {"metadata": {"name": "mine", "namespace": NAMESPACE}}
        await world.client.create(CONTAINERS, own)
        label = {"metadata": {"labels": {"of": "user"}}}
        await world.client.patch(CONTAINERS, id_of("web"), label, namespace=NAMESPACE)
        # When this key is done, all earlier keys are done, too.
        await world.client.delete(resource_of(HostInfo), "system")
        await eventually(world, HostInfo, "system", lambda obj: obj.get("status"))
        mine = await world.client.get(CONTAINERS, "mine", namespace=NAMESPACE)
        labelled = await world.client.get(CONTAINERS, id_of("web"), namespace=NAMESPACE)
        assert 'result="error"' not in manager.metrics.render()
    assert "status" not in mine or "name" not in mine["status"]
    assert labelled["metadata"]["labels"] == {"of": "user"}


@fake_time
async def test_rejects_the_deletion_of_its_namespace(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    async with managed(world, mock(controller_environment())):
        await complete(world)
        with pytest.raises(errors.Forbidden) as rejected:
            await world.client.delete(NAMESPACES, OWNER)
        await world.client.delete(NAMESPACES, "other")
    assert rejected.value.message == (
        'admission webhook "mock-namespace-no-delete.mock.rancherdesktop.io" denied the request: '
        "deletion of mock namespace is not allowed"
    )


@fake_time
@pytest.mark.parametrize("running", [True, False])
async def test_settles_an_app_at_once(world: World, running: bool) -> None:
    apps = resource_of(App)
    async with managed(world, mock(controller_environment())):
        await world.client.create(apps, {"metadata": {"name": "app"}, "spec": {"running": running}})

        def settled(generation: int) -> Any:
            def holds(obj: Object) -> bool:
                conditions = (obj.get("status") or {}).get("conditions")
                found = find_condition(conditions, "Settled") or {}
                return found.get("observedGeneration") == generation

            return holds

        app = await eventually(world, App, "app", settled(1))
        first = find_condition(app["status"]["conditions"], "Settled")
        assert first is not None
        assert (first["status"], first["reason"]) == (str(running), "MockController")
        await world.client.patch(apps, "app", {"spec": {"running": not running}})
        app = await eventually(world, App, "app", settled(2))
        second = find_condition(app["status"]["conditions"], "Settled")
        assert second is not None
        assert second["status"] == str(not running)


@fake_time
async def test_k3s_versions_runs_beside_it(world: World) -> None:
    around = controller_environment()
    async with managed(world, mock(around), k3s_versions(around)):
        app = {"metadata": {"name": "app"}, "spec": {"running": False}}
        await world.client.create(resource_of(App), app)
        found = await eventually(world, CONFIG_MAPS, "k3s-versions", lambda obj: obj)
    assert found["data"] == Releases.shipped().to_data()


# -- logs


async def lines(session: aiohttp.ClientSession, name: str) -> tuple[list[str], int]:
    """Return the complete log of a container and the close code."""
    async with session.ws_connect(f"/passthrough/mock/logs/{name}") as ws:
        found = []
        while True:
            message = await ws.receive()
            if message.type == WSMsgType.BINARY:
                found.append(message.data.decode())
            else:
                assert message.type == WSMsgType.CLOSE
                assert message.extra == "Closing connection"
                return found, message.data


async def test_logs_depend_on_the_container(world: World) -> None:
    async with managed(world, mock(controller_environment())), connected(world) as session:
        await complete(world)
        web, code = await lines(session, id_of("web"))
        ten, _ = await lines(session, id_of("migration"))
        hundred, _ = await lines(session, id_of("database"))
    assert code == 1000
    assert web == [
        f"Logs for container {id_of('web')}\n",
        "Label: com.example.name\tweb\n",
        "Label: io.rancherdesktop.mock\ttrue\n",
    ]
    assert ten == [f"[Line {i}]\n" for i in range(1, 11)]
    assert hundred == [f"[Line {i}]\n" for i in range(1, 101)]


async def test_endless_log_ends_when_the_client_disconnects(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "LOOP_S", 0.01)
    async with managed(world, mock(controller_environment())), connected(world) as session:
        await complete(world)
        async with session.ws_connect(f"/passthrough/mock/logs/{id_of('ticker')}") as ws:
            found = [(await ws.receive_bytes()).decode() for _ in range(5)]
            assert found == [f"[Line {i}]\n" for i in range(1, 6)]
            writers = [t for t in asyncio.all_tasks() if t.get_name().startswith("rdd-mock")]
            assert len(writers) == 3
        await until(
            lambda: not any(t.get_name().startswith("rdd-mock") for t in asyncio.all_tasks())
        )


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("", 400, id="no container"),
        pytest.param("web", 400, id="a name"),
        pytest.param("abcdef", 404, id="unknown ID"),
    ],
)
async def test_rejects_unknown_logs_before_the_upgrade(
    world: World, path: str, status: int
) -> None:
    async with managed(world, mock(controller_environment())), connected(world) as session:
        await complete(world)
        with pytest.raises(aiohttp.WSServerHandshakeError) as rejected:
            await session.ws_connect(f"/passthrough/mock/logs/{path}")
        assert rejected.value.status == status


async def test_every_log_writer_has_a_container() -> None:
    writers = {
        each.status.raw["labels"].get(WRITER_LABEL, "labels")
        for each in mocks()
        if each.kind is Container and each.status is not None
    }
    assert writers == {"labels", "ten", "hundred", "loop"}


@fake_time
async def test_controllers_of_containers_run_beside_it(world: World) -> None:
    """Both write parts of the status of a container, and become idle."""
    around = controller_environment()
    async with managed(world, mock(around), container(around)):
        found = await eventually(
            world,
            CONTAINERS,
            id_of("web"),
            lambda obj: (obj.get("status") or {}).get("conditions"),
            namespace=NAMESPACE,
        )
        await complete(world)
        await asyncio.sleep(60)
        before = {c["metadata"]["resourceVersion"] for c in await listed(world, Container)}
        await asyncio.sleep(600)
        after = {c["metadata"]["resourceVersion"] for c in await listed(world, Container)}
    assert before == after
    running = find_condition(found["status"]["conditions"], "Running")
    assert running is not None
    assert running["status"] == "True"
