# SPDX-License-Identifier: Apache-2.0
"""The HTTP(S) listener.

aiohttp parses requests and manages connections; its router and middleware are
not used. A complete response is written as one bytes object, head and body,
because for small objects most of the cost of a response is building it.
Watches write chunks directly to the transport: its send buffer is the queue of
the watcher, and its size shows which clients are too slow.
"""

import asyncio
import email.utils
import logging
import socket
import ssl
import time
from http import HTTPStatus
from typing import Protocol

from aiohttp import web
from aiohttp.base_protocol import BaseProtocol

from rdd.api import errors, names
from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.http import aiohttp_internals, compression, responses
from rdd.apiserver.http.aiohttp_internals import ConnectionFactory, SentResponse
from rdd.apiserver.http.limits import MAX_BODY_BYTES
from rdd.apiserver.http.request import AnyResponse, Hijack, Request, Response, Stream, parse_query
from rdd.apiserver.state.watchers import MAX_BEHIND_BYTES

log = logging.getLogger("rdd.apiserver.http.listener")

_PHRASES = {s.value: s.phrase for s in HTTPStatus}
WRITE_TIMEOUT_S = 60.0
"""A client that reads nothing for this long is disconnected: its response occupies memory."""
_GOING_AWAY = b"\x88\x02\x03\xe9"
"""A WebSocket close frame with code 1001."""
_NO_CACHE = "Cache-Control: no-cache, private\r\n"


class _Date:
    """The Date header, formatted once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._text = ""

    def __call__(self) -> str:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._text = email.utils.formatdate(now, usegmt=True)
        return self._text


_date = _Date()


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

    def __init__(self, api: RequestApi) -> None:
        self.api = api
        self._server = ConnectionFactory(
            self._handle,
            access_log=None,
            keepalive_timeout=180,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
            logger=log,
        )
        self._listeners: list[asyncio.Server] = []
        self._streams: set[_Writer] = set()
        self._hijacked: set[asyncio.Future[web.StreamResponse]] = set()
        self._closing = False

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._server.connections)

    async def listen(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Serve on a bound socket."""
        loop = asyncio.get_running_loop()
        self._listeners.append(
            await loop.create_server(self._server, sock=sock, ssl=tls, backlog=512)
        )

    async def close(self, *, timeout_s: float = 5.0) -> None:
        """Stop accepting, end watches, drain other requests, then close all connections."""
        self._closing = True
        for listener in self._listeners:
            listener.close()
        for writer in self._streams:
            writer.end()
        for task in self._hijacked:
            task.cancel()
        self._server.pre_shutdown()
        transports = [connection.transport for connection in self._server.connections]
        await self._server.shutdown(timeout_s)
        # A TLS connection waits for the client's close_notify, which some clients never send.
        for transport in transports:
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        started = time.perf_counter()
        transport = http.transport
        if transport is None:
            raise ConnectionResetError
        path, _, query = http.raw_path.partition("?")
        peer = transport.get_extra_info("ssl_object")
        certificate = peer.getpeercert(True) if peer is not None else None
        request = Request(
            http.method,
            path,
            query=parse_query(query),
            headers=http.headers,
            peer_certificate=certificate,
        )
        try:
            if http.body_exists and not path.startswith(names.PASSTHROUGH_PREFIX):
                request.body = await _read_body(http)
        except errors.ApiError as failure:
            answer: AnyResponse = responses.error(request, failure)
        else:
            answer = await self.api.handle(request)
        info = request.info
        response = await self._send(http, request, answer)
        self.api.metrics.observe(
            info.verb, info.group, info.resource, response.status, time.perf_counter() - started
        )
        return response

    async def _send(
        self, http: web.BaseRequest, request: Request, answer: AnyResponse
    ) -> web.StreamResponse:
        transport = http.transport
        if transport is None:
            raise ConnectionResetError
        keep = http.keep_alive and not self._closing
        if isinstance(answer, Response):
            compress = compression.should_compress(request, answer)
            if compress:
                answer.body = await compression.compress(answer.body)
            body = b"" if http.method == "HEAD" else answer.body
            head = _head(answer, length=len(answer.body), keep=keep, gzipped=compress)
            transport.write(head + body)
            await _drain(http.protocol)
            return SentResponse(answer.status, keep_alive=keep)
        if isinstance(answer, Hijack):
            return await self._hijack(http, request, answer)
        compress = compression.should_compress(request, answer)
        return await self._stream(http, request, answer, keep=keep, compress=compress)

    async def _hijack(
        self, http: web.BaseRequest, request: Request, answer: Hijack
    ) -> web.StreamResponse:
        """Run the handler of a hijacked connection; cancel it when client or server disconnects."""
        connection = aiohttp_internals.connection_of(http)
        task = asyncio.ensure_future(answer.serve(http))
        connection.on_lost = task.cancel
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
        except (web.HTTPException, ConnectionError):
            raise
        except errors.ApiError as error:
            failure = error
        except Exception:
            log.exception("request failed: %s %s", request.method, request.path)
            failure = errors.InternalError.because("the request caused an error in the server")
        finally:
            connection.on_lost = None
            self._hijacked.discard(task)
        return await self._fail_hijacked(http, request, failure)

    async def _fail_hijacked(
        self, http: web.BaseRequest, request: Request, failure: errors.ApiError
    ) -> web.StreamResponse:
        """End a failed hijacked request by an error, a close frame or a broken connection."""
        transport = http.transport
        if transport is None:
            raise ConnectionResetError
        if not aiohttp_internals.has_started(http):
            return await self._send(http, request, responses.error(request, failure))
        if aiohttp_internals.is_websocket(http):
            transport.write(_GOING_AWAY)
            transport.close()
        else:
            transport.abort()  # a client recognises a response without its end as incomplete
        return SentResponse(failure.code, keep_alive=False)

    async def _stream(
        self,
        http: web.BaseRequest,
        request: Request,
        answer: Stream,
        *,
        keep: bool,
        compress: bool,
    ) -> web.StreamResponse:
        transport = http.transport
        if transport is None:
            raise ConnectionResetError
        length = None if compress else answer.length
        transport.write(_head(answer, length=length, keep=keep, gzipped=compress))
        writer = _Writer(http, chunked=length is None)
        self._streams.add(writer)
        try:
            if compress:
                await compression.stream(answer.produce, writer)
            else:
                await answer.produce(writer)
        except (ConnectionError, asyncio.CancelledError):
            keep = False
            if not transport.is_closing():
                transport.close()
            raise
        except Exception:
            # The head has been sent: only a broken connection can signal the failure.
            log.exception("stream failed: %s %s", request.method, request.path)
            transport.abort()
            return SentResponse(answer.status, keep_alive=False)
        finally:
            self._streams.discard(writer)
        writer.finish()
        return SentResponse(answer.status, keep_alive=keep)


