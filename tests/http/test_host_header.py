# SPDX-License-Identifier: Apache-2.0
"""Requests for other names are misdirected, WebSockets of foreign pages forbidden."""

import json

import pytest
from tests.http.api_wire import Wire
from tests.http.wire.http2_client import Http2Client

from rdd.http.h2 import frames

OWN = ["localhost", "localhost:1", "127.0.0.1:6443", "[::1]:6443"]
FOREIGN = ["evil.example", "127.0.0.1.evil.example:6443", "192.0.2.1", "", "localhost@evil"]
PATHS = ["/livez", "/version", "/api/v1/namespaces", "/passthrough/c/e/", "/metrics", "/none"]


async def http1(wire: Wire, path: str, host: str, extra: str = "") -> tuple[int, bytes]:
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n"
    answer = await wire.exchange(head.encode())
    return answer.status, answer.body


async def http2(wire: Wire, path: str, host: str) -> tuple[int, bytes]:
    client = Http2Client.on(*await wire.connect())
    client.start()
    pseudo = [(":method", "GET"), (":scheme", "https"), (":path", path), (":authority", host)]
    flags = frames.END_HEADERS | frames.END_STREAM
    client.send(frames.HEADERS, flags, 1, bytes(client.encoder.encode(pseudo)))
    status, _, body = await client.answer(1)
    return status, body


@pytest.mark.parametrize("ask", [http1, http2])
@pytest.mark.parametrize("host", FOREIGN)
async def test_other_names_are_misdirected(wire: Wire, ask: object, host: str) -> None:
    assert callable(ask)
    for path in PATHS:
        status, body = await ask(wire, path, host)
        assert status == 421, path
        assert json.loads(body)["reason"] == "MisdirectedRequest"


@pytest.mark.parametrize("ask", [http1, http2])
@pytest.mark.parametrize("host", OWN)
async def test_own_names_are_served(wire: Wire, ask: object, host: str) -> None:
    assert callable(ask)
    assert await ask(wire, "/livez", host) == (200, b"ok")


async def test_absolute_target_decides_over_the_header(wire: Wire) -> None:
    for target, host, expected in (
        ("http://evil.example/livez", "localhost", 421),
        ("http://localhost/livez", "evil.example", 200),
    ):
        data = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"
        assert (await wire.exchange(data.encode())).status == expected


async def test_http_1_0_without_host_is_served(wire: Wire) -> None:
    assert (await wire.exchange(b"GET /livez HTTP/1.0\r\n\r\n")).status == 200


async def test_misdirected_body_is_not_read(wire: Wire) -> None:
    data = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: evil\r\nContent-Length: 3000000\r\n\r\n{"
    assert (await wire.exchange(data)).status == 421


UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\n"


@pytest.mark.parametrize("path", ["/passthrough/c/e/", "/api/v1/namespaces?watch=true"])
async def test_websocket_of_a_foreign_page_is_forbidden(wire: Wire, path: str) -> None:
    for origin in (
        "https://evil.example",
        "http://localhost:8000",
        "null",
        "https://localhost.evil",
    ):
        status, body = await http1(wire, path, "localhost:6443", f"{UPGRADE}Origin: {origin}\r\n")
        assert status == 403
        assert "may not open WebSockets" in json.loads(body)["message"]


async def test_websocket_of_no_page_or_an_own_one_is_authenticated(wire: Wire) -> None:
    for extra in ("", "Origin: https://localhost:6443\r\n"):
        status, _ = await http1(wire, "/passthrough/c/e/", "localhost:6443", UPGRADE + extra)
        assert status in (401, 403)  # anonymous requests are not allowed there
        status, body = await http1(wire, "/livez", "localhost:6443", UPGRADE + extra)
        assert (status, body) == (200, b"ok")
