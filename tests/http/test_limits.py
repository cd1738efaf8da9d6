# SPDX-License-Identifier: Apache-2.0
"""Limits: no input and no slow client harms the server or its other clients."""

import asyncio
import json
import logging
import socket

import pytest
from tests.http.api_wire import Wire, eventually, read_answer, read_chunk
from tests.http.client import (
    APPLY,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE,
    WIDGETS,
    Api,
    config_map,
    crd,
    widget,
)

from rdd.apiserver.fairness import InFlight
from rdd.apiserver.http.limits import MAX_BODY_BYTES
from rdd.apiserver.http.request import Request
from rdd.apiserver.verbs import watch as watching
from rdd.testing import LiveServer, Options, Server

# -- sizes


async def test_body_larger_than_three_mebibytes_is_rejected(wire: Wire) -> None:
    big = json.dumps(config_map("x", {"k": "v" * MAX_BODY_BYTES})).encode()
    reply = await wire.send("POST", CONFIG_MAPS, big)
    assert reply.status == 413
    assert reply.json()["message"] == f"Request entity too large: limit is {MAX_BODY_BYTES}"
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(c), c)
        for c in (big[i : i + 65536] for i in range(0, len(big), 65536))
    )
    head = wire.head("POST", CONFIG_MAPS, "Transfer-Encoding: chunked\r\n")
    assert (await wire.exchange(head + chunks + b"0\r\n\r\n")).status == 413


async def test_object_too_large_to_store_is_rejected(api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("fits", {"blob": "x" * 1_400_000}), expect=201)
    reply = await api.call("POST", WIDGETS, widget("x", {"blob": "x" * 1_600_000}))
    assert reply.status in (413, 500)
    assert "too large" in reply.json()["message"]
    assert await api.names(WIDGETS) == ["fits"]
    ops = [{"op": "copy", "from": "/spec", "path": "/spec/again"}]
    reply = await api.call("PATCH", f"{WIDGETS}/fits", ops, content_type=JSON_PATCH)
    assert "too large" in reply.json()["message"]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [10_001, 200_000])
async def test_deeply_nested_bodies_are_rejected(depth: int, api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("x"))
    one, deep = f"{WIDGETS}/x", nested(depth)
    body = (
        '{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"y"},"spec":'
        + deep
        + "}"
    )
    for method, path, text, media in (
        ("POST", CONFIG_MAPS, deep, ""),
        ("POST", CONFIG_MAPS, '{"metadata":{"name":"x"},"data":' + deep + "}", ""),
        ("POST", WIDGETS, body, ""),
        ("POST", WIDGETS, body, "application/yaml"),
        ("PATCH", one, '{"spec":' + deep + "}", MERGE),
        ("PATCH", one, '[{"op":"add","path":"/spec","value":' + deep + "}]", JSON_PATCH),
        ("PATCH", f"{one}?fieldManager=m", body, APPLY),
        ("DELETE", one, deep, ""),
    ):
        reply = await api.call(method, path, text, content_type=media)
        assert 400 <= reply.status < 500, f"{method} {path}: {reply.status} {reply.text[:200]}"
    assert await api.names(WIDGETS) == ["x"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "\n".join(
                f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]"
                for i in range(8)
            ),
            id="lists of lists",
        ),
        pytest.param("a: &a\n  b: *a\n", id="itself"),
        pytest.param("x: &x {k: v}\n" + "\n".join(f"y{i}: *x" for i in range(20_000)), id="many"),
    ],
)
async def test_yaml_alias_bombs_are_rejected(text: str, api: Api) -> None:
    reply = await api.call("POST", CONFIG_MAPS, text, content_type="application/yaml")
    assert 400 <= reply.status < 500
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/x?fieldManager=m", text, content_type=APPLY)
    assert 400 <= reply.status < 500


async def test_json_patch_cannot_grow_an_object_without_limit(api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("x", {"a": ["0123456789"]}))
    ops = [{"op": "copy", "from": "/spec/a", "path": "/spec/a/-"} for _ in range(60)]
    reply = await api.call("PATCH", f"{WIDGETS}/x", ops, content_type=JSON_PATCH)
    assert 400 <= reply.status < 500


async def test_long_selectors_and_queries_get_a_response(api: Api) -> None:
    labels = ",".join(f"l{i} in (a,b,c)" for i in range(2000))
    assert await api.names(CONFIG_MAPS, query={"labelSelector": labels}) == []
    fields = ",".join(["metadata.name!=x"] * 2000)
    assert await api.names(CONFIG_MAPS, query={"fieldSelector": fields}) == []


# -- requests in flight, watches


