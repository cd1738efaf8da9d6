# SPDX-License-Identifier: Apache-2.0
"""Sending on a connection of HTTP/2.

Data is sent stream by stream in turns, as far as the windows of the client allow, and not
while the transport is full. The frames of one turn are one write: each write costs a TLS
record and a system call.
"""

import asyncio
from typing import TYPE_CHECKING

from rdd.http.h2 import frames
from rdd.http.h2.flow import DEFAULT_WINDOW, SendWindow

if TYPE_CHECKING:
    from rdd.http.h2.stream import Http2Exchange

TURN_BYTES = 256 * 1024
"""What a stream may send before the next one has its turn."""


NO_TABLE = b"\x20"
"""The announcement of a dynamic table without entries, which is what we use."""


class Outbox:
    """The sending side of a connection."""

    def __init__(self, transport: asyncio.Transport, streams: "dict[int, Http2Exchange]") -> None:
        self._transport = transport
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self.window = SendWindow(DEFAULT_WINDOW)
        """The window of the connection."""
        self.is_paused = False
        """Whether the transport is full."""
        self._is_scheduled = False
        self._size_update: bytes | None = None
        """Begins the next header block; None: nothing to announce so far."""

    def write(self, data: bytes) -> None:
        """Send frames."""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def reduce_table(self) -> None:
        """Announce that we use no dynamic table, once: RFC 7541, 4.2, requires an announcement."""
        if self._size_update is None:
            self._size_update = NO_TABLE

    def take_size_update(self) -> bytes:
        """Return how the next header block has to begin."""
        if not self._size_update:
            return b""
        update, self._size_update = self._size_update, b""
        return update

    def flush(self, stream: "Http2Exchange", head: bytes = b"") -> None:
        """Send a head and as much of a stream's data as windows and transport allow."""
        parts: list[bytes | memoryview] = [head] if head else []
        turn = TURN_BYTES
        pending = stream.pending
        while pending and turn > 0 and not self.is_paused:
            data = pending[0]
            room = min(stream.send_window.size, self.window.size, frames.MAX_FRAME_BYTES)
            size = min(len(data), room)
            if size <= 0:
                break
            if size == len(data):
                pending.popleft()
            else:
                pending[0], data = data[size:], data[:size]
            stream.pending_bytes -= size
            stream.send_window.size -= size
            self.window.size -= size
            turn -= size
            is_last = stream.has_ended and not pending
            flags = frames.END_STREAM if is_last else 0
            parts.append(frames.head(size, frames.DATA, flags, stream.id))
            parts.append(data)
            stream.is_sent = is_last
        if stream.has_ended and not pending and not stream.is_sent:
            parts.append(frames.head(0, frames.DATA, frames.END_STREAM, stream.id))
            stream.is_sent = True
        if parts:
            self.write(b"".join(parts))
        if pending and turn <= 0 and not self.is_paused and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next_turn)
        stream.wake()

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self.flush_all()

    def flush_all(self) -> None:
        """Give every stream with waiting data a turn; one that has more goes to the end."""
        for id_, stream in list(self._streams.items()):
            if self.is_paused or self.window.size <= 0:
                return
            if stream.pending and stream.send_window.size > 0:
                self.flush(stream)
                if stream.pending and id_ in self._streams:
                    self._streams[id_] = self._streams.pop(id_)
