# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 on raw sockets: framing, smuggling, pipelining, bodies nobody wants, time limits."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.http.api_wire import eventually
from tests.http.wire.wire_server import WireServer, serving

from rdd.apiserver.auth import certificates
from rdd.http.exchange import Exchange
from rdd.http.limits import WireLimits
from rdd.http.server import MIN_HANDSHAKES, Server

HOST = b"Host: x\r\n"


@pytest.fixture
async def wire() -> AsyncIterator[WireServer]:
    async with serving() as opened:
        yield opened


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="length and chunks"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n"
                     b"Content-Length: 4\r\n\r\n0\r\n\r\n", 400, id="chunks and length"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n"
                     b"Content-Length: 1\r\n\r\na", 400, id="length twice"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1, 1\r\n\r\na", 400,
                     id="list of lengths"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\na", 400,
                     id="signed length"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 0x1\r\n\r\na", 400,
                     id="hexadecimal length"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n"
                     b"\r\na", 400, id="length over 64 bits"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n"
                     b"0\r\n\r\n", 501, id="unknown coding"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n"
                     b"0\r\n\r\n", 501, id="two codings"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="chunked twice"),
        pytest.param(b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
                     b"0\r\n\r\n", 501, id="chunks in 1.0"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n\r\n"
                     b"0\r\n\r\n", 400, id="space before the colon"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400, id="obs-fold"),
        pytest.param(b"GET / HTTP/1.1\r\n X: a\r\n" + HOST + b"\r\n", 400, id="fold first"),
        pytest.param(b"GET / HTTP/1.1\n" + HOST + b"\r\n", 400, id="bare line feed"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n", 400, id="bare return"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no Host"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, id="two Hosts"),
        pytest.param(b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 400, id="version 1.2"),
        pytest.param(b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", 505, id="version 0.9"),
        pytest.param(b"GET /\r\n\r\n", 505, id="no version"),
        pytest.param(b"GET relative HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="relative target"),
        pytest.param(b"CONNECT host:443 HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="CONNECT"),
        pytest.param(b"G(T / HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="method is no token"),
        pytest.param(b"A" * 100, 400, id="endless method"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"X: \x00\r\n\r\n", 400, id="NUL"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"X:" + b"a" * 200_000, 431, id="long header"),
        pytest.param(b"GET /" + b"a" * 200_000, 431, id="long target"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n" * 1000 + b"\r\n", 431,
                     id="many headers"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Connection: upgrade\r\nUpgrade: tcp\r\n"
                     b"Content-Length: 3\r\n\r\nabc", 400, id="upgrade with a body"),
    ],
)  # fmt: skip
async def test_malformed_heads_are_rejected_and_the_connection_is_closed(
    wire: WireServer, request_: bytes, status: int
) -> None:
    connection = await wire.connect()
    connection.send(request_)
    found, headers, _ = await connection.answer()
    assert (found, headers["connection"]) == (status, "close")
    connection.send(b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n")
    assert await connection.rest() == b""
    assert wire.seen == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"0x5\r\nhello\r\n0\r\n\r\n", id="prefix"),
        pytest.param(b"5 \r\nhello\r\n0\r\n\r\n", id="space"),
        pytest.param(b"5\nhello\r\n0\r\n\r\n", id="bare line feed"),
        pytest.param(b"5\r\nhelloX\r\n0\r\n\r\n", id="longer than its size"),
        pytest.param(b"-5\r\nhello\r\n0\r\n\r\n", id="negative"),
        pytest.param(b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n", id="over 64 bits"),
        pytest.param(b"5;" + b"x" * 100_000, id="endless extension"),
        pytest.param(b"0\r\nX: " + b"x" * 100_000, id="endless trailer"),
    ],
)
async def test_malformed_chunks_fail_the_body_and_close_the_connection(
    wire: WireServer, body: bytes
) -> None:
    connection = await wire.connect()
    connection.send(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert (await connection.answer())[0] == 400
    assert await connection.rest() == b""
    assert wire.seen == []


async def test_chunks_extensions_and_trailers_are_read(wire: WireServer) -> None:
    connection = await wire.connect()
    connection.send(
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        b'5;a="b"\r\nhello\r\nA\r\n, world!!!\r\n0\r\nX-Trailer: a\r\n\r\n'
    )
    assert (await connection.answer())[0] == 200
    (seen,) = wire.seen
    assert seen["body"] == "hello, world!!!"
    assert "x-trailer" not in [name for name, _ in seen["headers"]]


async def test_every_split_of_a_request_gives_the_same_request(wire: WireServer) -> None:
    data = b"PUT /a?b=c HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nX: 1\r\nX: 2\r\n\r\nabc"
    connection = await wire.connect()
    for cut in range(1, len(data)):
        connection.send(data[:cut])
        await connection.writer.drain()
        await asyncio.sleep(0)
        connection.send(data[cut:])
        assert (await connection.answer())[0] == 200
    assert all(seen == wire.seen[0] for seen in wire.seen)
    assert wire.seen[0]["headers"][2:] == [["x", "1"], ["x", "2"]]


@pytest.mark.parametrize("method", ["FOO", "PURGE", "LIST", "get", "M-SEARCH", "QUERY"])
async def test_any_method_reaches_the_handler(wire: WireServer, method: str) -> None:
    connection = await wire.connect()
    head = f"{method} /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab".encode()
    connection.send(head[:2])
    await connection.writer.drain()
    connection.send(head[2:])
    assert (await connection.answer())[0] == 200
    assert (wire.seen[0]["method"], wire.seen[0]["body"]) == (method, "ab")


async def test_repeated_headers_are_not_confused_with_others(wire: WireServer) -> None:
    connection = await wire.connect()
    heads = [b"X: 1\r\n", b"X: 2\r\n", b"", b"X: 1\r\n", b"X: 1\r\nContent-Length: 0\r\n"]
    for i, extra in enumerate(heads * 3):
        connection.send(b"GET /%d HTTP/1.1\r\n" % i + HOST + extra + b"\r\n")
        assert (await connection.answer())[0] == 200
    for i, (extra, seen) in enumerate(zip(heads * 3, wire.seen, strict=True)):
        values = [value for name, value in seen["headers"] if name == "x"]
        assert (seen["target"], values) == (f"/{i}", [extra[3:4].decode()] if extra else [])


async def test_body_after_known_headers_is_not_a_request(wire: WireServer) -> None:
    connection = await wire.connect()
    inner = b"GET /inner HTTP/1.1\r\n" + HOST + b"\r\n"
    head = b"GET /a HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(inner)
    connection.send(inner)
    await connection.answer()
    for _ in range(2):
        connection.send(head)
        await connection.writer.drain()
        connection.send(inner)
        await connection.answer()
    assert [seen["target"] for seen in wire.seen] == ["/inner", "/a", "/a"]
    assert wire.seen[1]["body"] == inner.decode()


async def test_bodies_behind_repeated_headers_are_read_as_sent(wire: WireServer) -> None:
    connection = await wire.connect()
    bodies = [b"a", b"bcd" * 50, b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000, b"e"] * 3
    for body in bodies:
        head = b"POST /p HTTP/1.1\r\n" + HOST + b"X: 1\r\ncontent-length: %d\r\nY: 2\r\n\r\n"
        connection.send(head % len(body) + body)
        assert (await connection.answer())[0] == 200
    assert [seen["body"].encode() for seen in wire.seen] == bodies
    expected = [["host", "x"], ["x", "1"], ["content-length", "1"], ["y", "2"]]
    for body, seen in zip(bodies, wire.seen, strict=True):
        expected[2][1] = str(len(body))
        assert seen["headers"] == expected


async def test_requests_in_one_piece_behind_known_headers_are_separated(wire: WireServer) -> None:
    connection = await wire.connect()
    one = b"PUT /%d HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\nab"
    connection.send(one % 0)
    await connection.answer()
    connection.send(one % 1 + one % 2)
    await connection.answer()
    await connection.answer()
    connection.send((one % 3)[:-1])
    await connection.writer.drain()
    connection.send((one % 3)[-1:] + one % 4)
    await connection.answer()
    await connection.answer()
    assert [(seen["target"], seen["body"]) for seen in wire.seen] == [
        (f"/{i}", "ab") for i in range(5)
    ]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b"Content-Length: 1\r\nContent-Length: 1\r\n", id="length twice"),
        pytest.param(b"Content-Length: 1\r\ncontent-length: 1\r\n", id="other case"),
        pytest.param(b"Content-Length: +1\r\n", id="sign"),
        pytest.param(b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", id="chunks"),
        pytest.param(b"Content-Length : 1\r\n", id="space before the colon"),
        pytest.param(b"Content-Length: 1\r\n 1\r\n", id="obs-fold"),
    ],
)
async def test_known_headers_do_not_admit_malformed_ones(wire: WireServer, lines: bytes) -> None:
    connection = await wire.connect()
    for _ in range(2):
        connection.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\na")
        assert (await connection.answer())[0] == 200
    connection.send(b"POST / HTTP/1.1\r\n" + HOST + lines + b"\r\na")
    assert (await connection.answer())[0] == 400
    assert await connection.rest() == b""


