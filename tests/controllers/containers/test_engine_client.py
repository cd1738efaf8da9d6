# SPDX-License-Identifier: Apache-2.0
"""The Docker client against a real engine: the parts that the mirror does not use."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.controllers.containers.engine_parts import Dockerd, dockerd, silent_port

from rdd.engine import (
    ContainerConfig,
    Docker,
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineUnreachable,
)
from rdd.engine.frames import STDERR, STDOUT, Deframer


@pytest.fixture(scope="module")
def engine(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dockerd]:
    with dockerd(real_part, tmp_path_factory.mktemp("d")) as made:
        yield made


@pytest.fixture
async def docker(engine: Dockerd) -> AsyncIterator[Docker]:
    engine.clear()
    async with Docker(engine.socket) as client:
        yield client


async def test_attached_streams_are_bidirectional(docker: Docker, engine: Dockerd) -> None:
    id_ = engine.create(
        "attached", Cmd=["sh", "-c", "cat; echo oops >&2"], OpenStdin=True, StdinOnce=True,
        AttachStdin=True,
    )  # fmt: skip
    async with docker.attach(id_) as streams:
        await docker.start_container(id_)
        await streams.write(b"hello")
        streams.write_eof()
        deframer, found = Deframer(), {STDOUT: b"", STDERR: b""}
        while piece := await streams.read():
            for chunk in deframer.feed(piece):
                found[chunk.stream] += chunk.data
    assert found == {STDOUT: b"hello", STDERR: b"oops\n"}


async def test_terminal_of_a_container_is_resized(docker: Docker, engine: Dockerd) -> None:
    id_ = engine.run("tty", Cmd=["sh"], Tty=True, OpenStdin=True)
    async with docker.attach(id_) as streams:
        await docker.resize_container(id_, height=33, width=77)
        await streams.write(b"stty size\n")
        seen = b""
        async with asyncio.timeout(120):
            while b"33 77" not in seen:
                seen += await streams.read()


async def test_events_replay_the_past_and_end_at_until(docker: Docker, engine: Dockerd) -> None:
    id_ = engine.create("eventful")
    now = (await docker.info())["SystemTime"]
    assert now
    async with docker.events(since="1", until="1", filters={"container": [id_]}) as events:
        assert [event async for event in events] == []
    async with docker.events(since="1", filters={"container": [id_]}) as events:
        async for event in events:
            assert (event.type, event.action, event.id) == ("container", "create", id_)
            assert event.attributes["name"] == "eventful"
            assert event.time_ns > 0
            break


async def test_typed_requests_and_errors(docker: Docker) -> None:
    made = await docker.create_container(
        ContainerConfig("busybox", path="sleep", args=["1000"], labels={"a": "b"}), name="typed"
    )
    assert [found["Id"] for found in await docker.containers(label="a=b")] == [made]
    assert await docker.containers(label="a=c") == []
    with pytest.raises(EngineConflict, match='The container name "/typed" is already in use'):
        await docker.create_container(ContainerConfig("busybox", path="true"), name="typed")
    await docker.start_container(made)
    await docker.start_container(made)  # idempotent
    with pytest.raises(EngineConflict, match="cannot remove a running container"):
        await docker.remove_container(made)
    await docker.remove_container(made, force=True)
    with pytest.raises(EngineNotFound):
        await docker.inspect_container(made)


async def test_cancelled_pull_ends_in_the_engine(docker: Docker, engine: Dockerd) -> None:
    with silent_port(engine, 5003):
        pulling = docker.pull("localhost:5003/x", "1")
        async with aclosing(pulling):
            arrival = asyncio.ensure_future(anext(pulling))
            await asyncio.wait({arrival}, timeout=0.2)
            arrival.cancel()
            await asyncio.gather(arrival, return_exceptions=True)
        assert await docker.ping() == "1.41"


async def test_failed_transfer_has_the_message_of_the_engine(
    docker: Docker, engine: Dockerd
) -> None:
    with pytest.raises(EngineError, match="connection refused"):
        async for _ in docker.pull("localhost:1/x", "1"):
            pass
    with pytest.raises(EngineError, match="does not exist"):
        async for _ in docker.push("localhost:1/nowhere", "1"):
            pass


async def test_streams_end_with_the_engine_and_the_client_reconnects(
    docker: Docker, engine: Dockerd
) -> None:
    async with docker.events() as events:
        arrival = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        engine.kill()
        with pytest.raises((EngineUnreachable, StopAsyncIteration)):
            await arrival
    with pytest.raises(EngineUnreachable):
        await docker.containers()
    engine.start()
    assert await docker.containers() == []
