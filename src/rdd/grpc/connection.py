# SPDX-License-Identifier: Apache-2.0
"""One HTTP/2 connection to a gRPC service, and its calls.

The framing is that of the server (`rdd.http.h2.frames`); a client of gRPC needs little more:
no push, no priorities, header blocks that repeat (`headers`).

Flow control: a message larger than the window of the peer waits in its call and leaves as the
window opens. Received bytes are announced as processed in large portions.

Keepalive: a connection with open calls is pinged after `keepalive_s` of silence. While a unary
call waits, a shorter silence is enough: a paused or unreachable peer is detected in about four
seconds instead of by the timeout of the call. Pings are at least six seconds apart, because
gRPC servers close the connections of clients that ping more often than every five.

A peer that shuts down (GOAWAY) finishes the calls that it has accepted; calls it has not
accepted end with NotConnected, which permits a retry. The connection is then retired: the
channel opens another one for further calls.
"""

import asyncio
import struct
from collections.abc import Mapping
from typing import cast

from rdd.grpc.calls import Call, UnaryCall, framed
from rdd.grpc.errors import ConnectionLost, NotConnected
from rdd.grpc.headers import MAX_HEADER_BYTES, RequestEncoder, ResponseDecoder
from rdd.http.h2 import frames
from rdd.http.h2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HAS_PRIORITY,
    HEAD_BYTES,
    HEADERS,
    MAX_FRAME_BYTES,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ConnectionFailure,
)

_STREAM_WINDOW = 1 << 20
"""Bytes the peer may send on a stream before this side has processed them."""
_CONNECTION_WINDOW = 16 << 20
_DEFAULT_WINDOW = 65_535
_MAX_STREAM = 0x7FFFFFFF
_PING_DATA = b"rdd-ping"
_PING_PAUSE_S = 6.0
_STALL_S = 2.0
"""Silence during a unary call before a ping, and the time for its answer."""

_head = struct.Struct("!BHBBI").unpack_from
_word = struct.Struct("!I").unpack_from