async def test_absolute_target_names_the_host(wire: WireServer) -> None:
    connection = await wire.connect()
    connection.send(b"GET http://other:80/p?q HTTP/1.1\r\n" + HOST + b"\r\n")
    await connection.answer()
    assert wire.seen[0]["target"] == "/p?q"
    assert wire.seen[0]["headers"] == [["host", "other:80"]]


async def test_pipelined_requests_are_answered_in_order() -> None:
    go_on = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/0":
            await go_on.wait()
        exchange.send(200, [], exchange.path.encode())

    async with serving(handler) as wire:
        connection = await wire.connect()
        connection.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(500)))
        await asyncio.sleep(0.01)
        go_on.set()
        for i in range(500):
            assert (await connection.answer())[2] == b"/%d" % i


async def test_garbage_after_a_request_is_rejected_after_its_response(wire: WireServer) -> None:
    connection = await wire.connect()
    connection.send(b"GET /1 HTTP/1.1\r\n" + HOST + b"\r\nGET /2 HTTP/1.1\r\n" + HOST + b"\r\n\x00")
    assert (await connection.answer())[0] == 200
    assert (await connection.answer())[0] == 200
    await connection.rest()
    assert [seen["target"] for seen in wire.seen] == ["/1", "/2"]


async def test_refused_body_does_not_have_to_be_sent(wire: WireServer) -> None:
    connection = await wire.connect()
    connection.send(b"POST /refuse/ HTTP/1.1\r\n" + HOST + b"Content-Length: 3000000\r\n\r\nabc")
    status, headers, _ = await connection.answer()
    assert (status, headers["connection"]) == (403, "close")


