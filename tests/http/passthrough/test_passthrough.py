# SPDX-License-Identifier: Apache-2.0
"""Passthrough requests: clients see the same behaviour wherever the controller runs."""

import asyncio
import base64
import io
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType
from tests.http.passthrough.passthrough_world import SECRET, World, backend_of, open_world
from yarl import URL

from rdd.api import names
from rdd.host.sockets import listen_on_loopback
from rdd.http.exchange import Exchange
from rdd.http.responses import Response
from rdd.http.websocket import Opcode, WebSocket
from rdd.runtime.passthrough import HttpPassthrough

MiB = 1024 * 1024


@pytest.fixture(params=["in-process", "external"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path, is_external=request.param == "external") as opened:
        yield opened


@pytest.fixture
async def outside(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path, is_external=True) as opened:
        yield opened


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def echo(exchange: Exchange, rest: str) -> Response | None:
    body = await exchange.body.read(limit=MiB)
    seen = {
        "method": exchange.method,
        "rest": rest,
        "query": exchange.target.partition("?")[2],
        "headers": dict(exchange.headers.items()),
        "body": body.decode(),
    }
    return Response(207, json.dumps(seen).encode(), headers=[("X-Of-Handler", "yes")])


# -- plain HTTP


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
async def test_any_method_reaches_the_handler_with_path_query_and_body(
    world: World, method: str
) -> None:
    world.offer(echo)
    url = URL(world.at("/passthrough/c/e/a%20b/c?x=1&y=%2F"), encoded=True)
    async with world.session.request(method, url, data=b"hello") as response:
        assert response.status == 207
        assert response.headers["X-Of-Handler"] == "yes"
        seen = await response.json()
    assert (seen["method"], seen["rest"], seen["query"]) == (method, "/a b/c", "x=1&y=%2F")
    assert seen["body"] == "hello"


@pytest.mark.parametrize("path", ["/passthrough/c/e", "/passthrough/c/e/"])
async def test_rest_of_a_path_begins_with_a_slash(world: World, path: str) -> None:
    world.offer(echo)
    _, seen = await world.get(path)
    assert seen["rest"] == "/"


async def test_response_to_head_has_no_body(world: World) -> None:
    async def handler(exchange: Exchange, rest: str) -> Response | None:
        return Response.text("four", headers=[("X-Method", exchange.method)])

    world.offer(handler)
    async with world.session.head(world.at()) as response:
        assert response.status == 200
        assert response.headers["X-Method"] == "HEAD"
        assert await response.read() == b""
    status, text = await world.get()
    assert (status, text) == (200, "four")


async def test_credentials_and_hop_by_hop_headers_are_not_forwarded(
    world: World,
) -> None:
    world.offer(echo)
    headers = {
        "Impersonate-User": "admin",
        "Impersonate-Group": "system:masters",
        "Connection": "X-Secret-Of-The-Hop, keep-alive",
        "X-Secret-Of-The-Hop": "1",
        "X-End-To-End": "2",
        names.PASSTHROUGH_SECRET_HEADER: "guessed",
    }
    status, seen = await world.get(headers=headers)
    assert status == 207
    seen_names = {name.lower() for name in seen["headers"]}
    assert "x-end-to-end" in seen_names
    assert not seen_names & {"authorization", "impersonate-user", "impersonate-group"}
    assert seen["headers"]["X-Forwarded-For"] == "127.0.0.1"
    if world.external is not None:
        assert not seen_names & {"x-secret-of-the-hop", names.PASSTHROUGH_SECRET_HEADER.lower()}
        assert seen["headers"]["Host"] == world.url.removeprefix("https://")
        assert SECRET not in str(seen)


async def test_the_address_of_the_client_is_added_to_those_of_proxies(world: World) -> None:
    world.offer(echo)
    _, seen = await world.get(headers={"X-Forwarded-For": "10.0.0.1, 10.0.0.2"})
    assert seen["headers"]["X-Forwarded-For"] == "10.0.0.1, 10.0.0.2, 127.0.0.1"


async def test_response_is_streamed(world: World) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        exchange.start(200, [("Content-Type", "text/plain")])
        exchange.write(b"first")
        await exchange.drain()
        asked.set()
        await go_on.wait()
        exchange.write(b"second")
        exchange.finish()
        return None

    world.offer(handler)
    async with world.session.get(world.at()) as response:
        assert await response.content.read(5) == b"first"
        assert asked.is_set()
        # The request is not counted as in flight.
        limits = world.server.limits
        assert (limits.reading, limits.writing) == (0, 0)
        go_on.set()
        assert await response.content.read() == b"second"


async def test_request_body_is_streamed(world: World) -> None:
    received: list[bytes] = []

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        async for piece in exchange.body:
            received.append(piece)
        return Response.text(str(sum(map(len, received))))

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        await until(lambda: received)
        for _ in range(64):
            yield bytes(MiB // 4)

    world.offer(handler)
    async with world.session.post(world.at(), data=body()) as response:
        assert await response.text() == str(5 + 16 * MiB)


async def test_slow_reader_applies_backpressure_to_the_writer(world: World) -> None:
    """Neither the server nor the proxy buffers data for a slow client."""
    written = 0

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        nonlocal written
        exchange.start(200, [])
        for _ in range(1000):
            exchange.write(bytes(MiB // 4))
            await exchange.drain()
            written += MiB // 4
        exchange.finish()
        return None

    world.offer(handler)
    async with world.session.get(world.at()) as response:
        assert await response.content.read(10) == bytes(10)
        before = -1
        while before != written:  # until no more is written
            before = written
            await asyncio.sleep(0.3)
        assert written < 64 * MiB
        size = 10
        async for piece in response.content.iter_any():
            size += len(piece)
    assert size == 250 * MiB


async def test_expect_continue_is_confirmed(world: World) -> None:
    world.offer(echo)
    async with world.session.post(world.at(), data=b"body", expect100=True) as response:
        assert response.status == 207
        assert (await response.json())["body"] == "body"


async def test_compressed_bodies_and_cookies_are_forwarded_unchanged(world: World) -> None:
    async def handler(exchange: Exchange, rest: str) -> Response | None:
        headers = [("Content-Encoding", "x-own"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
        return Response(200, b"\x1f\x8bnot really", headers=headers)

    world.offer(handler)
    async with world.session.get(world.at()) as response:
        assert await response.read() == b"\x1f\x8bnot really"
        assert len(response.headers.getall("Set-Cookie")) == 2


async def test_redirects_are_forwarded_to_the_client(world: World) -> None:
    async def handler(exchange: Exchange, rest: str) -> Response | None:
        return Response.text("", status=302, headers=[("Location", "/elsewhere")])

    world.offer(handler)
    async with world.session.get(world.at(), allow_redirects=False) as response:
        assert response.status == 302
        assert response.headers["Location"] == "/elsewhere"


async def test_connection_is_reused_after_a_passthrough_request(world: World) -> None:
    world.offer(echo)
    for _ in range(3):
        assert (await world.get())[0] == 207
        assert (await world.get("/version"))[0] == 200
    assert world.http.connections == 1


# -- authorisation and routing


async def test_request_is_authenticated_and_authorised_first(world: World) -> None:
    called: list[str] = []

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        called.append(rest)
        return Response.text("ok")

    world.offer(handler)
    status, refusal = await world.get(headers={"Authorization": "Bearer nonsense"})
    assert (status, refusal["reason"]) == (401, "Unauthorized")
    status, refusal = await world.get(headers={"Authorization": "Bearer user-token"})
    assert (status, refusal["reason"]) == (403, "Forbidden")
    assert refusal["message"] == 'forbidden: User "user" cannot get path "/passthrough/c/e/"'
    # The body of an unauthenticated request is not read.
    async with world.session.post(
        world.at(), data=io.BytesIO(bytes(4 * MiB)), headers={"Authorization": "Bearer user-token"}
    ) as response:
        assert response.status == 403
    assert called == []


async def test_role_can_grant_a_single_endpoint(world: World) -> None:
    world.offer(echo)
    world.offer(echo, endpoint="other")
    rbac = world.at("/apis/rbac.authorization.k8s.io/v1")
    role = {
        "metadata": {"name": "e-reader"},
        "rules": [{"nonResourceURLs": ["/passthrough/c/e/*"], "verbs": ["get"]}],
    }
    binding = {
        "metadata": {"name": "e-reader"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "e-reader",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "user"}],
    }
    for plural, obj in (("clusterroles", role), ("clusterrolebindings", binding)):
        async with world.session.post(f"{rbac}/{plural}", json=obj) as made:
            assert made.status == 201
    user = {"Authorization": "Bearer user-token"}
    assert (await world.get("/passthrough/c/e/x", headers=user))[0] == 207
    assert (await world.get("/passthrough/c/other/x", headers=user))[0] == 403
    encoded = URL(world.at("/passthrough/c/e/..%2fother/x"), encoded=True)
    async with world.session.get(encoded, headers=user) as response:
        assert (await response.json())["rest"] == "/../other/x"
    async with world.session.post(world.at("/passthrough/c/e/x"), headers=user) as response:
        assert response.status == 403


@pytest.mark.parametrize(
    "path", ["/passthrough/c/unknown/", "/passthrough/x/e/", "/passthrough/c", "/passthrough/"]
)
async def test_unknown_endpoint_is_not_found(world: World, path: str) -> None:
    world.offer(echo)
    status, answer = await world.get(path)
    name = path.removeprefix("/passthrough/").rstrip("/")
    assert (status, answer["kind"], answer["reason"]) == (404, "Status", "NotFound")
    assert answer["message"].startswith(f'passthrough "{name}')


async def test_unregistered_endpoint_is_unavailable_until_registered_again(world: World) -> None:
    world.offer(echo)
    world.withdraw(echo)
    async with world.session.get(world.at()) as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "1"
        answer = await response.json()
    assert answer["reason"] == "ServiceUnavailable"
    assert answer["message"] == (
        'passthrough "c/e" is not available: the controller is not running'
    )
    world.offer(echo)
    assert (await world.get())[0] == 207


async def test_expected_endpoint_is_unavailable_until_registered(world: World) -> None:
    world.server.passthroughs.expect("c")
    assert (await world.get("/passthrough/c/e/"))[0] == 503
    assert (await world.get("/passthrough/x/e/"))[0] == 404
    world.offer(echo)
    assert (await world.get("/passthrough/c/e/"))[0] == 207
    assert (await world.get("/passthrough/c/x/"))[0] == 404


async def test_unregistering_an_old_handler_keeps_the_new_one(
    tmp_path: Path,
) -> None:
    async def new(exchange: Exchange, rest: str) -> Response | None:
        return Response.text("new")

    async with open_world(tmp_path, is_external=False) as world:
        world.offer(echo)
        world.offer(new)
        world.withdraw(echo)
        assert await world.get() == (200, "new")


async def test_in_process_caller_is_rejected(world: World) -> None:
    from tests.runtime.runtime_world import ADMIN

    from rdd.apiserver.http.request import Request
    from rdd.testing.wire import collect

    world.offer(echo)
    request = Request("GET", "/passthrough/c/e/", headers={}, user=ADMIN)
    reply = await collect(await world.server.handle(request))
    assert reply.status == 400
    assert reply.json()["message"] == "this path can only be used over a connection"


# -- failures


async def test_exception_in_a_handler_is_an_internal_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(exchange: Exchange, rest: str) -> Response | None:
        raise ValueError("a mistake")

    async with open_world(tmp_path, is_external=False) as world:
        world.offer(handler)
        status, answer = await world.get()
        assert (status, answer["reason"]) == (500, "InternalError")
        assert "a mistake" not in answer["message"]
    assert "a mistake" in caplog.text


async def test_exception_after_the_head_breaks_the_connection(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(exchange: Exchange, rest: str) -> Response | None:
        exchange.start(200, [])
        exchange.write(b"half")
        await exchange.drain()
        raise ValueError("a mistake")

    world.offer(handler)
    with pytest.raises(aiohttp.ClientPayloadError):
        async with world.session.get(world.at()) as response:
            await response.read()


async def test_handler_is_cancelled_when_its_client_disconnects(world: World) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        exchange.start(200, [])
        exchange.write(b"x")
        await exchange.drain()
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    world.offer(handler)
    response = await world.session.get(world.at())
    await started.wait()
    response.close()
    await asyncio.wait_for(ended.wait(), 120)


async def test_unregistering_cancels_active_requests(world: World) -> None:
    started = asyncio.Event()

    async def silent(exchange: Exchange, rest: str) -> Response | None:
        started.set()
        await asyncio.Event().wait()
        return Response.text("")

    async def talking(exchange: Exchange, rest: str) -> Response | None:
        socket = WebSocket.accept(exchange)
        await socket.send("hello")
        await asyncio.Event().wait()
        return None

    world.offer(silent)
    world.offer(talking, endpoint="ws")
    waiting = asyncio.create_task(world.get())
    await started.wait()
    async with world.session.ws_connect(world.at("/passthrough/c/ws/")) as ws:
        assert await ws.receive_str() == "hello"
        world.withdraw(silent)
        world.withdraw(talking, endpoint="ws")
        status, answer = await waiting
        assert status in (502, 503)
        assert answer["kind"] == "Status"
        last = await ws.receive()
        if world.external is None:
            assert (last.type, last.data) == (WSMsgType.CLOSE, 1001)
        else:
            assert last.type in (WSMsgType.CLOSE, WSMsgType.CLOSED)


async def test_server_stops_without_waiting_for_endless_requests(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        socket = WebSocket.accept(exchange)
        await socket.send("hello")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    async with open_world(tmp_path, is_external=False) as world:
        world.offer(handler)
        async with world.session.ws_connect(world.at()) as ws:
            assert await ws.receive_str() == "hello"
            closing = asyncio.create_task(world.http.close(timeout_s=600))
            last = await ws.receive()
            assert (last.type, last.data) == (WSMsgType.CLOSE, 1001)
            await asyncio.wait_for(closing, 120)
    assert ended.is_set()


async def test_unreachable_backend_is_unavailable(outside: World) -> None:
    outside.offer(echo)
    assert outside.external is not None
    await outside.external.stop()
    status, answer = await outside.get()
    assert (status, answer["reason"]) == (503, "ServiceUnavailable")
    assert answer["message"] == "the controller cannot be reached: Connection refused"


async def test_malformed_response_of_a_backend_is_a_bad_gateway(outside: World) -> None:
    for data in (b"", b"what?\r\n\r\n"):

        async def greet(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes = data
        ) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            writer.close()

        stranger = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = stranger.sockets[0].getsockname()[1]
        assert outside.external is not None
        outside.external.url = f"http://localhost:{port}/"
        backend = backend_of(outside.external)
        outside.server.passthroughs.register("c", "e", backend.handle)
        status, answer = await outside.get()
        assert (status, answer["kind"]) == (502, "Status")
        assert answer["message"].startswith("the controller did not respond: ")
        await backend.close()
        stranger.close()
        await stranger.wait_closed()


# -- the secret of external backends


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing"),
        pytest.param({names.PASSTHROUGH_SECRET_HEADER: ""}, id="an empty one"),
        pytest.param({names.PASSTHROUGH_SECRET_HEADER: SECRET[:-1]}, id="almost"),
        pytest.param({names.PASSTHROUGH_SECRET_HEADER: "é"}, id="not even ASCII"),
        pytest.param({"Authorization": "Bearer admin-token"}, id="the token of the server"),
    ],
)
async def test_direct_connection_to_a_backend_is_rejected(
    outside: World, headers: dict[str, str]
) -> None:
    called: list[str] = []

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        called.append(rest)
        return Response.text("")

    outside.offer(handler)
    assert outside.external is not None
    url = outside.external.url
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}c/e/", headers=headers) as response:
            assert response.status == 401
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{url}c/e/", headers=headers)
        assert refused.value.status == 401
    assert called == []


async def test_backend_with_another_secret_is_unavailable(outside: World) -> None:
    outside.offer(echo)
    assert outside.external is not None
    outside.external.secret = "of another run"
    status, answer = await outside.get()
    assert (status, answer["reason"]) == (503, "ServiceUnavailable")


async def test_backend_without_the_controller_is_unavailable(outside: World) -> None:
    outside.offer(echo)
    assert outside.external is not None
    outside.external.remove("c", "e", echo)
    status, text = await outside.get()
    assert (status, text) == (503, "c does not run here\n")


# -- WebSockets


async def parrot(exchange: Exchange, rest: str) -> Response | None:
    ws = WebSocket.accept(exchange, protocols=("v2.parrot", "v1.parrot"), max_message=0)
    await ws.send(f"{rest} {ws.protocol or None}")
    async for message in ws:
        if message.type is Opcode.TEXT:
            if message.text == "bye":
                await ws.close(4321, "on request")
                break
            await ws.send(message.text)
        else:
            await ws.send(message.data)
    return None


@pytest.mark.parametrize("compress", [0, 15])
async def test_messages_and_close_code_are_relayed_in_both_directions(
    world: World, compress: int
) -> None:
    world.offer(parrot)
    url = world.at("/passthrough/c/e/room?x=1")
    async with world.session.ws_connect(
        url, protocols=("v0.parrot", "v1.parrot"), max_msg_size=0, compress=compress
    ) as ws:
        assert ws.protocol == "v1.parrot"
        assert await ws.receive_str() == "/room v1.parrot"
        for text in ("a", "ü" * 70_000):
            await ws.send_str(text)
            assert await ws.receive_str() == text
        large = bytes(range(256)) * 8 * 1024
        await ws.send_bytes(large)
        assert await ws.receive_bytes() == large
        await ws.send_str("bye")
        last = await ws.receive()
        assert (last.type, last.data, last.extra) == (WSMsgType.CLOSE, 4321, "on request")


async def test_pings_are_relayed_end_to_end(world: World) -> None:
    world.offer(parrot)
    async with world.session.ws_connect(world.at(), autoping=False) as ws:
        await ws.receive_str()
        await ws.ping(b"still there?")
        answer = await ws.receive()
        assert (answer.type, answer.data) == (WSMsgType.PONG, b"still there?")


async def test_close_code_of_the_client_reaches_the_handler(world: World) -> None:
    codes: list[int | None] = []

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        ws = WebSocket.accept(exchange)
        try:
            async for _ in ws:
                pass
        finally:
            codes.append(ws.close_code)
        return None

    world.offer(handler)
    async with world.session.ws_connect(world.at()) as ws:
        await ws.close(code=4567)
    await until(lambda: codes)
    assert codes == [4567]


async def test_websocket_ends_for_a_client_that_does_not_answer_the_close_frame(
    world: World,
) -> None:
    ended = asyncio.Event()

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        ws = WebSocket.accept(exchange)
        await ws.send("bye")
        await ws.close()
        ended.set()
        return None

    world.offer(handler)
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with asyncio.timeout(60), world.session.get(world.at(), headers=headers) as response:
        assert response.status == 101
        await ended.wait()


async def test_slow_reader_of_messages_applies_backpressure(world: World) -> None:
    sent = 0

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        nonlocal sent
        ws = WebSocket.accept(exchange)
        for _ in range(400):
            await ws.send(bytes(MiB // 4))
            sent += MiB // 4
        await ws.close()
        return None

    world.offer(handler)
    async with world.session.ws_connect(world.at()) as ws:
        await ws.receive_bytes()
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.3)
        assert sent < 64 * MiB
        size = MiB // 4
        async for message in ws:
            size += len(message.data)
    assert size == 100 * MiB


async def test_slow_handler_applies_backpressure_to_the_client(world: World) -> None:
    go_on = asyncio.Event()
    received = 0

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        nonlocal received
        ws = WebSocket.accept(exchange)
        await go_on.wait()
        async for message in ws:
            received += len(message.data)
        return None

    world.offer(handler)
    sent = 0

    async def send(ws: aiohttp.ClientWebSocketResponse) -> None:
        nonlocal sent
        for _ in range(400):
            await ws.send_bytes(bytes(MiB // 4))
            sent += MiB // 4

    async with world.session.ws_connect(world.at()) as ws:
        sending = asyncio.create_task(send(ws))
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.3)
        assert sent < 64 * MiB
        go_on.set()
        await sending
        await ws.close()
    await until(lambda: received == 100 * MiB)


async def test_rejected_upgrade_is_forwarded_as_a_response(world: World) -> None:
    async def handler(exchange: Exchange, rest: str) -> Response | None:
        if rest == "/":
            return Response.text("no container is named", status=400)
        return Response.text("no such container", status=404)

    world.offer(handler)
    for path, status in (("", 400), ("x", 404)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await world.session.ws_connect(world.at(f"/passthrough/c/e/{path}"))
        assert refused.value.status == status
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await world.session.ws_connect(world.at("/passthrough/c/none/"))
    assert refused.value.status == 404


async def test_websocket_is_authorised_like_any_request(world: World) -> None:
    world.offer(parrot)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await world.session.ws_connect(world.at(), headers={"Authorization": "Bearer user-token"})
    assert refused.value.status == 403


TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."


def token_protocol(token: str) -> str:
    return TOKEN_PROTOCOL + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


async def test_websocket_token_in_a_subprotocol_authenticates_and_is_removed(world: World) -> None:
    offered: list[str] = []

    async def handler(exchange: Exchange, rest: str) -> Response | None:
        offered.append(exchange.headers["Sec-WebSocket-Protocol"])
        socket = WebSocket.accept(exchange, protocols=("v5.channel.k8s.io",))
        await socket.close()
        return None

    world.offer(handler)
    protocols = ("v5.channel.k8s.io", token_protocol("admin-token"))
    async with (
        aiohttp.ClientSession(
            connector=world.session.connector, connector_owner=False
        ) as anonymous,
        anonymous.ws_connect(world.at(), protocols=protocols) as ws,
    ):
        assert ws.protocol == "v5.channel.k8s.io"
    assert offered == ["v5.channel.k8s.io"]


@pytest.mark.parametrize(
    ("protocols", "status"),
    [
        pytest.param((token_protocol("admin-token"),), 401, id="no other subprotocol"),
        pytest.param(("x", *[token_protocol("admin-token")] * 2), 401, id="two tokens"),
        pytest.param(("x", token_protocol("wrong")), 401, id="unknown token"),
        pytest.param(("x", TOKEN_PROTOCOL + "%%%"), 401, id="not base64"),
        pytest.param(("x", TOKEN_PROTOCOL + "YWRtaW4tdG9rZW4="), 401, id="padded"),
        pytest.param(("x", TOKEN_PROTOCOL + "_w"), 401, id="not UTF-8"),
        pytest.param(("x", token_protocol("user-token")), 403, id="another user"),
        pytest.param(("x",), 403, id="no token"),
    ],
)
async def test_websocket_with_an_unusable_token_protocol_is_refused(
    world: World, protocols: tuple[str, ...], status: int
) -> None:
    world.offer(parrot)
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": ", ".join(protocols),
    }
    async with (
        aiohttp.ClientSession(
            connector=world.session.connector, connector_owner=False
        ) as anonymous,
        anonymous.get(world.at(), headers=headers) as response,
    ):
        assert response.status == status


async def test_a_plain_request_ignores_tokens_in_subprotocols(world: World) -> None:
    world.offer(echo)
    headers = {"Sec-WebSocket-Protocol": f"x, {token_protocol('admin-token')}"}
    async with (
        aiohttp.ClientSession(
            connector=world.session.connector, connector_owner=False
        ) as anonymous,
        anonymous.get(world.at(), headers=headers) as response,
    ):
        assert response.status == 403


async def test_many_websockets_work_concurrently(world: World) -> None:
    world.offer(parrot)

    async def talk(i: int) -> None:
        async with world.session.ws_connect(world.at()) as ws:
            await ws.receive_str()
            for j in range(20):
                await ws.send_str(f"{i} {j}")
                assert await ws.receive_str() == f"{i} {j}"

    await asyncio.gather(*(talk(i) for i in range(50)))
    limits = world.server.limits
    assert (limits.reading, limits.writing) == (0, 0)


async def test_backend_that_dies_ends_the_websocket(outside: World) -> None:
    outside.offer(parrot)
    assert outside.external is not None
    async with outside.session.ws_connect(outside.at()) as ws:
        await ws.receive_str()
        await outside.external.stop()
        last = await ws.receive()
        assert last.type in (WSMsgType.CLOSE, WSMsgType.CLOSED)


async def test_other_upgrades_are_not_forwarded(outside: World) -> None:
    outside.offer(echo)
    status, seen = await outside.get(headers={"Connection": "Upgrade", "Upgrade": "tcp"})
    assert status == 207
    assert "Upgrade" not in seen["headers"]


async def test_host_closes_its_socket() -> None:
    sock = listen_on_loopback(0)
    host = HttpPassthrough(sock, secret=SECRET)
    await host.start()
    port = sock.getsockname()[1]
    await host.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()
