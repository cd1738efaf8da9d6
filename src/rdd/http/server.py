# SPDX-License-Identifier: Apache-2.0
"""The server: sockets, connections, the tasks of exchanges, and the end.

Every exchange runs in a task. Exceptions of handlers end here: before the head of a response
they are a 500, after it the response is aborted. `close` stops accepting, lets every request
in flight end, and then closes the connections.
"""

import asyncio
import itertools
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from rdd.http.acceptor import Acceptor
from rdd.http.exchange import Exchange, Handler
from rdd.http.h1.connection import Http1Connection
from rdd.http.h2.connection import Http2Connection
from rdd.http.limits import WireLimits
from rdd.http.responses import TEXT

log = logging.getLogger("rdd.http")

BACKLOG = 512
MIN_HANDSHAKES = 16
MAX_EXAMINED = 1000
"""Connections that are examined to find an idle one."""
KEPT_HEAP_BYTES = 2 * 1024 * 1024
"""The size of a response whose buffers are reused instead of returned to the system."""
_E = TypeVar("_E", bound=Exchange)


class Connection(Protocol):
    """One open connection."""

    @property
    def buffered_bytes(self) -> int:
        """The bytes that wait for the client."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether no request runs: the head of one may be incomplete."""
        ...

    def shutdown(self) -> None:
        """Accept no further request; close when the present ones have ended."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class _Selector(asyncio.Protocol):
    """Selects the protocol of a connection once TLS has negotiated it."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._server.make_room():
            cast(asyncio.Transport, transport).abort()
            return
        tls = transport.get_extra_info("ssl_object")
        is_http2 = tls is not None and tls.selected_alpn_protocol() == "h2"
        connection: Http1Connection | Http2Connection
        connection = Http2Connection(self._server) if is_http2 else Http1Connection(self._server)
        transport.set_protocol(connection)
        connection.connection_made(transport)


class Server:
    """Serves a handler on sockets."""

    def __init__(
        self, handler: Handler, *, limits: WireLimits | None = None, http2: bool = True
    ) -> None:
        self._handler = handler
        self.http2 = http2
        """Whether clients may choose HTTP/2: by ALPN, without TLS by prior knowledge."""
        self.limits = limits or WireLimits()
        self.connections: dict[Connection, None] = {}
        """Open connections, the oldest first."""
        self.is_closing = False
        self._listeners: list[Acceptor] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve on a bound socket."""
        _keep_heap()
        if tls is not None:
            tls.set_alpn_protocols(["h2", "http/1.1"] if self.http2 else ["http/1.1"])
        acceptor = Acceptor(
            sock,
            self._connect,
            tls=tls,
            handshake_s=self.limits.head_s,
            limit=max(self.limits.connections // 4, MIN_HANDSHAKES),
        )
        self._listeners.append(acceptor)
        acceptor.start(BACKLOG)

    def _connect(self) -> asyncio.Protocol:
        return _Selector(self)

    def make_room(self) -> bool:
        """Return whether one more connection may be opened; close an idle one for it.

        Whoever holds connections without using them loses them first, so no client can keep
        others from connecting.
        """
        if len(self.connections) < self.limits.connections:
            return True
        for connection in itertools.islice(self.connections, MAX_EXAMINED):
            if connection.is_idle:
                del self.connections[connection]
                connection.abort()
                return True
        return False

    def start_http2(self, transport: asyncio.Transport, data: bytes) -> None:
        """Continue a connection whose first bytes are the preface of HTTP/2."""
        connection = Http2Connection(self)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        connection.data_received(data)

    def peer_of(self, transport: asyncio.Transport) -> tuple[str, bytes | None]:
        """Return the address and the verified certificate of the client of a connection."""
        address = transport.get_extra_info("peername")
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(True) if tls is not None else None
        return (str(address[0]) if isinstance(address, tuple) else ""), certificate

    async def close(self, *, timeout_s: float = 5.0) -> None:
        """Stop accepting, let requests in flight end, then close all connections."""
        self.is_closing = True
        for listener in self._listeners:
            await listener.close()
        for connection in list(self.connections):
            connection.shutdown()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self._flush()
        # A TLS connection waits for the client's close_notify, which some clients never send.
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)

    async def _flush(self) -> None:
        """Give slow readers a moment to receive what is already written."""
        deadline = asyncio.get_running_loop().time() + 1.0
        while any(connection.buffered_bytes for connection in self.connections):
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.01)

    # -- exchanges

    def run(self, exchange: _E, ended: Callable[[_E], None]) -> None:
        """Run the handler of an exchange; `ended` is called afterwards."""
        loop = asyncio.get_running_loop()
        self._tasks.add(loop.create_task(self._serve(exchange, ended), name="rdd-http"))

    async def _serve(self, exchange: _E, ended: Callable[[_E], None]) -> None:
        try:
            if exchange.is_closing:
                return  # lost before it began
            await self._handler(exchange)
            if exchange.has_ended and exchange.is_blocked:
                await exchange.drain()
        except asyncio.CancelledError:
            exchange.abort()
            raise
        except ConnectionError:
            exchange.abort()
        except Exception:
            log.exception("request failed: %s %s", exchange.method, exchange.target)
            if exchange.has_started:
                exchange.abort()
            else:
                exchange.send(500, [("Content-Type", TEXT)], b"500 Internal Server Error\n")
        finally:
            # Here rather than in a callback of the task, which would cost another loop cycle.
            task = asyncio.current_task()
            assert task is not None
            self._tasks.discard(task)
            exchange.on_lost = None
            ended(exchange)


def _keep_heap() -> None:
    """Make the allocator keep the buffers of large responses.

    glibc returns free memory at the end of the heap to the system beyond twice the size of
    the largest block that was ever freed. Without this, every list of a megabyte faults its
    pages in again: 250 page faults, 40 % of its CPU time.
    """
    bytes(KEPT_HEAP_BYTES)  # never touched, so it costs no memory