async def test_client_that_sends_a_refused_body_first_gets_the_response(wire: WireServer) -> None:
    connection = await wire.connect()
    connection.send(b"POST /refuse/ HTTP/1.1\r\n" + HOST + b"Content-Length: 3000000\r\n\r\n")
    connection.send(bytes(3_000_000))
    await connection.writer.drain()
    assert (await connection.answer())[0] == 403


async def test_small_refused_body_keeps_the_connection(wire: WireServer) -> None:
    connection = await wire.connect()
    for _ in range(3):
        connection.send(b"POST /refuse/ HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\n")
        assert (await connection.answer())[0] == 403
        connection.send(b"hello")
    connection.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert (await connection.answer())[0] == 200


async def test_continue_is_sent_only_when_the_body_is_wanted(wire: WireServer) -> None:
    connection = await wire.connect()
    head = HOST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    connection.send(b"POST / HTTP/1.1\r\n" + head)
    assert (await connection.answer())[0] == 100
    connection.send(b"hello")
    assert (await connection.answer())[0] == 200
    connection.send(b"POST /refuse/ HTTP/1.1\r\n" + head)
    assert (await connection.answer())[0] == 403


async def test_head_and_responses_without_a_body(wire: WireServer) -> None:
    connection = await wire.connect()
    connection.send(
        b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\nGET /refuse/ HTTP/1.1\r\n" + HOST + b"\r\n"
    )
    head = await connection.reader.readuntil(b"\r\n\r\n")
    assert b"Content-Length: " in head
    assert (await connection.answer())[0] == 403


