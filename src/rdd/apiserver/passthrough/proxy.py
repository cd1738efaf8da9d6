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
from urllib.parse import urlsplit

from rdd.api import errors, names
from rdd.apiserver.passthrough.upstream import Upstream, UpstreamError
from rdd.http import websocket
from rdd.http.body import BodyError
from rdd.http.exchange import ByteStream, Exchange
from rdd.http.headers import HeaderList

log = logging.getLogger("rdd.apiserver")

CONNECT_S = 5.0
_LENGTH_DIGITS = 18


class PassthroughBackend:
    """One program behind the server; `handle` is a passthrough handler.

    Paths `<controller>/<endpoint>/…` are appended to `url`. `challenge` is the
    WWW-Authenticate value with which the backend rejects a wrong secret.
    """

    def __init__(self, url: str, *, secret_header: str, secret: str, challenge: str) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or "localhost"
        self._port = parts.port or 80
        self._path = parts.path.rstrip("/") + "/"
        self._secret_header = secret_header
        self._secret = secret
        self._challenge = challenge
        self._open: set[Upstream] = set()

    async def handle(self, exchange: Exchange, rest: str) -> None:
        """Forward a request and its response."""
        upstream = await self._connect()
        self._open.add(upstream)
        try:
            await self._forward(exchange, upstream)
        finally:
            self._open.discard(upstream)
            upstream.close()

    async def close(self) -> None:
        """Close all connections."""
        for upstream in list(self._open):
            upstream.close()

    async def _connect(self) -> Upstream:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                _, upstream = await loop.create_connection(Upstream, self._host, self._port)
        except (OSError, TimeoutError) as error:
            why = os.strerror(error.errno) if error.errno else "no connection in time"
            raise errors.ServiceUnavailable(
                f"the controller cannot be reached: {why}", retry_after_s=1
            ) from error
        return upstream

    async def _forward(self, exchange: Exchange, upstream: Upstream) -> None:
        is_upgrade = websocket.is_requested(exchange)
        headers, is_chunked = self._request_headers(exchange, is_upgrade=is_upgrade)
        target = self._path + exchange.target.removeprefix(names.PASSTHROUGH_PREFIX)
        upstream.send_head(exchange.method, target, headers)
        loop = asyncio.get_running_loop()
        sending = loop.create_task(
            _send_body(exchange, upstream, is_chunked=is_chunked), name="rdd-passthrough-body"
        )
        try:
            try:
                await upstream.response()
            except UpstreamError as error:
                text = f"the controller did not respond: {error}"
                raise errors.ApiError(text, code=502) from error
            if upstream.headers.get("WWW-Authenticate") == self._challenge:
                raise errors.ServiceUnavailable(
                    "the controller rejects requests of this server", retry_after_s=1
                )
            if upstream.status == 101:
                await _relay(exchange, upstream)
            else:
                await _stream(exchange, upstream)
        finally:
            sending.cancel()
            await asyncio.wait({sending})

    def _request_headers(self, exchange: Exchange, *, is_upgrade: bool) -> tuple[HeaderList, bool]:
        """Return the headers for the backend, and whether the body is sent in chunks."""
        hidden = {self._secret_header.lower(), "content-length"}
        headers = exchange.headers.end_to_end().without(hidden).pairs
        headers = [*headers, (self._secret_header, self._secret)]
        is_chunked = False
        if is_upgrade:
            headers += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        else:
            headers.append(("Connection", "close"))
        if exchange.body.exists:
            is_chunked = exchange.body.length is None
            if is_chunked:
                headers.append(("Transfer-Encoding", "chunked"))
            else:
                headers.append(("Content-Length", str(exchange.body.length)))
        return headers, is_chunked


async def _send_body(exchange: Exchange, upstream: Upstream, *, is_chunked: bool) -> None:
    try:
        if exchange.body.exists:
            await upstream.send_body(aiter(exchange.body), is_chunked=is_chunked)
    except (ConnectionError, BodyError) as error:
        log.debug("the body of a request was not forwarded: %s", error)
        if isinstance(error, BodyError):
            upstream.close()


async def _stream(exchange: Exchange, upstream: Upstream) -> None:
    headers = upstream.headers.end_to_end()
    length = headers.get("Content-Length")
    exchange.start(
        upstream.status,
        headers.without({"content-length", "date"}).pairs,
        length=int(length) if _is_length(length) else None,
    )
    try:
        while piece := await upstream.read():
            exchange.write(piece)
            await exchange.drain()
    except UpstreamError as error:
        log.debug("a controller disconnected during a response: %s", error)
        exchange.abort()
        raise ConnectionResetError("the controller disconnected") from error
    exchange.finish()


def _is_length(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS


async def _relay(exchange: Exchange, upstream: Upstream) -> None:
    """Relay bytes in both directions until one side ends."""
    answer = [
        *upstream.headers.end_to_end().pairs,
        ("Connection", "Upgrade"),
        ("Upgrade", upstream.headers.get("Upgrade", "websocket")),
    ]
    client = exchange.upgrade(answer)
    loop = asyncio.get_running_loop()
    directions = {
        loop.create_task(_copy(client, upstream), name="rdd-passthrough-to-controller"),
        loop.create_task(_copy(upstream, client), name="rdd-passthrough-to-client"),
    }
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.wait(directions)


async def _copy(source: ByteStream | Upstream, target: ByteStream | Upstream) -> None:
    try:
        while piece := await source.read():
            target.write(piece)
            await target.drain()
    except ConnectionError:
        pass  # the other side has ended
