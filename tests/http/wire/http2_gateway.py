# SPDX-License-Identifier: Apache-2.0
"""Translates HTTP/1.1 to HTTP/2: any client and test suite can be run against a server's HTTP/2.

    python -m tests.http.wire.http2_gateway https://127.0.0.1:6443 CA_FILE [PORT]

Prints its own URL. All requests share one connection, as those of a Go client do. What HTTP/2
has no form for is not forwarded: `Connection`, `Upgrade`, `Transfer-Encoding`, `Expect` and the
reason phrase of a status. Client certificates end here, too.
"""

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.http.wire.http2_transport import Http2Transport

from rdd.http.body import BodyError
from rdd.http.exchange import Exchange
from rdd.http.headers import Headers
from rdd.http.server import Server

MAX_BODY_BYTES = 1 << 26


class Gateway:
    """Forwards exchanges to one server."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        self._url = url
        self._tls = tls
        self._transport: Http2Transport | None = None
        self._connecting = asyncio.Lock()

    async def _connected(self) -> Http2Transport:
        async with self._connecting:
            if self._transport is None or self._transport.is_lost:
                self._transport = await Http2Transport.connect(self._url, self._tls)
            return self._transport

    async def handle(self, exchange: Exchange) -> None:
        """Forward one request and stream its response."""
        transport = await self._connected()
        try:
            body = await exchange.body.read(limit=MAX_BODY_BYTES)
        except BodyError:
            exchange.abort()
            return
        headers = exchange.headers.end_to_end()
        serving = asyncio.current_task()
        assert serving is not None
        exchange.on_lost = serving.cancel
        response = await transport.request(exchange.method, exchange.target, headers.pairs, body)
        received = Headers(response.headers)
        length = received.get("content-length")
        kept = [p for p in response.headers if p[0] not in ("content-length", "date")]
        exchange.start(response.status, kept, length=int(length) if length else None)
        async for piece in response:
            exchange.write(piece)
            await exchange.drain()
        exchange.finish()

    async def close(self) -> None:
        """Close the connection to the server."""
        if self._transport is not None:
            await self._transport.close()


@asynccontextmanager
async def gateway(
    url: str, tls: ssl.SSLContext | None = None, *, port: int = 0
) -> AsyncIterator[str]:
    """Serve a gateway; yields its URL."""
    forwarding = Gateway(url, tls)
    server = Server(forwarding.handle, http2=False)
    sock = socket.create_server(("127.0.0.1", port))
    await server.listen(sock)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        await server.close(timeout_s=1)
        await forwarding.close()


async def main() -> None:
    url, authority = sys.argv[1:3]
    tls = ssl.create_default_context(cafile=authority)
    port = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    async with gateway(url, tls, port=port) as address:
        print(address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
