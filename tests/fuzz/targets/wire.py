# SPDX-License-Identifier: Apache-2.0
"""Bytes on connections: HTTP/1 heads and bodies, HTTP/2 frames, answers of Docker and qemu.

A server must answer the next client whatever the last one sent; a client must fail with an error
of its own whatever the server sends.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fuzz.target import Loop, Target
from tests.http.wire.wire_server import WireServer, serving

from rdd.engine.docker import Docker
from rdd.engine.errors import EngineFailure
from rdd.vm.drivers.qemu.qmp import Qmp, QmpError

LOOP = Loop()
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GOOD = b"GET /good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def _http(data: bytes) -> None:
    async with serving() as wire:
        await _send(wire, data)
        answer = await _send(wire, GOOD)
        assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]


async def _send(wire: WireServer, data: bytes) -> bytes:
    connection = await wire.connect()
    connection.send(data)
    with contextlib.suppress(OSError):
        connection.writer.write_eof()
    try:
        return await connection.reader.read()
    except ConnectionError:
        return b""
    finally:
        connection.writer.transport.abort()


def _http1(data: bytes) -> None:
    LOOP.run(_http(data))


def _http2(data: bytes) -> None:
    LOOP.run(_http(PREFACE + data))


# -- answers


@asynccontextmanager
async def _answering(data: bytes) -> AsyncIterator[Path]:
    """Yield a socket whose server sends the same bytes to every client, and ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await reader.read(1)
            writer.write_eof()
            await writer.drain()
        writer.close()

    with tempfile.TemporaryDirectory(prefix="rddf") as directory:
        path = Path(directory) / "s"
        server = await asyncio.start_unix_server(answer, path)
        try:
            yield path
        finally:
            server.close()


async def _docker(data: bytes) -> None:
    async with _answering(data) as path, Docker(path) as docker:
        docker._prefix = "/v1.41"
        calls: list[Callable[[], Awaitable[object]]] = [
            docker.ping,
            docker.info,
            docker.containers,
            docker.images,
            docker.volumes,
        ]
        for call in calls:
            try:
                async with asyncio.timeout(5):
                    await call()
            except EngineFailure as error:
                assert str(error)
            except TimeoutError:
                pass  # an announced body that does not come


async def _qmp(data: bytes) -> None:
    async with _answering(b'{"QMP": {}}\r\n' + data) as path:
        try:
            async with asyncio.timeout(5):
                client = await Qmp.connect(path)
                try:
                    await client.execute("query-status", timeout_s=1)
                finally:
                    await client.close()
        except QmpError as error:
            assert str(error)
        except TimeoutError:
            pass


HEADS = [
    GOOD,
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET http://x/a HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"PUT /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}" + GOOD,
    b"GET /a HTTP/1.0\r\n\r\n",
]
FRAMES = [
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    b"\x00\x00\x05\x01\x05\x00\x00\x00\x01\x82\x87\x84\x41\x01x",
    b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\xff\xff"
    b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01"
    b"\x00\x00\x08\x06\x00\x00\x00\x00\x00abcdefgh",
]
DOCKER = [
    b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\n"
    b'Content-Length: 15\r\n\r\n[{"Id": "abc"}]',
    b'HTTP/1.1 500 Oops\r\nContent-Length: 18\r\n\r\n{"message": "oops"}',
    b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n4\r\n: 1}\r\n0\r\n\r\n',
]
QMP = [
    b'{"return": {}, "id": 1}\r\n{"return": {"status": "running"}, "id": 2}\r\n',
    b'{"event": "SHUTDOWN", "timestamp": {"seconds": 1}}\r\n{"error": {"desc": "x"}, "id": 1}\r\n',
]

TARGETS = (
    Target(
        "http1",
        _http1,
        HEADS,
        (b"\r\n", b"\r\n\r\n", b"Content-Length: ", b"chunked", b"\0", b": ", b"0\r\n", b"\n"),
    ),
    Target("http2", _http2, FRAMES, (b"\x00\x00\x00", b"\xff\xff\xff", b"\x01\x05", b"\x09\x04")),
    Target("docker", lambda data: LOOP.run(_docker(data)), DOCKER, (b"\r\n", b"[", b"null", b"{")),
    Target(
        "qmp",
        lambda data: LOOP.run(_qmp(data)),
        QMP,
        (b"\r\n", b'"id": 1', b'"return"', b"[]", b"null", b'"error"', b"{}"),
    ),
)
