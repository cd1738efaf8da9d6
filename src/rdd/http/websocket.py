# SPDX-License-Identifier: Apache-2.0
"""WebSockets (RFC 6455), the side of the server, without extensions.

    socket = WebSocket.accept(exchange, protocols=("v1",))
    async for message in socket:
        await socket.send(message.data)
    await socket.close()

Frames are parsed here rather than by a library, because half of the work is unmasking, and
one operation on a large integer unmasks a whole frame. Control frames may arrive between the
fragments of a message; a message is delivered when it is complete. Violations end the socket
with the close code that the RFC names.
"""

import asyncio
import base64
import binascii
import hashlib
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from enum import IntEnum

from rdd.http.exchange import ByteStream, Exchange
from rdd.http.responses import Response

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MAX_CONTROL_BYTES = 125
_DRAIN_S = 10.0
_CLOSE_S = 1.0
"""Clients that answer a close frame do so at once; others only wait for the end (curl)."""
DEFAULT_MAX_MESSAGE = 4 * 1024 * 1024


class Opcode(IntEnum):
    """Types of frames and messages."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


@dataclass(frozen=True, slots=True)
class Message:
    """A message; of CLOSE, `code` is that of the peer, or 1006 if the connection was lost."""

    type: Opcode
    data: bytes = b""
    code: int = 0

    @property
    def text(self) -> str:
        """The data as text."""
        return self.data.decode()


class HandshakeError(Exception):
    """A request that is no valid opening handshake."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.response = Response.text(f"{text}\n", status=400)


