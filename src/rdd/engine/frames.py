# SPDX-License-Identifier: Apache-2.0
"""The engine's framing of stdout and stderr on one connection.

Without a terminal, output is framed: a byte for the stream (0 stdin, 1 stdout, 2
stderr, 3 an error of the engine itself), three zeros, four bytes of length. With a
terminal there is one stream without frames. Frames are independent of the chunks in
which they arrive.
"""

from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple

from rdd.engine.errors import EngineError, EngineProtocolError

STDOUT, STDERR = 1, 2
_ENGINE_ERROR = 3
_HEADER_BYTES = 8
_MAX_FRAME = 64 * 1024 * 1024


class Chunk(NamedTuple):
    """A piece of output."""

    stream: int
    """STDOUT or STDERR; always STDOUT with a terminal."""
    data: bytes


class Deframer:
    """Decodes frames incrementally; it does not wait for a complete frame."""

    def __init__(self) -> None:
        self._buffer = b""
        self._stream = 0
        self._left = 0

    def feed(self, piece: bytes) -> list[Chunk]:
        """Decode the next bytes. Raises EngineProtocolError, EngineError."""
        found: list[Chunk] = []
        data = self._buffer + piece if self._buffer else piece
        at = 0
        while True:
            if not self._left:
                if len(data) - at < _HEADER_BYTES:
                    break
                header = data[at : at + _HEADER_BYTES]
                self._stream = header[0]
                self._left = int.from_bytes(header[4:], "big")
                if header[1:4] != b"\0\0\0" or self._stream > _ENGINE_ERROR:
                    raise EngineProtocolError.of("not a frame of output", header)
                if self._left > _MAX_FRAME:
                    raise EngineProtocolError.of("a frame of output is too long", header)
                at += _HEADER_BYTES
            part = data[at : at + self._left]
            if self._stream == _ENGINE_ERROR:
                if len(part) < self._left:
                    # The message must be complete: return to the header.
                    at -= _HEADER_BYTES
                    self._left = 0
                    break
                raise EngineError(500, part.decode("utf-8", "replace").strip())
            at += len(part)
            self._left -= len(part)
            if part:
                found.append(Chunk(STDOUT if self._stream == 0 else self._stream, part))
            if self._left:
                break
        self._buffer = data[at:]
        return found


async def chunks(pieces: AsyncIterable[bytes], *, is_terminal: bool) -> AsyncIterator[Chunk]:
    """Decode a stream."""
    if is_terminal:
        async for piece in pieces:
            yield Chunk(STDOUT, piece)
        return
    deframer = Deframer()
    async for piece in pieces:
        for chunk in deframer.feed(piece):
            yield chunk
