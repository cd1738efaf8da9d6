# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the engine's endpoints: parameters, errors, WebSockets with keep-alive.

An endpoint rejects a request before the upgrade, with a status and one line of
text; after the upgrade only a close code is possible. An idle socket is pinged,
and closed when the peer has been silent for a minute or does not read for ten
seconds.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Final, TypeVar

from rdd.engine import Docker, EngineError, EngineFailure, EngineUnreachable
from rdd.http.exchange import Exchange
from rdd.http.responses import Response
from rdd.http.websocket import HandshakeError, Opcode, WebSocket

PING_S: Final = 10.0
SILENCE_S: Final = 60.0
WRITE_S: Final = 10.0
CLOSE_MESSAGE: Final = "Closing connection"
_MAX_MESSAGE = 4096

_is_id = re.compile(r"[0-9a-fA-F]+").fullmatch
_BOOLEANS = {
    "1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True,
    "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False,
}  # fmt: skip


class EndpointError(Exception):
    """A rejected request: an HTTP status and a line of text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    @classmethod
    def of(cls, error: EngineFailure) -> "EndpointError":
        """Convert a failure of the engine."""
        if isinstance(error, EngineError):
            status = error.status if error.status in (400, 404, 409) else 500
            return cls(status, error.message)
        if isinstance(error, EngineUnreachable):
            return cls(503, f"the container engine is not connected: {error}")
        return cls(500, str(error))


_S = TypeVar("_S")
Endpoint = Callable[[_S, Exchange, str], Awaitable[Response | None]]


def endpoint(handler: Endpoint[_S]) -> Endpoint[_S]:
    """Decorate a handler method: an EndpointError becomes the response."""

    @wraps(handler)
    async def handle(self: _S, exchange: Exchange, rest: str) -> Response | None:
        try:
            return await handler(self, exchange, rest)
        except EndpointError as error:
            return Response.text(f"{error}\n", status=error.status)
        except HandshakeError as error:
            return error.response

    return handle


@dataclass(slots=True)
class EngineHandle:
    """The present connection to the engine; set by the reconciler, used by the endpoints."""

    docker: Docker | None = None
    """A client whose requests wake a paused machine; None while there is no connection."""
    reader: Docker | None = None
    """A client whose requests neither count as activity nor wake a paused machine."""
    is_paused: Callable[[], bool] = lambda: False
    backend: str = ""

    def get(self) -> Docker:
        """Return the client for what a user requests. Raises EndpointError."""
        return self._connected(self.docker)

    def get_reader(self) -> Docker:
        """Return the client for what is shown without a request of a user.

        Raises EndpointError, also while the machine is paused.
        """
        found = self._connected(self.reader)
        if self.is_paused():
            raise EndpointError(503, "the machine is paused; a request of a client wakes it up")
        return found

    def _connected(self, docker: Docker | None) -> Docker:
        if docker is not None:
            return docker
        if self.backend:
            raise EndpointError(501, f"the engine {self.backend} does not support this")
        raise EndpointError(503, "the container engine is not connected")


def container_id(rest: str) -> str:
    """Return the container ID in a path. Raises EndpointError."""
    id_ = rest.strip("/")
    if not _is_id(id_):
        raise EndpointError(400, f"invalid container ID {id_!r}")
    return id_


def check_method(exchange: Exchange, *methods: str) -> None:
    """Refuse other methods. Raises EndpointError."""
    allowed = (*methods, "HEAD") if "GET" in methods else methods
    if exchange.method not in allowed:
        raise EndpointError(405, f"the method must be {' or '.join(methods)}")


@contextmanager
def engine_failures() -> Iterator[None]:
    """Convert failures of the engine to EndpointError."""
    try:
        yield
    except EngineFailure as error:
        raise EndpointError.of(error) from error


def flag(exchange: Exchange, name: str, default: bool) -> bool:
    """Return a boolean query parameter, in Go's spellings. Raises EndpointError."""
    text = exchange.first(name)
    if not text:
        return default
    value = _BOOLEANS.get(text)
    if value is None:
        raise EndpointError(400, f"invalid value {text!r} for {name}")
    return value


def wants_socket(exchange: Exchange) -> bool:
    """Return whether the client requests a WebSocket instead of plain HTTP."""
    return exchange.headers.get("Upgrade", "").lower() == "websocket"


class EndpointSocket:
    """A WebSocket that detects a dead peer."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._received_at = self._loop.time()
        self._sent_at = self._received_at

    @property
    def protocol(self) -> str:
        """The negotiated subprotocol."""
        return self._socket.protocol

    async def send(self, data: bytes) -> None:
        """Send a binary message. Raises TimeoutError or ConnectionError."""
        async with asyncio.timeout(WRITE_S):
            await self._socket.send(data)
        self._sent_at = self._loop.time()

    async def listen(self, take: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        """Receive messages until the peer closes, and pass them to `take`.

        The next message is received after `take` returns, which throttles the sender.
        """
        while True:
            message = await self._socket.receive()
            self._received_at = self._loop.time()
            if message.type is Opcode.PING:
                await self._socket.pong(message.data)
            elif message.type in (Opcode.BINARY, Opcode.TEXT):
                if take is not None:
                    await take(message.data)
            elif message.type is Opcode.CLOSE:
                return

    async def keep_alive(self) -> None:
        """Ping while the socket is idle, and return when the peer has been silent too long."""
        while True:
            await asyncio.sleep(PING_S)
            now = self._loop.time()
            if now - self._received_at > SILENCE_S:
                return
            if now - self._sent_at >= PING_S:
                await self._socket.ping()

    async def close(self, *, is_failure: bool = False) -> None:
        code = 1011 if is_failure else 1000
        await self._socket.close(code, CLOSE_MESSAGE)


def opened(
    exchange: Exchange, *, protocols: tuple[str, ...] = (), max_message: int = _MAX_MESSAGE
) -> EndpointSocket:
    """Upgrade a request to a WebSocket. Raises HandshakeError."""
    return EndpointSocket(
        WebSocket.accept(exchange, protocols=protocols, max_message=max_message, auto_pong=False)
    )
