# SPDX-License-Identifier: Apache-2.0
"""Networks as objects, tags and builds, with a real engine."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.controllers.containers.engine_parts import IMAGE, Dockerd
from tests.controllers.containers.engine_world import NAMESPACE, World, running_world

from rdd.api import errors
from rdd.api.types import Object
from rdd.kinds.container import Container
from rdd.kinds.image import ImageBuildRequest, ImageTagRequest
from rdd.kinds.network import Network, NetworkCreateRequest


@pytest.fixture
async def world(docker: Dockerd, tmp_path: Path) -> AsyncIterator[World]:
    for _ in range(100):  # the engine may still remove what a cancelled build left
        try:
            docker.clear()
            break
        except AssertionError:
            await asyncio.sleep(0.1)
    docker.call("POST", "/networks/prune")
    async with running_world(tmp_path, docker) as made:
        yield made


def named(name: str) -> Callable[[Object], bool]:
    return lambda obj: (obj.get("status") or {}).get("name") == name


async def test_networks_are_mirrored(world: World, docker: Dockerd) -> None:
    bridge = await world.find(Network, named("bridge"))
    assert bridge["status"]["driver"] == "bridge"
    made = docker.call(
        "POST",
        "/networks/create",
        {"Name": "back", "Internal": True, "IPAM": {"Config": [{"Subnet": "172.31.0.0/24"}]}},
    )
    found = await world.find(Network, named("back"))
    assert found["metadata"]["name"] == made["Id"]
    assert found["status"]["internal"] is True
    assert found["status"]["subnets"] == ["172.31.0.0/24"]
    id_ = docker.run("member", HostConfig={"NetworkMode": "back"})
    user = await world.find(Container, named("member"))
    assert user["status"]["networks"] == ["back"]
    docker.call("POST", "/networks/create", {"Name": "front"})
    docker.call("POST", "/networks/front/connect", {"Container": id_})
    await world.find(
        Container, lambda obj: (obj.get("status") or {}).get("networks") == ["back", "front"]
    )
    docker.remove(id_)
    docker.call("DELETE", "/networks/back", raw=True)
    await world.gone(Network, made["Id"])


async def test_network_is_created_and_removed_on_request(world: World, docker: Dockerd) -> None:
    name = "r1"
    await world.request(
        NetworkCreateRequest, name, name="mine", subnet="172.30.7.0/24", labels={"a": "b"}
    )
    assert (await world.outcome(NetworkCreateRequest, name))[0] == "Complete"
    found = await world.find(Network, named("mine"))
    assert found["status"]["labels"]["a"] == "b"
    await world.rejected(NetworkCreateRequest, 'network name "mine" is already in use', name="mine")
    id_ = docker.run("inside", HostConfig={"NetworkMode": "mine"})
    await world.delete(Network, found["metadata"]["name"])
    await world.noted("InUse", "has active endpoints")
    docker.remove(id_)
    await world.gone(Network, found["metadata"]["name"])
    assert "mine" not in {each["Name"] for each in docker.call("GET", "/networks")}


async def test_network_request_fails_with_the_engines_reason(world: World) -> None:
    name = "r2"
    await world.request(NetworkCreateRequest, name, name="bad", subnet="not-a-range")
    kind, _, message = await world.outcome(NetworkCreateRequest, name)
    assert kind == "Failed"
    assert message


async def test_networks_of_the_engine_stay(world: World, docker: Dockerd) -> None:
    for name in ("bridge", "host", "none"):
        found = await world.find(Network, named(name))
        with pytest.raises(errors.ApiError, match="belongs to the engine"):
            await world.delete(Network, found["metadata"]["name"])


async def test_tag_request(world: World, docker: Dockerd) -> None:
    image = (await world.image(IMAGE))["metadata"]["name"]
    name = "r3"
    await world.request(ImageTagRequest, name, imageRef=image, repoTag="mine/copy:2")
    assert (await world.outcome(ImageTagRequest, name))[0] == "Complete"
    await world.image("mine/copy:2")
    missing = "r4"
    await world.request(ImageTagRequest, missing, imageRef="img-0", repoTag="a:b")
    assert (await world.outcome(ImageTagRequest, missing))[1] == "NotFound"
    await world.rejected(ImageTagRequest, "invalid image reference", imageRef="x", repoTag="A B")


def folder(path: Path, dockerfile: str, **files: str) -> Path:
    path.mkdir()
    (path / "Dockerfile").write_text(dockerfile)
    for name, text in files.items():
        target = path / name.replace("__", "/")
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    return path


async def log_of(world: World, name: str, **query: str) -> str:
    async with world.session() as session:
        path = f"/image/build-log/{NAMESPACE}/{name}"
        async with session.get(path, params=query) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()


async def test_build_of_a_folder(world: World, docker: Dockerd, tmp_path: Path) -> None:
    context = folder(
        tmp_path / "context",
        f"FROM {IMAGE}\nARG WORD\nCOPY . /src\nRUN echo built with $WORD; ls -a /src\n",
        kept="1", secret="2", sub__kept="3",
    )  # fmt: skip
    (context / ".dockerignore").write_text("secret\n")
    name = "r5"
    await world.request(
        ImageBuildRequest,
        name,
        context=str(context),
        tags=["built:1", "built:latest"],
        args={"WORD": "bricks"},
    )
    kind, _, message = await world.outcome(ImageBuildRequest, name)
    assert kind == "Complete", (message, await log_of(world, name))
    done = await world.get(ImageBuildRequest, name)
    image = await world.image("built:1")
    assert image["status"]["id"] == done["status"]["imageId"]
    assert done["status"]["progress"]["steps"] == 4
    await world.image("built:latest")
    text = await log_of(world, name)
    assert "built with bricks" in text
    assert "kept" in text
    assert "secret" not in text.partition("built with")[2]


async def test_failed_build_has_the_reason_and_the_log(world: World, tmp_path: Path) -> None:
    context = folder(tmp_path / "bad", f"FROM {IMAGE}\nRUN echo before; false\n")
    name = "r6"
    await world.request(ImageBuildRequest, name, context=str(context), tags=["never:1"])
    kind, reason, message = await world.outcome(ImageBuildRequest, name)
    assert (kind, reason) == ("Failed", "BuildFailed")
    assert "non-zero code: 1" in message
    text = await log_of(world, name, follow="false")
    assert "before" in text
    assert message in text


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"context": "relative/folder"}, "neither an absolute path nor the URL"),
        ({"context": "file:///etc"}, "neither an absolute path nor the URL"),
        ({"context": "/x", "tags": ["BAD TAG"]}, "invalid image reference"),
    ],
    ids=["relative", "file-url", "tag"],
)
async def test_rejects_invalid_builds(world: World, spec: Object, message: str) -> None:
    await world.rejected(ImageBuildRequest, message, **spec)


async def test_build_without_a_folder_or_dockerfile_fails(world: World, tmp_path: Path) -> None:
    name = "r7"
    await world.request(ImageBuildRequest, name, context=str(tmp_path / "none"))
    assert (await world.outcome(ImageBuildRequest, name))[1:] == (
        "Invalid",
        f"{tmp_path / 'none'}: not a folder on this machine",
    )
    (tmp_path / "empty").mkdir()
    name = "r8"
    await world.request(ImageBuildRequest, name, context=str(tmp_path / "empty"))
    kind, _, message = await world.outcome(ImageBuildRequest, name)
    assert kind == "Failed"
    assert "Dockerfile" in message


async def test_deletion_cancels_a_build(world: World, docker: Dockerd, tmp_path: Path) -> None:
    context = folder(tmp_path / "long", f"FROM {IMAGE}\nRUN echo started; sleep 1000\n")
    name = "r9"
    await world.request(ImageBuildRequest, name, context=str(context))

    async def is_started() -> bool:
        return "started" in await log_of(world, name, follow="false")

    async def is_running() -> bool:
        return bool(docker.call("GET", "/containers/json"))

    await world.until(is_running)
    await world.until(is_started)
    await world.delete(ImageBuildRequest, name)

    async def is_cancelled() -> bool:
        return not await is_running()

    await world.until(is_cancelled)


async def test_git_repository_is_built_by_the_engine(world: World) -> None:
    """Without a network the engine's own message arrives; with one it fetches the repository."""
    name = "r10"
    await world.request(
        ImageBuildRequest, name, context="https://git.invalid/some/repository.git#main"
    )
    kind, _, message = await world.outcome(ImageBuildRequest, name)
    assert kind == "Failed"
    assert "git" in message


async def test_log_of_an_unknown_build_is_not_found(world: World) -> None:
    async with (
        world.session() as session,
        session.get("/image/build-log/default/none") as answer,
    ):
        assert answer.status == 404
