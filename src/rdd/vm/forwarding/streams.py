# SPDX-License-Identifier: Apache-2.0
"""Relays byte streams between two sockets, with backpressure and half-closed connections.

The relay does not read from a client until the other side is connected. A side that shuts
down its sending half is still able to receive, and the relay shuts down the same direction on
the other side: `docker attach` and many RPC protocols rely on it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from rdd.host.own_address import OWN_ADDRESS
from rdd.vm.idle.connections import ConnectionObserver

Dial = Callable[[], Awaitable[socket.socket]]
"""Open a connected, non-blocking stream socket to the other end. Raises OSError."""


Observe = Callable[[], ConnectionObserver | None]
"""Return the observer of a new connection; None if it is not observed."""


class StreamRelay:
    """Accepts connections on a listening socket and relays each to a connection of `dial`."""

    def __init__(
        self, listener: socket.socket, dial: Dial, observe: Observe = lambda: None
    ) -> None:
        self._listener = listener
        self._dial = dial
        self._observe = observe
        self._server: asyncio.AbstractServer | None = None
        self._open: set[_Side] = set()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Accepted(self._dial, self._open, self._observe), sock=self._listener
        )

    def stop_accepting(self) -> None:
        """Accept no more connections; open ones stay."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Stop accepting, and abort open connections."""
        self.stop_accepting()
        for side in list(self._open):
            side.abort()
        await asyncio.sleep(0)  # lets the transports call connection_lost


class _Side(asyncio.Protocol):
    """One end of a connection; `peer` is the other."""

    def __init__(self, members: "set[_Side]") -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: _Side | None = None
        self.observed: Callable[[bytes], None] | None = None
        self._members = members

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._members.add(self)

    def data_received(self, data: bytes) -> None:
        if self.observed is not None:
            self.observed(data)
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        peer = self.peer
        if peer is None or peer.transport is None or peer.transport.is_closing():
            return False
        if peer.transport.can_write_eof():
            peer.transport.write_eof()
        return True  # the other direction stays open

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._members.discard(self)
        self.transport = None
        peer, self.peer = self.peer, None
        if peer is not None and peer.transport is not None:
            peer.peer = None
            peer.transport.close()  # flushes pending data first

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class _Accepted(_Side):
    """The accepted end; it is paused until the other end is connected."""

    def __init__(self, dial: Dial, members: set[_Side], observe: Observe) -> None:
        super().__init__(members)
        self._dial = dial
        self._observer = observe()
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and peer[0] == OWN_ADDRESS:
            self._observer = None
        if self._observer is not None:
            self.observed = self._observer.from_client
            self._observer.opened()
        self._connecting = asyncio.create_task(self._connect(), name="relay connect")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._observer is not None:
            self._observer.closed()
        if self._connecting is not None:
            self._connecting.cancel()

    def eof_received(self) -> bool:
        if self._observer is not None:
            self._observer.client_ended()
        return super().eof_received()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            sock = await self._dial()
        except OSError:
            self.abort()  # the client sees a reset, as without a relay
            return
        try:
            _, other = await loop.create_connection(lambda: _Side(self._members), sock=sock)
        except BaseException:
            sock.close()
            raise
        self._connecting = None
        if self.transport is None:
            other.abort()
            return
        self.peer, other.peer = other, self
        if self._observer is not None:
            other.observed = self._observer.from_server
        with contextlib.suppress(RuntimeError):  # closed in between
            self.transport.resume_reading()
