# SPDX-License-Identifier: Apache-2.0
"""Actions on and deletions of mirrors reach a real engine exactly once."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.controllers.containers.engine_parts import Dockerd
from tests.controllers.containers.engine_world import NAMESPACE, World, open_world

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.http.request import Request
from rdd.controllers.containers.engine.moby import MobyBackend
from rdd.kinds.container import Container
from rdd.kinds.image import Image
from rdd.kinds.volume import Volume
from rdd.runtime import find_condition, resource_of

DISPATCHED = "engine.rancherdesktop.io/dispatched"


def is_done(action: str) -> Callable[[Object], bool]:
    def done(obj: Object) -> bool:
        last = obj.get("status", {}).get("lastAction") or {}
        annotations = obj["metadata"].get("annotations") or {}
        is_clean = names.ACTION not in annotations and DISPATCHED not in annotations
        return bool(last.get("action") == action and is_clean)

    return done


async def test_actions_run_and_report_their_outcome(world: World, docker: Dockerd) -> None:
    id_ = docker.create("acted")
    await world.state(id_, "created")
    for action, state in (
        ("start", "running"),
        ("pause", "paused"),
        ("pause", "paused"),
        ("unpause", "running"),
        ("unpause", "running"),
        ("restart", "running"),
        ("stop", "exited"),
        ("stop", "exited"),
    ):
        await world.annotate(id_, action=action)
        obj = await world.eventually(Container, id_, is_done(action))
        last = obj["status"]["lastAction"]
        assert (last["action"], last["state"]) == (action, "Succeeded"), last
        assert last["observedAt"] <= last["completedAt"]
        await world.state(id_, state)
        assert docker.inspect(id_)["State"]["Status"] == state


async def test_failed_action_has_the_message_of_the_engine(world: World, docker: Dockerd) -> None:
    id_ = docker.create("idle")
    await world.state(id_, "created")
    await world.annotate(id_, action="unpause")
    obj = await world.eventually(Container, id_, is_done("unpause"))
    assert obj["status"]["lastAction"]["state"] == "Failed"
    assert "is not running" in obj["status"]["lastAction"]["error"]
    await world.annotate(id_, action="pause")
    obj = await world.eventually(Container, id_, is_done("pause"))
    assert obj["status"]["lastAction"]["error"] == f"Container {id_} is not running"
    broken = docker.create("broken", Cmd=["/no/such/program"])
    await world.state(broken, "created")
    await world.annotate(broken, action="start")
    obj = await world.eventually(Container, broken, is_done("start"))
    assert "no such file or directory" in obj["status"]["lastAction"]["error"]


async def test_rules_for_containers(world: World, docker: Dockerd) -> None:
    id_ = docker.create("ruled")
    await world.state(id_, "created")
    with pytest.raises(errors.Forbidden, match=f'invalid {names.ACTION} annotation "explode"'):
        await world.annotate(id_, action="explode")
    body = {
        "metadata": {"name": "x", "namespace": NAMESPACE, "annotations": {names.ACTION: "start"}}
    }
    with pytest.raises(errors.Forbidden, match="annotation is not allowed on create"):
        await world.client.create(resource_of(Container), body)


async def test_slow_action_does_not_delay_others(world: World, docker: Dockerd) -> None:
    slow = docker.run("slow", StopSignal="SIGTERM")  # the first process ignores it for 10 s
    other = docker.create("other")
    await world.state(slow, "running")
    await world.state(other, "created")
    await world.annotate(slow, action="stop")
    await world.eventually(Container, slow, lambda obj: DISPATCHED in str(obj["metadata"]))
    await world.annotate(other, action="start")
    await world.state(other, "running")
    assert docker.inspect(slow)["State"]["Status"] == "running"
    docker.post(slow, "kill")
    await world.eventually(Container, slow, is_done("stop"))


async def test_racing_pause_and_unpause_end_in_the_state_of_the_engine(
    world: World, docker: Dockerd
) -> None:
    id_ = docker.run("raced")
    await world.state(id_, "running")
    for _ in range(5):
        await world.annotate(id_, action="pause")
        await world.annotate(id_, action="unpause")
        docker.call("GET", f"/containers/{id_}/json")
    await world.eventually(Container, id_, is_done("unpause"))
    state = docker.inspect(id_)["State"]["Status"]
    obj = await world.state(id_, state)
    assert state == "running"
    assert obj["status"]["lastAction"]["state"] == "Succeeded"


# -- crashes


@pytest.mark.parametrize(
    "where", ["before the record", "after the record", "before the outcome", "before the cleanup"]
)
async def test_restart_runs_once_wherever_the_controller_crashes(
    where: str, docker: Dockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.clear()
    id_ = docker.run("crashed")
    reached, never = asyncio.Event(), asyncio.Event()

    async def block(request: Request) -> None:
        body = bytes(request.body)
        matches = {
            "before the record": request.method == "PATCH" and DISPATCHED.encode() in body,
            "before the outcome": request.path.endswith("/status") and b"lastAction" in body,
            "before the cleanup": b'"op":"test"' in body,
        }
        if matches.get(where, False):
            reached.set()
            await never.wait()

    started = docker.inspect(id_)["State"]["StartedAt"]
    async with open_world(tmp_path, docker.socket) as world:
        await world.run_app()
        if where == "after the record":

            async def stuck(self: MobyBackend, item: object, action: str) -> None:
                reached.set()
                await never.wait()

            monkeypatch.setattr(MobyBackend, "act", stuck)
        world.disturb = block
        await world.annotate(id_, action="restart")
        await asyncio.wait_for(reached.wait(), 120)
        await world.crash()
        world.disturb = None
        monkeypatch.undo()
        await world.start()
        await world.eventually(Container, id_, is_done("restart"))
        assert len(docker.events(id_, "restart")) == 1
        state = docker.inspect(id_)
        assert state["State"]["StartedAt"] > started
        assert state["State"]["Status"] == "running"


async def test_action_is_not_repeated_on_a_container_that_changed_meanwhile(
    docker: Dockerd, tmp_path: Path
) -> None:
    docker.clear()
    id_ = docker.run("stopped-once")
    reached, never = asyncio.Event(), asyncio.Event()

    async def block(request: Request) -> None:
        if request.path.endswith("/status") and b"lastAction" in bytes(request.body):
            reached.set()
            await never.wait()

    async with open_world(tmp_path, docker.socket) as world:
        await world.run_app()
        world.disturb = block
        await world.annotate(id_, action="stop")
        await asyncio.wait_for(reached.wait(), 120)
        await world.crash()
        world.disturb = None
        docker.post(id_, "start")
        await world.start()
        obj = await world.eventually(Container, id_, is_done("stop"))
        assert obj["status"]["lastAction"]["state"] == "Succeeded"
        assert docker.inspect(id_)["State"]["Status"] == "running"


async def test_mirror_without_a_status_is_completed_after_a_crash(
    docker: Dockerd, tmp_path: Path
) -> None:
    docker.clear()
    reached, never = asyncio.Event(), asyncio.Event()
    async with open_world(tmp_path, docker.socket) as world:
        await world.run_app()

        async def block(request: Request) -> None:
            if request.path.endswith("/status") and "/containers/" in request.path:
                reached.set()
                await never.wait()

        world.disturb = block
        id_ = docker.create("half")
        await asyncio.wait_for(reached.wait(), 120)
        await world.crash()
        half = await world.get(Container, id_)
        assert "status" not in half
        world.disturb = None
        await world.start()
        obj = await world.state(id_, "created")
        assert obj["metadata"]["uid"] == half["metadata"]["uid"]


# -- deletion


async def test_deleting_a_running_container_removes_it(world: World, docker: Dockerd) -> None:
    id_ = docker.run("doomed")
    await world.state(id_, "running")
    await world.delete(Container, id_)
    await world.gone(Container, id_)
    with pytest.raises(AssertionError, match="No such container"):
        docker.inspect(id_)


async def test_deletion_of_an_image_in_use_waits_and_reports_it(
    world: World, docker: Dockerd
) -> None:
    docker.import_image("used", "1", a="1")
    id_ = docker.create("user", Image="used:1")
    await world.state(id_, "created")
    name = (await world.image("used:1"))["metadata"]["name"]
    await world.delete(Image, name)
    obj = await world.eventually(Image, name, lambda found: found["status"].get("conditions"))
    condition = find_condition(obj["status"]["conditions"], "Removed")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "InUse")
    assert "is using its referenced image" in condition["message"]
    await world.delete(Container, id_)
    await world.gone(Image, name)
    assert "used:1" not in str(docker.call("GET", "/images/json"))
    await world.noted("InUse", condition["message"])


async def test_image_in_use_is_removed_when_it_has_another_tag(
    world: World, docker: Dockerd
) -> None:
    id_ = docker.import_image("held", "1", a="1")
    container = docker.create("user", Image="held:1")
    await world.state(container, "created")
    held = await world.image("held:1")
    await world.delete(Image, held["metadata"]["name"])
    await world.noted("InUse", "is using its referenced image")
    docker.call("POST", f"/images/{id_}/tag?repo=held&tag=2", raw=True)
    await world.gone(Image, held["metadata"]["name"])
    last = await world.image("held:2")
    await world.delete(Image, last["metadata"]["name"])
    await world.noted("InUse", '"held:2"')
    docker.call("POST", f"/images/{id_}/tag?repo=held&tag=3", raw=True)
    await world.gone(Image, last["metadata"]["name"])
    assert docker.call("GET", f"/images/{id_}/json")["RepoTags"] == ["held:3"]


async def test_image_with_child_images_is_removed_after_them(world: World, docker: Dockerd) -> None:
    base = docker.import_image("base", "1", a="1")
    container = docker.create("user", Image="base:1")
    made = docker.call("POST", f"/commit?container={container}&repo=made&tag=1", {})["Id"]
    docker.call("DELETE", f"/containers/{container}", raw=True)
    docker.import_image("base", "1", a="2")  # moves the tag
    image = await world.find(
        Image, lambda obj: obj["status"]["id"] == base and "repoTag" not in obj["status"]
    )
    await world.delete(Image, image["metadata"]["name"])
    await world.noted("InUse", "dependent child images")
    docker.call("DELETE", f"/images/{made}?noprune=true")
    await world.gone(Image, image["metadata"]["name"])


async def test_deleting_one_tag_keeps_the_others(world: World, docker: Dockerd) -> None:
    id_ = docker.import_image("two", "1", a="1")
    docker.call("POST", f"/images/{id_}/tag?repo=two&tag=2", raw=True)
    await world.image("two:2")
    first = await world.image("two:1")
    await world.delete(Image, first["metadata"]["name"])
    await world.gone(Image, first["metadata"]["name"])
    assert docker.call("GET", f"/images/{id_}/json")["RepoTags"] == ["two:2"]


async def test_deleting_a_volume_waits_for_its_container(world: World, docker: Dockerd) -> None:
    docker.call("POST", "/volumes/create", {"Name": "kept"})
    id_ = docker.create("user", HostConfig={"Binds": ["kept:/data"]})
    await world.state(id_, "created")
    volume = await world.find(Volume, lambda obj: obj["status"]["name"] == "kept")
    name = volume["metadata"]["name"]
    await world.delete(Volume, name)
    await world.noted("InUse", "volume is in use")
    await world.delete(Container, id_)
    await world.gone(Volume, name)
    assert not docker.call("GET", "/volumes")["Volumes"]


async def test_deletion_while_the_controller_is_down_is_executed_later(
    world: World, docker: Dockerd
) -> None:
    id_ = docker.create("late")
    await world.state(id_, "created")
    await world.crash()
    await world.delete(Container, id_)
    assert docker.inspect(id_)
    await world.start()
    await world.gone(Container, id_)
    assert docker.call("GET", "/containers/json?all=1") == []


async def test_deletion_while_the_engine_is_stopped_removes_only_the_mirror(
    world: World, docker: Dockerd
) -> None:
    id_ = docker.create("safe")
    await world.state(id_, "created")
    await world.crash()
    await world.delete(Container, id_)
    await world.set_running(False)
    await world.start()
    await world.gone(Container, id_)
    assert docker.inspect(id_)
