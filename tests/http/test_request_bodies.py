# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests: who may send one, how fast, and compressed ones."""

import gzip
import json
import logging
import zlib

import pytest
from tests.http.api_wire import Wire, eventually, read_answer
from tests.http.client import CONFIG_MAPS, config_map
from tests.http.wire.http2_client import Http2Client

from rdd.api import errors
from rdd.apiserver.http import body_account, request_bodies
from rdd.apiserver.http.body_account import BodyAccount
from rdd.apiserver.http.limits import MAX_BODY_BYTES
from rdd.apiserver.http.request import User
from rdd.http.body import BodyPace
from rdd.http.h2 import frames


def half_sent(authorization: str) -> bytes:
    return (
        f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\n{authorization}"
        "Content-Type: application/json\r\nContent-Length: 2900000\r\n\r\n{"
    ).encode()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        pytest.param("", 403, id="anonymous"),
        pytest.param("Authorization: Bearer nonsense\r\n", 401, id="unknown token"),
    ],
)
async def test_unauthorised_request_is_answered_without_its_body(
    wire: Wire, authorization: str, status: int
) -> None:
    reader, writer = await wire.connect()
    writer.write(half_sent(authorization))
    answer = await read_answer(reader)
    assert answer.status == status
    assert "Connection: close" in answer.head


async def test_body_that_stalls_is_408(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "PACE", BodyPace(grace_s=0.05))
    reader, writer = await wire.connect()
    writer.write(wire.head("POST", CONFIG_MAPS, "Content-Length: 100\r\n") + b"{")
    answer = await read_answer(reader)
    assert (answer.status, answer.json()["reason"]) == (408, "Timeout")
    assert await reader.read() == b""


async def test_slow_body_that_makes_progress_is_read(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_bodies, "PACE", BodyPace(grace_s=30, bytes_per_s=1))
    body = json.dumps(config_map("slow")).encode()
    reader, writer = await wire.connect()
    writer.write(wire.head("POST", CONFIG_MAPS, f"Content-Length: {len(body)}\r\n"))
    for i in range(len(body)):
        writer.write(body[i : i + 1])
        await writer.drain()
    assert (await read_answer(reader)).status == 201


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "deflate"])
async def test_compressed_bodies_are_unpacked(wire: Wire, coding: str) -> None:
    pack = zlib.compress if coding == "deflate" else gzip.compress
    body = pack(json.dumps(config_map("packed")).encode())
    answer = await wire.send("POST", CONFIG_MAPS, body, f"Content-Encoding: {coding}\r\n")
    assert answer.status == 201


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        pytest.param("gzip", b"{}", 400, id="no gzip"),
        pytest.param("gzip", gzip.compress(b"{}")[:-3], 400, id="cut off"),
        pytest.param("gzip", gzip.compress(b"{}") + b"x", 400, id="more behind it"),
        pytest.param("gzip", gzip.compress(bytes(MAX_BODY_BYTES + 1)), 413, id="bomb"),
        pytest.param("gzip", gzip.compress(bytes(20 * MAX_BODY_BYTES)), 413, id="large bomb"),
        pytest.param("deflate", b"\xff\xff", 400, id="no deflate"),
        pytest.param("br", b"{}", 415, id="unknown coding"),
        pytest.param("gzip, gzip", b"{}", 415, id="two codings"),
    ],
)
async def test_malformed_compressed_bodies_are_rejected_without_a_log(
    wire: Wire, coding: str, body: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await wire.send("POST", CONFIG_MAPS, body, f"Content-Encoding: {coding}\r\n")
    assert (answer.status, answer.json()["kind"]) == (status, "Status")
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_disconnected_bodies_leave_nothing(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        _, writer = await wire.connect()
        writer.write(wire.head("POST", CONFIG_MAPS, "Content-Length: 2900000\r\n") + b"{" * 5000)
        await writer.drain()
        writer.transport.abort()
    await eventually(lambda: wire.http.connections == 0)
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("method", ["FOO", "PURGE", "TRACE", "LINK"])
async def test_unknown_method_is_405_with_a_status(wire: Wire, method: str) -> None:
    answer = await wire.send(method, CONFIG_MAPS)
    assert (answer.status, answer.json()["reason"]) == (405, "MethodNotAllowed")


ONE = 2_900_000


async def test_unfinished_bodies_of_a_user_are_limited(wire: Wire) -> None:
    """150 half-sent bodies took 640 MB: only some of them are read, and all are given up."""
    head = wire.head("POST", CONFIG_MAPS, f"Content-Length: {ONE}\r\n")
    opened = [await wire.connect() for _ in range(30)]
    for _, writer in opened:
        writer.write(head + b"{")
    fitting = body_account.MAX_USER_BYTES // ONE
    await eventually(lambda: wire.http.bodies.total == fitting * ONE)
    refused = 0
    for reader, _ in opened[fitting:]:
        answer = await read_answer(reader)
        assert (answer.status, answer.json()["reason"]) == (429, "TooManyRequests")
        assert "Retry-After: 1" in answer.head
        refused += 1
    assert refused == 30 - fitting
    small = json.dumps(config_map("small")).encode()
    assert (await wire.send("POST", CONFIG_MAPS, small)).status == 201
    for _, writer in opened:
        writer.transport.abort()
    await eventually(lambda: wire.http.bodies.total == 0)


async def test_unfinished_bodies_of_a_connection_are_limited_over_http2(wire: Wire) -> None:
    client = Http2Client.on(*await wire.connect())
    client.start()
    token = wire.api.server.tokens["admin"]
    extra = [
        ("authorization", f"Bearer {token}"),
        ("content-type", "application/json"),
        ("content-length", str(ONE)),
    ]
    fitting = body_account.MAX_CONNECTION_BYTES // ONE
    for number in range(fitting + 1):
        stream = 1 + 2 * number
        block = client.block("POST", CONFIG_MAPS, extra)
        client.send(frames.HEADERS, frames.END_HEADERS, stream, block)
    status, _, _ = await client.answer(1 + 2 * fitting)
    assert status == 429
    assert wire.http.bodies.total == fitting * ONE
    client.raw.writer.transport.abort()
    await eventually(lambda: wire.http.bodies.total == 0)


def test_account_has_a_total_and_a_reserve_for_administrators() -> None:
    account = BodyAccount(total=100, user=60, connection=50, reserve=30)
    users = [User("a"), User("b"), User("admin", ("system:masters",))]
    assert account.enter(50, users[0], 1) == 50
    for size, user, connection in ((20, users[0], 2), (1, users[1], 1), (51, users[1], 3)):
        with pytest.raises(errors.TooManyRequests):
            account.enter(size, user, connection)
    account.enter(50, users[1], 3)
    with pytest.raises(errors.TooManyRequests):
        account.enter(1, User("c"), 4)
    account.enter(30, users[2], 5)
    with pytest.raises(errors.TooManyRequests):
        account.enter(1, users[2], 6)
    for size, user, connection in ((50, users[0], 1), (50, users[1], 3), (30, users[2], 5)):
        account.leave(size, user, connection)
    assert account.total == 0
    assert not account._by_user
    assert not account._by_connection


def test_body_of_unknown_length_counts_as_the_largest() -> None:
    assert BodyAccount().enter(None, User("a"), 1) == MAX_BODY_BYTES
