# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 on raw sockets: violations, floods, windows, resets, slow readers, the end."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.http.wire.http2_client import Http2Client
from tests.http.wire.wire_server import WireServer, serving

from rdd.apiserver.auth import certificates
from rdd.http.exchange import Exchange
from rdd.http.h2 import flow, frames
from rdd.http.h2.connection import MAX_STREAMS
from rdd.http.limits import WireLimits
from rdd.http.server import Server


@pytest.fixture
async def wire() -> AsyncIterator[WireServer]:
    async with serving() as opened:
        yield opened


async def connect(wire: WireServer, *, initial: dict[int, int] | None = None) -> Http2Client:
    client = Http2Client(await wire.connect())
    client.start(initial)
    return client


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_requests_and_bodies_are_exchanged(wire: WireServer) -> None:
    client = await connect(wire)
    for body in (None, b"", b"hello", b"x" * 16_000):
        stream = client.request("PUT", "/a?b=c", body=body, extra=[("x", "1"), ("x", "2")])
        status, headers, _ = await client.answer(stream)
        assert (status, headers["content-type"]) == (200, "application/json")
        assert wire.seen[-1]["body"] == (body or b"").decode()
        assert (wire.seen[-1]["method"], wire.seen[-1]["target"]) == ("PUT", "/a?b=c")
        assert wire.seen[-1]["headers"] == [["host", "localhost"], ["x", "1"], ["x", "2"]]


async def test_large_body_needs_window_updates_of_the_server(wire: WireServer) -> None:
    client = await connect(wire)
    client.send(frames.HEADERS, frames.END_HEADERS, 1, client.block("POST"))
    left, window = 1_000_000, flow.DEFAULT_WINDOW
    window = flow.STREAM_WINDOW
    while left:
        size = min(left, window, frames.MAX_FRAME_BYTES)
        if not size:
            update = await client.until(frames.WINDOW_UPDATE)
            if update.stream == 1:
                window += int.from_bytes(update.payload, "big")
            continue
        left, window = left - size, window - size
        client.send(frames.DATA, 0 if left else frames.END_STREAM, 1, bytes(size))
    assert (await client.answer(1))[0] == 200
    assert len(wire.seen[0]["body"]) == 1_000_000


async def test_head_and_large_headers(wire: WireServer) -> None:
    client = await connect(wire)
    stream = client.request("HEAD")
    status, headers, body = await client.answer(stream)
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 0
    block = client.block(extra=[("x", "y" * 50_000)])
    client.send(frames.HEADERS, frames.END_STREAM, 3, block[:10_000])
    for start in range(10_000, len(block), 10_000):
        flags = frames.END_HEADERS if start + 10_000 >= len(block) else 0
        client.send(frames.CONTINUATION, flags, 3, block[start : start + 10_000])
    assert (await client.answer(3))[0] == 200
    assert ["x", "y" * 50_000] in wire.seen[-1]["headers"]


async def test_repeated_and_changed_heads_are_decoded(wire: WireServer) -> None:
    client = await connect(wire)
    values = ["1", "1", "1", "2", "1", "3", "3", "1"]
    for i, value in enumerate(values):
        stream = client.request(path=f"/{i % 2}", extra=[("x", value)])
        assert (await client.answer(stream))[0] == 200
    assert [seen["headers"][1][1] for seen in wire.seen] == values


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([(":method", "GET"), (":scheme", "http")], id="no path"),
        pytest.param([(":method", "GET"), (":scheme", "http"), (":path", "")], id="empty path"),
        pytest.param([(":method", "GET"), (":scheme", "http"), (":path", "x")], id="relative"),
        pytest.param([(":method", "GET"), (":scheme", "http"), (":path", "/a b")], id="space"),
        pytest.param([(":method", "GET"), (":path", "/")], id="no scheme"),
        pytest.param([(":method", "G T"), (":scheme", "http"), (":path", "/")], id="method"),
        pytest.param([(":method", "GET"), (":method", "GET"), (":scheme", "http"), (":path", "/")],
                     id="method twice"),
        pytest.param([(":method", "GET"), (":scheme", "http"), (":path", "/"), (":status", "200")],
                     id="pseudo-header of a response"),
        pytest.param([("x", "1"), (":method", "GET"), (":scheme", "http"), (":path", "/")],
                     id="pseudo-headers last"),
        pytest.param([(":method", "CONNECT"), (":authority", "x:1")], id="CONNECT"),
        *[
            pytest.param([(":method", "GET"), (":scheme", "http"), (":path", "/"), field],
                         id=str(field))
            for field in [
                ("X-Upper", "1"), ("a b", "1"), ("", "1"), ("connection", "close"),
                ("transfer-encoding", "chunked"), ("upgrade", "websocket"), ("te", "gzip"),
                ("x", "a\r\nb: c"), ("x", "a\0"), ("content-length", "x"),
                ("content-length", "5"), ("content-length", "-1"),
            ]
        ],
        pytest.param([(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"),
                      ("host", "b")], id="two hosts"),
    ],
)  # fmt: skip
async def test_malformed_requests_reset_their_stream_only(
    wire: WireServer, headers: list[tuple[str, str]]
) -> None:
    client = await connect(wire)
    block = bytes(client.encoder.encode(headers))
    client.send(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, block)
    found = await client.until(frames.RST_STREAM)
    assert (found.stream, found.code) == (1, frames.PROTOCOL_ERROR)
    client.next = 3
    assert (await client.answer(client.request(path="/ok")))[0] == 200
    assert [seen["target"] for seen in wire.seen] == ["/ok"]


