# SPDX-License-Identifier: Apache-2.0
"""The undocumented behaviour of aiohttp that the listener relies on, one test for each use."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from rdd.apiserver.http import aiohttp_internals as internals
from rdd.apiserver.http.aiohttp_internals import ConnectionFactory, SentResponse, ServerConnection

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

GET = b"GET /a%2Fb?c=%20d HTTP/1.1\r\nHost: x\r\n\r\n"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """Serve on a loopback port."""
    factory = ConnectionFactory(handler, access_log=None)
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    try:
        yield port
    finally:
        server.close()
        await factory.shutdown(0)


@asynccontextmanager
async def client(port: int, *, buffer: int = 0) -> AsyncIterator[Streams]:
    """Open a raw connection, optionally with a small receive buffer."""
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
    try:
        yield reader, writer
    finally:
        writer.close()


def write(request: web.BaseRequest, data: bytes) -> None:
    assert request.transport is not None
    request.transport.write(data)


class Collector:
    """A byte parser that records its input."""

    def __init__(self) -> None:
        self.data = b""
        self.received = asyncio.Event()
        self.ended = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        self.received.set()
        return False, b""

    def feed_eof(self) -> None:
        self.ended.set()


async def test_factory_creates_our_connections_with_its_options() -> None:
    factory = ConnectionFactory(lambda request: asyncio.sleep(0), keepalive_timeout=7)  # type: ignore[arg-type,return-value]
    connection = factory()
    assert isinstance(connection, ServerConnection)
    assert connection.keepalive_timeout == 7


async def test_raw_path_is_the_request_target_undecoded() -> None:
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.raw_path)
        write(request, OK)
        return SentResponse(200, keep_alive=False)

    async with serving(handle) as port, client(port) as (reader, writer):
        writer.write(GET)
        await reader.read()
    assert seen == ["/a%2Fb?c=%20d"]


@pytest.mark.parametrize("keep_alive", [True, False])
async def test_sent_response_adds_no_bytes_and_decides_about_the_connection(
    keep_alive: bool,
) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        write(request, OK)
        return SentResponse(200, keep_alive=keep_alive)

    async with serving(handle) as port, client(port) as (reader, writer):
        writer.write(GET)
        assert await reader.readexactly(len(OK)) == OK
        writer.write(GET)
        if keep_alive:
            assert await reader.readexactly(len(OK)) == OK
        else:
            assert await reader.read() == b""


async def test_connection_reports_its_loss_while_a_handler_waits() -> None:
    lost, waiting = asyncio.Event(), asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        internals.connection_of(request).on_lost = lost.set
        waiting.set()
        await lost.wait()
        assert request.transport is None
        return SentResponse(200, keep_alive=False)

    async with serving(handle) as port:
        async with client(port) as (_, writer):
            writer.write(GET)
            await waiting.wait()
        await asyncio.wait_for(lost.wait(), 120)


async def test_a_new_request_has_not_started() -> None:
    seen: list[bool] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(internals.has_started(request))
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        seen.append(internals.has_started(request))
        return response

    async with serving(handle) as port, client(port) as (reader, writer):
        writer.write(GET)
        await reader.readuntil(b"0\r\n\r\n")
    assert seen == [False, True]


async def test_a_websocket_has_started_and_is_recognised() -> None:
    seen: list[bool] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(internals.is_websocket(request))
        response = web.WebSocketResponse()
        await response.prepare(request)
        seen.extend((internals.is_websocket(request), internals.has_started(request)))
        await response.close()
        return response

    async with serving(handle) as port, client(port) as (reader, writer):
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x88\x80\x00\x00\x00\x00")
        await reader.read()
    assert seen == [False, True, True]


async def test_drain_waits_until_the_client_reads() -> None:
    drained = asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        write(request, b"x" * 20_000_000)
        assert request.protocol.writing_paused
        await internals.drain(request.protocol)
        assert not request.protocol.writing_paused
        drained.set()
        return SentResponse(200, keep_alive=False)

    async with serving(handle) as port, client(port, buffer=4096) as (reader, writer):
        writer.write(GET)
        await reader.readexactly(1)
        assert not drained.is_set()
        assert len(await reader.read()) == 19_999_999
        assert drained.is_set()


async def test_drain_of_a_lost_connection_raises() -> None:
    failed: asyncio.Future[type] = asyncio.get_running_loop().create_future()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        write(request, b"x" * 20_000_000)
        try:
            await internals.drain(request.protocol)
        except ConnectionError as error:
            failed.set_result(type(error))
            raise
        raise AssertionError("drained")

    async with serving(handle) as port:
        async with client(port, buffer=4096) as (reader, writer):
            writer.write(GET)
            await reader.readexactly(1)
            writer.transport.abort()
        assert issubclass(await asyncio.wait_for(failed, 120), ConnectionError)


async def test_both_sides_of_an_upgrade_pass_bytes_to_a_parser() -> None:
    at_server, at_client = Collector(), Collector()
    switch = (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        write(request, switch + b"early")
        internals.upgrade_server_side(request, at_server)
        assert internals.has_started(request)
        assert not internals.is_websocket(request)
        await at_server.received.wait()
        write(request, b" late")
        await at_server.ended.wait()
        return SentResponse(101, keep_alive=False)

    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    async with serving(handle) as port, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{port}/"
        async with session.get(url, headers=headers, read_until_eof=False) as response:
            assert response.status == 101
            connection = response.connection
            assert connection is not None and connection.protocol is not None
            internals.upgrade_client_side(connection.protocol, at_client)
            assert connection.transport is not None
            connection.transport.write(b"\x00raw\xff")
            while at_client.data != b"early late":
                await at_client.received.wait()
                at_client.received.clear()
            connection.close()
        await asyncio.wait_for(at_server.ended.wait(), 120)
    assert at_server.data == b"\x00raw\xff"


async def test_malformed_requests_are_logged_as_debug_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        raise AssertionError

    caplog.set_level(logging.DEBUG)
    async with serving(handle) as port, client(port) as (reader, writer):
        writer.write(b"nonsense\r\n\r\n")
        await reader.read()
    assert [r.levelname for r in caplog.records if r.name.startswith(("aiohttp", "rdd"))] == [
        "DEBUG"
    ]
