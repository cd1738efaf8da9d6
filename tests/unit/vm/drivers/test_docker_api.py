# SPDX-License-Identifier: Apache-2.0
"""The Docker API of a host agent, against a socket with fixed responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rdd.vm.drivers.host import docker_api

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Engine:
    """Sends bytes to one client, and more when `more` is set."""

    def __init__(self, first: bytes, rest: bytes = b"") -> None:
        self._first, self._rest = first, rest
        self.is_subscribed = False
        self.more = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.is_subscribed = True
        writer.write(self._first)
        if self._rest:
            await self.more.wait()
            writer.write(self._rest)
        writer.close()


@asynccontextmanager
async def running(engine: Engine, path: Path) -> AsyncIterator[None]:
    async with await asyncio.start_unix_server(engine.serve, path):
        yield


async def test_stream_is_accepted_before_its_first_line(tmp_path: Path) -> None:
    engine = Engine(CHUNKED, b"3\r\n{}\n\r\n0\r\n\r\n")
    async with (
        running(engine, tmp_path / "s"),
        docker_api.open_lines(tmp_path / "s", "/events") as lines,
    ):
        assert engine.is_subscribed
        engine.more.set()
        assert [line async for line in lines] == [b"{}"]


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        pytest.param(b"HTTP/1.1 404 Not Found\r\n\r\n", "/x: Not Found", id="status"),
        pytest.param(b"junk", "not an HTTP response", id="no HTTP"),
        pytest.param(b"", "without a response", id="nothing"),
    ],
)
async def test_other_responses_are_bad_answers(
    tmp_path: Path, response: bytes, reason: str
) -> None:
    async with running(Engine(response), tmp_path / "s"):
        with pytest.raises(docker_api.BadAnswer, match=reason):
            await docker_api.get(tmp_path / "s", "/x")
        with pytest.raises(docker_api.BadAnswer, match=reason):
            async with docker_api.open_lines(tmp_path / "s", "/x"):
                raise AssertionError("accepted")


async def test_stream_that_breaks_off_is_a_bad_answer(tmp_path: Path) -> None:
    async with running(Engine(CHUNKED + b"5\r\n{}"), tmp_path / "s"):
        with pytest.raises(docker_api.BadAnswer, match="in the middle of the response"):
            async with docker_api.open_lines(tmp_path / "s", "/events") as lines:
                assert [line async for line in lines] == []