def raw(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return frames.frame(kind, flags, stream, payload)


_HEAD = bytes.fromhex("82868441096c6f63616c686f7374")  # GET / http, localhost


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(raw(frames.DATA, 0, 0, b"x"), frames.PROTOCOL_ERROR, id="data on 0"),
        pytest.param(raw(frames.DATA, 0, 1, b"x"), frames.PROTOCOL_ERROR, id="data on idle"),
        pytest.param(raw(frames.HEADERS, 5, 0, _HEAD), frames.PROTOCOL_ERROR, id="head on 0"),
        pytest.param(raw(frames.HEADERS, 5, 2, _HEAD), frames.PROTOCOL_ERROR, id="even stream"),
        pytest.param(raw(frames.HEADERS, 13, 1, b"\xff" + _HEAD), frames.PROTOCOL_ERROR, id="pad"),
        pytest.param(raw(frames.HEADERS, 13, 1), frames.PROTOCOL_ERROR, id="no pad length"),
        pytest.param(raw(frames.HEADERS, 0x25, 1, b"abc"), frames.FRAME_SIZE_ERROR, id="priority"),
        pytest.param(raw(frames.HEADERS, 5, 1, b"\xff\xff\xff\xff\xff\xff"),
                     frames.COMPRESSION_ERROR, id="index"),
        pytest.param(raw(frames.HEADERS, 5, 1, b"\x3f\xff\xff\xff\x7f" + _HEAD),
                     frames.COMPRESSION_ERROR, id="large table"),
        pytest.param(raw(frames.HEADERS, 1, 1, _HEAD) + raw(frames.PING, 0, 0, bytes(8)),
                     frames.PROTOCOL_ERROR, id="interrupted head"),
        pytest.param(raw(frames.HEADERS, 1, 1, _HEAD) + raw(frames.CONTINUATION, 4, 3),
                     frames.PROTOCOL_ERROR, id="continued on another stream"),
        pytest.param(raw(frames.CONTINUATION, 4, 1, _HEAD), frames.PROTOCOL_ERROR, id="nothing"),
        pytest.param(raw(frames.RST_STREAM, 0, 1, bytes(4)), frames.PROTOCOL_ERROR, id="rst idle"),
        pytest.param(raw(frames.RST_STREAM, 0, 1, bytes(3)), frames.FRAME_SIZE_ERROR, id="rst len"),
        pytest.param(raw(frames.SETTINGS, 0, 1), frames.PROTOCOL_ERROR, id="settings on 1"),
        pytest.param(raw(frames.SETTINGS, 0, 0, bytes(5)), frames.FRAME_SIZE_ERROR, id="settings"),
        pytest.param(raw(frames.SETTINGS, 1, 0, bytes(6)), frames.FRAME_SIZE_ERROR, id="ack"),
        pytest.param(frames.settings({2: 2}), frames.PROTOCOL_ERROR, id="push"),
        pytest.param(frames.settings({4: 1 << 31}), frames.FLOW_CONTROL_ERROR, id="window"),
        pytest.param(frames.settings({5: 100}), frames.PROTOCOL_ERROR, id="frame size"),
        pytest.param(raw(frames.PUSH_PROMISE, 4, 1, bytes(4)), frames.PROTOCOL_ERROR, id="promise"),
        pytest.param(raw(frames.PING, 0, 1, bytes(8)), frames.PROTOCOL_ERROR, id="ping on 1"),
        pytest.param(raw(frames.PING, 0, 0, bytes(7)), frames.FRAME_SIZE_ERROR, id="ping size"),
        pytest.param(raw(frames.GOAWAY, 0, 1, bytes(8)), frames.PROTOCOL_ERROR, id="goaway on 1"),
        pytest.param(raw(frames.GOAWAY, 0, 0, bytes(4)), frames.FRAME_SIZE_ERROR, id="goaway"),
        pytest.param(raw(frames.PRIORITY, 0, 0, bytes(5)), frames.PROTOCOL_ERROR, id="prio on 0"),
        pytest.param(raw(frames.PRIORITY, 0, 1, bytes(4)), frames.FRAME_SIZE_ERROR, id="prio"),
        pytest.param(frames.window_update(0, 0), frames.PROTOCOL_ERROR, id="update by 0"),
        pytest.param(frames.window_update(0, 0x7FFFFFFF), frames.FLOW_CONTROL_ERROR, id="overflow"),
        pytest.param(frames.window_update(1, 1), frames.PROTOCOL_ERROR, id="update of idle"),
        pytest.param(raw(frames.WINDOW_UPDATE, 0, 0, bytes(3)), frames.FRAME_SIZE_ERROR, id="wu"),
        pytest.param(struct.pack("!BHBBI", 1, 0, 0, 0, 1), frames.FRAME_SIZE_ERROR, id="large"),
        pytest.param(raw(frames.PING, 0, 0, bytes(8)) * 1100, frames.ENHANCE_YOUR_CALM, id="pings"),
        pytest.param(frames.settings({}) * 1100, frames.ENHANCE_YOUR_CALM, id="settings flood"),
        pytest.param(raw(frames.PRIORITY, 0, 1, bytes(5)) * 1100, frames.ENHANCE_YOUR_CALM, id="p"),
        pytest.param(raw(99, 0, 1, b"") * 1100, frames.ENHANCE_YOUR_CALM, id="unknown frames"),
        pytest.param(raw(frames.HEADERS, 4, 1, _HEAD) + raw(frames.DATA, 0, 1) * 1100,
                     frames.ENHANCE_YOUR_CALM, id="empty data"),
        pytest.param(raw(frames.HEADERS, 1, 1, _HEAD) + raw(frames.CONTINUATION, 0, 1) * 100,
                     frames.ENHANCE_YOUR_CALM, id="empty continuations"),
        pytest.param(raw(frames.HEADERS, 1, 1, _HEAD)
                     + raw(frames.CONTINUATION, 0, 1, bytes(16_000)) * 20,
                     frames.ENHANCE_YOUR_CALM, id="endless head"),
        pytest.param(
            raw(frames.HEADERS, 5, 1, _HEAD + b"\x40\x01x\x7f\xbd\x1d" + b"y" * 3900
                + b"\xbe" * 4000),
            frames.ENHANCE_YOUR_CALM, id="header bomb"),
        pytest.param(b"".join(raw(frames.HEADERS, 4, 2 * i + 1, _HEAD)
                              + frames.reset(2 * i + 1, frames.CANCEL) for i in range(1100)),
                     frames.ENHANCE_YOUR_CALM, id="rapid reset"),
    ],
)  # fmt: skip
async def test_violations_and_floods_end_the_connection(
    wire: WireServer, data: bytes, code: int
) -> None:
    client = await connect(wire)
    client.raw.send(data)
    found = await client.until(frames.GOAWAY)
    assert found.code == code
    other = await connect(wire)
    assert (await other.answer(other.request()))[0] == 200


