# SPDX-License-Identifier: Apache-2.0
"""The mirror under faults: engine crashes, lost events, malformed responses."""

import asyncio
import hashlib
import itertools
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.containers.engine_parts import Dockerd
from tests.controllers.containers.engine_world import NAMESPACE, World, open_world

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

# -- the connection


async def test_restarted_engine_keeps_the_mirrors(world: World, docker: Dockerd) -> None:
    kept, lost = docker.create("kept"), docker.create("lost")
    running = docker.run("running")
    await world.state(kept, "created")
    await world.state(lost, "created")
    await world.state(running, "running")
    before = {
        obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in await world.list(Container)
    }
    docker.kill()
    condition = await world.ready("ConnectFailed")
    assert condition["status"] == "False"
    assert str(world.env.instance.docker_socket) in condition["message"]
    assert len(await world.list(Container)) == 3  # the mirrors stay
    docker.start()
    docker.remove(lost)
    await world.ready("Connected")
    await world.gone(Container, lost)
    await world.state(running, "exited")  # it stopped with its engine
    after = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in await world.list(Container)}
    assert after == {name: before[name] for name in (kept, running)}


async def test_mirrors_converge_after_a_crash_under_load(world: World, docker: Dockerd) -> None:
    ids = [docker.create(f"storm{i}") for i in range(30)]
    docker.kill()
    docker.start()
    for id_ in ids[:10]:
        docker.remove(id_)
    more = [docker.create(f"after{i}") for i in range(10)]
    wanted = set(ids[10:]) | set(more)
    await world.until(lambda: mirrors_exactly(world, wanted))


async def test_waits_for_the_engine(docker: Dockerd, tmp_path: Path) -> None:
    docker.clear()
    async with open_world(tmp_path, None) as world:
        await world.create_app()
        await world.set_running(True)
        condition = await world.ready("ConnectFailed")
        assert "No such file or directory" in condition["message"]
        world.env.instance.docker_socket.symlink_to(docker.socket)
        await world.ready("Connected")


