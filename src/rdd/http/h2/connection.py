# SPDX-License-Identifier: Apache-2.0
"""A connection of HTTP/2.

Bounds beyond those of HTTP/1.1, by what they stop:

    rapid reset             a stream counts as open until its handler has ended
    CONTINUATION floods     the size and number of the frames of one head
    header bombs            the size of a decoded head (hpack counts it while it decodes)
    SETTINGS, PING, … floods    a budget of frames that only cost work (flow.py)
    window games            windows are checked for overflow; data without window waits in its
                            stream, and a stream that makes no progress is reset

Sending is the work of the outbox (outbox.py).
"""

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, cast

from rdd.http.body import EMPTY, Body, BodyIncomplete
from rdd.http.h2 import frames
from rdd.http.h2.flow import (
    CONNECTION_WINDOW,
    DEFAULT_WINDOW,
    STREAM_WINDOW,
    ControlBudget,
    ReceiveWindow,
    WindowOverflow,
)
from rdd.http.h2.frames import ConnectionFailure, StreamFailure
from rdd.http.h2.heads import DEFAULT_TABLE_BYTES, RequestDecoder
from rdd.http.h2.outbox import Outbox
from rdd.http.h2.stream import Http2Exchange
from rdd.http.responses import TEXT, failure_text

if TYPE_CHECKING:
    from rdd.http.server import Server

log = logging.getLogger("rdd.http")

MAX_STREAMS = 250
MAX_CONTINUATIONS = 32
MAX_REMEMBERED_RESETS = 2 * MAX_STREAMS
CLOSE_S = 1.0