@pytest.mark.parametrize(
    "first", [b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", frames.PREFACE + raw(6, 0, 0, bytes(8))]
)
async def test_connection_must_begin_with_the_preface_and_settings(
    wire: WireServer, first: bytes
) -> None:
    client = Http2Client(await wire.connect())
    client.raw.send(first)
    assert (await client.until(frames.GOAWAY)).code == frames.PROTOCOL_ERROR


async def test_cancelled_handlers_count_until_they_end() -> None:
    running, most = 0, 0
    release = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        exchange.send(200, [], b"")

    async with serving(handler) as wire:
        client = await connect(wire)
        streams = [client.request() for _ in range(MAX_STREAMS)]
        await eventually(lambda: running == MAX_STREAMS)
        for stream in streams:
            client.raw.send(frames.reset(stream, frames.CANCEL))
        for _ in range(100):
            client.request()
            assert (await client.until(frames.RST_STREAM)).code == frames.REFUSED_STREAM
        release.set()
        await eventually(lambda: running == 0)
        assert most == MAX_STREAMS


async def test_streams_beyond_the_limit_are_refused_and_others_served() -> None:
    release = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/wait":
            await release.wait()
        exchange.send(200, [], b"")

    async with serving(handler) as wire:
        client = await connect(wire)
        streams = [client.request(path="/wait") for _ in range(MAX_STREAMS)]
        extra = client.request()
        found = await client.until(frames.RST_STREAM)
        assert (found.stream, found.code) == (extra, frames.REFUSED_STREAM)
        release.set()
        assert (await client.answer(streams[-1]))[0] == 200


async def test_slow_reader_costs_its_stream_only() -> None:
    written = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal written
        if exchange.path != "/endless":
            exchange.send(200, [], b"x" * 100_000)
            return
        exchange.start(200, [])
        while True:
            exchange.write(bytes(16_384))
            written += 16_384
            await exchange.drain()

    async with serving(handler) as wire:
        client = await connect(wire)
        client.raw.send(frames.window_update(0, 50_000_000))
        slow = client.request(path="/endless")
        await eventually(lambda: written > 65_535)
        for _ in range(20):
            assert len((await client.answer(client.request()))[2]) == 100_000
        assert written < 65_535 + 65_536 + 2 * 16_384
        client.raw.send(frames.reset(slow, frames.CANCEL))
        assert (await client.answer(client.request()))[0] == 200


async def test_zero_window_holds_a_response_until_it_opens(wire: WireServer) -> None:
    client = await connect(wire, initial={frames.INITIAL_WINDOW_SIZE: 0})
    stream = client.request()
    head = await client.until(frames.HEADERS)
    client.decoder.decode(head.payload)
    client.send(frames.PING, 0, 0, bytes(8))
    assert (await client.until(frames.PING, frames.DATA)).kind == frames.PING
    client.raw.send(frames.window_update(stream, 1))
    assert len((await client.until(frames.DATA)).payload) == 1
    client.raw.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 100_000}))
    assert (await client.until(frames.DATA)).flags & frames.END_STREAM