async def test_connects_with_exponential_backoff(
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


async def test_resync_repairs_a_lost_event(
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

        def drop(self: MobyBackend, event: Any) -> Any:
            lost.add(event.id)
            return ()

        monkeypatch.setattr(MobyBackend, "_items", drop)
        missed = docker.create("missed")
        docker.remove(kept)
        await world.until(lambda: mirrors_exactly(world, {missed}))
        assert {kept, missed} <= lost
        monkeypatch.setattr(MobyBackend, "_items", items)


async def test_failed_write_is_reported_and_retried(world: World, docker: Dockerd) -> None:
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


async def test_one_event_costs_one_request_and_one_write(
    world: World, docker: Dockerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [docker.create(f"many{i}") for i in range(100)]
    await world.until(lambda: mirrors_exactly(world, set(ids)))
    requests: list[str] = []
    exchange = Docker._exchange

    def count(self: Docker, method: str, path: str, *rest: Any, **options: Any) -> Any:
        requests.append(path)
        return exchange(self, method, path, *rest, **options)

    monkeypatch.setattr(Docker, "_exchange", count)
    world.writes.clear()
    docker.call("POST", f"/containers/{ids[0]}/rename?name=other", raw=True)
    await world.eventually(Container, ids[0], lambda obj: obj["status"]["name"] == "other")
    # A second event is processed completely; by then further work for the first would show.
    docker.call("POST", f"/containers/{ids[1]}/rename?name=marker", raw=True)
    await world.eventually(Container, ids[1], lambda obj: obj["status"]["name"] == "marker")
    writes = [write for write in world.writes if "/leases/" not in write[1]]
    paths = [resource_of(Container).path(NAMESPACE, id_, "status") for id_ in ids[:2]]
    assert writes == [("PATCH", path) for path in paths]
    assert requests == [f"/containers/{id_}/json" for id_ in ids[:2]]


async def test_concurrent_status_writes_lose_nothing(world: World, docker: Dockerd) -> None:
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


# -- fake engines


async def test_host_clock_may_differ_from_engine_clock(docker: Dockerd, tmp_path: Path) -> None:
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


class FakeEngine:
    """An engine with malformed responses."""

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
        if path in ("/images/json", "/networks"):
            return 200, b"[]"
        if path == "/volumes":
            return 200, json.dumps({"Volumes": self.volumes}).encode()
        for volume in self.volumes:
            if path == f"/volumes/{volume['Name']}":
                return 200, json.dumps(volume).encode()
        id_ = path.removeprefix("/containers/").removesuffix("/json")
        if id_ in self.containers:
            return 200, json.dumps(self.containers[id_]).encode()
        return 404, b'{"message": "no such object"}'


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    engine = FakeEngine(tmp_path / "fake.sock")
    await engine.start()
    yield engine
    await engine.stop()


ID = "ab" * 32


async def test_unknown_states_and_missing_members_are_mirrored(
    fake: FakeEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake.containers = {ID: {"Id": ID, "State": {"Status": "levitating", "Pid": "many"}}}
    fake.volumes = [
        {"Name": "undated", "Driver": "cloud", "CreatedAt": None, "Labels": None},
        {"Name": "nonsense", "Driver": "cloud", "CreatedAt": "yesterday"},
    ]
    with caplog.at_level(logging.WARNING, "rdd.engine"):
        async with open_world(tmp_path, fake.path) as world:
            await world.run_app()
            status = (await world.get(Container, ID))["status"]
            assert status["status"] == "unknown"
            assert (status["name"], status["path"], status["image"]) == ("", "", "")
            for name in ("undated", "nonsense"):
                mirror = "vol-" + hashlib.sha256(name.encode()).hexdigest()
                volume = (await world.get(Volume, mirror))["status"]
                assert (volume["createdAt"], volume["scope"]) == ("1970-01-01T00:00:00Z", "")
            fake.events.put_nowait(b'{"Type":"container","Action":"start","Actor":{"ID":"%s"}}'
                                  % ID.encode())  # fmt: skip
            fake.containers[ID]["State"]["Status"] = "running"
            await world.state(ID, "running")
    assert sum("levitating" in record.message for record in caplog.records) == 1


async def test_malformed_response_and_event_do_not_stop_the_mirror(
    fake: FakeEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = "cd" * 32
    fake.containers = {id_: {"Id": id_, "State": {"Status": "running"}} for id_ in (ID, other)}
    fake.answers[f"/containers/{ID}/json"] = b"<html>" + b"x" * 10_000
    with caplog.at_level(logging.WARNING, "rdd.engine"):
        async with open_world(tmp_path, fake.path) as world:
            await world.create_app()
            await world.set_running(True)
            condition = await world.ready("Connected", message="1 object could not be mirrored")
            assert "is not JSON" in condition["message"]
            assert len(condition["message"]) < 600
            assert (await world.get(Container, other))["status"]["status"] == "running"
            assert (await world.get(Container, ID))["status"]["status"] == "unknown"
            fake.events.put_nowait(b"this is no event")
            fake.events.put_nowait(b"this is no event")
            fake.events.put_nowait(b'{"Type":"comet","Action":"seen","Actor":{"ID":"x"}}')
            # Events are processed in order: the mirror of the last one proves that all were read.
            last = "ef" * 32
            fake.containers[last] = {"Id": last, "State": {"Status": "running"}}
            fake.events.put_nowait(b'{"Type":"container","Action":"start","Actor":{"ID":"%s"}}'
                                   % last.encode())  # fmt: skip
            await world.state(last, "running")
            del fake.answers[f"/containers/{ID}/json"]
            await world.state(ID, "running")
            await world.eventually(App, "app", is_without_problems)
    logged = [record.message for record in caplog.records if "is not JSON" in record.message]
    assert len(logged) == 1
    assert len(logged[0]) < 500
    assert sum("this is no event" in record.message for record in caplog.records) == 1


async def test_reports_an_engine_that_is_too_old(
    fake: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_module, "OLDEST", (1, 44))
    async with open_world(tmp_path, fake.path) as world:
        await world.create_app()
        await world.set_running(True)
        condition = await world.ready("ConnectFailed")
        assert "supports Docker API version 1.41" in condition["message"]


async def test_malformed_list_is_a_failed_connection(fake: FakeEngine, tmp_path: Path) -> None:
    fake.answers["/containers/json"] = b'{"not": "a list"}'
    async with open_world(tmp_path, fake.path) as world:
        await world.create_app()
        await world.set_running(True)
        condition = await world.ready("ConnectFailed")
        assert "is not a list" in condition["message"]
        del fake.answers["/containers/json"]
        await world.ready("Connected")


# -- Docker contexts


async def test_docker_context_exists_while_the_engine_is_connected(
    world: World, docker: Dockerd, tmp_path: Path
) -> None:
    name = world.env.instance.name
    path = tmp_path / ".docker" / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    metadata = json.loads((path / "meta.json").read_text())
    assert metadata["Endpoints"]["docker"]["Host"] == world.env.instance.docker_endpoint
    config = tmp_path / ".docker" / "config.json"
    await world.until(lambda: is_current(config, name))  # no other engine responds
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
    found = await world.list(Container)
    return {obj["metadata"]["name"] for obj in found} == ids and all("status" in o for o in found)


async def has_name(world: World, kind: type[Container | Image | Volume], name: str) -> bool:
    return name in await world.names(kind)


async def has_length(items: list[float], length: int) -> bool:
    return len(items) >= length


def is_without_problems(app: dict[str, Any]) -> bool:
    found = find_condition(app["status"]["conditions"], "ContainerEngineReady")
    return found is not None and found["message"] == "Container engine synced"