class Http2Connection(asyncio.Protocol):
    """The protocol of one connection."""

    def __init__(self, server: "Server", *, is_preface_read: bool = False) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self.remote = ""
        self.peer_certificate: bytes | None = None
        self._buffer = b""
        self._has_preface = is_preface_read
        self._has_settings = False
        self._decoder = RequestDecoder(max_bytes=server.limits.head_bytes)
        self._streams: dict[int, Http2Exchange] = {}
        self._reset_streams: dict[int, None] = {}
        """Streams that we have reset, the oldest first: frames of them may still arrive."""
        self._running = 0
        self._last = 0
        self._block: list[bytes] = []
        self._block_stream = 0
        self._block_flags = 0
        self._initial_window = DEFAULT_WINDOW
        self._receive_window = ReceiveWindow(CONNECTION_WINDOW)
        self._budget = ControlBudget(self._loop.time())
        self._is_draining = False
        self._has_failed = False
        self._idle_since = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._handlers = {
            frames.DATA: self._on_data,
            frames.HEADERS: self._on_headers,
            frames.PRIORITY: self._on_priority,
            frames.RST_STREAM: self._on_reset,
            frames.SETTINGS: self._on_settings,
            frames.PING: self._on_ping,
            frames.GOAWAY: self._on_goaway,
            frames.WINDOW_UPDATE: self._on_window_update,
            frames.CONTINUATION: self._on_continuation,
        }

    # -- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.outbox = Outbox(self._transport, self._streams)
        self.remote, self.peer_certificate = self._server.peer_of(self._transport)
        self._server.connections[self] = None
        values = {
            frames.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            frames.MAX_HEADER_LIST_SIZE: self._server.limits.head_bytes,
        }
        credit = CONNECTION_WINDOW - DEFAULT_WINDOW
        self._transport.write(frames.settings(values) + frames.window_update(0, credit))
        self._timer = self._loop.call_later(self._server.limits.head_s, self._on_timer)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._cancel_head_timer()
        for stream in list(self._streams.values()):
            stream.body.fail(BodyIncomplete("the client has disconnected"))
            stream.lose()
        self._streams.clear()
        self._handlers.clear()  # refers to our methods: a cycle

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.outbox.is_paused = True

    def resume_writing(self) -> None:
        self.outbox.is_paused = False
        self.outbox.flush_all()

    def data_received(self, data: bytes) -> None:
        if self._has_failed:
            return
        try:
            self._parse(self._buffer + data if self._buffer else data)
        except ConnectionFailure as error:
            self._fail(error)

    # -- frames

    def _parse(self, data: bytes) -> None:
        position = 0
        if not self._has_preface:
            if len(data) < len(frames.PREFACE) and frames.PREFACE.startswith(data):
                self._buffer = data
                return
            if not data.startswith(frames.PREFACE):
                raise ConnectionFailure(frames.PROTOCOL_ERROR, "no connection preface")
            self._has_preface = True
            position = len(frames.PREFACE)
        while len(data) - position >= frames.HEAD_BYTES:
            high, low, kind, flags, id_ = struct.unpack_from("!BHBBI", data, position)
            size = high << 16 | low
            if size > frames.MAX_FRAME_BYTES:
                raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "a frame that is too large")
            end = position + frames.HEAD_BYTES + size
            if end > len(data):
                break
            payload = data[position + frames.HEAD_BYTES : end]
            position = end
            try:
                self._on_frame(kind, flags, id_ & 0x7FFFFFFF, payload)
            except StreamFailure as error:
                log.debug("stream rejected: %s", error)
                self._reject(error)
            if self._has_failed:
                return
        self._buffer = data[position:]

    def _on_frame(self, kind: int, flags: int, id_: int, payload: bytes) -> None:
        if self._block_stream and (kind != frames.CONTINUATION or id_ != self._block_stream):
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "a head is interrupted")
        if not self._has_settings:
            if kind != frames.SETTINGS or flags & frames.ACK:
                raise ConnectionFailure(frames.PROTOCOL_ERROR, "SETTINGS must come first")
            self._has_settings = True
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(flags, id_, payload)
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "a client must not push")
        else:
            self._spend()

    def _spend(self) -> None:
        if not self._budget.take(self._loop.time()):
            raise ConnectionFailure(frames.ENHANCE_YOUR_CALM, "too many control frames")

    def _known(self, id_: int) -> Http2Exchange | None:
        """Return an open stream, None if it is closed. Raises ConnectionFailure if it is idle."""
        if id_ == 0 or id_ > self._last or not id_ & 1:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "a frame on an idle stream")
        return self._streams.get(id_)

    def _on_data(self, flags: int, id_: int, payload: bytes) -> None:
        stream = self._known(id_)
        size = len(payload)
        if not self._receive_window.receive(size):
            raise ConnectionFailure(frames.FLOW_CONTROL_ERROR, "more data than the window allows")
        if credit := self._receive_window.consume(size):
            self.outbox.write(frames.window_update(0, credit))
        if not size and not flags & frames.END_STREAM:
            self._spend()
        data = frames.without_padding(flags, payload)
        if stream is None:
            self._after_end(id_)
            return
        if stream.body.is_complete or stream.body.failure is not None:
            raise StreamFailure(id_, frames.STREAM_CLOSED, "data after the end")
        if not stream.receive_window.receive(size):
            raise StreamFailure(id_, frames.FLOW_CONTROL_ERROR, "more data than the window allows")
        if size > len(data):
            self._consumed(stream, size - len(data))
        body = stream.body
        if body.length is not None and body.received + len(data) > body.length:
            raise StreamFailure(id_, frames.PROTOCOL_ERROR, "more data than announced")
        if data:
            body.feed(data)
        if flags & frames.END_STREAM:
            self._end_body(stream)

    def _end_body(self, stream: Http2Exchange) -> None:
        body = stream.body
        if body.length is not None and body.received != body.length:
            raise StreamFailure(stream.id, frames.PROTOCOL_ERROR, "less data than announced")
        body.complete()

    def _on_headers(self, flags: int, id_: int, payload: bytes) -> None:
        if id_ == 0 or not id_ & 1:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "an invalid stream")
        payload = frames.without_padding(flags, payload)
        if flags & frames.HAS_PRIORITY:
            if len(payload) < 5:
                raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "malformed HEADERS")
            payload = payload[5:]
        if flags & frames.END_HEADERS:
            self._on_head(id_, flags, payload)
        else:
            self._block, self._block_stream, self._block_flags = [payload], id_, flags
            self._head_timer = self._loop.call_later(
                self._server.limits.head_s, self._on_head_timeout
            )

    def _on_continuation(self, flags: int, id_: int, payload: bytes) -> None:
        if not self._block_stream:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "a continuation of nothing")
        self._block.append(payload)
        if (
            len(self._block) > MAX_CONTINUATIONS
            or sum(map(len, self._block)) > self._server.limits.head_bytes
        ):
            raise ConnectionFailure(frames.ENHANCE_YOUR_CALM, "the headers are too large")
        if flags & frames.END_HEADERS:
            block, self._block, self._block_stream = b"".join(self._block), [], 0
            self._cancel_head_timer()
            self._on_head(id_, self._block_flags, block)

    def _on_head(self, id_: int, flags: int, block: bytes) -> None:
        if id_ <= self._last:
            self._on_trailers(id_, flags, block)
            return
        self._last = id_
        if self._is_draining or self._running >= MAX_STREAMS:
            self._decoder.skip(block)
            self._spend()
            self._send_reset(id_, frames.REFUSED_STREAM)
            return
        head = self._decoder.decode(id_, block)
        has_body = not flags & frames.END_STREAM
        if not has_body and head.length:
            raise StreamFailure(id_, frames.PROTOCOL_ERROR, "less data than announced")
        body = EMPTY if not has_body else Body(length=None)
        stream = Http2Exchange(self, id_, head, body, self._initial_window)
        if has_body:
            body.length = head.length
            body.on_consumed = lambda size: self._consumed(stream, size)
        self._streams[id_] = stream
        self._running += 1
        if len(head.headers) > self._server.limits.headers:
            text = failure_text(431, "the request has too many headers")
            stream.send(431, [("Content-Type", TEXT)], text)
            self._ended(stream)
        else:
            self._server.run(stream, self._ended)

    def _on_trailers(self, id_: int, flags: int, block: bytes) -> None:
        is_valid = self._decoder.decode_trailers(block)
        self._spend()
        stream = self._streams.get(id_)
        if stream is None:
            self._after_end(id_)
            return
        if stream.body.is_complete:
            raise StreamFailure(id_, frames.STREAM_CLOSED, "a head after the end")
        if not flags & frames.END_STREAM or not is_valid:
            raise StreamFailure(id_, frames.PROTOCOL_ERROR, "malformed trailers")
        self._end_body(stream)

    def _after_end(self, id_: int) -> None:
        """Ignore what was on its way when we reset a stream; otherwise the stream was closed."""
        if id_ not in self._reset_streams:
            raise ConnectionFailure(frames.STREAM_CLOSED, "a frame on a closed stream")

    def _on_priority(self, flags: int, id_: int, payload: bytes) -> None:
        if id_ == 0:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "an invalid stream")
        if len(payload) != 5:
            raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "malformed PRIORITY")
        self._spend()

    def _on_reset(self, flags: int, id_: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "malformed RST_STREAM")
        stream = self._known(id_)
        self._spend()
        if stream is not None:
            self._drop(stream, "the client has reset the stream")

    def _on_settings(self, flags: int, id_: int, payload: bytes) -> None:
        if id_:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "an invalid stream")
        self._spend()
        if flags & frames.ACK:
            if payload:
                raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "malformed SETTINGS")
            return
        values = frames.parse_settings(payload)
        if values.get(frames.HEADER_TABLE_SIZE, DEFAULT_TABLE_BYTES) < DEFAULT_TABLE_BYTES:
            self.outbox.reduce_table()
        window = values.get(frames.INITIAL_WINDOW_SIZE)
        if window is not None:
            change, self._initial_window = window - self._initial_window, window
            try:
                for stream in self._streams.values():
                    stream.send_window.grow(change)
            except WindowOverflow:
                raise ConnectionFailure(
                    frames.FLOW_CONTROL_ERROR, "a window that is too large"
                ) from None
        self.outbox.write(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self.outbox.flush_all()

    def _on_ping(self, flags: int, id_: int, payload: bytes) -> None:
        if id_:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "an invalid stream")
        if len(payload) != 8:
            raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "malformed PING")
        self._spend()
        if not flags & frames.ACK:
            self.outbox.write(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_goaway(self, flags: int, id_: int, payload: bytes) -> None:
        if id_:
            raise ConnectionFailure(frames.PROTOCOL_ERROR, "an invalid stream")
        if len(payload) < 8:
            raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "malformed GOAWAY")
        self._spend()

    def _on_window_update(self, flags: int, id_: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFailure(frames.FRAME_SIZE_ERROR, "malformed WINDOW_UPDATE")
        size = int.from_bytes(payload, "big") & 0x7FFFFFFF
        if id_ == 0:
            if not size:
                raise ConnectionFailure(frames.PROTOCOL_ERROR, "an empty window update")
            try:
                self.outbox.window.grow(size)
            except WindowOverflow:
                raise ConnectionFailure(
                    frames.FLOW_CONTROL_ERROR, "a window that is too large"
                ) from None
            self.outbox.flush_all()
            return
        stream = self._known(id_)
        if not size:
            self._spend()
            raise StreamFailure(id_, frames.PROTOCOL_ERROR, "an empty window update")
        if stream is None:
            return
        try:
            stream.send_window.grow(size)
        except WindowOverflow:
            raise StreamFailure(
                id_, frames.FLOW_CONTROL_ERROR, "a window that is too large"
            ) from None
        self.outbox.flush(stream)

    # -- streams

    def _consumed(self, stream: Http2Exchange, size: int) -> None:
        credit = stream.receive_window.consume(size)
        if credit and not stream.body.is_complete and not stream.is_reset:
            self.outbox.write(frames.window_update(stream.id, credit))

    def reset(self, stream: Http2Exchange, code: int) -> None:
        """Break a stream off; a connection that is not read at all is closed."""
        if self.outbox.is_paused:
            self._transport.abort()
            return
        self._send_reset(stream.id, code)
        self._drop(stream, "the stream is reset")

    def _send_reset(self, id_: int, code: int) -> None:
        self._reset_streams[id_] = None
        if len(self._reset_streams) > MAX_REMEMBERED_RESETS:
            del self._reset_streams[next(iter(self._reset_streams))]
        self.outbox.write(frames.reset(id_, code))

    def _reject(self, error: StreamFailure) -> None:
        """Reset a stream that violates the protocol."""
        self._spend()
        self._send_reset(error.stream, error.code)
        stream = self._streams.get(error.stream)
        if stream is not None:
            self._drop(stream, str(error))

    def _drop(self, stream: Http2Exchange, why: str) -> None:
        self._streams.pop(stream.id, None)
        if stream.body is not EMPTY:
            stream.body.fail(BodyIncomplete(why))
        stream.lose()

    def _ended(self, stream: Http2Exchange) -> None:
        """Clean up after the handler of a stream."""
        self._running -= 1
        if self._streams.pop(stream.id, None) is not None and not self._transport.is_closing():
            if not stream.has_ended:
                self._send_reset(stream.id, frames.INTERNAL_ERROR)
            elif not stream.body.is_complete:
                # The response is complete, so the client need not send the rest (RFC 9113, 8.1).
                self._send_reset(stream.id, frames.NO_ERROR)
            stream.body.discard()
        if not self._running:
            self._idle_since = self._loop.time()
            if self._timer is None and not self._transport.is_closing():
                self._timer = self._loop.call_later(self._server.limits.idle_s, self._on_timer)

    # -- the end

    def _fail(self, error: ConnectionFailure) -> None:
        log.debug("connection rejected: %s", error)
        self._has_failed = True
        self.outbox.write(frames.goaway(self._last, error.code, str(error)))
        for stream in list(self._streams.values()):
            self._drop(stream, str(error))
        # Closing at once could reset the connection before the client has read the reason.
        self._loop.call_later(CLOSE_S, self._transport.close)

    def shutdown(self) -> None:
        """Announce the end; streams in flight may end."""
        if not self._is_draining:
            self._is_draining = True
            self.outbox.write(frames.goaway(self._last, frames.NO_ERROR))

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request runs."""
        return not self._running

    @property
    def buffered_bytes(self) -> int:
        """The bytes that wait for the client."""
        if self._transport.is_closing():
            return 0
        waiting = sum(stream.pending_bytes for stream in self._streams.values())
        return waiting + self._transport.get_write_buffer_size()

    def _on_timer(self) -> None:
        self._timer = None
        if self._running:
            return
        limits = self._server.limits
        if not self._has_settings:
            self._transport.close()
            return
        left = self._idle_since + limits.idle_s - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._on_timer)
        else:
            self.outbox.write(frames.goaway(self._last, frames.NO_ERROR, "idle"))
            self._transport.close()

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        error = ConnectionFailure(frames.PROTOCOL_ERROR, "a head did not arrive in time")
        self._fail(error)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