async def test_window_overflow_of_a_stream_resets_it() -> None:
    async def handler(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with serving(handler) as wire:
        client = await connect(wire)
        stream = client.request()
        client.raw.send(frames.window_update(stream, 0x7FFFFFFF))
        found = await client.until(frames.RST_STREAM)
        assert (found.stream, found.code) == (stream, frames.FLOW_CONTROL_ERROR)


@pytest.mark.parametrize(("announced", "sent"), [("5", b"abc"), ("2", b"abc")])
async def test_length_that_does_not_match_resets_the_stream(
    wire: WireServer, announced: str, sent: bytes
) -> None:
    client = await connect(wire)
    stream = client.request("POST", body=sent, extra=[("content-length", announced)])
    found = await client.until(frames.RST_STREAM)
    assert (found.stream, found.code) == (stream, frames.PROTOCOL_ERROR)
    assert wire.seen == []


async def test_data_beyond_the_window_of_a_stream_resets_it() -> None:
    async def handler(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with serving(handler) as wire:
        client = await connect(wire)
        client.send(frames.HEADERS, frames.END_HEADERS, 1, client.block("POST"))
        for _ in range(flow.STREAM_WINDOW // 16_384 + 1):
            client.send(frames.DATA, 0, 1, bytes(16_384))
        assert (await client.until(frames.RST_STREAM)).code == frames.FLOW_CONTROL_ERROR


async def test_refused_body_is_reset_after_the_response(wire: WireServer) -> None:
    client = await connect(wire)
    client.send(frames.HEADERS, frames.END_HEADERS, 1, client.block("POST", "/refuse/"))
    client.send(frames.DATA, 0, 1, b"abc")
    found = await client.until(frames.HEADERS)
    assert ":status: 403" in [f"{n!s}: {v!s}" for n, v in client.decoder.decode(found.payload)]
    found = await client.until(frames.RST_STREAM)
    assert (found.stream, found.code) == (1, frames.NO_ERROR)
    client.send(frames.DATA, frames.END_STREAM, 1, b"late")
    client.next = 3
    assert (await client.answer(client.request()))[0] == 200


async def test_reset_reaches_the_handler() -> None:
    started, lost = asyncio.Event(), asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        exchange.on_lost = lost.set
        started.set()
        await lost.wait()

    async with serving(handler) as wire:
        client = await connect(wire)
        stream = client.request()
        await started.wait()
        client.raw.send(frames.reset(stream, frames.CANCEL))
        await asyncio.wait_for(lost.wait(), 120)


async def test_stream_that_is_reset_at_once_never_runs(wire: WireServer) -> None:
    client = await connect(wire)
    block = client.block(path="/lost")
    flags = frames.END_HEADERS | frames.END_STREAM
    client.raw.send(raw(frames.HEADERS, flags, 1, block) + frames.reset(1, frames.CANCEL))
    client.next = 3
    assert (await client.answer(client.request(path="/ok")))[0] == 200
    assert [seen["target"] for seen in wire.seen] == ["/ok"]


async def test_failed_handler_is_a_500_or_a_reset() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/late":
            exchange.start(200, [])
            exchange.write(b"half")
        raise ValueError("a mistake")

    async with serving(handler) as wire:
        client = await connect(wire)
        assert (await client.answer(client.request()))[0] == 500
        client.request(path="/late")
        assert (await client.until(frames.RST_STREAM)).code == frames.INTERNAL_ERROR


async def test_shutdown_announces_the_end_and_drains() -> None:
    release = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await release.wait()
        exchange.send(200, [], b"x" * 50_000)

    async with serving(handler) as wire:
        client = await connect(wire)
        stream = client.request()
        client.send(frames.PING, 0, 0, bytes(8))
        await client.until(frames.PING)
        closing = asyncio.create_task(wire.server.close(timeout_s=60))
        found = await client.until(frames.GOAWAY)
        assert (found.code, struct.unpack("!I", found.payload[:4])[0]) == (0, stream)
        late = client.request()
        assert (await client.until(frames.RST_STREAM)).stream == late
        release.set()
        status, _, body = await client.answer(stream)
        assert (status, len(body)) == (200, 50_000)
        await closing


async def test_time_limits_of_settings_heads_and_idle_connections() -> None:
    async with serving(limits=WireLimits(head_s=0.05, idle_s=0.05)) as wire:
        silent = Http2Client(await wire.connect())
        silent.raw.send(frames.PREFACE)
        await silent.raw.rest()
        half = await connect(wire)
        half.send(frames.HEADERS, frames.END_STREAM, 1, _HEAD)
        assert (await half.until(frames.GOAWAY)).code in (frames.PROTOCOL_ERROR, frames.NO_ERROR)
        idle = await connect(wire)
        assert (await idle.until(frames.GOAWAY)).code == frames.NO_ERROR


@pytest.mark.parametrize("http2", [True, False])
async def test_alpn_selects_the_protocol(tmp_path: Path, http2: bool) -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.send(200, [], exchange.version.encode())

    issued = certificates.ensure_serving(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate_path, issued.key_path)
    server = Server(handler, http2=http2)
    sock = socket.create_server(("127.0.0.1", 0))
    await server.listen(sock, tls)
    trust = ssl.create_default_context(cafile=str(issued.certificate_path))
    try:
        for offered in (["h2", "http/1.1"], ["http/1.1"]):
            trust.set_alpn_protocols(offered)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", sock.getsockname()[1], ssl=trust, server_hostname="127.0.0.1"
            )
            chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
            assert chosen == ("h2" if http2 and "h2" in offered else "http/1.1")
            if chosen == "h2":
                client = Http2Client.on(reader, writer)
                client.start()
                assert (await client.answer(client.request()))[2] == b"2"
            writer.transport.abort()
    finally:
        await server.close(timeout_s=1)


_frames = st.lists(
    st.tuples(
        st.integers(0, 10), st.integers(0, 255), st.sampled_from([0, 1, 1, 3, 5, 2, 0x7FFFFFFF]),
        st.one_of(st.binary(max_size=40), st.just(_HEAD), st.just(bytes(4)), st.just(bytes(8))),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent=_frames, tail=st.binary(max_size=60))
async def test_any_frames_are_answered_or_end_the_connection(
    sent: list[tuple[int, int, int, bytes]], tail: bytes
) -> None:
    async with serving() as wire:
        client = await connect(wire)
        client.raw.send(b"".join(raw(*frame) for frame in sent) + tail)
        client.raw.writer.write_eof()
        await client.raw.rest()
        other = await connect(wire)
        assert (await other.answer(other.request()))[0] == 200
