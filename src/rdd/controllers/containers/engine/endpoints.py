# SPDX-License-Identifier: Apache-2.0
"""What the endpoints of the engine share: who is asked for what, and sockets that stay alive.

Everything that can be refused is refused before the upgrade, with a status and
one line of text; after it there is only a close code. A socket is pinged while it
is idle, and given up when the other side has been silent for a minute or takes
nothing for ten seconds.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import WSMessage, WSMsgType, web

from rdd.engine import Docker, EngineError, EngineFailure, Unreachable

PING_S: Final = 10.0
SILENCE_S: Final = 60.0
WRITE_S: Final = 10.0
GOODBYE: Final = b"Closing connection"
_MAX_MESSAGE = 4096

_is_id = re.compile(r"[0-9a-fA-F]+").fullmatch
_BOOLEANS = {
    "1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True,
    "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False,
}  # fmt: skip


class Refused(Exception):
    """A request that is answered with a status and a line of text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    def response(self) -> web.Response:
        """The answer."""
        return web.Response(status=self.status, text=f"{self}\n")


@dataclass(slots=True)
class Link:
    """The engine there is at the moment; shared by the reconciler and the endpoints."""

    docker: Docker | None = None
    """None while there is no connection."""
    backend: str = ""

    def get(self) -> Docker:
        """The engine. Raises Refused."""
        if self.docker is not None:
            return self.docker
        if self.backend:
            raise Refused(501, f"the engine {self.backend} does not support this")
        raise Refused(503, "the container engine is not connected")


def refusal(error: EngineFailure) -> Refused:
    """What a failure of the engine means to whoever asked."""
    if isinstance(error, EngineError):
        status = error.status if error.status in (400, 404, 409) else 500
        return Refused(status, error.message)
    if isinstance(error, Unreachable):
        return Refused(503, f"the container engine is not connected: {error}")
    return Refused(500, str(error))


def container_id(rest: str) -> str:
    """The container a path names. Raises Refused."""
    id_ = rest.strip("/")
    if not _is_id(id_):
        raise Refused(400, f"invalid container ID {id_!r}")
    return id_


def flag(request: web.BaseRequest, name: str, default: bool) -> bool:
    """A truth value of the query, as Go reads them. Raises Refused."""
    text = request.query.get(name)
    if not text:
        return default
    value = _BOOLEANS.get(text)
    if value is None:
        raise Refused(400, f"invalid value {text!r} for {name}")
    return value


def wants_socket(request: web.BaseRequest) -> bool:
    """Whether the client asks for a WebSocket, or for plain HTTP."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


class Socket:
    """A WebSocket that notices when the other side is gone."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._said_at = self._heard_at

    @property
    def response(self) -> web.WebSocketResponse:
        """What the handler returns."""
        return self._socket

    @property
    def protocol(self) -> str:
        """The subprotocol both sides agreed on."""
        return self._socket.ws_protocol or ""

    async def send(self, data: bytes) -> None:
        """Send a binary message; ConnectionError if it is not taken."""
        async with asyncio.timeout(WRITE_S):
            await self._socket.send_bytes(data)
        self._said_at = self._loop.time()

    async def listen(self, take: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        """Take messages until the other side is gone; without `take` they are ignored.

        While a message is being taken the next one waits, and then the sender does.
        """
        while True:
            message: WSMessage = await self._socket.receive()
            self._heard_at = self._loop.time()
            if message.type is WSMsgType.PING:
                await self._socket.pong(message.data)
            elif message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                if take is not None:
                    data = message.data
                    await take(data.encode() if isinstance(data, str) else data)
            elif message.type is not WSMsgType.PONG:
                return

    async def keep_alive(self) -> None:
        """Ping while nothing is said; returns when the other side has been silent too long."""
        while True:
            await asyncio.sleep(PING_S)
            now = self._loop.time()
            if now - self._heard_at > SILENCE_S:
                return
            if now - self._said_at >= PING_S:
                await self._socket.ping()

    async def close(self, *, is_failure: bool = False) -> None:
        """Say goodbye."""
        code = 1011 if is_failure else 1000
        await self._socket.close(code=code, message=GOODBYE)


@asynccontextmanager
async def opened(
    request: web.BaseRequest, *, protocols: tuple[str, ...] = (), max_message: int = _MAX_MESSAGE
) -> AsyncIterator[Socket]:
    """The socket of a client."""
    response = web.WebSocketResponse(
        autoping=False, protocols=protocols, max_msg_size=max_message, timeout=WRITE_S
    )
    await response.prepare(request)
    yield Socket(response)