async def test_requests_over_the_limit_get_retry_after() -> None:
    limits = InFlight(reading=1, writing=1, administrators=0)
    async with Server(Options(limits=limits, builtin_controllers="")) as server:
        api = Api(server)
        place = limits.enter(Request("GET", CONFIG_MAPS, headers={}))
        try:
            reply = await api.call("GET", CONFIG_MAPS)
            assert (reply.status, reply.header("Retry-After")) == (429, "1")
            status = reply.json()
            assert status["reason"] == "TooManyRequests"
            assert status["details"]["retryAfterSeconds"] == 1
            await api.post(CONFIG_MAPS, config_map("x"), expect=201)
            async with api.watch(CONFIG_MAPS) as stream:
                assert (await stream.next())["type"] == "ADDED"
        finally:
            limits.leave(place)
        place = limits.enter(Request("POST", CONFIG_MAPS, headers={}))
        assert (await api.call("POST", CONFIG_MAPS, config_map("y"))).status == 429
        assert await api.names(CONFIG_MAPS) == ["x"]
        limits.leave(place)
        await api.get(CONFIG_MAPS, expect=200)


async def test_every_request_of_a_burst_gets_a_response() -> None:
    limits = InFlight(reading=8, writing=8)
    async with Server(Options(limits=limits, builtin_controllers="")) as server:
        api = Api(server)
        tries = [api.call("POST", CONFIG_MAPS, config_map(f"c{i}")) for i in range(100)]
        codes = [reply.status for reply in await asyncio.gather(*tries)]
        assert set(codes) <= {201, 429}
        assert len(await api.names(CONFIG_MAPS)) == codes.count(201)
        assert (limits.reading, limits.writing) == (0, 0)


async def test_number_of_watches_is_limited(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MAX_WATCHERS", 2)
    async with api.watch(CONFIG_MAPS), api.watch(CONFIG_MAPS):
        status = await api.refused(429, "GET", f"{CONFIG_MAPS}?watch=1")
        assert status["details"]["retryAfterSeconds"] > 0
    async with api.watch(CONFIG_MAPS):
        pass


# -- on the wire


async def test_connection_is_kept_alive_between_requests(wire: Wire) -> None:
    reader, writer = await wire.connect()
    for _ in range(3):
        writer.write(wire.head("GET", "/healthz"))
        assert (await read_answer(reader)).body == b"ok"
    writer.write(wire.head("GET", "/healthz") * 5)  # without waiting for responses
    for _ in range(5):
        assert (await read_answer(reader)).body == b"ok"


async def test_http_1_0_connection_is_closed_after_the_response(wire: Wire) -> None:
    reader, writer = await wire.connect()
    writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
    answer = await read_answer(reader)
    assert (answer.status, answer.body) == (200, b"ok")
    assert await reader.read() == b""


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no request"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, id="TLS"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", id="unknown version"),
        pytest.param(b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", id="NUL in the path"),
        pytest.param(b"GET / HTTP/1.1\r\nBad Header: x\r\n\r\n", id="bad header name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", id="NUL in a header"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", id="length"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n", id="no number"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n0\r\n\r\n",
            id="two lengths",
        ),
        pytest.param(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", id="long path"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", id="long header"
        ),
    ],
)
async def test_malformed_requests_are_rejected_without_harm(data: bytes, wire: Wire) -> None:
    reader, writer = await wire.connect()
    writer.write(data)
    writer.write_eof()
    async with asyncio.timeout(120):
        answer = await reader.read()
    assert not answer or (answer.startswith(b"HTTP/1.") and answer.split()[1][:1] == b"4")
    assert (await wire.send("GET", "/healthz")).body == b"ok"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/api/v1/namespaces/default/configmaps/%", 404, id="lone percent"),
        pytest.param("/api/v1/namespaces/default/configmaps/%zz", 404, id="no hex"),
        pytest.param("/api/v1/namespaces/default/configmaps/%ff%fe", 404, id="no UTF-8"),
        pytest.param("/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets", 404, id="parent"),
        pytest.param("//api//v1//", 404, id="slashes"),
        pytest.param(
            "/api/v1/namespaces/default/configmaps?" + "&".join(["a=b"] * 5000), 200, id="q"
        ),
        pytest.param("/api/v1/namespaces/default/configmaps?limit=1&limit=x&=&&&", 200, id="odd"),
        pytest.param("/api/v1/namespaces/default/configmaps?labelSelector=%ff", 400, id="bytes"),
    ],
)
async def test_unusual_paths_and_queries_get_a_response(path: str, status: int, wire: Wire) -> None:
    answer = await wire.send("GET", path)
    assert answer.status in (status, 400), answer.body[:300]
    assert answer.status < 500


async def test_header_value_cannot_start_another_header(wire: Wire) -> None:
    await wire.api.install(crd())
    body = json.dumps(widget("x") | {"odd\r\nSet-Cookie: a=b": 1}).encode()
    answer = await wire.send("POST", WIDGETS, body)
    assert answer.status == 201
    assert "\r\nSet-Cookie" not in answer.head


