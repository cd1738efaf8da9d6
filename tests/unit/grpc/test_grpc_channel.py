# SPDX-License-Identifier: Apache-2.0
"""gRPC calls against a service on another implementation of HTTP/2 (the h2 library)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest

from rdd.grpc import calls
from rdd.grpc import connection as connections
from rdd.grpc.calls import framed
from rdd.grpc.channel import Channel
from rdd.grpc.errors import (
    ConnectionLost,
    GrpcError,
    GrpcProtocolError,
    GrpcTimeout,
    MessageTooLarge,
    NotConnected,
)

OK = [("grpc-status", "0"), ("grpc-message", "")]
HEADERS = [(":status", "200"), ("content-type", "application/grpc")]


class Service(asyncio.Protocol):
    """Answers every complete request with `behave`; echoes without it."""

    behave: "Callable[[Service, int, bytes], None]"
    settings: dict[int, int] = {}  # noqa: RUF012
    opened: "list[Service]"

    def __init__(self, opened: "list[Service]") -> None:
        opened.append(self)
        self.http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.bodies: dict[int, bytes] = {}
        self.paths: dict[int, str] = {}
        self.resets: list[int] = []
        self.unsent: dict[int, bytes] = {}
        self.trailers: dict[int, list[tuple[str, str]]] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.http.initiate_connection()
        if self.settings:
            self.http.update_settings(self.settings)
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.http.receive_data(data):
            match event:
                case h2.events.RequestReceived():
                    self.bodies[event.stream_id] = b""
                    found = {str(name): str(value) for name, value in event.headers}
                    self.paths[event.stream_id] = found[":path"]
                case h2.events.DataReceived():
                    self.bodies[event.stream_id] += event.data
                    self.http.acknowledge_received_data(
                        event.flow_controlled_length, event.stream_id
                    )
                case h2.events.StreamReset():
                    self.resets.append(event.stream_id)
                case h2.events.StreamEnded():
                    body = self.bodies[event.stream_id]
                    self.behave(event.stream_id, body)  # type: ignore[misc, call-arg, arg-type]
                case h2.events.WindowUpdated():
                    for stream in tuple(self.unsent):
                        self.send(stream)
        self.flush()

    def echo(self, stream: int, body: bytes) -> None:
        self.answer(stream, body, OK)

    def answer(self, stream: int, body: bytes, trailers: list[tuple[str, str]]) -> None:
        self.http.send_headers(stream, HEADERS)
        self.unsent[stream], self.trailers[stream] = body, trailers
        self.send(stream)

    def send(self, stream: int) -> None:
        data = self.unsent[stream]
        while data:
            room = min(
                self.http.local_flow_control_window(stream), self.http.max_outbound_frame_size
            )
            if room <= 0:
                break
            self.http.send_data(stream, data[:room])
            data = data[room:]
        self.unsent[stream] = data
        if not data:
            del self.unsent[stream]
            self.http.send_headers(stream, self.trailers.pop(stream), end_stream=True)

    def flush(self) -> None:
        self.transport.write(self.http.data_to_send())


@asynccontextmanager
async def serving(**attributes: Any) -> AsyncIterator[tuple[Channel, list[Service]]]:
    """Yield a channel to a service, and the connections that the service has accepted."""
    opened: list[Service] = []
    kind = type("TestService", (Service,), {"behave": Service.echo, **attributes})
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(kind, opened), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    channel = Channel(
        lambda protocol: loop.create_connection(protocol, "127.0.0.1", port),
        name="service",
        keepalive_s=1,
    )
    try:
        yield channel, opened
    finally:
        await channel.close()
        for service in opened:
            service.transport.abort()
        server.close()
        await server.wait_closed()


async def until(happened: Callable[[], object]) -> None:
    """Run other tasks until a condition holds."""
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_concurrent_calls_share_a_connection() -> None:
    async with serving() as (channel, opened):
        messages = [b"%d" % number for number in range(100)]
        answers = await asyncio.gather(*(channel.unary("/a/B", text) for text in messages))
        assert list(answers) == messages
        assert len(opened) == 1 and set(opened[0].paths.values()) == {"/a/B"}


@pytest.mark.parametrize("size", [0, 1, 65_000, 70_000, 5_000_000])
async def test_message_of_any_size_passes(size: int) -> None:
    async with serving() as (channel, _):
        message = b"m" * size
        assert await channel.unary("/a/B", message) == message


async def test_windows_of_the_service_are_kept() -> None:
    settings = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1000}
    async with serving(settings=settings) as (channel, _):
        messages = [bytes([number]) * 10_000 for number in range(20)]
        assert list(await asyncio.gather(*(channel.unary("/a/B", m) for m in messages))) == messages


async def test_rejected_call_has_code_and_message() -> None:
    def reject(service: Service, stream: int, _: bytes) -> None:
        headers = [*HEADERS, ("grpc-status", "5"), ("grpc-message", "no %22key%22")]
        service.http.send_headers(stream, headers, end_stream=True)

    async with serving(behave=reject) as (channel, _):
        with pytest.raises(GrpcError) as failure:
            await channel.unary("/a/B", b"")
        assert (failure.value.code, failure.value.message) == (5, 'no "key"')


async def test_long_headers_in_several_frames() -> None:
    def answer(service: Service, stream: int, body: bytes) -> None:
        service.answer(stream, body, [*OK, ("x-long", "v" * 40_000)])

    async with serving(behave=answer) as (channel, _):
        assert await channel.unary("/a/B", framed(b"m")) == framed(b"m")


async def test_call_that_the_service_did_not_accept_may_be_repeated() -> None:
    def shut_down(service: Service, stream: int, body: bytes) -> None:
        if stream == 1:
            service.echo(stream, body)
        else:
            service.http.close_connection(last_stream_id=1)

    async with serving(behave=shut_down) as (channel, opened):
        assert await channel.unary("/a/B", b"1") == b"1"
        with pytest.raises(NotConnected, match="did not accept"):
            await channel.unary("/a/B", b"2")
        assert await channel.unary("/a/B", b"3") == b"3"
        assert len(opened) == 2


async def test_accepted_call_is_finished_by_a_service_that_shuts_down() -> None:
    release = asyncio.Event()

    def answer_later(service: Service, stream: int, body: bytes) -> None:
        if body == framed(b"slow"):
            # h2 closes its side after a GOAWAY, so the frame is written by hand.
            goaway = (8).to_bytes(3, "big") + b"\x07\0" + (0).to_bytes(4, "big")
            service.transport.write(goaway + stream.to_bytes(4, "big") + bytes(4))

            async def finish() -> None:
                await release.wait()
                service.echo(stream, body)
                service.flush()

            service.finishing = asyncio.ensure_future(finish())  # type: ignore[attr-defined]
        else:
            service.echo(stream, body)

    async with serving(behave=answer_later) as (channel, opened):
        slow = asyncio.ensure_future(channel.unary("/a/B", b"slow"))
        await until(lambda: opened and opened[0].bodies.get(1))
        await until(lambda: channel._usable() is None)
        assert await channel.unary("/a/B", b"quick") == b"quick"
        release.set()
        assert await slow == b"slow"
        assert len(opened) == 2


async def test_refused_stream_was_not_executed() -> None:
    def refuse(service: Service, stream: int, _: bytes) -> None:
        service.http.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)

    async with serving(behave=refuse) as (channel, _):
        with pytest.raises(NotConnected, match="refused"):
            await channel.unary("/a/B", b"")


async def test_outcome_of_a_reset_call_is_unknown() -> None:
    def reset(service: Service, stream: int, _: bytes) -> None:
        service.http.reset_stream(stream)

    async with serving(behave=reset) as (channel, _):
        with pytest.raises(ConnectionLost, match="reset"):
            await channel.unary("/a/B", b"")


def ignore(service: Service, stream: int, body: bytes) -> None:
    """Never answer."""


async def test_call_without_response_times_out_and_is_reset() -> None:
    async with serving(behave=ignore) as (channel, opened):
        with pytest.raises(GrpcTimeout, match="service: no response to /a/B"):
            await channel.unary("/a/B", b"", timeout_s=0.01)
        await until(lambda: opened[0].resets)


async def test_cancelled_call_is_reset() -> None:
    async with serving(behave=ignore) as (channel, opened):
        call = asyncio.ensure_future(channel.unary("/a/B", b""))
        await until(lambda: opened and 1 in opened[0].bodies)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: opened[0].resets == [1])


async def test_service_that_does_not_answer_pings_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_STALL_S", 0.02)
    monkeypatch.setattr(connections, "_PING_PAUSE_S", 0.0)
    async with serving(behave=ignore) as (channel, opened):
        call = asyncio.ensure_future(channel.unary("/a/B", b""))
        await until(lambda: opened and 1 in opened[0].bodies)
        opened[0].transport.pause_reading()
        with pytest.raises(ConnectionLost, match="no answer to a ping"):
            await call


async def test_service_that_answers_pings_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_STALL_S", 0.5)
    monkeypatch.setattr(connections, "_PING_PAUSE_S", 0.0)
    async with serving(behave=ignore) as (channel, _):
        with pytest.raises(GrpcTimeout):
            await channel.unary("/a/B", b"", timeout_s=2.5)


@pytest.mark.parametrize(
    ("body", "failure", "message"),
    [
        pytest.param(b"\x01\0\0\0\x01x", GrpcProtocolError, "not a gRPC message", id="compressed"),
        pytest.param(b"\0\x7f\0\0\0", MessageTooLarge, "is too large", id="too large"),
    ],
)
async def test_malformed_message_is_reported(
    body: bytes, failure: type[Exception], message: str
) -> None:
    def answer(service: Service, stream: int, _: bytes) -> None:
        service.answer(stream, body, OK)

    async with serving(behave=answer) as (channel, _):
        with pytest.raises(failure, match=message):
            await channel.unary("/a/B", b"")


async def test_largest_message_is_bounded() -> None:
    assert calls.MAX_MESSAGE < 1 << 27


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", id="HTTP/1.1"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="SSH"),
    ],
)
async def test_service_of_another_protocol_is_reported(greeting: bytes) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    channel = Channel(
        lambda protocol: loop.create_connection(protocol, "127.0.0.1", port), name="service"
    )
    try:
        with pytest.raises(ConnectionLost, match="not HTTP/2"):
            await channel.unary("/a/B", b"")
    finally:
        await channel.close()
        server.close()
        await server.wait_closed()


async def test_stream_ends_with_the_connection() -> None:
    def begin(service: Service, stream: int, body: bytes) -> None:
        service.http.send_headers(stream, HEADERS)
        service.http.send_data(stream, body)

    async with serving(behave=begin) as (channel, opened):
        with pytest.raises(ConnectionLost):
            async with channel.stream("/a/B", b"first") as messages:
                assert await anext(messages) == b"first"
                opened[0].transport.abort()
                await anext(messages)
