# SPDX-License-Identifier: Apache-2.0
"""Accepts connections on a listening socket, also while many clients only pretend to connect.

The event loop's own server accepts without a limit, and a connection exists for it only after its
TLS handshake. Whoever connects and sends nothing would take all descriptors of the process, before
anything counts it. Here handshakes in progress are counted: beyond `limit` the oldest one is
closed for the next connection. Honest handshakes end within milliseconds, so it is never theirs.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

log = logging.getLogger("rdd.http")

ACCEPTS_PER_TURN = 64
PAUSE_S = 0.1
"""How long nothing is accepted after the system has refused: there are no descriptors."""


class Acceptor:
    """One listening socket."""

    def __init__(
        self,
        sock: socket.socket,
        connect: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None,
        handshake_s: float,
        limit: int,
    ) -> None:
        self._socket = sock
        self._connect = connect
        self._tls = tls
        self._handshake_s = handshake_s
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self.pending: dict[socket.socket, asyncio.Task[None]] = {}
        """Connections whose handshake is in progress, the oldest first."""
        self._pause: asyncio.TimerHandle | None = None

    def start(self, backlog: int) -> None:
        """Listen."""
        self._socket.setblocking(False)
        self._socket.listen(backlog)
        self._loop.add_reader(self._socket.fileno(), self._accept)

    async def close(self) -> None:
        """Stop listening and give up the handshakes."""
        if self._pause is not None:
            self._pause.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        handshakes = list(self.pending.values())
        for handshake in handshakes:
            handshake.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection is accepted: %s", error)
                self._make_room()
                self._loop.remove_reader(self._socket.fileno())
                self._pause = self._loop.call_later(PAUSE_S, self._resume)
                return
            if len(self.pending) >= self._limit:
                self._make_room()
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pending[connection] = self._loop.create_task(
                self._shake_hands(connection), name="rdd-http-handshake"
            )

    def _resume(self) -> None:
        self._pause = None
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _make_room(self) -> None:
        oldest = next(iter(self.pending), None)
        if oldest is not None:
            del self.pending[oldest]
            _shut(oldest)

    async def _shake_hands(self, connection: socket.socket) -> None:
        timeout_s = self._handshake_s if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                self._connect, connection, ssl=self._tls, ssl_handshake_timeout=timeout_s
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            log.debug("a connection ended before its first request: %s", error)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            self.pending.pop(connection, None)


def _shut(connection: socket.socket) -> None:
    """End a connection; its handshake fails, and releases it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
