# SPDX-License-Identifier: Apache-2.0
"""The API on sockets.

Turns exchanges of `rdd.http` into requests of the API and its answers into responses. The
body of a request is read only when the API has authorised it. Watches write to the exchange
without waiting: what is buffered there is the queue of the watcher, and its size shows which
clients are too slow.
"""

import asyncio
import logging
import re
import socket
import ssl
import time
from typing import Protocol

from rdd.api import errors, names
from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.http import compression, request_bodies, responses
from rdd.apiserver.http.body_account import BodyAccount
from rdd.apiserver.http.request import AnyResponse, Hijack, Request, Response, Stream, User
from rdd.apiserver.state.watchers import MAX_BEHIND_BYTES
from rdd.http import websocket
from rdd.http.exchange import Exchange, parse_query
from rdd.http.headers import HeaderList
from rdd.http.hosts import MISDIRECTED, HostRules
from rdd.http.limits import WireLimits
from rdd.http.server import Server

log = logging.getLogger("rdd.apiserver.http.listener")

_NO_CACHE = ("Cache-Control", "no-cache, private")
_GZIPPED = ("Content-Encoding", "gzip")
_is_bad_escape = re.compile("%(?![0-9A-Fa-f]{2})").search
_MALFORMED = Response.text("400 Bad Request", status=400)  # the text of Go's HTTP server

WHOLE_BYTES = 2 * 1024 * 1024
"""Larger responses are encrypted and sent piece by piece: other clients get their turn between."""
PIECE_BYTES = 256 * 1024
TURN_S = 0.002
"""How long a stream that is read as fast as it is written runs before others get their turn."""


class RequestApi(Protocol):
    """The served API: an ApiServer, or a wrapper of one."""

    @property
    def metrics(self) -> ServerMetrics:
        """The counters of requests."""
        ...

    async def handle(self, request: Request) -> AnyResponse:
        """Respond to a request."""
        ...


