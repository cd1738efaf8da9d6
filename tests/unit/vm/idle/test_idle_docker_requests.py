# SPDX-License-Identifier: Apache-2.0
"""Requests on the Docker socket: which are in progress, which are quiet, and where they end."""

import pytest

from rdd.vm.idle.activity import Activity
from rdd.vm.idle.connections import PortObserver
from rdd.vm.idle.docker_requests import DockerObserver, ResponseParser, is_quiet

_ID = "ab" * 32


@pytest.mark.parametrize(
    ("target", "quiet"),
    [
        ("/events", True),
        ("/v1.41/events?since=1&filters=%7B%7D", True),
        (f"/v1.51/containers/{_ID}/attach?stream=1&stdin=1", True),
        (f"/containers/{_ID}/attach/ws", True),
        (f"/v1.41/containers/{_ID}/wait?condition=next-exit", True),
        (f"/v1.41/containers/{_ID}/logs?follow=1&stdout=1", True),
        (f"/v1.41/containers/{_ID}/logs?stdout=1&follow=true", True),
        (f"/v1.41/containers/{_ID}/logs?stdout=1&follow=0", False),
        (f"/v1.41/containers/{_ID}/logs", False),
        (f"/v1.41/containers/{_ID}/stats", True),
        (f"/v1.41/containers/{_ID}/stats?stream=0", False),
        (f"/v1.41/containers/{_ID}/stats?one-shot=1&stream=false", False),
        ("/v1.41/services/x/logs?follow=1", True),
        (f"/v1.41/exec/{_ID}/start", True),
        (f"/v1.41/exec/{_ID}/json", False),
        ("/v1.41/images/create?fromImage=events", False),
        ("/v1.41/build?t=/events", False),
        ("/v1.41/containers/json", False),
        (f"/v1.41/containers/{_ID}/stop", False),
        ("/_ping", False),
        ("/session", False),
        ("/v1.41/eventsx", False),
    ],
)
def test_streams_that_wait_are_quiet(target: str, quiet: bool) -> None:
    assert is_quiet(target) is quiet


def responses() -> list[tuple[str, bytes, bool]]:
    head = b"HTTP/1.1 200 OK\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    return [
        ("length", head + b"Content-Length: 5\r\n\r\nhello", True),
        ("empty", head + b"content-length: 0\r\n\r\n", True),
        ("short", head + b"Content-Length: 6\r\n\r\nhello", False),
        ("no content", b"HTTP/1.1 204 No Content\r\n\r\n", True),
        ("not modified", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", True),
        ("chunks", chunked + b"5\r\nhello\r\n0\r\n\r\n", True),
        ("end of chunks in a chunk", chunked + b"5\r\n0\r\n\r\n\r\n", False),
        ("extension and trailer", chunked + b"1;x=y\r\na\r\n0\r\nX: y\r\n\r\n", True),
        ("unfinished trailer", chunked + b"0\r\nX: y\r\n", False),
        ("interim", b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"Content-Length: 1\r\n\r\na", True),
        ("until the end", head + b"\r\nabc", False),
        ("upgrade", b"HTTP/1.1 101 UPGRADED\r\nContent-Length: 0\r\n\r\n", False),
        ("bad chunk", chunked + b"zz\r\n0\r\n\r\n", False),
        ("no HTTP", b"garbage\r\n\r\n", False),
    ]


@pytest.mark.parametrize(
    ("data", "complete"), [pytest.param(data, end, id=name) for name, data, end in responses()]
)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_end_of_a_response_is_found_however_it_is_divided(
    data: bytes, complete: bool, size: int
) -> None:
    parser = ResponseParser(has_body=True)
    for start in range(0, len(data), size):
        assert not parser.is_complete
        parser.feed(data[start : start + size])
    assert parser.is_complete is complete


async def test_request_is_in_progress_until_its_response_ends() -> None:
    activity = Activity()
    causes: list[str] = []
    activity.wake = causes.append
    seen = DockerObserver(activity)
    seen.opened()
    assert not causes
    seen.from_client(b"POST /v1.41/images/create?fromImage=x HT")
    seen.from_client(b"TP/1.1\r\nHost: d\r\n\r\n")
    assert activity.is_busy
    assert causes[-1] == "POST /v1.41/images/create on the Docker socket"
    seen.from_server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
    assert activity.is_busy
    seen.from_server(b"0\r\n\r\n")
    assert not activity.is_busy
    seen.from_client(b"GET /_ping HTTP/1.1\r\n\r\n")  # the connection is used again
    assert activity.is_busy
    seen.closed()
    assert not activity.is_busy


async def test_only_what_a_client_sends_counts_on_a_quiet_stream() -> None:
    activity = Activity()
    seen = DockerObserver(activity)
    seen.from_client(f"POST /containers/{_ID}/attach?stdin=1 HTTP/1.1\r\n\r\n".encode())
    assert not activity.is_busy
    seen.from_server(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n")
    causes: list[str] = []
    activity.wake = causes.append
    seen.from_server(b"output")
    assert not causes
    seen.from_client(b"x")
    seen.client_ended()
    assert causes == [f"POST /containers/{_ID}/attach on the Docker socket"] * 2


async def test_end_of_a_kept_alive_connection_does_not_count() -> None:
    activity = Activity()
    seen = DockerObserver(activity)
    seen.from_client(b"GET /_ping HTTP/1.1\r\n\r\n")
    seen.from_server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
    causes: list[str] = []
    activity.wake = causes.append
    seen.client_ended()
    seen.closed()
    assert not causes


async def test_what_is_not_http_counts_and_breaks_nothing() -> None:
    activity = Activity()
    causes: list[str] = []
    activity.wake = causes.append
    seen = DockerObserver(activity)
    for data in (b"\0" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"x" * (1 << 17)):
        seen.from_client(data)
        seen.from_server(data)
    assert len(causes) == 3
    assert not activity.is_busy


async def test_client_of_a_port_that_waits_for_an_answer_has_a_request_in_progress() -> None:
    activity = Activity()
    seen = PortObserver(activity, "0.0.0.0:80")
    seen.opened()
    assert not activity.is_busy
    seen.from_client(b"GET / HTTP/1.1\r\n\r\n")
    assert activity.is_busy
    seen.from_server(b"HTTP/1.1 200 OK\r\n\r\n")
    assert not activity.is_busy  # a keep-alive from now on


async def test_message_of_a_websocket_needs_no_answer() -> None:
    activity = Activity()
    seen = PortObserver(activity, "0.0.0.0:80")
    seen.from_client(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
    seen.from_server(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    seen.from_client(b"\x81\x01a")
    assert not activity.is_busy
