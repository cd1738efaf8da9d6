# SPDX-License-Identifier: Apache-2.0
"""Logs, statistics and commands of real containers through the endpoints of the engine."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError
from tests.controllers.containers.engine_parts import Dockerd
from tests.controllers.containers.engine_world import World, open_world

from rdd.controllers.containers.engine.endpoints import EndpointSocket

V5 = "v5.channel.k8s.io"


@pytest.fixture
async def client(world: World) -> AsyncIterator[ClientSession]:
    async with world.session() as session:
        yield session


async def everything(socket: ClientWebSocketResponse) -> bytes:
    """Read all messages until the server closes."""
    found = b""
    async with asyncio.timeout(120):
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            found += message.data
    return found


# -- logs


async def test_logs_merge_stdout_and_stderr(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("talk", Cmd=["sh", "-c", "echo out; echo err >&2"])
    docker.post(id_, "wait")
    async with client.ws_connect(f"/engine/logs/{id_}?follow=false") as socket:
        assert sorted((await everything(socket)).splitlines()) == [b"err", b"out"]
        assert socket.close_code == 1000


async def test_logs_of_a_terminal_are_raw(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("tty", Cmd=["sh", "-c", "echo one; echo two"], Tty=True)
    docker.post(id_, "wait")
    async with client.ws_connect(f"/engine/logs/{id_}?follow=0") as socket:
        assert await everything(socket) == b"one\r\ntwo\r\n"


async def has_logged(client: ClientSession, id_: str, text: bytes) -> bool:
    async with client.get(f"/engine/logs/{id_}?follow=false") as answer:
        return text in await answer.read()


async def test_logs_are_followed_until_the_container_is_removed(
    world: World, docker: Dockerd, client: ClientSession
) -> None:
    command = "for i in $(seq 5); do echo line $i; done; cat"
    id_ = docker.run("follow", Cmd=["sh", "-c", command], OpenStdin=True)
    await world.until(lambda: has_logged(client, id_, b"line 5\n"))
    async with client.ws_connect(f"/engine/logs/{id_}?tail=2") as socket:
        assert await socket.receive_bytes(timeout=120) in (b"line 4\n", b"line 4\nline 5\n")
        docker.remove(id_)
        await everything(socket)
        assert socket.close_code == 1000


async def test_logs_over_plain_http(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("plain", Cmd=["seq", "1000"])
    docker.post(id_, "wait")
    async with client.get(f"/engine/logs/{id_}?follow=false&tail=3") as answer:
        assert answer.status == 200
        assert await answer.read() == b"998\n999\n1000\n"
    for since, count in (
        ("0", 1000),
        ("1.5", 1000),
        ("1970-01-01T00:00:00Z", 1000),
        ("4102444800", 0),
        ("2099-12-31T00:00:00.5Z", 0),
    ):
        url = f"/engine/logs/{id_}?follow=false&since={since}"
        async with client.get(url) as answer:
            assert (answer.status, (await answer.read()).count(b"\n")) == (200, count), since
    for since in ("yesterday", "-1", "1e9", "2020-13-01T00:00:00Z", "٣"):
        async with client.get(f"/engine/logs/{id_}?follow=false&since={since}") as answer:
            assert (answer.status, "for since" in await answer.text()) == (400, True), since
    async with client.get(f"/engine/logs/{id_}?follow=&tail=") as answer:  # defaults
        assert (await answer.read()).count(b"\n") == 1000


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        pytest.param("logs/xyz", 400, "invalid container ID 'xyz'", id="no ID"),
        pytest.param("logs/", 400, "invalid container ID ''", id="nothing"),
        pytest.param("logs/..%2F..%2Finfo", 400, "invalid container ID", id="another path"),
        pytest.param("logs/00ff", 404, "No such container: 00ff", id="unknown"),
        pytest.param("logs/00?follow=maybe", 400, "invalid value 'maybe' for follow", id="follow"),
        pytest.param("logs/00?tail=-1", 400, "invalid value '-1' for tail", id="tail"),
        pytest.param("stats/00ff", 404, "No such container: 00ff", id="statistics"),
        pytest.param("exec/00ff?command=ls", 404, "No such container: 00ff", id="command"),
        pytest.param("exec/00ff", 400, "command is required", id="no command"),
    ],
)
async def test_rejects_before_the_upgrade(
    path: str, status: int, text: str, client: ClientSession
) -> None:
    with pytest.raises(WSServerHandshakeError) as caught:
        await client.ws_connect(f"/engine/{path}", protocols=(V5,))
    assert caught.value.status == status
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": V5}
    async with client.get(f"/engine/{path}", headers=headers) as answer:
        assert text in await answer.text()


async def test_rejects_without_an_engine(tmp_path: Path) -> None:
    async with open_world(tmp_path, None) as world, world.session() as client:
        for path in ("logs/00", "stats/00", "exec/00?command=ls"):
            async with client.get(f"/engine/{path}") as answer:
                assert answer.status == 503
                assert await answer.text() == "the container engine is not connected\n"


async def test_slow_client_throttles_the_engine(
    docker: Dockerd, client: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = docker.run("flood", Cmd=["yes", "0123456789" * 100])
    sent = 0
    send = EndpointSocket.send

    async def count(self: EndpointSocket, data: bytes) -> None:
        nonlocal sent
        await send(self, data)
        sent += len(data)

    monkeypatch.setattr(EndpointSocket, "send", count)
    async with client.ws_connect(f"/engine/logs/{id_}", max_msg_size=0) as socket:
        await socket.receive_bytes(timeout=120)
        before = -1
        while before != sent:  # until the stream stalls
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 30 * 1024 * 1024
        docker.remove(id_)


# -- statistics


async def test_statistics_once_and_as_a_stream(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("used")
    async with client.get(f"/engine/stats/{id_}?stream=false") as answer:
        found = json.loads(await answer.read())
        assert found["id"] == id_
        assert found["memory_stats"]["usage"] > 0
    async with client.ws_connect(f"/engine/stats/{id_}") as socket:
        assert json.loads(await socket.receive_bytes(timeout=120))["name"] == "/used"
        docker.remove(id_)
        await everything(socket)
        assert socket.close_code == 1000


# -- commands


class Command:
    """The client side of a command."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket
        self.output: dict[int, bytes] = {}

    async def send(self, channel: int, data: bytes) -> None:
        await self.socket.send_bytes(bytes((channel,)) + data)

    async def until(self, channel: int, text: bytes) -> None:
        async with asyncio.timeout(120):
            while text not in self.output.get(channel, b""):
                self._take(await self.socket.receive_bytes())

    async def status(self) -> Any:
        """Return the final Status."""
        async with asyncio.timeout(120):
            async for message in self.socket:
                self._take(message.data)
        assert self.socket.close_code == 1000
        return json.loads(self.output[3])

    def _take(self, data: bytes) -> None:
        self.output[data[0]] = self.output.get(data[0], b"") + data[1:]