class Violation(Exception):
    """Input that the protocol forbids, with the close code for it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def is_requested(exchange: Exchange) -> bool:
    """Return whether a request is an upgrade to a WebSocket."""
    headers = exchange.headers
    tokens = headers.get("Connection").lower().split(",")
    return headers.get("Upgrade").lower() == "websocket" and "upgrade" in map(str.strip, tokens)


def unmask(data: bytes, mask: bytes) -> bytes:
    """Apply a mask of four bytes."""
    size = len(data)
    if not size:
        return b""
    key = (mask * (size // 4 + 1))[:size]
    value = int.from_bytes(data, "little") ^ int.from_bytes(key, "little")
    return value.to_bytes(size, "little")


def encode(opcode: int, data: bytes) -> bytes:
    """Return a complete frame."""
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
    return head + data


class Frames:
    """Parses the frames of a client into messages."""

    def __init__(self, max_message: int) -> None:
        self._max = max_message
        self._buffer = bytearray()
        self._opcode: Opcode | None = None
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer += data

    def next(self) -> Message | None:
        """Return the next message, None if it is incomplete."""
        while (frame := self._frame()) is not None:
            is_final, opcode, data = frame
            if opcode >= Opcode.CLOSE:
                return _control(opcode, data)
            if self._opcode is None:
                if opcode == Opcode.CONTINUATION:
                    raise Violation(1002, "a continuation of nothing")
                self._opcode = opcode
            elif opcode != Opcode.CONTINUATION:
                raise Violation(1002, "a new message inside of another")
            self._parts.append(data)
            self._size += len(data)
            if is_final:
                return self._complete()
        return None

    def _complete(self) -> Message:
        opcode, data = self._opcode, b"".join(self._parts)
        assert opcode is not None
        self._opcode, self._parts, self._size = None, [], 0
        if opcode == Opcode.TEXT:
            try:
                data.decode()
            except UnicodeDecodeError:
                raise Violation(1007, "a text that is no UTF-8") from None
        return Message(opcode, data)

    def _frame(self) -> tuple[bool, Opcode, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        try:
            opcode = Opcode(first & 0x0F)
        except ValueError:
            raise Violation(1002, "an unknown type of frame") from None
        if first & 0x70:
            raise Violation(1002, "reserved bits are set")
        if not second & 0x80:
            raise Violation(1002, "a frame without a mask")
        size, start = second & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
        if opcode >= Opcode.CLOSE and (size > _MAX_CONTROL_BYTES or not first & 0x80):
            raise Violation(1002, "a control frame that is too long or fragmented")
        if self._max and opcode < Opcode.CLOSE and self._size + size > self._max:
            raise Violation(1009, "a message that is too large")
        end = start + 4 + size
        if len(buffer) < end:
            return None
        data = unmask(bytes(buffer[start + 4 : end]), bytes(buffer[start : start + 4]))
        del buffer[:end]
        return bool(first & 0x80), opcode, data


def _control(opcode: Opcode, data: bytes) -> Message:
    if opcode != Opcode.CLOSE:
        return Message(opcode, data)
    if not data:
        return Message(opcode, b"", 1005)
    code = int.from_bytes(data[:2], "big")
    is_valid = 3000 <= code < 5000 or (1000 <= code < 1015 and code not in (1004, 1005, 1006))
    if len(data) < 2 or not is_valid:
        raise Violation(1002, "a malformed close frame")
    return Message(opcode, data[2:], code)


class WebSocket:
    """A WebSocket with a client."""

    def __init__(
        self, stream: ByteStream, *, protocol: str, max_message: int, auto_pong: bool
    ) -> None:
        self._stream = stream
        self.protocol = protocol
        """The negotiated subprotocol, or an empty string."""
        self.close_code: int | None = None
        """The code of the peer, or 1006 if the connection was lost."""
        self._frames = Frames(max_message)
        self._auto_pong = auto_pong
        self._has_sent_close = False

    @classmethod
    def accept(
        cls,
        exchange: Exchange,
        *,
        protocols: Iterable[str] = (),
        max_message: int = DEFAULT_MAX_MESSAGE,
        auto_pong: bool = True,
    ) -> "WebSocket":
        """Complete the opening handshake. Raises HandshakeError.

        `protocols` are the subprotocols of the server; the first one of the client that is
        among them is selected. `max_message` limits messages (0: no limit).
        """
        headers = exchange.headers
        if exchange.method != "GET" or not is_requested(exchange):
            raise HandshakeError("a WebSocket is required")
        if headers.get("Sec-WebSocket-Version") != "13":
            raise HandshakeError("the version of WebSocket must be 13")
        key = headers.get("Sec-WebSocket-Key").strip()
        try:
            is_key = len(base64.b64decode(key, validate=True)) == 16
        except (binascii.Error, ValueError):
            is_key = False
        if not is_key:
            raise HandshakeError("malformed Sec-WebSocket-Key")
        accepted = base64.b64encode(
            hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
        ).decode()
        answer = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", accepted),
        ]
        offered = ",".join(headers.getall("Sec-WebSocket-Protocol")).split(",")
        known = set(protocols)
        protocol = next((name.strip() for name in offered if name.strip() in known), "")
        if protocol:
            answer.append(("Sec-WebSocket-Protocol", protocol))
        stream = exchange.upgrade(answer)
        socket = cls(stream, protocol=protocol, max_message=max_message, auto_pong=auto_pong)
        exchange.websocket = socket
        return socket

    async def receive(self) -> Message:
        """Return the next message; CLOSE at the end, also if the connection is lost."""
        if self.close_code is not None:
            return Message(Opcode.CLOSE, b"", self.close_code)
        while True:
            try:
                message = self._frames.next()
            except Violation as error:
                self.close_code = 1006
                await self._finish(error.code, str(error))
                return Message(Opcode.CLOSE, b"", 1006)
            if message is None:
                data = await self._stream.read()
                if not data:
                    self.close_code = 1006
                    return Message(Opcode.CLOSE, b"", 1006)
                self._frames.feed(data)
            elif message.type is Opcode.PING and self._auto_pong:
                await self.pong(message.data)
            elif message.type is Opcode.PONG and self._auto_pong:
                continue
            elif message.type is Opcode.CLOSE:
                self.close_code = message.code
                await self._finish(1000 if message.code == 1005 else message.code, "")
                return message
            else:
                return message

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (message := await self.receive()).type is not Opcode.CLOSE:
            yield message

    async def send(self, data: bytes | str) -> None:
        """Send a binary or text message; wait until the client can receive more."""
        if isinstance(data, str):
            await self._send(Opcode.TEXT, data.encode())
        else:
            await self._send(Opcode.BINARY, data)

    def push(self, text: bytes) -> None:
        """Send a text message, encoded as UTF-8, without waiting; `drain` waits."""
        if not self._has_sent_close:
            self._stream.write(encode(Opcode.TEXT, text))

    async def drain(self) -> None:
        """Wait until the client can receive more. Raises ConnectionError."""
        await self._stream.drain()

    async def ping(self, data: bytes = b"") -> None:
        """Send a ping."""
        await self._send(Opcode.PING, data)

    async def pong(self, data: bytes = b"") -> None:
        """Send a pong."""
        await self._send(Opcode.PONG, data)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame and wait for the one of the client, with a timeout."""
        self._send_close(code, reason)
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._stream.drain()
            async with asyncio.timeout(_CLOSE_S):
                while self.close_code is None:
                    await self.receive()
        except (TimeoutError, ConnectionError):
            pass
        self._stream.close()

    def go_away(self) -> None:
        """Send a close frame that announces the end of the server, and close."""
        self._send_close(1001, "")
        self._stream.close()

    async def _finish(self, code: int, reason: str) -> None:
        """Answer the end that the client began."""
        self._send_close(code, reason)
        self._stream.close()

    def _send_close(self, code: int, reason: str) -> None:
        if not self._has_sent_close:
            self._has_sent_close = True
            text = reason.encode()[: _MAX_CONTROL_BYTES - 2]
            self._stream.write(encode(Opcode.CLOSE, struct.pack("!H", code) + text))

    async def _send(self, opcode: Opcode, data: bytes) -> None:
        if self._has_sent_close:
            raise ConnectionResetError("the WebSocket is closed")
        self._stream.write(encode(opcode, data))
        await self._stream.drain()
