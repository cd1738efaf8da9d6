# SPDX-License-Identifier: Apache-2.0
"""Everything that relies on undocumented behaviour of aiohttp.

The listener writes responses to the transport itself and takes over
connections, which aiohttp's documented interface does not offer. This module
is the only one that subclasses aiohttp's server classes or calls their
undocumented methods; it uses no private attributes. Each function and class
has a test in tests/unit/apiserver/http that fails when aiohttp changes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import StreamWriter, WebSocketReader
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

log = logging.getLogger("rdd.apiserver.http.listener")


class ByteParser(Protocol):
    """Receives the bytes of an upgraded connection in place of a WebSocket parser."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Consume bytes; return (False, b"") to receive more."""
        ...

    def feed_eof(self) -> None:
        """Handle the end of the connection."""
        ...


class ServerConnection(RequestHandler):
    """A server connection that reports its loss (a watch reads nothing and would not notice)."""

    __slots__ = ("on_lost", "parser")

    def __init__(self, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self.on_lost: Callable[[], object] | None = None
        self.parser: WebSocketReader | None = None
        """The parser of an upgraded connection."""

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()

    def set_parser(self, parser: WebSocketReader, *args: Any, **options: Any) -> None:
        super().set_parser(parser, *args, **options)
        self.parser = parser

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """Log errors of the server; malformed requests and disconnects are debug messages."""
        error = kwargs.get("exc_info")
        if isinstance(error, ConnectionError | HttpProcessingError):
            log.debug(*args, **kwargs)
        else:
            super().log_exception(*args, **kwargs)


class ConnectionFactory(web.Server):
    """A web.Server whose connections are `ServerConnection`s."""

    def __init__(
        self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], **options: Any
    ) -> None:
        super().__init__(handler, **options)
        self._options = options

    def __call__(self) -> RequestHandler:
        return ServerConnection(self, loop=asyncio.get_running_loop(), **self._options)


class SentResponse(web.StreamResponse):
    """A response already on the wire; aiohttp only reads whether to keep the connection."""

    def __init__(self, status: int, *, keep_alive: bool) -> None:
        # Without super().__init__(): nothing of it is used, and it costs 2 µs per request.
        self._keep = keep_alive
        self._sent_status = status

    @property
    def keep_alive(self) -> bool | None:
        return self._keep

    @property
    def status(self) -> int:
        return self._sent_status

    @property
    def prepared(self) -> bool:
        return True

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


def connection_of(request: web.BaseRequest) -> ServerConnection:
    """Return the connection of a request that `ConnectionFactory` serves."""
    connection = request.protocol
    assert isinstance(connection, ServerConnection)
    return connection


def has_started(request: web.BaseRequest) -> bool:
    """Return whether aiohttp has sent a part of the response or upgraded the connection."""
    return bool(request.writer.output_size) or connection_of(request).parser is not None


def is_websocket(request: web.BaseRequest) -> bool:
    """Return whether aiohttp has upgraded the connection to a WebSocket."""
    return isinstance(connection_of(request).parser, WebSocketReader)


async def drain(protocol: BaseProtocol) -> None:
    """Wait while the send buffer is above its limit; raise ConnectionResetError if it is lost."""
    if protocol.writing_paused:
        await StreamWriter(protocol, asyncio.get_running_loop()).drain()
    if protocol.transport is None:
        raise ConnectionResetError("the connection is lost")


def upgrade_server_side(request: web.BaseRequest, parser: ByteParser) -> None:
    """Pass all further bytes of the client to a parser."""
    request.protocol.set_parser(parser)  # type: ignore[arg-type]  # duck-typed


def upgrade_client_side(protocol: ResponseHandler, parser: ByteParser) -> None:
    """Pass all further bytes of the backend to a parser."""
    protocol.set_parser(parser, None)
