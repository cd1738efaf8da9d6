# SPDX-License-Identifier: Apache-2.0
"""A connection of HTTP/1.1.

Requests of one connection run one after the other; pipelined ones wait, and while they do the
connection is not read. A timer exists only while a client owes something: the rest of a head,
or, on an idle connection, the next request.

A response to a request whose body is not wanted ends the connection, unless the rest is small
enough to be dropped. Such a connection stays open for a moment and drops what arrives: closing
it at once would reset it, and the client could lose the response.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

from httptools import (
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from rdd.http.body import EMPTY, MAX_UNREAD_BYTES, Body, BodyIncomplete
from rdd.http.h1 import heads
from rdd.http.h1.exchange import Http1Exchange
from rdd.http.h1.heads import BadRequest
from rdd.http.h1.known_blocks import KnownBlocks
from rdd.http.h1.upgraded import UpgradedConnection
from rdd.http.headers import HeaderList, Headers
from rdd.http.responses import TEXT, failure_text

if TYPE_CHECKING:
    from rdd.http.server import Server

log = logging.getLogger("rdd.http")

MAX_DISCARDED_BYTES = 256 * 1024
"""The largest rest of an unwanted body that is dropped to keep the connection (as in Go)."""
LINGER_S = 2.0
MAX_TRAILER_BYTES = 16 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_PREFACE_METHOD = b"PRI"


class Http1Connection(asyncio.Protocol):
    """The protocol of one connection."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = HttpRequestParser(self)
        self.remote = ""
        self.peer_certificate: bytes | None = None
        self.is_writing_paused = False
        self.is_http_1_0 = False
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._current: Http1Exchange | None = None
        self._waiting: deque[Http1Exchange] = deque()
        self._upgraded: UpgradedConnection | None = None
        self._is_reading_paused = False
        self._is_undecided = False
        self._is_lingering = False
        self._is_draining = False
        self._failure: BadRequest | None = None
        self._idle_since = 0.0
        # The request that is being parsed.
        self._known = KnownBlocks()
        self._has_requests = False
        self._prefix = b""
        self._method = b""
        self._target = b""
        self._headers: HeaderList = []
        self._head_bytes = 0
        self._overhead = 0
        self._body: Body | None = None
        self._is_in_head = False

    # -- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.remote, self.peer_certificate = self._server.peer_of(self._transport)
        self._server.connections[self] = None
        self._wait_for_request()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.connections.pop(self, None)
        self._cancel_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._waiting.clear()
        if self._body is not None:
            self._body.fail(BodyIncomplete("the client has disconnected"))
        if self._upgraded is not None:
            self._upgraded.feed_eof()
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_exception(ConnectionResetError("the client has disconnected"))
                waiter.exception()  # the waiting task may be cancelled
        self._drain_waiters.clear()
        if self._current is not None and self._current.on_lost is not None:
            self._current.on_lost()
        # The parser refers to our methods: a cycle, which only the garbage collector could free.
        del self._parser

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.is_writing_paused = True

    def resume_writing(self) -> None:
        self.is_writing_paused = False
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._drain_waiters.clear()

    async def drained(self) -> None:
        """Return when more can be written. Raises ConnectionResetError."""
        while self.is_writing_paused and not self._transport.is_closing():
            waiter = self._loop.create_future()
            self._drain_waiters.append(waiter)
            await waiter
        if self._transport.is_closing():
            raise ConnectionResetError("the client has disconnected")

    def data_received(self, data: bytes) -> None:
        if self._upgraded is not None:
            self._upgraded.feed(data)
            return
        if self._is_lingering or self._failure is not None:
            return
        if self._is_undecided:
            self._prefix += data
            if len(self._prefix) > MAX_UNREAD_BYTES:
                self._pause_reading()
            return
        if self._known.blocks and self._run_repeated(data):
            return
        try:
            self._parse(data)
        except BadRequest as error:
            self._fail(error)

    # -- parsing

    def _run_repeated(self, data: bytes) -> bool:
        """Run a request whose header lines are known; return False if it must be parsed."""
        if self._current is not None or self._is_in_head or self._body is not None or self._prefix:
            return False
        found = self._known.find(data)
        if found is None:
            return False
        method, target, headers, body = found
        self.is_http_1_0 = False
        self._run(
            Http1Exchange(
                self,
                self._transport,
                method,
                target,
                headers,
                Body.of(body),
                keep=True,
                is_upgrade=False,
            )
        )
        return True

    def _parse(self, data: bytes) -> None:
        body = self._body
        is_new = False
        if body is None:
            if not self._is_in_head:
                data = self._replace_method(data)
                if not data:
                    return
                is_new = self._current is None
            self._head_bytes += len(data)
        else:
            self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._after_upgrade(data[upgrade.args[0] :])
            return
        except HttpParserInvalidMethodError:
            raise BadRequest(400, "malformed request") from None
        except HttpParserError as error:
            inner = error.__context__
            if isinstance(inner, BadRequest):
                raise inner from None
            raise BadRequest(400, f"malformed request: {error}") from None
        if self._is_in_head and self._head_bytes > self._server.limits.head_bytes:
            raise BadRequest(431, "the head of the request is too large")
        if self._is_in_head and self._timer is None:
            self._wait_for_head()
        body = self._body
        if body is not None:
            if self._overhead > body.received * 16 + MAX_TRAILER_BYTES:
                raise BadRequest(400, "the body has too much framing")
            if body.unread_bytes > MAX_UNREAD_BYTES:
                self._pause_reading()
        if self._waiting:
            self._pause_reading()
        elif is_new and self._body is None and not self._is_in_head:
            exchange = self._current
            if exchange is not None and exchange.is_repeatable:
                self._known.remember(data, exchange.headers)

    def _replace_method(self, data: bytes) -> bytes:
        """Return data with a method that the parser reads; empty if more is needed."""
        data = (self._prefix + data).lstrip(b"\r\n")
        self._prefix = b""
        space = data.find(b" ", 0, heads.MAX_METHOD_BYTES + 1)
        if space < 0:
            if len(data) > heads.MAX_METHOD_BYTES or b"\n" in data:
                raise BadRequest(400, "malformed request")
            self._prefix = data
            if data:
                self._wait_for_head()
            return b""
        method = data[:space]
        if method in heads.PARSED_METHODS:
            return data
        if method == _PREFACE_METHOD and self._server.http2 and not self._has_requests:
            self._switch_to_http2(data)
            return b""
        self._method = heads.check_method(method)
        return b"POST" + data[space:]

    def _switch_to_http2(self, data: bytes) -> None:
        self._server.connections.pop(self, None)
        self._cancel_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._server.start_http2(self._transport, data)

    def on_message_begin(self) -> None:
        self._is_in_head = self._has_requests = True
        self._target = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._body is not None:
            return  # a trailer
        headers = self._headers
        headers.append((name.decode("ascii"), value.decode("utf-8", "surrogateescape")))
        if len(headers) > self._server.limits.headers:
            raise BadRequest(431, "the request has too many headers")

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        received, self._head_bytes = self._head_bytes, 0
        size = len(self._target) + sum([len(n) + len(v) + 4 for n, v in self._headers])
        if size > self._server.limits.head_bytes:
            raise BadRequest(431, "the head of the request is too large")
        self._overhead = received - size  # what follows the head in the same piece
        if self._timer is not None:
            self._cancel_timer()
        parser = self._parser
        headers = Headers(self._headers)
        version = parser.get_http_version()
        is_upgrade = parser.should_upgrade()
        length = heads.check(version, headers, is_upgrade=is_upgrade)
        self.is_http_1_0 = version == "1.0"
        method, self._method = self._method or parser.get_method(), b""
        target = self._target.decode("ascii", "surrogateescape")
        if not target.startswith("/"):
            host, target = heads.split_absolute(target)
            if host:
                headers = Headers([("Host", host), *headers.without({"host"}).pairs])
        body = self._body = EMPTY if length == 0 else Body(length=length)
        if length != 0:
            body.on_consumed = self._resume_reading
            if headers.get("Expect").lower() == "100-continue":
                body.on_wanted = self._send_continue
        exchange = Http1Exchange(
            self,
            self._transport,
            method.decode("ascii"),
            target,
            headers,
            body,
            keep=parser.should_keep_alive(),
            is_upgrade=is_upgrade,
        )
        if self._current is None:
            self._run(exchange)
        else:
            self._waiting.append(exchange)

    def on_body(self, data: bytes) -> None:
        body = self._body
        assert body is not None
        body.feed(data)

    def on_message_complete(self) -> None:
        body, self._body = self._body, None
        assert body is not None
        if not body.is_complete:
            body.complete()
        if self._current is None and not self._waiting:
            self._wait_for_request()

    def _after_upgrade(self, rest: bytes) -> None:
        """Continue after the head of an upgrade; whether it is accepted is not decided yet."""
        exchange = self._waiting[-1] if self._waiting else self._current
        assert exchange is not None
        if exchange.headers.get("Upgrade").lower() == "websocket":
            # What follows is parsed only if the upgrade is refused.
            self._prefix = rest
            self._is_undecided = True
        else:
            exchange.is_upgrade = False
            if rest:
                self._parse(rest)

    def _send_continue(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_CONTINUE)

    # -- exchanges

    def _run(self, exchange: Http1Exchange) -> None:
        self._current = exchange
        self._server.run(exchange, self._ended)

    def can_keep(self, exchange: Http1Exchange) -> bool:
        """Return whether the connection can serve another request after a response."""
        if self._is_draining or (self._failure is not None and not self._waiting):
            return False
        body = exchange.body
        if body.is_complete:
            return True
        if body.failure is not None:
            return False
        return body.length is not None and body.length - body.received <= MAX_DISCARDED_BYTES

    def take_over(self) -> UpgradedConnection:
        """Return the connection's bytes from now on."""
        self._cancel_timer()
        upgraded = self._upgraded = UpgradedConnection(self, self._transport)
        if self._prefix:
            upgraded.feed(self._prefix)
            self._prefix = b""
        self._resume_reading()
        return upgraded

    def _ended(self, exchange: Http1Exchange) -> None:
        """Continue after an exchange."""
        self._current = None
        transport = self._transport
        if transport.is_closing():
            return
        if not exchange.has_ended:
            transport.abort()
        elif exchange.status == 101:
            transport.close()
        elif self._is_draining:
            self._is_lingering = True  # the server closes the connection once it is flushed
        elif not exchange.keep:
            self._close_after(exchange.body)
        else:
            if not exchange.body.is_complete:
                exchange.body.discard()
                self._resume_reading()
            if self._waiting:
                self._run(self._waiting.popleft())
                return
            if self._failure is not None:
                self._fail(self._failure)
                return
            self._resume_reading()
            if self._is_undecided:  # the upgrade was refused
                self._is_undecided = False
                rest, self._prefix = self._prefix, b""
                self.data_received(rest)
            if self._current is None:
                if self._is_in_head:
                    self._wait_for_head()
                else:
                    self._wait_for_request()

    def _close_after(self, body: Body) -> None:
        self._waiting.clear()
        if body.is_complete:
            self._transport.close()
        else:
            self._linger(body)

    def _linger(self, body: Body | None) -> None:
        self._is_lingering = True
        if body is not None:
            body.discard()
        self._resume_reading()
        self._cancel_timer()
        self._timer = self._loop.call_later(LINGER_S, self._transport.close)

    def _fail(self, error: BadRequest) -> None:
        """Reject malformed input, after the responses to what came before it."""
        log.debug("malformed request: %s", error)
        if self._body is not None:
            self._body.fail(BodyIncomplete(str(error)))
            self._body = None
        if self._current is not None:
            self._failure = error
            return
        if self._transport.is_closing():
            return
        text = failure_text(error.status, str(error))
        headers = [("Content-Type", TEXT)]
        size = f"Content-Length: {len(text)}\r\n"
        self._transport.write(heads.render(error.status, headers, size=size, keep=False) + text)
        self._linger(None)

    # -- draining

    def shutdown(self) -> None:
        """Close now if idle, otherwise after the current response."""
        self._is_draining = True
        if self._current is None:
            self._transport.close()
        elif not self._current.has_started:
            self._current.keep = False

    def abort(self) -> None:
        """Close at once, unless a response is still being flushed."""
        self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request runs."""
        return self._current is None and self._upgraded is None

    @property
    def buffered_bytes(self) -> int:
        """The bytes that wait for the client."""
        # The transport of a closed TLS connection has no buffer any more.
        return 0 if self._transport.is_closing() else self._transport.get_write_buffer_size()

    # -- reading and time

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self, _: int = 0) -> None:
        if self._is_reading_paused and not self._waiting and not self._transport.is_closing():
            self._is_reading_paused = False
            self._transport.resume_reading()

    def _wait_for_request(self) -> None:
        """Close the connection if it stays idle; the timer is shared by many requests."""
        self._idle_since = self._loop.time()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(self._server.limits.idle_s, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_timer = None
        if self._current is not None or self._is_in_head or self._upgraded is not None:
            return
        left = self._idle_since + self._server.limits.idle_s - self._loop.time()
        if left <= 0:
            self._transport.close()
        else:
            self._idle_timer = self._loop.call_later(left, self._check_idle)

    def _wait_for_head(self) -> None:
        if self._current is None:
            self._cancel_timer()
            self._timer = self._loop.call_later(self._server.limits.head_s, self._head_timeout)

    def _head_timeout(self) -> None:
        self._timer = None
        if self._current is None and not self._is_lingering:
            self._fail(BadRequest(408, "the head of the request did not arrive in time"))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
