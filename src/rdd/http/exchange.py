# SPDX-License-Identifier: Apache-2.0
"""One request and its response, whatever the version of HTTP.

A handler is called when the head of a request is complete. It may read the body, and answers
in one of three ways:

    exchange.send(200, headers, b"…")           a complete response, in one write
    exchange.start(200, headers); write(…)      a stream; `drain` waits for the client
    exchange.upgrade(headers)                   the bytes of the connection (WebSocket)

`write` never waits: `buffered_bytes` is the queue of a client that does not read. A response
that cannot be completed is aborted, which every client recognises as incomplete.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs

from rdd.http.body import Body
from rdd.http.headers import HeaderList, Headers

if TYPE_CHECKING:
    from rdd.http.websocket import WebSocket

WRITE_TIMEOUT_S = 60.0
"""A client that reads nothing for this long loses its response, which occupies memory."""

Query = dict[str, list[str]]


def parse_query(text: str) -> Query:
    """Parse a query string into name → values; empty values are kept, as in Kubernetes."""
    if not text:
        return {}
    if "%" not in text and "+" not in text and "&" not in text:
        # A single parameter is common, and this takes a tenth of the time.
        name, _, value = text.partition("=")
        return {name: [value]}
    return parse_qs(text, keep_blank_values=True)  # bounded by the limit of a head


class UpgradeUnsupported(Exception):
    """The connection of an exchange cannot change its protocol."""


class ByteStream(Protocol):
    """Both directions of an upgraded exchange."""

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes without waiting."""
        ...

    async def drain(self) -> None:
        """Wait until the peer can receive more. Raises ConnectionError."""
        ...

    def close(self) -> None:
        """Close after the sent bytes are flushed."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class Exchange(ABC):
    """One request and its response."""

    __slots__ = (
        "_query", "body", "common_headers", "has_ended", "has_started", "headers", "method",
        "on_lost", "peer_certificate", "remote", "status", "target", "websocket",
    )  # fmt: skip

    version: str
    """`1.1` or `2`."""

    def __init__(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: Body,
        *,
        remote: str = "",
        peer_certificate: bytes | None = None,
    ) -> None:
        self.method = method
        self.target = target
        """Path and query as they were sent."""
        self.headers = headers
        self.body = body
        self.remote = remote
        """The address of the client."""
        self.peer_certificate = peer_certificate
        """DER of the client certificate, verified by TLS."""
        self.status = 0
        """The status of the response, once it has started."""
        self.has_started = False
        self.has_ended = False
        self.on_lost: Callable[[], object] | None = None
        """Called once when the client disconnects or cancels the request."""
        self.websocket: WebSocket | None = None
        self.common_headers: HeaderList | None = None
        """Added to every response, whichever handler gives it."""
        self._query: Query | None = None

    # -- the request

    @property
    def connection_key(self) -> int:
        """A number that all exchanges of one connection share while they run."""
        return id(self)

    @property
    def path(self) -> str:
        """The path, not decoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> Query:
        """The parameters."""
        if self._query is None:
            self._query = parse_query(self.target.partition("?")[2])
        return self._query

    def redirect(self, target: str, headers: Headers) -> None:
        """Replace path, query and headers before the request is passed to another handler."""
        self.target = target
        self.headers = headers
        self._query = None

    def first(self, name: str) -> str:
        """Return the first value of a parameter, or an empty string."""
        values = self.query.get(name)
        return values[0] if values else ""

    # -- the response

    @property
    @abstractmethod
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""

    @property
    @abstractmethod
    def is_blocked(self) -> bool:
        """Whether the client has not read enough to be sent more."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """The bytes that wait for this client."""

    @abstractmethod
    def send(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        """Send a complete response. The Content-Length is added."""

    @abstractmethod
    def start(
        self, status: int, headers: HeaderList, *, length: int | None = None, flush: bool = True
    ) -> None:
        """Send the head of a response; without `flush` together with the first bytes."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send a part of the body without waiting."""

    def push(self, data: bytes) -> int:
        """Send a part of the body; return what waits for this client, -1 if it is gone."""
        if self.is_closing:
            return -1
        self.write(data)
        return self.buffered_bytes

    @abstractmethod
    def finish(self) -> None:
        """End the body."""

    @abstractmethod
    def abort(self) -> None:
        """Break the response off; the client sees that it is incomplete."""

    @abstractmethod
    async def drained(self) -> None:
        """Return when the client has read enough. Raises ConnectionError when it is lost."""

    @abstractmethod
    def upgrade(self, headers: HeaderList) -> ByteStream:
        """Confirm a change of protocol. Raises UpgradeUnsupported."""

    async def drain(self) -> None:
        """Wait until the client has read enough; disconnect a client that reads nothing."""
        if not self.is_blocked:
            if self.is_closing:
                raise ConnectionResetError("the client has disconnected")
            return
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self.drained()
        except TimeoutError:
            self.abort()
            raise ConnectionResetError("the client does not read the response") from None


Handler = Callable[[Exchange], Awaitable[None]]
"""Answers an exchange. What it leaves unanswered becomes an error or is aborted."""
