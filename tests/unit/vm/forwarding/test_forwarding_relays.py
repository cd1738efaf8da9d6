# SPDX-License-Identifier: Apache-2.0
"""Relays of streams and datagrams, and listening sockets."""

import asyncio
import errno
import os
import resource
import socket
import stat
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from rdd.host.errors import HostError
from rdd.host.own_address import CAN_BIND, OWN_ADDRESS
from rdd.vm.drivers.protocol import Endpoint
from rdd.vm.forwarding import pieces
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


class Record:
    """An observer that keeps what it is shown."""

    def __init__(self, shown_bytes: int) -> None:
        self.shown_bytes = shown_bytes
        self.sent: list[bytes] = []
        self.received: list[bytes] = []
        self.has_closed = asyncio.Event()

    def opened(self) -> None:
        pass

    def from_client(self, data: bytes) -> None:
        self.sent.append(data)

    def from_server(self, data: bytes) -> None:
        self.received.append(data)

    def client_ended(self) -> None:
        pass

    def closed(self) -> None:
        assert not self.has_closed.is_set()
        self.has_closed.set()


@pytest.fixture(params=["pipes", "one pipe", "no pipes"])
def holders(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Limit the pipes; without any, as where the system has no splice."""
    if request.param != "pipes":
        monkeypatch.setattr(pieces, "_MAX_PIPES", 1 if request.param == "one pipe" else 0)
        while pieces._pipes:
            pieces._pipes.pop().close()
    return str(request.param)


@pytest.mark.parametrize("shown_bytes", [None, 12, sys.maxsize])
@pytest.mark.parametrize("family", ["IPv4", "IPv6", "unix"])
async def test_slow_receivers_get_what_was_sent(
    holders: str, family: str, shown_bytes: int | None, tmp_path: Path
) -> None:
    """Several connections, each in both directions; a receiver is slower than its sender."""
    data = [os.urandom(3 * MIB + number) for number in range(3)]
    records: list[Record] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
        writer.close()

    def observe() -> Record | None:
        if shown_bytes is None:
            return None
        records.append(Record(shown_bytes))
        return records[-1]

    server, address = await serve(echo)
    if family == "unix":
        listener = listen_unix(tmp_path / "s")
    else:
        listener = listen_inet(ANY if family == "IPv4" else Endpoint("::1", 0))
    relay = StreamRelay(listener, dialer(address), observe)
    await relay.start()

    async def exchange(sent: bytes) -> bytes:
        if family == "unix":
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        else:
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        writer.write(sent)
        writer.write_eof()
        await asyncio.sleep(0.05)  # the relay and the server fill their buffers
        received = await reader.read()
        writer.close()
        return received

    assert await asyncio.gather(*map(exchange, data)) == data
    for record in records:
        await record.has_closed.wait()
        if shown_bytes == 12:
            assert {len(piece) for piece in record.sent[:-1]} == {12}
        else:
            assert b"".join(record.sent) in data
            assert b"".join(record.received) in data
    assert pieces.Pipe.count == len(pieces._pipes)
    await relay.close()
    server.close()


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def test_connection_ends_with_its_second_direction() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    server, address = await serve(answer)
    listener = listen_inet(ANY)
    record = Record(0)
    relay = StreamRelay(listener, dialer(address), lambda: record)
    await relay.start()
    before = descriptors()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"hello\n")
    assert await reader.read() == b"hello\n"
    assert not record.has_closed.is_set()
    writer.close()
    await writer.wait_closed()
    await record.has_closed.wait()
    assert descriptors() <= before  # less if a socket of another test is collected
    await relay.close()
    server.close()


async def test_answer_arrives_though_the_server_reads_no_more() -> None:
    """As of an HTTP server that refuses an upload."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"413\n")
        writer.close()

    server, address = await serve(refuse)
    listener = listen_inet(ANY)
    record = Record(0)
    relay = StreamRelay(listener, dialer(address), lambda: record)
    await relay.start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"upload\n" + bytes(16 * MIB))
    assert await reader.readline() == b"413\n"
    writer.transport.abort()
    await record.has_closed.wait()
    await relay.close()
    server.close()


async def test_accepts_again_after_a_lack_of_descriptors() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    loop = asyncio.get_running_loop()
    problems: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    loop.set_exception_handler(lambda _, problem: problems.put_nowait(problem))
    server, address = await serve(answer)
    listener = listen_inet(ANY)
    relay = StreamRelay(listener, dialer(address))
    reader, writer = await asyncio.open_connection(*listener.getsockname())  # in the backlog
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        await relay.start()
        problem = await problems.get()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert problem["exception"].errno == errno.EMFILE
    writer.write(b"hello\n")
    assert await reader.read() == b"hello\n"
    assert problems.empty()
    writer.close()
    await relay.close()
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
