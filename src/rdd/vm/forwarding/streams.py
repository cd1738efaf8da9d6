# SPDX-License-Identifier: Apache-2.0
"""Relays byte streams between two sockets, with backpressure and half-closed connections.

The relay does not read from a client until the other side is connected. A side that shuts
down its sending half is still able to receive, and the relay shuts down the same direction on
the other side: `docker attach` and many RPC protocols rely on it. The connection ends with the
second direction.

It works on the sockets themselves: a transport of asyncio copies every byte, and stays open
after both sides have shut down, until one of its users closes it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

from rdd.host.own_address import OWN_ADDRESS
from rdd.vm.forwarding import pieces
from rdd.vm.forwarding.pieces import Holder
from rdd.vm.idle.connections import ConnectionObserver

Dial = Callable[[], Awaitable[socket.socket]]
"""Open a connected, non-blocking stream socket to the other end. Raises OSError."""


Observe = Callable[[], ConnectionObserver | None]
"""Return the observer of a new connection; None if it is not observed."""

_ACCEPT_RETRY_S = 1.0  # after a failure for lack of descriptors or memory, as in asyncio


class StreamRelay:
    """Accepts connections on a listening socket and relays each to a connection of `dial`."""

    def __init__(
        self, listener: socket.socket, dial: Dial, observe: Observe = lambda: None
    ) -> None:
        self._listener = listener
        self._dial = dial
        self._observe = observe
        self._is_accepting = False
        self._retry: asyncio.TimerHandle | None = None
        self._open: set[_Connection] = set()

    @property
    def clients(self) -> int:
        """How many observed connections are open."""
        return sum(connection.is_observed for connection in self._open)

    async def start(self) -> None:
        self._is_accepting = True
        self._listener.setblocking(False)
        self._watch()

    def _watch(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            client, address = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler(
                {"message": "cannot accept a connection", "exception": error}
            )
            loop.remove_reader(self._listener)  # it stays readable
            self._retry = loop.call_later(_ACCEPT_RETRY_S, self._watch)
            return
        client.setblocking(False)
        is_own = isinstance(address, tuple) and address[0] == OWN_ADDRESS
        _Connection(client, self._dial, None if is_own else self._observe(), self._open)

    def stop_accepting(self) -> None:
        """Accept no more connections; open ones stay."""
        if not self._is_accepting:
            return
        self._is_accepting = False
        if self._retry is not None:
            self._retry.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    async def close(self) -> None:
        """Stop accepting, and end open connections."""
        self.stop_accepting()
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)  # lets the tasks that connect end


class _Connection:
    """A client's connection, and the one to the other side."""

    def __init__(
        self,
        client: socket.socket,
        dial: Dial,
        observer: ConnectionObserver | None,
        members: "set[_Connection]",
    ) -> None:
        self._dial = dial
        self._observer = observer
        self._members = members
        self._sockets = [client]
        self._directions: list[_Direction] = []
        members.add(self)
        if observer is not None:
            observer.opened()
        self._connecting = asyncio.create_task(self._connect(client), name="relay connect")

    @property
    def is_observed(self) -> bool:
        return self._observer is not None

    async def _connect(self, client: socket.socket) -> None:
        try:
            server = await self._dial()
        except OSError:
            self.close()
            return
        self._sockets.append(server)
        for sock in self._sockets:
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                with contextlib.suppress(OSError):  # the peer has ended the connection
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        there, back = _Direction(self, client, server), _Direction(self, server, client)
        if (observer := self._observer) is not None:
            there.shown = back.shown = observer.shown_bytes
            there.observed, back.observed = observer.from_client, observer.from_server
            there.source_ended = observer.client_ended
        self._directions = [there, back]
        for direction in self._directions:
            direction.start()

    def end_if_complete(self) -> None:
        """Close the connection if both directions have ended."""
        if all(direction.has_ended for direction in self._directions):
            self.close()

    def close(self) -> None:
        """End the connection, and discard what is not sent yet."""
        if self not in self._members:
            return
        self._members.discard(self)
        if not self._directions:
            self._connecting.cancel()
        for direction in self._directions:
            direction.stop()
        self._directions.clear()  # they refer to this object
        for sock in self._sockets:
            sock.close()
        if self._observer is not None:
            self._observer.closed()


class _Direction:
    """The bytes from one socket to the other.

    Invariant: until it ends, either the source is watched and nothing is held, or a piece is
    held and the target is watched.
    """

    def __init__(
        self, connection: _Connection, source: socket.socket, target: socket.socket
    ) -> None:
        self.shown = 0
        """How many bytes of a piece `observed` gets."""
        self.observed: Callable[[bytes], None] = lambda data: None
        self.source_ended: Callable[[], None] = lambda: None
        self.has_ended = False
        self._connection = connection
        self._source = source
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._is_bulk = False
        self._is_blocked = False
        self._held: Holder | None = None

    def start(self) -> None:
        self._loop.add_reader(self._source, self._receive)

    def _receive(self) -> None:
        holder = pieces.take(is_bulk=self._is_bulk and self.shown < pieces.BULK_BYTES)
        try:
            data = holder.fill(self._source, self.shown)
        except (BlockingIOError, InterruptedError):
            pieces.give_back(holder)
            return
        except OSError:  # then it cannot be written to, either
            pieces.give_back(holder)
            self._connection.close()
            return
        if not holder.size:
            pieces.give_back(holder)
            self.source_ended()
            self._end()
            return
        self._is_bulk = holder.size >= pieces.BULK_BYTES
        self._held = holder
        try:
            self.observed(data)
        except BaseException:
            self._connection.close()
            raise
        self._send()

    def _send(self) -> None:
        """Send what is held, and go on receiving once nothing is left."""
        assert self._held is not None
        try:
            self._held.drain(self._target)
        except (BlockingIOError, InterruptedError):
            if not self._is_blocked:
                self._is_blocked = True
                self._loop.remove_reader(self._source)
                self._loop.add_writer(self._target, self._send)
            return
        except OSError:  # there may still be something to read from it
            self._end()
            return
        pieces.give_back(self._held)
        self._held = None
        if self._is_blocked:
            self._is_blocked = False
            self._loop.remove_writer(self._target)
            self.start()

    def _end(self) -> None:
        self.stop()
        with contextlib.suppress(OSError):  # it has ended
            self._target.shutdown(socket.SHUT_WR)
        self._connection.end_if_complete()

    def stop(self) -> None:
        """Stop watching, and discard what is held."""
        if self.has_ended:
            return
        self.has_ended = True
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)
        if self._held is not None:
            pieces.give_back(self._held)
            self._held = None
