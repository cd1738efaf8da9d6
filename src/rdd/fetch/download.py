# SPDX-License-Identifier: Apache-2.0
"""Resumable downloads that end with a complete file or an exact error.

The data received so far is in a partial file; the validators of the file on the server (ETag,
Last-Modified) are beside it. An interrupted download (lost connection, cancellation, crash)
resumes there: `Range` with `If-Range`, so that the server sends a changed file whole. Lost
connections are retried a few times with exponential backoff.

Data is written and hashed in a thread, a megabyte at a time, while the next one arrives: a slow
disk does not hold the event loop, and the digest is known when the last byte is written.
"""

import asyncio
import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdd.base.backoff import Backoff
from rdd.fetch import failures
from rdd.fetch.digests import Digest
from rdd.fetch.failures import FetchError, FetchFailure, SourceUnreachable
from rdd.fetch.network import Network
from rdd.fetch.progress import Meter, Report
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically

if TYPE_CHECKING:
    from aiohttp import ClientSession

_ATTEMPTS = 5
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 4.0
_PIECE_BYTES = 1 << 20  # written and hashed at once
_PIECE_S = 0.5  # a slow server's data is written after this time
_MIB = 1 << 20
_RESERVE_BYTES = 1 << 30


@dataclass(slots=True)
class _State:
    """The metadata of a partial file."""

    url: str
    etag: str = ""
    last_modified: str = ""
    total_bytes: int = 0

    @property
    def validator(self) -> str:
        # A weak ETag guarantees equivalence, not identical bytes.
        return self.last_modified if self.etag.startswith("W/") or not self.etag else self.etag


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A complete file."""

    path: Path
    digest: Digest
    etag: str
    last_modified: str


class Download:
    """One file of one server."""

    def __init__(
        self,
        url: str,
        partial: Path,
        *,
        algorithm: str = "sha256",
        has_digest: bool,
        network: Network,
        report: Report,
    ) -> None:
        self._url = network.resolve(url)
        self._path = partial
        self._state_path = partial.with_name(partial.name + ".json")
        self._algorithm = algorithm
        self._has_digest = has_digest
        self._network = network
        name = url.rpartition("/")[2].partition("?")[0] or url
        self._meter = Meter(f"Downloading {name}", report)

    async def run(self) -> Downloaded:
        """Download the rest of the file. Raises SourceUnreachable, FetchError, HostError."""
        async with self._network.session() as session:
            backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
            for attempt in range(_ATTEMPTS):
                before = self._size()
                try:
                    return await self._attempt(session)
                except SourceUnreachable:
                    # Retry only after progress: a dead server fails at once.
                    if attempt == _ATTEMPTS - 1 or self._size() <= before:
                        raise
                    await asyncio.sleep(backoff.next_s())
        raise AssertionError("the loop above returns or raises")

    def discard(self) -> None:
        """Delete the partial file."""
        self._path.unlink(missing_ok=True)
        self._state_path.unlink(missing_ok=True)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _state(self) -> _State:
        try:
            state = _State(**json.loads(read_text(self._state_path) or "null"))
            return state if state.url == self._url else _State(self._url)
        except (TypeError, ValueError, HostError):
            return _State(self._url)

    async def _attempt(self, session: "ClientSession") -> Downloaded:
        import aiohttp

        state = self._state()
        offset = self._size()
        if offset and not (state.validator or self._has_digest):
            offset = 0  # nothing proves that both parts belong to the same file
        if offset and offset == state.total_bytes:
            digest = await asyncio.to_thread(Digest.of, self._path, self._algorithm)
            return Downloaded(self._path, digest, state.etag, state.last_modified)
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
            if state.validator:
                headers["If-Range"] = state.validator
        try:
            options = self._network.options(self._url)
            async with session.get(self._url, headers=headers, **options) as response:
                return await self._receive(response, offset)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise failures.from_connection(self._url, error) from error

    async def _receive(self, response: Any, offset: int) -> Downloaded:
        is_partial = response.status == HTTPStatus.PARTIAL_CONTENT
        if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or (
            is_partial and not _starts_at(response, offset)
        ):
            self.discard()
            raise SourceUnreachable(
                f'failed to download "{self._url}": the file on the server has changed',
                FetchFailure.UNREACHABLE,
            )
        if not is_partial and response.status != HTTPStatus.OK:
            raise failures.from_status(self._url, response.status, response.reason)
        if not is_partial:
            offset = 0
        length = int(response.headers.get("Content-Length", 0))
        state = _State(
            self._url,
            response.headers.get("ETag", ""),
            response.headers.get("Last-Modified", ""),
            offset + length if length else 0,
        )
        self._check_space(length)
        write_atomically(self._state_path, json.dumps(asdict(state)), durable=False)
        with _Sink(self._path, offset, self._algorithm) as sink:
            await self._store(response, sink, state.total_bytes)
        if state.total_bytes and sink.size != state.total_bytes:
            raise SourceUnreachable(
                f'the download of "{self._url}" ended after {sink.size} of '
                f"{state.total_bytes} bytes",
                FetchFailure.UNREACHABLE,
            )
        digest = Digest(self._algorithm, sink.hash.hexdigest())
        return Downloaded(self._path, digest, state.etag, state.last_modified)

    async def _store(self, response: Any, sink: "_Sink", total_bytes: int) -> None:
        """Write the body; one piece is written while the next one is received."""
        await asyncio.to_thread(sink.rehash)
        self._meter.update(sink.size, total_bytes)
        piece: list[bytes] = []
        size = 0
        clock = asyncio.get_running_loop().time
        last_s = 0.0
        writing: asyncio.Future[None] | None = None
        try:
            async for chunk in response.content.iter_any():
                piece.append(chunk)
                size += len(chunk)
                if size < _PIECE_BYTES and clock() - last_s < _PIECE_S:
                    continue
                last_s = clock()
                if not total_bytes:
                    self._check_reserve()
                if writing is not None:
                    await writing
                    self._meter.update(sink.size, total_bytes)
                writing = asyncio.ensure_future(asyncio.to_thread(sink.write, piece))
                piece, size = [], 0
        finally:
            # What has arrived is kept for the next attempt, also after a cancellation.
            if writing is not None:
                await asyncio.shield(writing)
            sink.write(piece)
        self._meter.update(sink.size, total_bytes)

    def _check_space(self, needed_bytes: int) -> None:
        free = shutil.disk_usage(self._path.parent).free
        if needed_bytes > free:
            raise FetchError(
                f'failed to download "{self._url}": {needed_bytes // _MIB} MiB are needed in '
                f'"{self._path.parent}", {free // _MIB} MiB are free',
                FetchFailure.DISK_FULL,
            )

    def _check_reserve(self) -> None:
        """End a download of unknown size, which may be endless, before the disk is full."""
        disk = shutil.disk_usage(self._path.parent)
        if disk.free < min(_RESERVE_BYTES, disk.total // 10):
            self.discard()
            raise FetchError(
                f'failed to download "{self._url}": it does not say how large it is, and only '
                f'{disk.free // _MIB} MiB are free in "{self._path.parent}"; what was received '
                "was deleted",
                FetchFailure.DISK_FULL,
            )


class _Sink:
    """The partial file, written from an offset on, and the hash of all of it."""

    def __init__(self, path: Path, offset: int, algorithm: str) -> None:
        self.size = offset
        self.hash = hashlib.new(algorithm)
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags | (0 if offset else os.O_TRUNC), 0o600)
        os.ftruncate(self._descriptor, offset)
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    def rehash(self) -> None:
        """Hash what the file has from an earlier attempt. Blocking."""
        if self.size:
            with self._path.open("rb") as file:
                while data := file.read(_PIECE_BYTES):
                    self.hash.update(data)

    def write(self, piece: list[bytes]) -> None:
        """Append data. Blocking. Raises OSError."""
        for chunk in piece:
            view = memoryview(chunk)
            while view:
                written = os.write(self._descriptor, view)
                self.hash.update(view[:written])
                self.size += written
                view = view[written:]

    def __enter__(self) -> "_Sink":
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self._descriptor)


def _starts_at(response: Any, offset: int) -> bool:
    """Return whether a partial response begins where it was asked to."""
    found = response.headers.get("Content-Range", "")
    return not found or bool(found.startswith(f"bytes {offset}-"))
