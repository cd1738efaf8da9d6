# SPDX-License-Identifier: Apache-2.0
"""Relays of streams and datagrams, and listening sockets."""

import asyncio
import os
import socket
import stat
from pathlib import Path
from typing import cast

import pytest

from rdd.host.errors import HostError
from rdd.host.own_address import CAN_BIND, OWN_ADDRESS
from rdd.vm.drivers.protocol import Endpoint
from rdd.vm.forwarding.datagrams import DatagramRelay
from rdd.vm.forwarding.sockets import (
    PATH_LIMIT_BYTES,
    check_length,
    clear_stale,
    listen_inet,
    listen_unix,
    listening_process,
)
from rdd.vm.forwarding.streams import Dial, StreamRelay
from rdd.vm.idle.activity import Activity
from rdd.vm.idle.connections import PortObserver

ANY = Endpoint("127.0.0.1", 0)
MIB = 1 << 20


def dialer(address: tuple[str, int], kind: int = socket.SOCK_STREAM) -> Dial:
    async def dial() -> socket.socket:
        sock = socket.socket(socket.AF_INET, kind)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        return sock

    return dial


async def serve(handler: object) -> tuple[asyncio.Server, tuple[str, int]]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)  # type: ignore[arg-type]
    return server, server.sockets[0].getsockname()


async def test_half_closed_connection_still_receives() -> None:
    """`docker attach` and many RPC protocols half-close and wait for the rest."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.read()
        writer.write(question.upper() * 1000)
        writer.close()

    server, address = await serve(answer)
    listener = listen_inet(ANY)
    relay = StreamRelay(listener, dialer(address))
    await relay.start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"hello")
    writer.write_eof()
    assert await reader.read() == b"HELLO" * 1000
    writer.close()
    await relay.close()
    server.close()


@pytest.mark.skipif(not CAN_BIND, reason="only Linux has a loopback network")
@pytest.mark.parametrize(("source", "is_seen"), [("127.0.0.1", True), (OWN_ADDRESS, False)])
async def test_requests_of_rdd_itself_are_not_observed(source: str, is_seen: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    server, address = await serve(answer)
    listener = listen_inet(ANY)
    activity = Activity()
    causes: list[str] = []
    activity.wake = causes.append
    relay = StreamRelay(listener, dialer(address), lambda: PortObserver(activity, "a port"))
    await relay.start()
    reader, writer = await asyncio.open_connection(*listener.getsockname(), local_addr=(source, 0))
    writer.write(b"hello")
    assert await reader.read() == b"hello"
    writer.close()
    await relay.close()
    server.close()
    assert bool(causes) is is_seen


async def test_backpressure_loses_no_data() -> None:
    received = asyncio.Event()
    total = 0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal total
        await go_on.wait()
        while chunk := await reader.read(1 << 16):
            total += len(chunk)
        received.set()
        writer.close()

    go_on = asyncio.Event()
    server, address = await serve(slow)
    listener = listen_inet(ANY)
    relay = StreamRelay(listener, dialer(address))
    await relay.start()
    _, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"x" * 16 * MIB)
    go_on.set()
    await writer.drain()
    writer.write_eof()
    await received.wait()
    assert total == 16 * MIB
    writer.close()
    await relay.close()
    server.close()


async def test_client_is_reset_if_the_dial_fails() -> None:
    closed = listen_inet(ANY)
    address = closed.getsockname()
    closed.close()
    listener = listen_inet(ANY)
    relay = StreamRelay(listener, dialer(address))
    await relay.start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        assert await reader.read() == b""
    except ConnectionResetError:
        pass
    writer.close()
    await relay.close()


async def test_close_aborts_open_connections() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server, address = await serve(silent)
    listener = listen_inet(ANY)
    where = listener.getsockname()
    relay = StreamRelay(listener, dialer(address))
    await relay.start()
    reader, writer = await asyncio.open_connection(*where)
    writer.write(b"x")
    await writer.drain()
    await relay.close()
    try:
        assert await reader.read() == b""
    except ConnectionResetError:
        pass
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*where)
    server.close()


class Echo(asyncio.DatagramProtocol):
    transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(data.upper(), addr)


async def test_responses_reach_the_right_sender() -> None:
    loop = asyncio.get_running_loop()
    target = listen_inet(ANY, datagrams=True)
    echo, _ = await loop.create_datagram_endpoint(Echo, sock=target)
    bound = listen_inet(ANY, datagrams=True)
    where = bound.getsockname()
    relay = DatagramRelay(bound, dialer(target.getsockname(), socket.SOCK_DGRAM), idle_s=0.02)
    await relay.start()
    for _ in range(2):  # the second time the senders may have been evicted
        for word in (b"one", b"two"):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.setblocking(False)
                await loop.sock_connect(client, where)
                await loop.sock_sendall(client, word)
                async with asyncio.timeout(120):
                    assert await loop.sock_recv(client, 100) == word.upper()
        await asyncio.sleep(0.05)
    await relay.close()
    echo.close()


def test_unix_socket_is_accessible_to_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_unix(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert listening_process(path) is not None


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listen_unix(path).close()
    assert path.is_socket()
    with listen_unix(path):
        pass


def test_socket_in_use_is_reported_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_unix(path), pytest.raises(HostError) as caught:
        listen_unix(path)
    assert f'the socket "{path}" is in use by process {os.getpid()} (' in str(caught.value)
    assert path.is_socket()


def test_rejects_a_path_that_is_no_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(HostError, match="exists and is not a socket"):
        clear_stale(path)
    assert path.read_text() == "precious"


def test_rejects_a_socket_path_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / ("x" * PATH_LIMIT_BYTES)
    with pytest.raises(HostError, match=f"the limit is {PATH_LIMIT_BYTES}"):
        check_length(path)
    with pytest.raises(HostError):
        listen_unix(path)


def test_missing_directory_of_a_socket_is_reported(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="failed to listen on"):
        listen_unix(tmp_path / "no" / "s")