def exec_path(id_: str, *command: str, **flags: str) -> str:
    query = [("command", word) for word in command] + list(flags.items())
    return f"/engine/exec/{id_}?{urlencode(query)}"


async def test_command_has_all_three_streams(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("host")
    path = exec_path(id_, "sh", "-c", "cat; echo oops >&2; exit 3", stdin="true")
    async with client.ws_connect(path, protocols=(V5,)) as socket:
        assert socket.protocol == V5
        command = Command(socket)
        await command.send(0, b"hello ")
        await command.send(0, b"world")
        await command.send(255, b"\0")
        status = await command.status()
        assert command.output[1] == b"hello world"
        assert command.output[2] == b"oops\n"
        assert status == {
            "metadata": {},
            "status": "Failure",
            "message": "command terminated with non-zero exit code: exit status 3",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
        }


async def test_command_that_succeeds(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("host")
    path = exec_path(id_, "sh", "-c", "pwd; echo $A", workdir="/bin", env="A=b")
    async with client.ws_connect(path, protocols=("v4.channel.k8s.io",)) as socket:
        command = Command(socket)
        assert await command.status() == {"metadata": {}, "status": "Success"}
        assert command.output[1] == b"/bin\nb\n"


async def test_terminal_of_a_command_is_resized(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("host")
    path = exec_path(id_, "sh", stdin="true", tty="true")
    async with client.ws_connect(path, protocols=(V5,)) as socket:
        command = Command(socket)
        await command.until(1, b"# ")
        await command.send(4, b'{"Width":123,"Height":45}')
        await command.send(4, b"nonsense")
        await command.send(0, b"stty size\n")
        await command.until(1, b"45 123")
        await command.send(0, b"exit 7\n")
        status = await command.status()
        assert status["details"]["causes"][0]["message"] == "7"


async def test_large_input_and_output_are_unchanged(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("host")
    data = bytes(range(256)) * 16384  # 4 MiB
    async with client.ws_connect(
        exec_path(id_, "cat", stdin="1"), protocols=(V5,), max_msg_size=0
    ) as socket:
        command = Command(socket)

        async def feed() -> None:
            for i in range(0, len(data), 65536):
                await command.send(0, data[i : i + 65536])
            await command.send(255, b"\0")

        feeding = asyncio.ensure_future(feed())
        assert (await command.status())["status"] == "Success"
        await feeding
        assert command.output[1] == data


async def test_command_ends_with_its_container(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("doomed")
    async with client.ws_connect(exec_path(id_, "sleep", "1000"), protocols=(V5,)) as socket:
        docker.post(id_, "kill")
        status = await Command(socket).status()
        assert status["status"] == "Failure"


async def test_command_needs_a_protocol_and_a_running_container(
    docker: Dockerd, client: ClientSession
) -> None:
    id_ = docker.create("idle")
    for protocols, status in (((), 400), (("other",), 400), ((V5,), 409)):
        with pytest.raises(WSServerHandshakeError) as caught:
            await client.ws_connect(exec_path(id_, "ls"), protocols=protocols)
        assert caught.value.status == status
