# SPDX-License-Identifier: Apache-2.0
"""A client transport of HTTP/2 on the library h2, an implementation that is not ours.

One connection carries any number of requests at the same time; responses are streamed. Tests
and the gateway (`http2_gateway.py`) use it to repeat over HTTP/2 what is known of HTTP/1.1.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

DEADLINE_S = 120
WINDOW = 1 << 20

HeaderPairs = list[tuple[str, str]]


@dataclass(slots=True)
class Http2Response:
    """A response whose body may still arrive."""

    status: int
    headers: HeaderPairs
    pieces: "asyncio.Queue[bytes | Exception | None]"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self.pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self])

    def header(self, name: str) -> str:
        """Return the first value of a header, empty if it is absent."""
        return next((value for given, value in self.headers if given == name), "")


@dataclass(slots=True)
class _Stream:
    head: "asyncio.Future[tuple[int, HeaderPairs]]"
    pieces: "asyncio.Queue[bytes | Exception | None]" = field(default_factory=asyncio.Queue)
    room: asyncio.Event = field(default_factory=asyncio.Event)


class Http2Transport:
    """A connection to one server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # Requests are sent as they are given: the server has to check them, not the client.
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                header_encoding="utf-8",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._streams: dict[int, _Stream] = {}
        self._task: asyncio.Task[None] | None = None
        self.is_lost = False
        self.authority = "localhost"
        self.scheme = "http"

    @classmethod
    async def connect(cls, url: str, tls: ssl.SSLContext | None = None) -> "Http2Transport":
        """Connect to a URL; over TLS the server must choose h2."""
        parts = urlsplit(url)
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port, ssl=tls, limit=1 << 24
        )
        if tls is not None:
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        self = cls(reader, writer)
        self.authority, self.scheme = parts.netloc, parts.scheme
        self._h2.initiate_connection()
        self._h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
        self._h2.increment_flow_control_window(WINDOW)
        self._flush()
        self._task = asyncio.create_task(self._read())
        return self

    async def close(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def request(
        self, method: str, target: str, headers: HeaderPairs, body: bytes = b""
    ) -> Http2Response:
        """Send a request; return as soon as the head of the response has arrived."""
        id_ = self._h2.get_next_available_stream_id()
        stream = self._streams[id_] = _Stream(asyncio.get_running_loop().create_future())
        head = [(":method", method), (":scheme", self.scheme), (":path", target)]
        given = [(name.lower(), value) for name, value in headers]
        if not any(name == "host" for name, _ in given):
            head.append((":authority", self.authority))
        self._h2.send_headers(id_, [*head, *given], end_stream=not body)
        self._flush()
        try:
            if body:
                await self._send_body(id_, stream, body)
            status, received = await stream.head
        except asyncio.CancelledError:
            self.cancel(id_)
            raise
        return Http2Response(status, received, stream.pieces)

    def cancel(self, id_: int) -> None:
        """Reset a stream."""
        if self._streams.pop(id_, None) is not None and not self.is_lost:
            try:
                self._h2.reset_stream(id_, 8)
            except h2.exceptions.ProtocolError:
                return
            self._flush()

    async def _send_body(self, id_: int, stream: _Stream, body: bytes) -> None:
        view = memoryview(body)
        while view and not stream.head.done():
            size = min(
                self._h2.local_flow_control_window(id_), self._h2.max_outbound_frame_size, len(view)
            )
            if size <= 0:
                stream.room.clear()
                await stream.room.wait()
                continue
            self._h2.send_data(id_, bytes(view[:size]), end_stream=size == len(view))
            view = view[size:]
            self._flush()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data:
            self._writer.write(data)

    async def _read(self) -> None:
        failure: Exception = ConnectionResetError("the server closed the connection")
        try:
            while data := await self._reader.read(1 << 16):
                for event in self._h2.receive_data(data):
                    self._on_event(event)
                self._flush()
        except (OSError, h2.exceptions.ProtocolError) as error:
            failure = error
        finally:
            self.is_lost = True
            for id_ in list(self._streams):
                self._end(id_, failure)

    def _on_event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived():
                stream = self._streams.get(event.stream_id)
                if stream is not None:
                    pairs = [(str(name), str(value)) for name, value in event.headers]
                    status = int(dict(pairs).pop(":status"))
                    stream.head.set_result((status, pairs[1:]))
            case h2.events.DataReceived():
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if event.stream_id in self._streams:
                    self._streams[event.stream_id].pieces.put_nowait(event.data)
            case h2.events.StreamEnded():
                self._end(event.stream_id, None)
            case h2.events.StreamReset():
                code = f"the stream was reset: {event.error_code}"
                self._end(event.stream_id, ConnectionResetError(code))
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                for stream in self._streams.values():
                    stream.room.set()

    def _end(self, id_: int, failure: Exception | None) -> None:
        stream = self._streams.pop(id_, None)
        if stream is None:
            return
        stream.room.set()
        if failure is not None and not stream.head.done():
            stream.head.set_exception(failure)
        stream.pieces.put_nowait(failure)
