# SPDX-License-Identifier: Apache-2.0
"""The mirror when things go wrong: engines that die, events that are lost, answers that are odd."""

import asyncio
import hashlib
import itertools
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.containers.engine_parts import Dockerd, dockerd
from tests.controllers.containers.engine_world import NAMESPACE, World, open_world, running_world

from rdd.api import errors
from rdd.apiserver.http.request import Request
from rdd.controllers.containers.engine import SyncSettings
from rdd.controllers.containers.engine.moby import MobyBackend
from rdd.engine import Docker
from rdd.engine import docker as docker_module
from rdd.kinds.app import App
from rdd.kinds.container import Container
from rdd.kinds.image import Image
from rdd.kinds.volume import Volume
from rdd.runtime import find_condition, resource_of


@pytest.fixture(scope="module")
def docker(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dockerd]:
    with dockerd(real_part, tmp_path_factory.mktemp("d")) as engine:
        yield engine


@pytest.fixture
async def world(docker: Dockerd, tmp_path: Path) -> AsyncIterator[World]:
    docker.clear()
    async with running_world(tmp_path, docker) as made:
        yield made


# -- the connection


async def test_engine_that_dies_and_comes_back_keeps_the_objects(
    world: World, docker: Dockerd
) -> None:
    kept, lost = docker.create("kept"), docker.create("lost")
    running = docker.run("running")
    await world.state(kept, "created")
    await world.state(lost, "created")
    await world.state(running, "running")
    before = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in await world.all(Container)}
    docker.kill()
    condition = await world.ready("ConnectFailed")
    assert condition["status"] == "False"
    assert str(world.env.instance.docker_socket) in condition["message"]
    assert len(await world.all(Container)) == 3  # nobody says that they are gone
    docker.start()
    docker.remove(lost)
    await world.ready("Connected")
    await world.gone(Container, lost)
    await world.state(running, "exited")  # it went down with its engine
    after = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in await world.all(Container)}
    assert after == {name: before[name] for name in (kept, running)}


async def test_engine_that_dies_in_a_storm_of_events_converges(
    world: World, docker: Dockerd
) -> None:
    ids = [docker.create(f"storm{i}") for i in range(30)]
    docker.kill()
    docker.start()
    for id_ in ids[:10]:
        docker.remove(id_)
    more = [docker.create(f"after{i}") for i in range(10)]
    wanted = set(ids[10:]) | set(more)
    await world.until(lambda: mirrors_exactly(world, wanted))


async def test_engine_that_is_not_there_yet_is_waited_for(docker: Dockerd, tmp_path: Path) -> None:
    docker.clear()
    async with open_world(tmp_path, None) as world:
        await world.create_app()
        await world.set_running(True)
        condition = await world.ready("ConnectFailed")
        assert "No such file or directory" in condition["message"]
        world.env.instance.docker_socket.symlink_to(docker.socket)
        await world.ready("Connected")


async def test_connecting_is_tried_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    tries: list[float] = []
    ping = Docker.ping

    async def counted(self: Docker, **options: Any) -> str:
        tries.append(loop.time())
        return await ping(self, **options)

    monkeypatch.setattr(Docker, "ping", counted)
    async with open_world(tmp_path, None) as world:
        await world.create_app()
        await world.set_running(True)
        await world.until(lambda: has_length(tries, 4))
    pauses = [after - before for before, after in itertools.pairwise(tries)]
    assert pauses[0] >= 0.25
    assert pauses[1] >= 0.5
    assert pauses[2] >= 1.0


# -- lost events, failed writes


