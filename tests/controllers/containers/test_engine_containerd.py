# SPDX-License-Identifier: Apache-2.0
"""A real containerd is mirrored through its own API."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.controllers.containers.engine_parts import Containerd, containerd
from tests.controllers.containers.engine_world import World, open_world

from rdd.controllers.containers.engine import CONTAINERD_SOCKET
from rdd.controllers.containers.engine.containerd_objects import container_name
from rdd.kinds.app import App
from rdd.kinds.container import Container
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.image import Image, ImagePullRequest
from rdd.runtime import find_condition, resource_of

IMAGE = "docker.io/library/busybox:latest"


@pytest.fixture(scope="module")
def engine(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containerd]:
    with containerd(real_part, tmp_path_factory.mktemp("c")) as made:
        made.import_image(IMAGE, namespace="one")
        yield made


@pytest.fixture
async def world(
    engine: Containerd, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    async with containerd_world(engine, tmp_path_factory.mktemp("h")) as made:
        yield made


@asynccontextmanager
async def containerd_world(engine: Containerd, home: Path) -> AsyncIterator[World]:
    async with open_world(home, None) as world:
        socket = world.env.instance.lima_home / CONTAINERD_SOCKET
        socket.parent.mkdir(parents=True)
        socket.symlink_to(engine.socket)
        await world.create_app(containerEngine={"name": "containerd"})
        await world.set_running(True)
        await world.ready("Connected")
        yield world


async def test_namespaces_images_and_containers_are_mirrored(
    engine: Containerd, world: World
) -> None:
    engine.import_image("docker.io/library/other:1", namespace="two")
    engine.run(IMAGE, "first", "sleep", "1000", namespace="one")
    name = container_name("one", "first")
    obj = await world.state(name, "running")
    status = obj["status"]
    assert (status["name"], status["namespace"]) == ("first", "one")
    assert (status["path"], status["args"]) == ("sleep", ["1000"])
    assert status["image"] == IMAGE
    assert status["labels"]["made"] == "here"
    assert status["pid"] > 0
    assert status["createdAt"]
    for namespace in ("one", "two"):
        await world.eventually(ContainerNamespace, namespace, lambda found: True)
    other = (await world.image("docker.io/library/other:1"))["status"]
    assert other["namespace"] == "two"
    image = (await world.image(IMAGE))["status"]
    assert image["namespace"] == "one"
    assert (image["architecture"], image["os"]) == ("amd64", "linux")
    assert image["createdAt"] == "2026-01-02T03:04:05Z"
    assert image["size"] > 1_000_000
    engine.ctr("tasks", "kill", "--signal", "SIGKILL", "first", namespace="one")
    obj = await world.state(name, "exited")
    assert obj["status"]["exitCode"] == 137
    engine.ctr("tasks", "delete", "first", namespace="one")
    engine.ctr("containers", "delete", "first", namespace="one")
    await world.gone(Container, name)
    engine.ctr("images", "remove", "--sync", "docker.io/library/other:1", namespace="two")
    await world.until(lambda: lacks_tag(world, "docker.io/library/other:1"))


async def test_same_name_in_two_namespaces_has_two_mirrors(
    engine: Containerd, world: World
) -> None:
    engine.import_image(IMAGE, namespace="two")
    for namespace in ("one", "two"):
        engine.ctr("containers", "create", IMAGE, "same", namespace=namespace)
        obj = await world.state(container_name(namespace, "same"), "created")
        assert obj["status"]["namespace"] == namespace
    for namespace in ("one", "two"):
        await world.delete(Container, container_name(namespace, "same"))
        await world.gone(Container, container_name(namespace, "same"))
        assert "same" not in engine.ctr("containers", "list", "-q", namespace=namespace).stdout


async def test_supported_actions(engine: Containerd, world: World) -> None:
    engine.run(IMAGE, "acted", "sleep", "1000", namespace="one")
    name = container_name("one", "acted")
    await world.state(name, "running")
    for action, state in (("pause", "paused"), ("unpause", "running")):
        await world.annotate(name, action=action)
        await world.state(name, state)
    await world.annotate(name, action="restart")
    obj = await world.eventually(
        Container, name, lambda found: (found["status"].get("lastAction") or {}).get("error")
    )
    assert obj["status"]["lastAction"]["error"] == "containerd cannot restart a container by itself"
    engine.ctr("tasks", "kill", "--signal", "SIGKILL", "acted", namespace="one")
    await world.state(name, "exited")
    await world.annotate(name, action="stop")
    await world.eventually(
        Container, name, lambda found: found["status"]["lastAction"]["action"] == "stop"
    )
    await world.delete(Container, name)
    await world.gone(Container, name)
    assert "acted" not in engine.ctr("containers", "list", "-q", namespace="one").stdout
    assert engine.ctr("snapshots", "list", namespace="one").stdout.count("acted") == 0


async def test_deletion_of_an_image_in_use_waits_for_its_container(
    engine: Containerd, world: World
) -> None:
    tag = "docker.io/library/used:1"
    engine.import_image(tag, namespace="one")
    engine.run(tag, "user", "sleep", "1000", namespace="one")
    await world.state(container_name("one", "user"), "running")
    image = await world.image(tag)
    await world.delete(Image, image["metadata"]["name"])
    obj = await world.eventually(
        Image, image["metadata"]["name"], lambda found: found["status"].get("conditions")
    )
    condition = find_condition(obj["status"]["conditions"], "Removed")
    assert condition is not None
    assert condition["message"] == f"image {tag} is used by container user"
    await world.delete(Container, container_name("one", "user"))
    await world.gone(Image, image["metadata"]["name"])


async def test_requests_fail_as_not_supported(world: World) -> None:
    await world.request(ImagePullRequest, "pull", repoTag="alpine")
    assert (await world.outcome(ImagePullRequest, "pull"))[:2] == ("Failed", "NotSupported")
    async with world.session() as client, client.get("/engine/logs/00") as answer:
        assert answer.status == 501


async def test_changing_the_engine_deletes_mirrors_and_keeps_the_docker_context(
    world: World,
) -> None:
    assert await world.list(Image)
    patch = {"spec": {"containerEngine": {"name": "moby"}}}
    await world.set_running(False)
    await world.ready("Stopped")
    assert await world.list(Image) == []
    assert await world.list(ContainerNamespace) == []
    await world.client.patch(resource_of(App), "app", patch)
    await world.set_running(True)
    condition = await world.ready("ConnectFailed")
    assert "docker.sock" in condition["message"]
    assert not (world.env.home / ".docker" / "contexts").exists()


async def test_restarted_containerd_keeps_the_mirrors(engine: Containerd, world: World) -> None:
    engine.ctr("containers", "create", IMAGE, "kept", namespace="one")
    name = container_name("one", "kept")
    uid = (await world.state(name, "created"))["metadata"]["uid"]
    engine.kill()
    await world.ready("ConnectFailed")
    engine.start()
    await world.ready("Connected")
    assert (await world.get(Container, name))["metadata"]["uid"] == uid
    await world.delete(Container, name)
    await world.gone(Container, name)


async def lacks_tag(world: World, tag: str) -> bool:
    return tag not in await world.names(Image)