async def _read_body(http: web.BaseRequest) -> bytes:
    length = http.content_length
    if length is not None and length > MAX_BODY_BYTES:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    async for part in http.content.iter_any():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large() -> errors.RequestEntityTooLarge:
    return errors.RequestEntityTooLarge(
        f"Request entity too large: limit is {MAX_BODY_BYTES}", details={}
    )


def _head(answer: Response | Stream, *, length: int | None, keep: bool, gzipped: bool) -> bytes:
    extra = ""
    if answer.headers:
        extra = "".join(f"{name}: {_clean(value)}\r\n" for name, value in answer.headers)
    size = "Transfer-Encoding: chunked\r\n" if length is None else f"Content-Length: {length}\r\n"
    return (
        f"HTTP/1.1 {answer.status} {_PHRASES.get(answer.status, '')}\r\n"
        f"{_NO_CACHE}Content-Type: {answer.content_type}\r\n"
        f"{extra}{'Content-Encoding: gzip' + chr(13) + chr(10) if gzipped else ''}"
        f"Date: {_date()}\r\n{size}{'' if keep else 'Connection: close' + chr(13) + chr(10)}\r\n"
    ).encode("utf-8", "replace")


def _clean(value: str) -> str:
    """Remove line breaks from a header value: client input must not start a new header."""
    return value.replace("\r", " ").replace("\n", " ")


async def _drain(protocol: BaseProtocol) -> None:
    """Wait until the client has read enough; disconnect a client that reads nothing."""
    if not protocol.writing_paused:
        return
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await aiohttp_internals.drain(protocol)
    except TimeoutError:
        if protocol.transport is not None:
            protocol.transport.abort()
        raise ConnectionResetError("the client does not read the response") from None


class _Writer:
    """Writes a streamed body to the transport of a request."""

    def __init__(self, http: web.BaseRequest, *, chunked: bool) -> None:
        transport = http.transport
        assert transport is not None
        self._transport = transport
        self._protocol = aiohttp_internals.connection_of(http)
        self._chunked = chunked
        self._closed = asyncio.Event()

    def _frame(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data

    async def write(self, data: bytes) -> None:
        """Send and wait until the client has read enough."""
        if self._transport.is_closing():
            raise ConnectionResetError("the client has disconnected")
        if data:
            self._transport.write(self._frame(data))
        await _drain(self._protocol)

    def push(self, data: bytes) -> bool:
        """Send without waiting; return False if the client is too slow or disconnected."""
        transport = self._transport
        if transport.is_closing():
            return False
        if data:
            transport.write(self._frame(data))
        return transport.get_write_buffer_size() <= MAX_BEHIND_BYTES

    async def closed(self) -> None:
        """Return when the client closes the connection."""
        if self._transport.is_closing():
            return
        self._protocol.on_lost = self._closed.set
        try:
            await self._closed.wait()
        finally:
            self._protocol.on_lost = None

    def end(self) -> None:
        """Make `closed` return: the server stops."""
        self._closed.set()

    def finish(self) -> None:
        """End the body."""
        if self._chunked and not self._transport.is_closing():
            self._transport.write(b"0\r\n\r\n")