async def test_lost_event_is_healed_by_looking_at_everything(
    docker: Dockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.clear()
    async with open_world(tmp_path, docker.socket) as world:
        await world.restart(settings=SyncSettings(resync_s=0.5, batch=2, pause_s=0.01))
        await world.run_app()
        kept = docker.create("kept")
        await world.state(kept, "created")
        lost: set[str] = set()

        items = MobyBackend._items

        def deaf(self: MobyBackend, event: Any) -> Any:
            lost.add(event.id)
            return ()

        monkeypatch.setattr(MobyBackend, "_items", deaf)
        missed = docker.create("missed")
        docker.remove(kept)
        await world.until(lambda: mirrors_exactly(world, {missed}))
        assert {kept, missed} <= lost
        monkeypatch.setattr(MobyBackend, "_items", items)


async def test_write_that_fails_is_told_and_tried_again(world: World, docker: Dockerd) -> None:
    fails = True

    async def disturb(request: Request) -> None:
        if fails and request.method == "POST" and request.path.endswith("/volumes"):
            raise errors.InternalError("the disk is full")

    world.disturb = disturb
    docker.call("POST", "/volumes/create", {"Name": "unlucky"})
    condition = await world.ready("Connected", message="1 object could not be mirrored")
    assert "volumes unlucky" in condition["message"]
    assert "the disk is full" in condition["message"]
    docker.call("POST", "/containers/create?name=lucky", {"Image": "busybox", "Cmd": ["true"]})
    await world.until(lambda: has_name(world, Container, "lucky"))
    fails = False
    await world.until(lambda: has_name(world, Volume, "unlucky"))
    await world.eventually(App, "app", is_without_problems)


async def test_one_event_costs_a_few_calls_however_many_containers_there_are(
    world: World, docker: Dockerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [docker.create(f"many{i}") for i in range(100)]
    await world.until(lambda: mirrors_exactly(world, set(ids)))
    asked: list[str] = []
    exchange = Docker._exchange

    def count(self: Docker, method: str, path: str, *rest: Any, **options: Any) -> Any:
        asked.append(path)
        return exchange(self, method, path, *rest, **options)

    monkeypatch.setattr(Docker, "_exchange", count)
    world.writes.clear()
    docker.call("POST", f"/containers/{ids[0]}/rename?name=other", raw=True)
    await world.eventually(Container, ids[0], lambda obj: obj["status"]["name"] == "other")
    await asyncio.sleep(0.2)  # nothing may follow
    mine = [write for write in world.writes if "/leases/" not in write[1]]
    path = resource_of(Container).path(NAMESPACE, ids[0], "status")
    assert mine == [("PATCH", path)]
    assert asked == [f"/containers/{ids[0]}/json"]


async def test_action_and_engine_write_the_same_status_without_losing_anything(
    world: World, docker: Dockerd
) -> None:
    id_ = docker.run("busy")
    await world.state(id_, "running")
    for action, state in (("pause", "paused"), ("unpause", "running"), ("stop", "exited")):
        await world.annotate(id_, action=action)
        obj = await world.eventually(
            Container,
            id_,
            lambda found, action=action, state=state: (  # type: ignore[misc]
                found["status"].get("lastAction", {}).get("action") == action
                and found["status"]["status"] == state
            ),
        )
        assert len(obj["status"]["conditions"]) == 5


# -- odd engines


async def test_clock_of_the_host_does_not_have_to_be_the_clock_of_the_engine(
    docker: Dockerd, tmp_path: Path
) -> None:
    docker.clear()
    async with open_world(tmp_path, docker.socket) as world:
        for shift_s in (-86400.0, 86400.0):
            await world.restart(clock_shift=lambda shift_s=shift_s: shift_s)
            if shift_s < 0:
                await world.run_app()
            await world.ready("Connected")
            id_ = docker.run()
            await world.state(id_, "running")
            docker.remove(id_)
            await world.gone(Container, id_)


class OddEngine:
    """An engine of which single answers are not what the API promises."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.containers: dict[str, Any] = {}
        self.volumes: list[Any] = []
        self.answers: dict[str, bytes] = {}
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.server: asyncio.Server | None = None

    async def start(self) -> None:
        self.server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ", 2)[1].partition("?")[0].removeprefix("/v1.41")
                if path == "/events":
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    while True:
                        writer.write(await self.events.get() + b"\n")
                status, body = self._answer(path)
                head = f"HTTP/1.1 {status} X\r\nApi-Version: 1.41\r\nContent-Length: {len(body)}"
                writer.write(f"{head}\r\n\r\n".encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, path: str) -> tuple[int, bytes]:
        if path in self.answers:
            return 200, self.answers[path]
        if path == "/_ping":
            return 200, b"OK"
        if path == "/info":
            return 200, b'{"SystemTime": "not a time"}'
        if path == "/containers/json":
            return 200, json.dumps([{"Id": id_} for id_ in self.containers]).encode()
        if path == "/images/json":
            return 200, b"[]"
        if path == "/volumes":
            return 200, json.dumps({"Volumes": self.volumes}).encode()
        for volume in self.volumes:
            if path == f"/volumes/{volume['Name']}":
                return 200, json.dumps(volume).encode()
        id_ = path.removeprefix("/containers/").removesuffix("/json")
        if id_ in self.containers:
            return 200, json.dumps(self.containers[id_]).encode()
        return 404, b'{"message": "no such thing"}'


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[OddEngine]:
    engine = OddEngine(tmp_path / "odd.sock")
    await engine.start()
    yield engine
    await engine.stop()


ID = "ab" * 32


async def test_unknown_states_and_missing_members_are_mirrored_all_the_same(
    odd: OddEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd.containers = {ID: {"Id": ID, "State": {"Status": "levitating", "Pid": "many"}}}
    odd.volumes = [
        {"Name": "undated", "Driver": "cloud", "CreatedAt": None, "Labels": None},
        {"Name": "nonsense", "Driver": "cloud", "CreatedAt": "yesterday"},
    ]
    with caplog.at_level(logging.WARNING, "rdd.engine"):
        async with open_world(tmp_path, odd.path) as world:
            await world.run_app()
            status = (await world.get(Container, ID))["status"]
            assert status["status"] == "unknown"
            assert (status["name"], status["path"], status["image"]) == ("", "", "")
            for name in ("undated", "nonsense"):
                mirror = "vol-" + hashlib.sha256(name.encode()).hexdigest()
                volume = (await world.get(Volume, mirror))["status"]
                assert (volume["createdAt"], volume["scope"]) == ("1970-01-01T00:00:00Z", "")
            odd.events.put_nowait(b'{"Type":"container","Action":"start","Actor":{"ID":"%s"}}'
                                  % ID.encode())  # fmt: skip
            odd.containers[ID]["State"]["Status"] = "running"
            await world.state(ID, "running")
    assert sum("levitating" in record.message for record in caplog.records) == 1


async def test_answer_and_event_that_make_no_sense_do_not_stop_the_mirror(
    odd: OddEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = "cd" * 32
    odd.containers = {id_: {"Id": id_, "State": {"Status": "running"}} for id_ in (ID, other)}
    odd.answers[f"/containers/{ID}/json"] = b"<html>" + b"x" * 10_000
    with caplog.at_level(logging.WARNING, "rdd.engine"):
        async with open_world(tmp_path, odd.path) as world:
            await world.create_app()
            await world.set_running(True)
            condition = await world.ready("Connected", message="1 object could not be mirrored")
            assert "is not JSON" in condition["message"]
            assert len(condition["message"]) < 600
            assert (await world.get(Container, other))["status"]["status"] == "running"
            assert (await world.get(Container, ID))["status"]["status"] == "unknown"
            odd.events.put_nowait(b"this is no event")
            odd.events.put_nowait(b"this is no event")
            odd.events.put_nowait(b'{"Type":"comet","Action":"seen","Actor":{"ID":"x"}}')
            del odd.answers[f"/containers/{ID}/json"]
            await world.state(ID, "running")
            await world.eventually(App, "app", is_without_problems)
    said = [record.message for record in caplog.records if "is not JSON" in record.message]
    assert len(said) == 1
    assert len(said[0]) < 500
    assert sum("this is no event" in record.message for record in caplog.records) == 1


async def test_engine_that_is_too_old_is_named_as_the_reason(
    odd: OddEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_module, "OLDEST", (1, 44))
    async with open_world(tmp_path, odd.path) as world:
        await world.create_app()
        await world.set_running(True)
        condition = await world.ready("ConnectFailed")
        assert "speaks version 1.41 of the Docker API" in condition["message"]


async def test_list_that_makes_no_sense_is_a_failed_connection(
    odd: OddEngine, tmp_path: Path
) -> None:
    odd.answers["/containers/json"] = b'{"not": "a list"}'
    async with open_world(tmp_path, odd.path) as world:
        await world.create_app()
        await world.set_running(True)
        condition = await world.ready("ConnectFailed")
        assert "is not a list" in condition["message"]
        del odd.answers["/containers/json"]
        await world.ready("Connected")


# -- Docker contexts


async def test_docker_context_is_there_while_the_engine_is(
    world: World, docker: Dockerd, tmp_path: Path
) -> None:
    name = world.env.instance.name
    path = tmp_path / ".docker" / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    metadata = json.loads((path / "meta.json").read_text())
    assert metadata["Endpoints"]["docker"]["Host"] == world.env.instance.docker_endpoint
    config = tmp_path / ".docker" / "config.json"
    await world.until(lambda: is_current(config, name))  # nothing else answers here
    await world.set_running(False)
    await world.ready("Stopped")
    assert not path.exists()
    assert "currentContext" not in json.loads(config.read_text())
    await world.set_running(True)
    await world.ready("Connected")
    await world.until(lambda: is_current(config, name))
    await world.stop()
    assert not path.exists()


# -- helpers


async def is_current(config: Path, name: str) -> bool:
    return current_context(config) == name


def current_context(config: Path) -> str:
    return str(json.loads(config.read_text()).get("currentContext")) if config.exists() else ""


async def mirrors_exactly(world: World, ids: set[str]) -> bool:
    found = await world.all(Container)
    return {obj["metadata"]["name"] for obj in found} == ids and all("status" in o for o in found)


async def has_name(world: World, kind: type[Container | Image | Volume], name: str) -> bool:
    return name in await world.names(kind)


async def has_length(items: list[float], length: int) -> bool:
    return len(items) >= length


def is_without_problems(app: dict[str, Any]) -> bool:
    found = find_condition(app["status"]["conditions"], "ContainerEngineReady")
    return found is not None and found["message"] == "Container engine synced"
