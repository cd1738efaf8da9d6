# SPDX-License-Identifier: Apache-2.0
"""A reverse proxy for passthrough handlers in other processes.

Bodies are streamed in both directions with flow control: neither side is read
faster than the other accepts. After an upgrade (WebSocket) the proxy relays raw
bytes, so subprotocols, extensions, fragments, pings and close codes arrive
unchanged. Hop-by-hop headers are removed. The proxy sends a secret, so that the
backend can reject requests that did not pass this server.

A backend that cannot be reached is 503; one that disconnects before a response is
502; after the head of a response, the proxy breaks the client's connection.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from yarl import URL

from rdd.api import errors, names
from rdd.apiserver.http import aiohttp_internals
from rdd.apiserver.http.aiohttp_internals import SentResponse

if TYPE_CHECKING:
    from multidict import CIMultiDict, CIMultiDictProxy

log = logging.getLogger("rdd.apiserver")

CONNECT_S = 5.0
_HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect",
    }
)  # fmt: skip
_FORWARDED = "X-Forwarded-For"


class PassthroughBackend:
    """One program behind the server; `handle` is a passthrough handler.

    Paths `<controller>/<endpoint>/…` are appended to `url`. `challenge` is the
    WWW-Authenticate value with which the backend rejects a wrong secret.
    """

    def __init__(self, url: str, *, secret_header: str, secret: str, challenge: str) -> None:
        self._url = url.rstrip("/") + "/"
        self._secret_header = secret_header
        self._secret = secret
        self._challenge = challenge
        self._session: aiohttp.ClientSession | None = None

    async def handle(self, request: web.BaseRequest, rest: str) -> web.StreamResponse:
        """Forward a request and its response."""
        is_upgrade = _is_upgrade(request)
        upstream = await self._request(request, is_upgrade=is_upgrade)
        try:
            if upstream.headers.get("WWW-Authenticate") == self._challenge:
                raise errors.ServiceUnavailable(
                    "the controller rejects requests of this server", retry_after_s=1
                )
            if upstream.status == 101:
                return await _relay(request, upstream)
            return await _stream(request, upstream)
        finally:
            upstream.close()

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _request(
        self, request: web.BaseRequest, *, is_upgrade: bool
    ) -> aiohttp.ClientResponse:
        headers = _end_to_end(request.headers)
        headers[self._secret_header] = self._secret
        before = headers.pop(_FORWARDED, "")
        headers[_FORWARDED] = f"{before}, {request.remote}" if before else str(request.remote)
        if is_upgrade:
            headers["Connection"] = "Upgrade"
            headers["Upgrade"] = request.headers["Upgrade"]
        path = request.raw_path.removeprefix(names.PASSTHROUGH_PREFIX)
        try:
            return await self._open_session().request(
                request.method,
                URL(self._url + path, encoded=True),
                headers=headers,
                data=_body(request) if request.body_exists else None,
                allow_redirects=False,
                read_until_eof=not is_upgrade,
            )
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno
            why = os.strerror(number) if number else str(error)
            raise errors.ServiceUnavailable(
                f"the controller cannot be reached: {why}", retry_after_s=1
            ) from error
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            if request.transport is None:
                raise ConnectionResetError from error
            text = f"the controller did not respond: {error or type(error).__name__}"
            raise errors.ApiError(text, code=502) from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # A pooled connection may be closed by the time it is reused, and a request
                # whose body was streamed cannot be retried; a new connection costs 0.2 ms.
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                auto_decompress=False,
                trust_env=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


async def _body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    async for chunk in request.content.iter_any():
        yield chunk


async def _stream(request: web.BaseRequest, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    answer = web.StreamResponse(
        status=upstream.status, reason=upstream.reason, headers=_end_to_end(upstream.headers)
    )
    await answer.prepare(request)
    try:
        async for chunk in upstream.content.iter_any():
            await answer.write(chunk)
    except aiohttp.ClientError as error:
        log.debug("a controller disconnected during a response: %s", error)
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the controller disconnected") from error
    await answer.write_eof()
    return answer


async def _relay(request: web.BaseRequest, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    """Relay bytes in both directions until one side ends."""
    connection, transport = upstream.connection, request.transport
    if connection is None or connection.protocol is None or transport is None:
        raise ConnectionResetError
    client, backend = request.protocol, connection.protocol
    headers = _end_to_end(upstream.headers)
    headers["Connection"] = "Upgrade"
    headers["Upgrade"] = upstream.headers.get("Upgrade", "websocket")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    transport.write(f"HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n".encode())
    ended = asyncio.Event()
    directions = _Direction(client, backend, ended), _Direction(backend, client, ended)
    try:
        aiohttp_internals.upgrade_server_side(request, directions[0])
        aiohttp_internals.upgrade_client_side(backend, directions[1])
        await ended.wait()
    finally:
        for direction in directions:
            direction.stop()
    return SentResponse(101, keep_alive=False)


class _Direction:
    """Relays the bytes of one side with flow control; used as a WebSocket parser."""

    def __init__(self, source: BaseProtocol, target: BaseProtocol, ended: asyncio.Event) -> None:
        self._source = source
        self._target = target
        self._ended = ended
        self._draining: asyncio.Task[None] | None = None

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        transport = self._target.transport
        if transport is None or transport.is_closing():
            self._ended.set()
            return False, b""
        transport.write(data)
        if self._target.writing_paused and self._draining is None:
            self._source.pause_reading()
            self._draining = asyncio.get_running_loop().create_task(
                self._resume(), name="rdd-passthrough-drain"
            )
        return False, b""

    def feed_eof(self) -> None:
        self._ended.set()

    def stop(self) -> None:
        """Stop relaying."""
        if self._draining is not None:
            self._draining.cancel()

    async def _resume(self) -> None:
        try:
            await aiohttp_internals.drain(self._target)
        except ConnectionError:
            self._ended.set()
            return
        self._draining = None
        if self._source.transport is not None:
            self._source.resume_reading()


def _is_upgrade(request: web.BaseRequest) -> bool:
    # Only WebSockets: after another upgrade the parser would read the bytes as a request.
    tokens = request.headers.get("Connection", "").lower().split(",")
    is_websocket = request.headers.get("Upgrade", "").lower() == "websocket"
    return is_websocket and "upgrade" in map(str.strip, tokens)


def _end_to_end(headers: "CIMultiDictProxy[str]") -> "CIMultiDict[str]":
    """Return the end-to-end headers: without those that concern one connection."""
    named = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    kept = headers.copy()
    for name in {name.lower() for name in headers} & (_HOP_BY_HOP | named):
        del kept[name]
    return kept
