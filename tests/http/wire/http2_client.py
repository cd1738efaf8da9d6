# SPDX-License-Identifier: Apache-2.0
"""A client of HTTP/2 on a raw socket: tests choose every frame."""

import asyncio
import struct
from dataclasses import dataclass

import hpack
from tests.http.wire.wire_server import DEADLINE_S, RawConnection

from rdd.http.h2 import frames


@dataclass(frozen=True, slots=True)
class Frame:
    """A received frame."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """The error code of RST_STREAM or GOAWAY."""
        data = self.payload[4:8] if self.kind == frames.GOAWAY else self.payload
        return int.from_bytes(data, "big")


class Http2Client:
    """Sends and receives frames; confirms nothing by itself but what `answer` needs."""

    def __init__(self, raw: RawConnection) -> None:
        self.raw = raw
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.next = 1

    @classmethod
    def on(cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> "Http2Client":
        return cls(RawConnection(reader, writer))

    def start(self, settings: dict[int, int] | None = None) -> None:
        self.raw.send(frames.PREFACE + frames.settings(settings or {}))

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        self.raw.send(frames.frame(kind, flags, stream, payload))

    def block(
        self, method: str = "GET", path: str = "/", extra: list[tuple[str, str]] | None = None
    ) -> bytes:
        pseudo = [(":method", method), (":scheme", "http"), (":path", path)]
        return bytes(self.encoder.encode([*pseudo, (":authority", "localhost"), *(extra or [])]))

    def request(
        self,
        method: str = "GET",
        path: str = "/",
        *,
        body: bytes | None = None,
        extra: list[tuple[str, str]] | None = None,
    ) -> int:
        """Send a request; return its stream."""
        stream, self.next = self.next, self.next + 2
        flags = frames.END_HEADERS | (frames.END_STREAM if body is None else 0)
        self.send(frames.HEADERS, flags, stream, self.block(method, path, extra))
        if body is not None:
            self.send(frames.DATA, frames.END_STREAM, stream, body)
        return stream

    async def frame(self) -> Frame:
        async with asyncio.timeout(DEADLINE_S):
            high, low, kind, flags, stream = struct.unpack(
                "!BHBBI", await self.raw.reader.readexactly(frames.HEAD_BYTES)
            )
            payload = await self.raw.reader.readexactly(high << 16 | low)
            return Frame(kind, flags, stream & 0x7FFFFFFF, payload)

    async def until(self, *kinds: int) -> Frame:
        """Return the next frame of some kinds."""
        while (found := await self.frame()).kind not in kinds:
            if found.kind == frames.HEADERS:
                self.decoder.decode(found.payload)
        return found

    async def answer(self, stream: int) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of a response; windows are kept open."""
        status, body = 0, b""
        headers: dict[str, str] = {}
        while True:
            found = await self.frame()
            if found.kind == frames.HEADERS:
                decoded = [(str(n), str(v)) for n, v in self.decoder.decode(found.payload)]
                if found.stream == stream:
                    headers = dict(decoded)
                    status = int(headers.pop(":status"))
            elif found.kind == frames.DATA and found.payload:
                self.raw.send(frames.window_update(0, len(found.payload)))
                if found.stream == stream:
                    self.raw.send(frames.window_update(stream, len(found.payload)))
                    body += found.payload
            elif found.kind in (frames.RST_STREAM, frames.GOAWAY) and found.stream in (0, stream):
                raise ConnectionResetError(found.code)
            is_message = found.kind in (frames.DATA, frames.HEADERS)
            if found.stream == stream and is_message and found.flags & frames.END_STREAM:
                return status, headers, body