class Http2Connection(asyncio.Protocol):
    """A connection as asyncio's protocol; calls begin when it is connected."""

    def __init__(self, *, authority: str, keepalive_s: float) -> None:
        self._authority = authority
        self._keepalive_s = keepalive_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._calls: dict[int, Call] = {}
        self._waiting = 0  # unary calls without a response
        self._next = 1
        self._rest = b""
        self._block: tuple[int, int, bytes] | None = None  # stream, flags, unfinished block
        self._window = _DEFAULT_WINDOW
        self._credit = 0
        self._initial_window = _DEFAULT_WINDOW
        self._frame_bytes = MAX_FRAME_BYTES
        self._max_streams = _MAX_STREAM
        self._heard_at = self._pinged_at = 0.0
        self._is_pinged = False
        self._timer: asyncio.TimerHandle | None = None
        self._unwritten: list[bytes] = []
        self._responses = ResponseDecoder()
        self._requests: RequestEncoder
        self._is_greeted = self._is_encrypted = False
        self.is_lost = False
        self.is_retired = False
        """No further call may begin; the calls in progress go on."""

    # -- calls

    def begin(
        self, path: str, metadata: Mapping[str, str], call: Call, message: bytes | None
    ) -> int:
        """Start a call and return the number of its stream. `message` is the whole request."""
        if len(self._calls) >= self._max_streams:
            raise NotConnected(f"the service accepts {self._max_streams} calls at a time")
        number = self._next
        self._next += 2
        if self._next > _MAX_STREAM:
            self.is_retired = True
        call.window = self._initial_window
        self._calls[number] = call
        block = self._requests.encode(path, metadata)
        out: list[bytes | memoryview] = [
            frames.head(len(block), HEADERS, END_HEADERS, number),
            block,
        ]
        if isinstance(call, UnaryCall):
            self._waiting += 1
        if message is not None:
            call.unsent = memoryview(framed(message))
            call.ends_stream = True
            out += self._data(number, call)
        self._write(b"".join(out))
        if self._keepalive_s:
            self._arm(_STALL_S if self._waiting else self._keepalive_s)
        return number

    def send(self, number: int, message: bytes) -> None:
        """Send a message of a call; the request stays open."""
        call = self._calls[number]
        call.unsent = memoryview(bytes(call.unsent) + framed(message))
        self._write(b"".join(self._data(number, call)))

    def finish(self, number: int) -> None:
        """Remove a call, and reset its stream if it is still open."""
        call = self._calls.pop(number)
        if isinstance(call, UnaryCall):
            self._waiting -= 1
        if not call.is_over and not self.is_lost:
            self._write(frames.reset(number, frames.CANCEL))
        if self.is_retired and not self._calls:
            self.abort("the connection was retired")

    def abort(self, reason: str) -> None:
        """Close the connection; the outcome of its calls is unknown."""
        self.is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        for call in tuple(self._calls.values()):
            call.end(ConnectionLost(reason))

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is not a subclass
        self._is_encrypted = transport.get_extra_info("sslcontext") is not None
        self._requests = RequestEncoder(
            scheme="https" if self._is_encrypted else "http",
            authority=self._authority,
        )
        self._heard_at = self._loop.time()
        self._write(
            frames.PREFACE
            + frames.settings({frames.ENABLE_PUSH: 0, frames.INITIAL_WINDOW_SIZE: _STREAM_WINDOW})
            + frames.window_update(0, _CONNECTION_WINDOW - _DEFAULT_WINDOW)
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """End all calls."""
        if not self.is_lost:
            reason = "the service closed the connection"
            if not self._is_greeted and not self._is_encrypted:
                reason += " before HTTP/2 began; it may need TLS"
            self.abort(f"{reason}: {exc}" if exc else reason)

    def data_received(self, data: bytes) -> None:
        """Process frames."""
        self._heard_at = self._loop.time()
        self._is_pinged = False
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        try:
            while end - at >= HEAD_BYTES:
                high, low, kind, flags, stream = _head(data, at)
                size = high << 16 | low
                if not self._is_greeted and kind != SETTINGS:
                    raise ConnectionFailure(frames.PROTOCOL_ERROR, "the service is not HTTP/2")
                if size > MAX_FRAME_BYTES:
                    raise ConnectionFailure(frames.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
                start, stop = at + HEAD_BYTES, at + HEAD_BYTES + size
                if stop > end:
                    break
                self._take(kind, flags, stream & _MAX_STREAM, data[start:stop])
                at = stop
        except ConnectionFailure as error:
            self._write(frames.goaway(0, error.code, str(error)))
            self._flush()
            self.abort(f"HTTP/2: {error}")
            return
        self._rest = data[at:]

    # -- frames

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self._is_greeted = True
        if self._block is not None and kind != CONTINUATION:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "an unfinished header block")
        if kind == DATA:
            self._take_data(flags, stream, payload)
        elif kind == HEADERS:
            payload = frames.without_padding(flags, payload)
            self._take_block(stream, flags, payload[5:] if flags & HAS_PRIORITY else payload)
        elif kind == CONTINUATION:
            if self._block is None or self._block[0] != stream:
                raise ConnectionFailure(frames.PROTOCOL_ERROR, "an unexpected CONTINUATION")
            _, first, block = self._block
            self._take_block(stream, first | flags & END_HEADERS, block + payload)
        elif kind == WINDOW_UPDATE:
            self._take_credit(stream, _checked_word(payload) & _MAX_STREAM)
        elif kind == SETTINGS:
            if not flags & ACK:
                self._take_settings(payload)
        elif kind == PING:
            if not flags & ACK:
                self._write(frames.frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM:
            self._take_reset(stream, _checked_word(payload))
        elif kind == GOAWAY:
            self._take_goaway(payload)
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "an unexpected PUSH_PROMISE")

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        size = len(payload)
        self._credit += size
        if self._credit * 2 > _CONNECTION_WINDOW:
            self._write(frames.window_update(0, self._credit))
            self._credit = 0
        call = self._calls.get(stream)
        if call is None:
            return
        call.take_data(frames.without_padding(flags, payload))
        if flags & END_STREAM:
            call.finish()
            return
        call.credit += size
        if call.credit * 2 > _STREAM_WINDOW and not call.is_over:
            self._write(frames.window_update(stream, call.credit))
            call.credit = 0

    def _take_block(self, stream: int, flags: int, block: bytes) -> None:
        if not flags & END_HEADERS:
            if len(block) > MAX_HEADER_BYTES:
                raise ConnectionFailure(frames.ENHANCE_YOUR_CALM, "the headers are too large")
            self._block = (stream, flags, block)
            return
        self._block = None
        headers = self._responses.decode(block)
        call = self._calls.get(stream)
        if call is not None:
            call.take_headers(headers)
            if flags & END_STREAM:
                call.finish()

    def _take_credit(self, stream: int, size: int) -> None:
        if not stream:
            self._window += size
            waiting = [(number, call) for number, call in self._calls.items() if call.unsent]
        else:
            found = self._calls.get(stream)
            if found is None:
                return
            found.window += size
            waiting = [(stream, found)] if found.unsent else []
        self._send_waiting(waiting)

    def _take_settings(self, payload: bytes) -> None:
        found = frames.parse_settings(payload)
        self._frame_bytes = min(found.get(frames.MAX_FRAME_SIZE, self._frame_bytes), 1 << 20)
        self._max_streams = found.get(frames.MAX_CONCURRENT_STREAMS, self._max_streams)
        size = found.get(frames.INITIAL_WINDOW_SIZE, self._initial_window)
        for call in self._calls.values():
            call.window += size - self._initial_window
        self._initial_window = size
        self._write(frames.frame(SETTINGS, ACK, 0))
        self._send_waiting([item for item in self._calls.items() if item[1].unsent])

    def _take_reset(self, stream: int, code: int) -> None:
        call = self._calls.get(stream)
        if call is None:
            return
        if code == frames.REFUSED_STREAM:
            call.end(NotConnected("the service refused the call"))
        else:
            call.end(ConnectionLost("the service reset the call"))

    def _take_goaway(self, payload: bytes) -> None:
        last = _checked_word(payload[:4]) & _MAX_STREAM
        self.is_retired = True
        for number, call in tuple(self._calls.items()):
            if number > last:
                call.end(NotConnected("the service shuts down and did not accept the call"))
        if not self._calls:
            self.abort("the service closed the connection")

    # -- sending

    def _data(self, number: int, call: Call) -> list[bytes | memoryview]:
        """Return as many frames of the request as the windows of the peer allow."""
        out: list[bytes | memoryview] = []
        while call.unsent:
            room = min(call.window, self._window, self._frame_bytes)
            if room <= 0:
                break
            piece, call.unsent = call.unsent[:room], call.unsent[room:]
            call.window -= len(piece)
            self._window -= len(piece)
            flags = END_STREAM if call.ends_stream and not call.unsent else 0
            out += (frames.head(len(piece), DATA, flags, number), piece)
        return out

    def _send_waiting(self, waiting: list[tuple[int, Call]]) -> None:
        for number, call in waiting:
            if not call.is_over and (out := self._data(number, call)):
                self._write(b"".join(out))

    def _write(self, data: bytes) -> None:
        """Send at the end of this turn of the event loop, together with what else it sends.

        Until the service has answered, at once: one of another protocol may close the connection,
        and a later write would fail before its answer is read.
        """
        if not self._unwritten and self._is_greeted:
            self._loop.call_soon(self._flush)
        self._unwritten.append(data)
        if not self._is_greeted:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._unwritten)
        self._unwritten.clear()
        if self._transport is not None and not self.is_lost and data:
            self._transport.write(data)

    # -- keepalive

    def _arm(self, delay_s: float) -> None:
        """Check after a delay, or earlier if that is planned already."""
        at = self._loop.time() + delay_s
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._check)

    def _check(self) -> None:
        self._timer = None
        if self.is_lost or not self._calls:
            return
        now = self._loop.time()
        limit_s = _STALL_S if self._waiting else self._keepalive_s
        if self._is_pinged:
            if now - self._pinged_at >= _STALL_S:
                self.abort(f"no answer to a ping within {_STALL_S:g} s")
                return
        elif now - self._heard_at >= limit_s and now - self._pinged_at >= _PING_PAUSE_S:
            self._is_pinged, self._pinged_at = True, now
            self._write(frames.frame(PING, 0, 0, _PING_DATA))
        self._arm(_STALL_S if self._is_pinged else limit_s)


def _checked_word(payload: bytes) -> int:
    if len(payload) != 4:
        raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "a malformed frame")
    found: int = _word(payload)[0]
    return found