async def test_stream_to_http_1_0_ends_with_the_connection() -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.start(200, [])
        exchange.write(b"one")
        exchange.write(b"two")
        exchange.finish()

    async with serving(handler) as wire:
        connection = await wire.connect()
        connection.send(b"GET / HTTP/1.0\r\n\r\n")
        head, _, body = (await connection.rest()).partition(b"\r\n\r\n")
        assert body == b"onetwo"
        assert b"chunked" not in head
        connection = await wire.connect()
        connection.send(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        _, _, body = (await connection.rest()).partition(b"\r\n\r\n")
        assert body == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


async def test_head_that_does_not_arrive_in_time_is_408() -> None:
    async with serving(limits=WireLimits(head_s=0.05)) as wire:
        for start in (b"GE", b"GET / HTTP/1.1\r\nHost"):
            connection = await wire.connect()
            connection.send(start)
            assert (await connection.answer())[0] == 408
            assert await connection.rest() == b""


async def test_idle_connection_is_closed() -> None:
    async with serving(limits=WireLimits(idle_s=0.05)) as wire:
        silent = await wire.connect()
        used = await wire.connect()
        used.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        await used.answer()
        assert await used.rest() == await silent.rest() == b""


async def test_handler_that_fails_is_a_500_before_the_head_and_breaks_the_body_after_it() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/late":
            exchange.start(200, [])
            exchange.write(b"half")
        raise ValueError("a mistake")

    async with serving(handler) as wire:
        connection = await wire.connect()
        connection.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await connection.answer())[0] == 500
        connection.send(b"GET /late HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await connection.rest()).endswith(b"4\r\nhalf\r\n")


async def test_header_values_of_a_response_cannot_start_another_header() -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.send(200, [("X", "a\r\nSet-Cookie: b\0")], b"")

    async with serving(handler) as wire:
        connection = await wire.connect()
        connection.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await connection.answer())[1]["x"] == "a  Set-Cookie: b"


async def test_connection_without_a_request_makes_room_for_another() -> None:
    async with serving(limits=WireLimits(connections=3)) as wire:
        busy = await wire.connect()
        busy.send(b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nab")
        slow = await wire.connect()
        slow.send(b"GET /slow HTTP/1.1\r\nHo")
        third = await wire.connect()
        third.send(b"GET /third HTTP/1.1\r\n" + HOST + b"\r\n")
        await third.answer()
        fourth = await wire.connect()
        fourth.send(b"GET /fourth HTTP/1.1\r\n" + HOST + b"\r\n")
        await fourth.answer()
        assert await slow.rest() == b""
        busy.send(b"cde")
        status, _, body = await busy.answer()
        assert status == 200
        assert b"abcde" in body


async def test_connections_without_a_handshake_make_room_for_others(tmp_path: Path) -> None:
    issued = certificates.ensure_serving(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate_path, issued.key_path)

    async def handle(exchange: Exchange) -> None:
        exchange.send(200, [], b"ok")

    server = Server(handle, limits=WireLimits(connections=64))
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    await server.listen(sock, tls)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
    (acceptor,) = server._listeners
    await eventually(lambda: len(acceptor.pending) == MIN_HANDSHAKES)
    ended = [reader for reader, _ in silent[: 60 - MIN_HANDSHAKES]]
    async with asyncio.timeout(120):
        assert [await reader.read() for reader in ended] == [b""] * len(ended)
    trust = ssl.create_default_context(cafile=str(issued.certificate_path))
    reader, writer = await asyncio.open_connection("localhost", port, ssl=trust)
    writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    async with asyncio.timeout(120):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    for _, other in (*silent, (reader, writer)):
        other.close()
    await server.close(timeout_s=1)
    assert not acceptor.pending
