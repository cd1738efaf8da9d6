# SPDX-License-Identifier: Apache-2.0
"""The HTTP transport against responses that are fragmented, truncated or malformed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rdd.engine import Docker, EngineError, EngineNotFound, EngineProtocolError, EngineUnreachable
from rdd.engine.errors import UnsupportedEngineVersion
from rdd.engine.http import EngineTransport


class ScriptedEngine:
    """A socket that sends prepared bytes for each request."""

    def __init__(
        self, path: Path, *responses: bytes, is_slow: bool = False, is_silent: bool = False
    ) -> None:
        self.path = path
        self._is_silent = is_silent
        self._tasks: set[asyncio.Task[None]] = set()
        self.received = asyncio.Event()
        self.responses = list(responses)
        self.requests: list[bytes] = []
        self.connections = 0
        self._is_slow = is_slow

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                self.received.set()
                if self._is_silent:
                    await reader.read()
                    return
                response = self.responses.pop(0)
                if self._is_slow:
                    for i in range(len(response)):
                        writer.write(response[i : i + 1])
                        await writer.drain()
                        await asyncio.sleep(0)
                else:
                    writer.write(response)
                if b"Connection: close" in response or not response:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, IndexError):
            pass
        finally:
            writer.close()
            try:
                await writer.wait_closed()
            except ConnectionError:
                pass

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ScriptedEngine"]:
        async with await asyncio.start_unix_server(self._serve, self.path):
            yield self
            await asyncio.gather(*self._tasks)


def ok(body: bytes, **headers: str) -> bytes:
    lines = [b"HTTP/1.1 200 OK", f"Content-Length: {len(body)}".encode()]
    lines += [f"{name.replace('_', '-')}: {value}".encode() for name, value in headers.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PING = ok(b"OK", Api_Version="1.41")


async def body_of(transport: EngineTransport, method: str = "GET") -> bytes:
    async with transport.exchange(method, "/", response_s=10) as exchange:
        return await exchange.read()


@pytest.mark.parametrize("is_slow", [False, True], ids=["at once", "byte by byte"])
@pytest.mark.parametrize(
    ("response", "body"),
    [
        pytest.param(ok(b"hello"), b"hello", id="length"),
        pytest.param(ok(b""), b"", id="empty"),
        pytest.param(
            CHUNKED + b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", b"hello world", id="chunks"
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="no content"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"x"), b"x", id="continue"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", b"until the end", id="end"
        ),
    ],
)  # fmt: skip
async def test_reads_every_framing_and_fragmentation(
    response: bytes, body: bytes, is_slow: bool, tmp_path: Path
) -> None:
    async with ScriptedEngine(tmp_path / "s", response, is_slow=is_slow).running() as engine:
        transport = EngineTransport(engine.path)
        assert await body_of(transport) == body
        await transport.close()


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        pytest.param(b"", EngineUnreachable, "closed without a response", id="nothing"),
        pytest.param(
            b"SSH-2.0-x\r\n\r\n", EngineProtocolError, "not an HTTP response", id="another",
        ),
        pytest.param(
            b"HTTP/1.1 x OK\r\n\r\n", EngineProtocolError, "not an HTTP response", id="status",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", EngineProtocolError,
            "not a content length: 'x'", id="length",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nshort",
            EngineUnreachable, "in the middle of the response", id="short",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhe",
            EngineUnreachable, "in the middle of the response", id="short chunk",
        ),
        pytest.param(CHUNKED + b"zz\r\n", EngineProtocolError, "not a chunk", id="bad chunk"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", EngineProtocolError,
            "too many headers", id="endless head",
        ),
    ],
)  # fmt: skip
async def test_rejects_malformed_responses(
    response: bytes, error: type[Exception], text: str, tmp_path: Path
) -> None:
    async with ScriptedEngine(tmp_path / "s", response, response).running() as engine:
        transport = EngineTransport(engine.path)
        with pytest.raises(error, match=text):
            await body_of(transport)
        await transport.close()


async def test_reuses_and_replaces_connections(tmp_path: Path) -> None:
    last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nc"
    async with ScriptedEngine(
        tmp_path / "s", ok(b"a"), ok(b"b"), last, ok(b"d")
    ).running() as engine:
        transport = EngineTransport(engine.path)
        found = [await body_of(transport) for _ in range(4)]
        assert found == [b"a", b"b", b"c", b"d"]
        assert engine.connections == 2
        await transport.close()


async def test_repeats_only_idempotent_requests_after_a_lost_connection(
    tmp_path: Path,
) -> None:
    # The engine reads the second request of a connection and closes it without a response.
    async with ScriptedEngine(tmp_path / "s", ok(b"a"), b"", ok(b"b"), b"").running() as engine:
        transport = EngineTransport(engine.path)
        assert await body_of(transport) == b"a"
        assert await body_of(transport) == b"b"
        with pytest.raises(EngineUnreachable):
            await body_of(transport, "POST")
        assert len(engine.requests) == 4
        await transport.close()


async def test_timeout_is_unreachable(tmp_path: Path) -> None:
    async with ScriptedEngine(tmp_path / "s", is_silent=True).running() as engine:
        transport = EngineTransport(engine.path)
        with pytest.raises(EngineUnreachable, match=r"no response to GET / within 0\.05 s"):
            async with transport.exchange("GET", "/?a=b", response_s=0.05):
                pass
        await transport.close()


async def test_missing_socket_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachable, match="No such file or directory"):
        await Docker(tmp_path / "nowhere").ping()


@pytest.mark.parametrize(
    ("version", "agreed"),
    [
        pytest.param("1.41", "1.41", id="oldest"),
        pytest.param("1.44", "1.44", id="between"),
        pytest.param("1.99", "1.51", id="newer"),
    ],
)
async def test_negotiates_the_newest_common_version(
    version: str, agreed: str, tmp_path: Path
) -> None:
    responses = (ok(b"OK", Api_Version=version), ok(b"[]"))
    async with (
        ScriptedEngine(tmp_path / "s", *responses).running() as engine,
        Docker(engine.path) as docker,
    ):
        assert await docker.containers() == []
        assert engine.requests[1].startswith(f"GET /v{agreed}/containers/json?all=1 ".encode())


@pytest.mark.parametrize(
    ("version", "error"),
    [
        pytest.param("1.40", UnsupportedEngineVersion, id="too old"),
        pytest.param("", EngineProtocolError, id="none"),
        pytest.param("x.y", EngineProtocolError, id="nonsense"),
    ],
)
async def test_rejects_unsupported_version(
    version: str, error: type[Exception], tmp_path: Path
) -> None:
    response = ok(b"OK", Api_Version=version)
    async with (
        ScriptedEngine(tmp_path / "s", response).running() as engine,
        Docker(engine.path) as docker,
    ):
        with pytest.raises(error, match=version or "''"):
            await docker.containers()


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        pytest.param(404, b'{"message":"No such container: x"}', EngineNotFound,
                     "No such container: x", id="not found"),
        pytest.param(500, b"plain text", EngineError, "plain text", id="text"),
        pytest.param(500, b"", EngineError, "the engine gave no reason", id="nothing"),
        pytest.param(500, b'{"message":""}', EngineError, "the engine gave no reason", id="empty"),
        pytest.param(500, b'{"other":1}', EngineError, '{"other":1}', id="other JSON"),
    ],
)  # fmt: skip
async def test_error_has_the_message_of_the_engine(
    status: int, body: bytes, kind: type[EngineError], message: str, tmp_path: Path
) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with (
        ScriptedEngine(tmp_path / "s", PING, head + body).running() as engine,
        Docker(engine.path) as docker,
    ):
        with pytest.raises(kind) as caught:
            await docker.inspect_container("x")
        assert (caught.value.status, str(caught.value)) == (status, message)


@pytest.mark.parametrize("name", ["", "..", "a/../b", "."])
async def test_rejects_names_that_change_the_path(name: str, tmp_path: Path) -> None:
    async with (
        ScriptedEngine(tmp_path / "s", PING).running() as engine,
        Docker(engine.path) as docker,
    ):
        with pytest.raises(EngineError, match="invalid name"):
            await docker.inspect_image(name)


async def test_cancelled_request_closes_its_connection(tmp_path: Path) -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"
    async with ScriptedEngine(tmp_path / "s", begun, ok(b"other")).running() as engine:
        transport = EngineTransport(engine.path)
        reading = asyncio.ensure_future(body_of(transport))
        await engine.received.wait()
        await asyncio.sleep(0.01)  # lets the client read the first bytes; cancelling before is fine
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert await body_of(transport) == b"other"
        assert engine.connections == 2
        await transport.close()