async def test_client_that_disconnects_during_its_body_does_no_harm(wire: Wire) -> None:
    _, writer = await wire.connect()
    writer.write(wire.head("POST", CONFIG_MAPS, "Content-Length: 5000\r\n") + b'{"metadata"')
    await writer.drain()
    writer.close()
    answer = await wire.send("GET", CONFIG_MAPS)
    assert answer.json()["items"] == []


async def test_disconnect_during_a_list_or_watch_releases_its_resources(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    for i in range(200):
        await wire.api.post(CONFIG_MAPS, config_map(f"c{i}", {"k": "v" * 20_000}))
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}?watch=1"):
        reader, writer = await wire.connect(receive_bytes=4096)
        writer.write(wire.head("GET", path))
        await reader.readexactly(1000)
        writer.transport.abort()
    await eventually(lambda: wire.watch_count == 0)
    _, writer = await wire.connect()
    writer.write(wire.head("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=0"))
    await eventually(lambda: wire.watch_count == 1)
    writer.transport.abort()
    await eventually(lambda: wire.watch_count == 0)
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


async def test_slow_watcher_is_closed_with_410_and_bounded_memory(wire: Wire) -> None:
    version = (await wire.api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    reader, writer = await wire.connect(receive_bytes=4096)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(wire.head("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"))
    await eventually(lambda: wire.watch_count == 1)
    most = 0
    for i in range(60):
        await wire.api.post(CONFIG_MAPS, config_map(f"c{i}", {"k": "v" * 500_000}))
        most = max(most, wire.http.buffered_bytes)
        if wire.watch_count == 0:
            break
    await eventually(lambda: wire.watch_count == 0)
    assert most < 12 * 1024 * 1024
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    await reader.readuntil(b"\r\n\r\n")
    last = b""
    while chunk := await read_chunk(reader):
        last = chunk
    event = json.loads(last.splitlines()[-1])
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_slow_watcher_does_not_affect_others(wire: Wire) -> None:
    query = "?watch=1&resourceVersion=0"
    _, slow = await wire.connect(receive_bytes=4096)
    slow.transport.pause_reading()  # type: ignore[attr-defined]
    slow.write(wire.head("GET", CONFIG_MAPS + query))
    async with wire.api.watch(CONFIG_MAPS) as stream:
        await eventually(lambda: wire.watch_count == 2)
        for i in range(40):
            await wire.api.post(CONFIG_MAPS, config_map(f"c{i:02}", {"k": "v" * 400_000}))
        events = await stream.take(40)
    assert [e["object"]["metadata"]["name"] for e in events] == [f"c{i:02}" for i in range(40)]


async def test_large_lists_are_compressed_if_the_client_accepts_gzip(wire: Wire) -> None:
    for i in range(50):
        await wire.api.post(CONFIG_MAPS, config_map(f"c{i}", {"k": "v" * 5000}))
    plain = await wire.send("GET", CONFIG_MAPS)
    packed = await wire.send("GET", CONFIG_MAPS, extra="Accept-Encoding: gzip\r\n")
    assert "Content-Encoding: gzip" in packed.head
    assert len(packed.body) < len(plain.body) / 10


async def test_closing_drains_requests_and_ends_watches(wire: Wire) -> None:
    idle, _ = await wire.connect()
    watcher, writer = await wire.connect()
    writer.write(wire.head("GET", f"{CONFIG_MAPS}?watch=1"))
    await watcher.readuntil(b"\r\n\r\n")
    await eventually(lambda: wire.watch_count == 1)
    wire.api.server.faults.delay(0.2, verb="create")
    busy, writer = await wire.connect()
    body = json.dumps(config_map("x")).encode()
    writer.write(wire.head("POST", CONFIG_MAPS, f"Content-Length: {len(body)}\r\n") + body)
    await eventually(lambda: not wire.api.server.faults._faults[0].remaining)
    closing = asyncio.ensure_future(wire.http.close(timeout_s=10))
    answer = await read_answer(busy)
    assert answer.status == 201
    assert "Connection: close" in answer.head
    assert await read_chunk(watcher) == b""
    await closing
    assert await idle.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", wire.port)


def test_client_without_close_notify_does_not_delay_closing() -> None:
    import ssl

    live = LiveServer(Options(builtin_controllers=""))
    live.start()
    context = ssl.create_default_context(cafile=live.ca_file)
    with (
        socket.create_connection(("127.0.0.1", live.port)) as sock,
        context.wrap_socket(sock, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        live.close()


async def test_watches_that_are_not_read_share_one_copy(wire: Wire) -> None:
    version = (await wire.api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    for _ in range(20):
        _, writer = await wire.connect(receive_bytes=4096)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(wire.head("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"))
    await eventually(lambda: wire.watch_count == 20)
    for i in range(12):
        await wire.api.post(CONFIG_MAPS, config_map(f"c{i}", {"k": "v" * 500_000}))
    held = wire.api.server.running.core.lag
    assert held.watchers == 20
    assert 2_000_000 < held.total < 8_000_000, "not 20 times 6 MB"
