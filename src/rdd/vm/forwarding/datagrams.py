# SPDX-License-Identifier: Apache-2.0
"""Relays datagrams. Each sender has a socket of its own to the other side.

The socket identifies the sender of a response. The relay evicts idle senders; its timer runs
only while there are senders.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

Dial = Callable[[], Awaitable[socket.socket]]
"""Open a connected, non-blocking datagram socket to the other end. Raises OSError."""

IDLE_S = 90.0
MAX_SENDERS = 1024

_Address = tuple[Any, ...]


class DatagramRelay(asyncio.DatagramProtocol):
    """Receives on a bound socket and relays each datagram to a socket of `dial`."""

    def __init__(
        self,
        bound: socket.socket,
        dial: Dial,
        *,
        idle_s: float = IDLE_S,
        observed: Callable[[], None] = lambda: None,
    ) -> None:
        self._bound = bound
        self._dial = dial
        self._idle_s = idle_s
        self._observed = observed
        """Called for every datagram in either direction."""
        self._transport: asyncio.DatagramTransport | None = None
        self._senders: dict[_Address, _Sender] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=self._bound)

    async def close(self) -> None:
        """Stop, and evict all senders."""
        if self._transport is not None:
            self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        for sender in self._senders.values():
            sender.close()
        self._senders.clear()
        await asyncio.sleep(0)

    def datagram_received(self, data: bytes, addr: _Address) -> None:
        """Relay a datagram, or queue it until the socket is open."""
        self._observed()
        sender = self._senders.get(addr)
        if sender is None:
            if len(self._senders) >= MAX_SENDERS:
                return
            assert self._transport is not None
            sender = self._senders[addr] = _Sender(self._transport, addr, self._observed)
            task = asyncio.create_task(self._open(sender), name="relay datagrams")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if self._timer is None:
                self._schedule_eviction()
        sender.relay(data)

    async def _open(self, sender: "_Sender") -> None:
        loop = asyncio.get_running_loop()
        try:
            sock = await self._dial()
        except OSError:
            self._senders.pop(sender.address, None)
            return
        await loop.create_datagram_endpoint(lambda: sender, sock=sock)

    def _schedule_eviction(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._idle_s / 2, self._evict_idle)

    def _evict_idle(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for address, sender in list(self._senders.items()):
            if now - sender.last_used >= self._idle_s:
                sender.close()
                del self._senders[address]
        if self._senders:
            self._schedule_eviction()


class _Sender(asyncio.DatagramProtocol):
    """One sender's socket to the other side."""

    def __init__(
        self, back: asyncio.DatagramTransport, address: _Address, observed: Callable[[], None]
    ) -> None:
        self.address = address
        self._observed = observed
        self.last_used = asyncio.get_running_loop().time()
        self._back = back
        self._transport: asyncio.DatagramTransport | None = None
        self._pending: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        for data in self._pending:
            self._transport.sendto(data)
        self._pending.clear()

    def relay(self, data: bytes) -> None:
        self.last_used = asyncio.get_running_loop().time()
        if self._transport is not None:
            self._transport.sendto(data)
        elif len(self._pending) < 16:
            self._pending.append(data)

    def datagram_received(self, data: bytes, addr: _Address) -> None:
        self.last_used = asyncio.get_running_loop().time()
        self._observed()
        if not self._back.is_closing():
            self._back.sendto(data, self.address)

    def error_received(self, exc: Exception) -> None:
        """Ignore that no process listens: datagrams may get lost."""

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
