# SPDX-License-Identifier: Apache-2.0
"""Carries datagrams. Each sender has a socket of its own to the other side.

So an answer finds its way back. A sender that has been silent for a while is forgotten; the
clock that does it runs only while there are senders.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

Dial = Callable[[], Awaitable[socket.socket]]
"""Opens a connected, non-blocking datagram socket to the other end. Raises OSError."""

IDLE_S = 90.0
MOST_SENDERS = 1024

_Address = tuple[Any, ...]


class DatagramRelay(asyncio.DatagramProtocol):
    """Receives on a bound socket and carries each datagram to what `dial` opens."""

    def __init__(self, bound: socket.socket, dial: Dial, *, idle_s: float = IDLE_S) -> None:
        self._bound = bound
        self._dial = dial
        self._idle_s = idle_s
        self._transport: asyncio.DatagramTransport | None = None
        self._senders: dict[_Address, _Sender] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to receive."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=self._bound)

    async def close(self) -> None:
        """Stop, and forget all senders."""
        if self._transport is not None:
            self._transport.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for task in list(self._tasks):
            task.cancel()
        for sender in self._senders.values():
            sender.end()
        self._senders.clear()
        await asyncio.sleep(0)

    def datagram_received(self, data: bytes, addr: _Address) -> None:
        """Hand a datagram on, or keep it until its way is open."""
        sender = self._senders.get(addr)
        if sender is None:
            if len(self._senders) >= MOST_SENDERS:
                return
            assert self._transport is not None
            sender = self._senders[addr] = _Sender(self._transport, addr)
            task = asyncio.create_task(self._open(sender), name="relay datagrams")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if self._sweeping is None:
                self._sweep_later()
        sender.hand_on(data)

    async def _open(self, sender: "_Sender") -> None:
        loop = asyncio.get_running_loop()
        try:
            sock = await self._dial()
        except OSError:
            self._senders.pop(sender.address, None)
            return
        await loop.create_datagram_endpoint(lambda: sender, sock=sock)

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(self._idle_s / 2, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        for address, sender in list(self._senders.items()):
            if now - sender.last >= self._idle_s:
                sender.end()
                del self._senders[address]
        if self._senders:
            self._sweep_later()


class _Sender(asyncio.DatagramProtocol):
    """One sender's socket to the other side."""

    def __init__(self, back: asyncio.DatagramTransport, address: _Address) -> None:
        self.address = address
        self.last = asyncio.get_running_loop().time()
        self._back = back
        self._transport: asyncio.DatagramTransport | None = None
        self._waiting: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        for data in self._waiting:
            self._transport.sendto(data)
        self._waiting.clear()

    def hand_on(self, data: bytes) -> None:
        self.last = asyncio.get_running_loop().time()
        if self._transport is not None:
            self._transport.sendto(data)
        elif len(self._waiting) < 16:
            self._waiting.append(data)

    def datagram_received(self, data: bytes, addr: _Address) -> None:
        self.last = asyncio.get_running_loop().time()
        if not self._back.is_closing():
            self._back.sendto(data, self.address)

    def error_received(self, exc: Exception) -> None:
        """Nobody listens there; datagrams may get lost, so nothing is told."""

    def end(self) -> None:
        if self._transport is not None:
            self._transport.close()
