# SPDX-License-Identifier: Apache-2.0
"""States of streams (RFC 9113, 5.1), trailers, fairness and compression state, frame by frame."""

import asyncio
from collections.abc import AsyncIterator

import hpack
import pytest
from tests.http.wire.http2_client import Frame, Http2Client
from tests.http.wire.wire_server import WireServer, serving

from rdd.http.exchange import Exchange
from rdd.http.h2 import frames


@pytest.fixture
async def wire() -> AsyncIterator[WireServer]:
    async with serving() as opened:
        yield opened


END = frames.END_HEADERS | frames.END_STREAM


async def connect(wire: WireServer, settings: dict[int, int] | None = None) -> Http2Client:
    client = Http2Client(await wire.connect())
    client.start(settings)
    return client


async def ended(client: Http2Client) -> Frame:
    return await client.until(frames.GOAWAY, frames.RST_STREAM)


async def test_head_after_the_end_of_a_request_is_an_error_of_the_stream() -> None:
    started = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        started.set()
        await asyncio.Event().wait()

    async with serving(handler) as wire:
        client = await connect(wire)
        client.request()
        await started.wait()
        client.send(frames.HEADERS, END, 1, client.block())
        found = await ended(client)
        assert (found.kind, found.code) == (frames.RST_STREAM, frames.STREAM_CLOSED)


async def test_data_after_the_end_of_a_request_is_an_error_of_the_stream() -> None:
    async def handler(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with serving(handler) as wire:
        client = await connect(wire)
        client.request()
        client.send(frames.DATA, 0, 1, b"x")
        found = await ended(client)
        assert (found.kind, found.code) == (frames.RST_STREAM, frames.STREAM_CLOSED)


@pytest.mark.parametrize("kind", [frames.DATA, frames.HEADERS])
async def test_frames_of_closed_streams_end_the_connection(wire: WireServer, kind: int) -> None:
    client = await connect(wire)
    assert (await client.answer(client.request()))[0] == 200
    payload = client.block() if kind == frames.HEADERS else b"x"
    client.send(kind, END if kind == frames.HEADERS else 0, 1, payload)
    found = await ended(client)
    assert (found.kind, found.code) == (frames.GOAWAY, frames.STREAM_CLOSED)


async def test_frames_of_skipped_streams_end_the_connection(wire: WireServer) -> None:
    client = await connect(wire)
    client.next = 5
    assert (await client.answer(client.request()))[0] == 200
    client.send(frames.HEADERS, END, 3, client.block())
    assert (await ended(client)).kind == frames.GOAWAY


async def test_frames_after_a_reset_of_the_client_end_the_connection() -> None:
    async def handler(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with serving(handler) as wire:
        client = await connect(wire)
        client.send(frames.HEADERS, frames.END_HEADERS, 1, client.block("POST"))
        client.raw.send(frames.reset(1, frames.CANCEL))
        client.send(frames.DATA, 0, 1, b"x")
        assert (await ended(client)).code == frames.STREAM_CLOSED


async def test_frames_on_their_way_during_our_reset_are_ignored(wire: WireServer) -> None:
    client = await connect(wire)
    client.send(frames.HEADERS, frames.END_HEADERS, 1, client.block("POST", "/refuse/it"))
    found = await client.until(frames.RST_STREAM)
    assert found.code == frames.NO_ERROR
    client.send(frames.DATA, 0, 1, bytes(1000))
    client.send(frames.HEADERS, END, 1, bytes(client.encoder.encode([("x-sum", "1")])))
    client.next = 3
    assert (await client.answer(client.request()))[0] == 200


async def test_trailers_end_a_body(wire: WireServer) -> None:
    client = await connect(wire)
    client.send(frames.HEADERS, frames.END_HEADERS, 1, client.block("POST"))
    client.send(frames.DATA, 0, 1, b"body")
    client.send(frames.HEADERS, END, 1, bytes(client.encoder.encode([("x-sum", "1")])))
    assert (await client.answer(1))[0] == 200
    assert wire.seen[-1]["body"] == "body"


@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        pytest.param([(":path", "/x")], END, id="pseudo-header"),
        pytest.param([("X-Sum", "1")], END, id="upper case"),
        pytest.param([("transfer-encoding", "chunked")], END, id="connection header"),
        pytest.param([("x-sum", "1")], frames.END_HEADERS, id="no end"),
    ],
)
async def test_malformed_trailers_reset_the_stream(
    wire: WireServer, fields: list[tuple[str, str]], flags: int
) -> None:
    client = await connect(wire)
    client.send(frames.HEADERS, frames.END_HEADERS, 1, client.block("POST"))
    client.send(frames.HEADERS, flags, 1, bytes(client.encoder.encode(fields)))
    found = await ended(client)
    assert (found.kind, found.code) == (frames.RST_STREAM, frames.PROTOCOL_ERROR)


async def test_repeated_heads_with_a_new_size_of_the_table_are_applied(wire: WireServer) -> None:
    """Without this, the tables of client and server differ after the third request."""
    client = await connect(wire)
    for size in (4096, 10, 4096):
        client.encoder.header_table_size = size
        plain = [hpack.NeverIndexedHeaderTuple(*pair) for pair in _head("/sized")]
        block = bytes(client.encoder.encode(plain))
        stream, client.next = client.next, client.next + 2
        client.send(frames.HEADERS, END, stream, block)
        assert (await client.answer(stream))[0] == 200
    for _ in range(2):  # the second refers to the table
        stream = client.request(path="/indexed", extra=[("x-long", "y" * 200)])
        assert (await client.answer(stream))[0] == 200
    assert ["x-long", "y" * 200] in wire.seen[-1]["headers"]


def _head(path: str) -> list[tuple[str, str]]:
    return [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "x")]


async def test_large_response_does_not_delay_others() -> None:
    """Streams send in turns: small responses arrive while a large one is far from its end."""
    size = 64 << 20

    async def handler(exchange: Exchange) -> None:
        exchange.send(200, [], bytes(size) if exchange.path == "/large" else b"small")
        await exchange.drain()

    async with serving(handler) as wire:
        client = await connect(wire, {frames.INITIAL_WINDOW_SIZE: 0x7FFFFFFF})
        client.raw.send(frames.window_update(0, 0x7FFFFFFF - 65_535))
        large = client.request(path="/large")
        received = 0
        while received < 1 << 20:
            frame = await client.until(frames.DATA)
            received += len(frame.payload)
        small = client.request(path="/small")
        while frame.stream != small:
            frame = await client.until(frames.DATA)
            received += len(frame.payload) if frame.stream == large else 0
        assert frame.payload == b"small"
        assert received < size


async def test_smaller_table_of_the_client_is_acknowledged_once(wire: WireServer) -> None:
    client = await connect(wire, {frames.HEADER_TABLE_SIZE: 100})
    client.decoder.max_allowed_table_size = 100
    blocks = []
    for _ in range(3):
        client.request()
        blocks.append((await client.until(frames.HEADERS)).payload)
    assert [block[:1] == b"\x20" for block in blocks] == [True, False, False]
    client.raw.send(frames.settings({frames.HEADER_TABLE_SIZE: 0}))
    client.request()
    assert (await client.until(frames.HEADERS)).payload[:1] != b"\x20"
