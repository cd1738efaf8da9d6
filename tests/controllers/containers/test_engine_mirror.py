# SPDX-License-Identifier: Apache-2.0
"""The API mirrors a real engine and follows its changes."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.containers.engine_parts import Dockerd
from tests.controllers.containers.engine_world import NAMESPACE, World, running_world

from rdd.api import errors
from rdd.controllers.containers.engine.items import ITEM
from rdd.kinds.app import App
from rdd.kinds.container import Container
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.image import Image
from rdd.kinds.volume import Volume
from rdd.runtime import find_condition, resource_of

MIRROR = "engine.rancherdesktop.io/mirror"


async def test_container_is_mirrored_with_all_inspected_members(
    world: World, docker: Dockerd
) -> None:
    id_ = docker.run(
        "web",
        Cmd=["sleep", "1000"],
        Labels={"a": "b"},
        ExposedPorts={"80/tcp": {}, "53/udp": {}},
        HostConfig={"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18080"}]}},
    )
    obj = await world.state(id_, "running")
    status = obj["status"]
    inspected = docker.inspect(id_)
    assert obj["metadata"]["finalizers"] == [MIRROR]
    assert (status["name"], status["namespace"]) == ("web", "moby")
    assert (status["path"], status["args"]) == ("sleep", ["1000"])
    assert status["image"] == inspected["Image"]
    assert status["labels"] == {"a": "b"}
    assert status["pid"] == inspected["State"]["Pid"]
    assert status["ports"] == [
        {"name": "53/udp"},
        {"name": "80/tcp", "bindings": [{"hostIP": "127.0.0.1", "hostPort": "18080"}]},
    ]
    assert status["createdAt"] == inspected["Created"][:19] + "Z"
    assert status["startedAt"] == inspected["State"]["StartedAt"][:19] + "Z"
    assert "finishedAt" not in status
    assert "exitCode" not in status


async def test_container_states_become_conditions(world: World, docker: Dockerd) -> None:
    id_ = docker.create("life")
    await world.state(id_, "created")
    docker.post(id_, "start")
    running = await world.state(id_, "running")
    assert true_conditions(running) == {"Running"}
    docker.post(id_, "pause")
    assert true_conditions(await world.state(id_, "paused")) == {"Paused"}
    docker.post(id_, "unpause")
    await world.state(id_, "running")
    docker.post(id_, "kill")
    exited = await world.state(id_, "exited")
    assert true_conditions(exited) == set()
    assert exited["status"]["exitCode"] == 137
    assert exited["status"]["finishedAt"]
    assert "pid" not in exited["status"]
    condition = find_condition(exited["status"]["conditions"], "Running")
    assert condition is not None
    assert (condition["reason"], condition["message"]) == ("NotRunning", "Container is exited")
    docker.remove(id_)
    await world.gone(Container, id_)
    await world.noted("ConditionChanged", "Running changed from True to False")


async def test_oom_killed_container_has_the_condition(world: World, docker: Dockerd) -> None:
    id_ = docker.run(
        "greedy",
        # The engine detects an OOM kill only after its listener has started.
        Cmd=["sh", "-c", "sleep 1; exec dd if=/dev/zero of=/dev/null bs=200M"],
        HostConfig={"Memory": 8 * 1024 * 1024, "MemorySwap": 8 * 1024 * 1024},
    )
    # The engine may report the exit before its cause.
    await world.eventually(
        Container, id_, lambda found: "status" in found and true_conditions(found) == {"OOMKilled"}
    )
    healthy = docker.run("modest")
    obj = await world.state(healthy, "running")
    condition = find_condition(obj["status"]["conditions"], "OOMKilled")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "NotOOMKilled")


async def test_rename_keeps_the_object(world: World, docker: Dockerd) -> None:
    id_ = docker.create("before")
    uid = (await world.state(id_, "created"))["metadata"]["uid"]
    docker.call("POST", f"/containers/{id_}/rename?name=after_.-X9", raw=True)
    obj = await world.eventually(
        Container, id_, lambda found: found["status"]["name"] == "after_.-X9"
    )
    assert obj["metadata"]["uid"] == uid


async def test_image_has_one_object_per_tag(world: World, docker: Dockerd) -> None:
    id_ = docker.import_image("registry.example:5000/some/thing", "v1.0_x", a="1")
    docker.call("POST", f"/images/{id_}/tag?repo=other&tag=x", raw=True)
    tags = ("registry.example:5000/some/thing:v1.0_x", "other:x")
    for tag in tags:
        name = "img-" + hashlib.sha256(f"{id_}\0{tag}".encode()).hexdigest()
        obj = await world.eventually(Image, name, lambda found: found.get("status"))
        assert obj["status"]["repoTag"] == tag
        assert obj["status"]["id"] == id_
        assert obj["status"]["namespace"] == "moby"
        assert obj["status"]["os"] == "linux"
        assert obj["status"]["size"] > 1_000_000
    docker.call("DELETE", f"/images/{tags[0]}", raw=True)
    await world.until(lambda: lacks(world, Image, tags[0]))
    await world.image(tags[1])


async def test_tag_that_moves_leaves_the_old_image_dangling(world: World, docker: Dockerd) -> None:
    old = docker.import_image("moving", "1", a="old")
    old_name = "img-" + hashlib.sha256(f"{old}\0moving:1".encode()).hexdigest()
    await world.eventually(Image, old_name, lambda found: found.get("status"))
    new = docker.import_image("moving", "1", a="new")
    new_name = "img-" + hashlib.sha256(f"{new}\0moving:1".encode()).hexdigest()
    await world.eventually(Image, new_name, lambda found: found.get("status"))
    await world.gone(Image, old_name)
    dangling = "img-" + hashlib.sha256(old.encode()).hexdigest()
    obj = await world.eventually(Image, dangling, lambda found: found.get("status"))
    assert "repoTag" not in obj["status"]
    assert obj["status"]["id"] == old
    docker.call("DELETE", f"/images/{old}", raw=True)
    await world.gone(Image, dangling)


async def test_volume_is_mirrored_whatever_its_name(world: World, docker: Dockerd) -> None:
    names = ("data", "Odd_name.with-dots_and.CAPS", "x" * 200)
    for name in names:
        body = {"Name": name, "Driver": "local", "Labels": {"k": "v"}}
        docker.call("POST", "/volumes/create", body)
    for name in names:
        mirror = "vol-" + hashlib.sha256(name.encode()).hexdigest()
        obj = await world.eventually(Volume, mirror, lambda found: found.get("status"))
        status = obj["status"]
        assert (status["name"], status["driver"], status["scope"]) == (name, "local", "local")
        assert status["labels"] == {"k": "v"}
        assert status["mountpoint"].endswith(f"{name}/_data")
    docker.call("DELETE", f"/volumes/{names[1]}", raw=True)
    await world.until(lambda: lacks(world, Volume, names[1]))
    assert names[0] in await world.names(Volume)


async def test_existing_items_are_mirrored_on_connect(docker: Dockerd, tmp_path: Path) -> None:
    docker.clear()
    running, created = docker.run("one"), docker.create("two")
    docker.call("POST", "/volumes/create", {"Name": "vol"})
    async with running_world(tmp_path, docker) as world:
        # The condition guarantees that everything is mirrored.
        assert (await world.get(Container, running))["status"]["status"] == "running"
        assert (await world.get(Container, created))["status"]["status"] == "created"
        assert await world.names(Volume) == {"vol"}
        assert await world.names(Image) == {"busybox:latest"}
        assert [obj["metadata"]["name"] for obj in await world.list(ContainerNamespace)] == ["moby"]


async def test_foreign_objects_are_never_changed(world: World, docker: Dockerd) -> None:
    body = {"metadata": {"name": "mine", "namespace": NAMESPACE}}
    for kind in (Image, Volume, ContainerNamespace, Container):
        await world.client.create(resource_of(kind), body)
    id_ = docker.create("after")
    await world.state(id_, "created")
    await world.set_running(False)
    await world.ready("Stopped")
    for kind in (Image, Volume, ContainerNamespace, Container):
        left = [obj["metadata"]["name"] for obj in await world.list(kind)]
        assert left == ["mine"]


async def test_foreign_containers_get_conditions_from_their_state(
    world: World,
) -> None:
    body = {"metadata": {"name": "mock", "namespace": NAMESPACE}}
    await world.client.create(resource_of(Container), body)
    for state, expected in (("running", {"Running"}), ("paused", {"Paused"}), ("exited", set())):
        status = {"name": "m", "namespace": "x", "path": "p", "image": "i", "status": state}
        await world.client.patch(
            resource_of(Container),
            "mock",
            {"status": status},
            namespace=NAMESPACE,
            subresource="status",
            field_manager="mock",
        )

        def is_derived(obj: dict[str, Any], expected: set[str] = expected) -> bool:
            return "conditions" in obj.get("status", {}) and true_conditions(obj) == expected

        obj = await world.eventually(Container, "mock", is_derived)
        oom = find_condition(obj["status"]["conditions"], "OOMKilled")
        assert oom is not None
        assert (oom["status"], oom["reason"]) == ("Unknown", "OOMKilled")


async def test_foreign_objects_do_not_keep_the_container_namespace(
    world: World,
) -> None:
    body = {"metadata": {"name": "mine", "namespace": NAMESPACE}}
    await world.client.create(resource_of(Image), body)
    status = {"namespace": "moby", "id": "x", "architecture": "", "os": "", "size": 0}
    await world.client.patch(
        resource_of(Image), "mine", {"status": status}, namespace=NAMESPACE, subresource="status"
    )
    await world.set_running(False)
    await world.ready("Stopped")
    assert await world.list(ContainerNamespace) == []
    assert [obj["metadata"]["name"] for obj in await world.list(Image)] == ["mine"]


async def test_name_collision_is_reported_and_the_object_kept(
    world: World, docker: Dockerd
) -> None:
    name = "vol-" + hashlib.sha256(b"taken").hexdigest()
    body = {"metadata": {"name": name, "namespace": NAMESPACE, "labels": {"whose": "mine"}}}
    await world.client.create(resource_of(Volume), body)
    docker.call("POST", "/volumes/create", {"Name": "taken"})
    condition = await world.ready("Connected", message="1 object could not be mirrored")
    assert "does not belong to the engine controller" in condition["message"]
    assert (await world.get(Volume, name))["metadata"]["labels"] == {"whose": "mine"}
    await world.delete(Volume, name)
    await world.eventually(Volume, name, lambda found: found.get("status"))
    found = await world.ready("Connected")
    await world.eventually(
        App, "app", lambda app: "could not" not in str(app["status"]["conditions"])
    )
    assert found["status"] == "True"


async def test_removed_label_is_restored(world: World, docker: Dockerd) -> None:
    id_ = docker.create("labelled")
    obj = await world.state(id_, "created")
    labels = obj["metadata"]["labels"]
    gone = {"metadata": {"labels": dict.fromkeys(labels), "annotations": {}}}
    await world.client.patch(resource_of(Container), id_, gone, namespace=NAMESPACE)
    await world.eventually(Container, id_, lambda found: found["metadata"].get("labels") == labels)


@pytest.mark.parametrize(
    "value", [pytest.param(None, id="removed"), pytest.param("elsewhere", id="changed")]
)
async def test_changed_item_annotation_is_restored(
    value: str | None, world: World, docker: Dockerd
) -> None:
    id_ = docker.create("pointed")
    await world.state(id_, "created")
    patch = {"metadata": {"annotations": {ITEM: value}}}
    await world.client.patch(resource_of(Container), id_, patch, namespace=NAMESPACE)
    await world.eventually(
        Container, id_, lambda found: (found["metadata"].get("annotations") or {}).get(ITEM) == id_
    )
    assert docker.call("GET", f"/containers/{id_}/json")["Name"] == "/pointed"


async def test_mirror_deleted_by_force_is_recreated(world: World, docker: Dockerd) -> None:
    id_ = docker.create("stubborn")
    uid = (await world.state(id_, "created"))["metadata"]["uid"]
    await world.client.patch(
        resource_of(Container), id_, {"metadata": {"finalizers": []}}, namespace=NAMESPACE
    )
    await world.delete(Container, id_)
    await world.eventually(
        Container, id_, lambda found: found["metadata"]["uid"] != uid and found.get("status")
    )
    assert docker.inspect(id_)


async def test_container_namespace_in_use_cannot_be_deleted(world: World, docker: Dockerd) -> None:
    id_ = docker.create("inside")
    await world.state(id_, "created")
    # Admission counts in its own cache.
    await world.until(lambda: is_protected(world, "is not empty: 1 containers, 1 images"))
    with pytest.raises(errors.Forbidden, match="is not empty: 1 containers, 1 images"):
        await world.delete(ContainerNamespace, "moby")


async def is_protected(world: World, message: str) -> bool:
    try:
        await world.client.delete(
            resource_of(ContainerNamespace), "moby", namespace=NAMESPACE, dry_run=True
        )
    except errors.Forbidden as error:
        return message in error.message
    return False


async def test_mirrors_are_deleted_when_the_machine_stops(world: World, docker: Dockerd) -> None:
    docker.create("one")
    docker.call("POST", "/volumes/create", {"Name": "vol"})
    await world.until(lambda: has_counts(world, (1, 1, 1)))
    await world.set_running(False)
    condition = await world.ready("Stopped")
    assert (condition["status"], condition["message"]) == ("False", "Container engine stopped")
    assert await world.counts() == (0, 0, 0)
    assert await world.list(ContainerNamespace) == []
    # The containers themselves are not removed.
    assert len(docker.call("GET", "/containers/json?all=1")) == 1
    await world.set_running(True)
    await world.ready("Connected")
    assert await world.counts() == (1, 1, 1)


async def test_mirrors_wait_while_the_state_of_the_machine_is_unknown(
    world: World, docker: Dockerd
) -> None:
    id_ = docker.create("kept")
    uid = (await world.state(id_, "created"))["metadata"]["uid"]
    await world.client.patch(
        resource_of(App),
        "app",
        {"status": {"conditions": [unknown_running()]}},
        subresource="status",
    )
    other = docker.create("other")
    await world.state(other, "created")
    assert (await world.get(Container, id_))["metadata"]["uid"] == uid


async def test_condition_follows_the_generation_of_the_app(world: World) -> None:
    patch = {"spec": {"virtualMachine": {"cpus": 1}}}
    app = await world.client.patch(resource_of(App), "app", patch)
    generation = app["metadata"]["generation"]
    condition = await world.ready("Connected")
    assert condition["observedGeneration"] == generation


async def test_mirrors_are_deleted_with_the_app(world: World, docker: Dockerd) -> None:
    docker.create("one")
    await world.until(lambda: has_counts(world, (1, 1, 0)))
    await world.client.delete(resource_of(App), "app")
    await world.until(lambda: has_counts(world, (0, 0, 0)))


def true_conditions(obj: dict[str, object]) -> set[str]:
    status = obj["status"]
    assert isinstance(status, dict)
    return {c["type"] for c in status["conditions"] if c["status"] == "True"}


def unknown_running() -> dict[str, str]:
    return {
        "type": "Running",
        "status": "Unknown",
        "reason": "Reconciling",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def lacks(world: World, kind: type[Image | Volume], name: str) -> bool:
    return name not in await world.names(kind)


async def has_counts(world: World, counts: tuple[int, int, int]) -> bool:
    return await world.counts() == counts
