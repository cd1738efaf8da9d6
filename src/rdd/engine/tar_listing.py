# SPDX-License-Identifier: Apache-2.0
"""The headers of a tar stream, while it passes.

The engine has no request that lists a directory: it sends a tar of everything below. The
content of files is skipped without being kept. Long and non-ASCII names are in extended
headers (pax, GNU), which apply to the entry that follows.
"""

import math
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass

from rdd.engine.errors import EngineProtocolError

BLOCK = 512
_MAX_EXTENSION = 1024 * 1024
_LENGTH_DIGITS = 9
_MOST = 1 << 60


class MalformedTar(EngineProtocolError):
    """The stream is no tar."""


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry of a tar."""

    name: str
    type: str
    """file, directory, symlink, hardlink or other."""
    size: int
    mode: int
    modified: float
    target: str


class TarStream:
    """Reads entries, and the content of one if it is wanted."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = bytearray()
        self._left = 0
        """Bytes of the present entry with its padding."""
        self.read_bytes = 0
        """How much of the stream has passed."""

    async def next(self) -> TarEntry | None:
        """Return the next entry, None at the end. Raises MalformedTar."""
        extension: dict[str, str] = {}
        while True:
            await self._skip(self._left)
            header = await self._take(BLOCK)
            if not header or not any(header):
                return None
            try:
                info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise MalformedTar(f"the stream is no tar: {error}") from None
            if info.size < 0:
                raise MalformedTar("a negative size")
            self._left = -(-info.size // BLOCK) * BLOCK
            if info.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, b"L", b"K"):
                extension |= _extension(info, await self._extension_data(info))
                continue
            size = _size(extension.get("size", info.size))
            if not info.isreg():
                size = 0
            else:
                self._left = -(-size // BLOCK) * BLOCK
            return TarEntry(
                extension.get("path", info.name),
                _type(info),
                size,
                info.mode,
                _time(extension.get("mtime", info.mtime)),
                extension.get("linkpath", info.linkname),
            )

    async def content(self, entry: TarEntry) -> AsyncIterator[bytes]:
        """Yield the content of the entry that was returned last."""
        left = entry.size
        while left:
            if not self._buffer and not await self._fill():
                raise MalformedTar("the stream ends within a file")
            piece = bytes(self._buffer[:left])
            del self._buffer[: len(piece)]
            left -= len(piece)
            self._left -= len(piece)
            yield piece

    async def _extension_data(self, info: tarfile.TarInfo) -> bytes:
        if info.size > _MAX_EXTENSION:
            raise MalformedTar("an extended header is too large")
        data = await self._take(self._left)
        self._left = 0
        return data[: info.size]

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not await self._fill():
                return b""
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _skip(self, size: int) -> None:
        while size:
            if not self._buffer and not await self._fill():
                return
            step = min(size, len(self._buffer))
            del self._buffer[:step]
            size -= step
        self._left = 0

    async def _fill(self) -> bool:
        async for piece in self._pieces:
            self._buffer += piece
            self.read_bytes += len(piece)
            return True
        return False


def _type(info: tarfile.TarInfo) -> str:
    if info.isdir():
        return "directory"
    if info.issym():
        return "symlink"
    if info.islnk():
        return "hardlink"
    return "file" if info.isreg() else "other"


def _extension(info: tarfile.TarInfo, data: bytes) -> dict[str, str]:
    if info.type == tarfile.XGLTYPE:
        return {}
    if info.type in (b"L", b"K"):
        text = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
        return {"path" if info.type == b"L" else "linkpath": text}
    found = {}
    start = 0
    while start < len(data):
        length = data[start : start + _LENGTH_DIGITS].partition(b" ")[0]
        if not length.isdigit() or not 0 < int(length) <= len(data) - start:
            raise MalformedTar("malformed extended header")
        end = start + int(length)
        record = data[start + len(length) + 1 : end].rstrip(b"\n")
        name, _, value = record.partition(b"=")
        found[name.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        start = end
    return found


def _size(value: str | int) -> int:
    try:
        size = int(value)
    except ValueError:
        size = -1
    if not 0 <= size < _MOST:
        raise MalformedTar("malformed size")
    return size


def _time(value: str | float) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise MalformedTar("malformed time")
    return seconds