class HttpServer:
    """Serves an API on sockets."""

    def __init__(
        self,
        api: RequestApi,
        *,
        http2: bool = True,
        hosts: HostRules | None = None,
        limits: WireLimits | None = None,
    ) -> None:
        """Serve an API; `hosts` are the names it may be addressed by, loopback names by default."""
        self.api = api
        self._hosts = hosts or HostRules()
        self._server = Server(self._handle, http2=http2, limits=limits)
        self.bodies = BodyAccount()
        self._streams: set[_Writer] = set()
        self._hijacked: set[asyncio.Future[None]] = set()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._server.connections)

    @property
    def buffered_bytes(self) -> int:
        """The bytes that wait for clients."""
        return sum(connection.buffered_bytes for connection in self._server.connections)

    async def listen(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Serve on a bound socket."""
        await self._server.listen(sock, tls)

    async def close(self, *, timeout_s: float = 5.0) -> None:
        """Stop accepting, end watches, drain other requests, then close all connections."""
        for writer in self._streams:
            writer.end()
        for task in self._hijacked:
            task.cancel()
        await self._server.close(timeout_s=timeout_s)

    async def _handle(self, exchange: Exchange) -> None:
        await self.serve(exchange)

    async def serve(self, exchange: Exchange, *, user: User | None = None) -> None:
        """Answer an exchange; a caller in this process may have authenticated its user."""
        started = time.perf_counter()
        path, _, query = exchange.target.partition("?")
        if "%" in path and _is_bad_escape(path):
            _MALFORMED.send(exchange)
            return
        request = Request(
            exchange.method,
            path,
            query=parse_query(query),
            headers=exchange.headers,
            user=user,
            peer_certificate=exchange.peer_certificate,
        )
        if exchange.body.exists and not path.startswith(names.PASSTHROUGH_PREFIX):
            request.load_body = request_bodies.loader(exchange, request, self.bodies)
        # A caller in this process has checked where the request came from.
        refusal = self._refusal(exchange) if user is None else None
        if refusal is None:
            answer = await self.api.handle(request)
        else:
            answer = responses.error(request, refusal)
        info = request.info
        await self._send(exchange, request, answer)
        self.api.metrics.observe(
            info.verb, info.group, info.resource, exchange.status, time.perf_counter() - started
        )

    def _refusal(self, exchange: Exchange) -> errors.ApiError | None:
        """Return why a request of a browser is refused before it is authenticated."""
        headers = exchange.headers
        host, hosts = headers.get("Host"), self._hosts
        is_known = host in hosts.accepted  # nearly always
        if not is_known and not hosts.accepts(host if "Host" in headers else None):
            return errors.ApiError(
                f"this server is not {host[:256]!r}; it is addressed as localhost or by a "
                "name given with --allowed-hosts",
                code=MISDIRECTED,
                reason="MisdirectedRequest",
            )
        origin = headers.get("Origin")
        if not origin or not websocket.is_requested(exchange):
            return None
        if hosts.accepts_origin(origin, host):
            return None
        return errors.ApiError(
            f"pages of {origin[:256]!r} may not open WebSockets here; "
            "--allowed-origins allows them",
            code=403,
            reason="Forbidden",
        )

    async def _send(self, exchange: Exchange, request: Request, answer: AnyResponse) -> None:
        if isinstance(answer, Response):
            compress = compression.should_compress(request, answer)
            if compress:
                answer.body = await compression.compress(answer.body)
            headers = _headers(answer, gzipped=compress)
            if len(answer.body) > WHOLE_BYTES:
                await _send_in_pieces(exchange, answer.status, headers, answer.body)
                return
            exchange.send(answer.status, headers, answer.body)
            await exchange.drain()
        elif isinstance(answer, Hijack):
            await self._hijack(exchange, request, answer)
        else:
            await self._stream(exchange, request, answer)

    async def _hijack(self, exchange: Exchange, request: Request, answer: Hijack) -> None:
        """Run the handler of a hijacked exchange; cancel it when client or server disconnects."""
        if exchange.is_closing:
            raise ConnectionResetError("the client has disconnected")
        task = asyncio.ensure_future(answer.serve(exchange))
        exchange.on_lost = task.cancel
        self._hijacked.add(task)
        failure: errors.ApiError
        try:
            await asyncio.wait({task})
            return task.result()
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            failure = errors.ServiceUnavailable("the request was ended by the server")
        except ConnectionError:
            raise
        except errors.ApiError as error:
            failure = error
        except Exception:
            log.exception("request failed: %s %s", request.method, request.path)
            failure = errors.InternalError.because("the request caused an error in the server")
        finally:
            exchange.on_lost = None
            self._hijacked.discard(task)
        if not exchange.has_started:
            await self._send(exchange, request, responses.error(request, failure))
        elif exchange.websocket is not None:
            exchange.websocket.go_away()
        else:
            exchange.abort()  # a client recognises a response without its end as incomplete

    async def _stream(self, exchange: Exchange, request: Request, answer: Stream) -> None:
        compress = compression.should_compress(request, answer)
        length = None if compress else answer.length
        exchange.start(
            answer.status,
            _headers(answer, gzipped=compress),
            length=length,
            # A watch may have nothing to send for minutes; its client waits for the head.
            flush=answer.length is None,
        )
        writer = _Writer(exchange)
        self._streams.add(writer)
        try:
            if compress:
                await compression.stream(answer.produce, writer)
            else:
                await answer.produce(writer)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            # The head has been sent: only a broken response can signal the failure.
            log.exception("stream failed: %s %s", request.method, request.path)
            exchange.abort()
            return
        finally:
            self._streams.discard(writer)
        exchange.finish()


async def _send_in_pieces(
    exchange: Exchange, status: int, headers: HeaderList, body: bytes
) -> None:
    exchange.start(status, headers, length=len(body), flush=False)
    for at in range(0, len(body), PIECE_BYTES):
        exchange.write(body[at : at + PIECE_BYTES])
        await exchange.drain()
        await asyncio.sleep(0)  # `drain` returns at once while the client keeps up
    exchange.finish()


def _headers(answer: Response | Stream, *, gzipped: bool) -> HeaderList:
    headers = [_NO_CACHE]
    if answer.content_type:
        headers.append(("Content-Type", answer.content_type))
    if answer.headers:
        headers += answer.headers
    if gzipped:
        headers.append(_GZIPPED)
    return headers


class _Writer:
    """Writes a streamed body to an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._resumed = 0.0

    async def write(self, data: bytes) -> None:
        """Send and wait until the client has read enough."""
        if self._exchange.is_closing:
            raise ConnectionResetError("the client has disconnected")
        self._exchange.write(data)
        await self._exchange.drain()
        # `drain` returns at once while the client keeps up, for a gigabyte if need be.
        now = self._loop.time()
        if now - self._resumed > TURN_S:
            await asyncio.sleep(0)
            self._resumed = self._loop.time()

    def push(self, data: bytes) -> bool:
        """Send without waiting; return False if the client is too slow or disconnected."""
        return 0 <= self._exchange.push(data) <= MAX_BEHIND_BYTES

    async def closed(self) -> None:
        """Return when the client closes the connection."""
        if self._exchange.is_closing:
            return
        self._exchange.on_lost = self._closed.set
        try:
            await self._closed.wait()
        finally:
            self._exchange.on_lost = None

    def end(self) -> None:
        """Make `closed` return: the server stops."""
        self._closed.set()
