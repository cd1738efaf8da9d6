# SPDX-License-Identifier: Apache-2.0
"""Resumable downloads that end with a complete file or an exact error.

The data received so far is in a partial file; the validators of the file on the server (ETag,
Last-Modified) are beside it. An interrupted download (lost connection, cancellation, crash)
resumes there: `Range` with `If-Range`, so that the server sends a changed file whole. Lost
connections are retried a few times with exponential backoff.
"""

import asyncio
import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from rdd.base.backoff import Backoff
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically

Progress = Callable[[str], None]

_ATTEMPTS = 5
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 4.0
_CONNECT_S = 30
_READ_TIMEOUT_S = 60  # without any data from the server
_PROGRESS_S = 0.5
_CHUNK_BYTES = 256 << 10
_MIB = 1 << 20


class SourceUnreachable(HostError):
    """The server is unreachable or the connection was lost; another source may work."""


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
    etag: str
    last_modified: str


class Download:
    def __init__(
        self,
        url: str,
        partial: Path,
        *,
        has_digest: bool,
        progress: Progress,
    ) -> None:
        self._url = url
        self._path = partial
        self._state_path = partial.with_name(partial.name + ".json")
        self._has_digest = has_digest
        self._progress = progress
        self._last_progress_s = 0.0
        self._name = url.rpartition("/")[2].partition("?")[0] or url

    async def run(self) -> Downloaded:
        """Download the rest of the file. Raises SourceUnreachable, HostError."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_S, sock_read=_READ_TIMEOUT_S
        )
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
            backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
            for attempt in range(_ATTEMPTS):
                before = self._size()
                try:
                    state = await self._attempt(session)
                    return Downloaded(self._path, state.etag, state.last_modified)
                except SourceUnreachable as error:
                    # Retry only after progress: a dead server fails at once.
                    if attempt == _ATTEMPTS - 1 or self._size() <= before:
                        raise
                    self._progress(f"{error}; retrying")
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

    async def _attempt(self, session: Any) -> _State:
        import aiohttp

        state = self._state()
        offset = self._size()
        if offset and not (state.validator or self._has_digest):
            offset = 0  # nothing proves that both parts belong to the same file
        if offset and offset == state.total_bytes:
            return state
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
            if state.validator:
                headers["If-Range"] = state.validator
        try:
            async with session.get(self._url, headers=headers) as response:
                return await self._receive(response, offset)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._no_space(error) from error
            raise SourceUnreachable(
                f'failed to download "{self._url}": {_reason(error)}'
            ) from error
        except ValueError as error:  # not a URL
            raise HostError(f'failed to download "{self._url}": {error}') from error

    async def _receive(self, response: Any, offset: int) -> _State:
        if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self.discard()
            raise SourceUnreachable(
                f'failed to download "{self._url}": the file on the server has changed'
            )
        if response.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            kind = (
                SourceUnreachable if response.status >= 500 or response.status == 429 else HostError
            )
            raise kind(
                f'failed to download "{self._url}": the server answered '
                f"{response.status} {response.reason}"
            )
        if response.status == HTTPStatus.OK:
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
        size = await self._store(response, offset, state.total_bytes)
        if state.total_bytes and size != state.total_bytes:
            raise SourceUnreachable(
                f'the download of "{self._url}" ended after {size} of {state.total_bytes} bytes'
            )
        return state

    async def _store(self, response: Any, offset: int, total_bytes: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (0 if offset else os.O_TRUNC)
        descriptor = os.open(self._path, flags, 0o600)
        size = offset
        try:
            os.lseek(descriptor, offset, os.SEEK_SET)
            self._report_progress(size, total_bytes)
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                view = memoryview(chunk)
                while view:
                    view = view[os.write(descriptor, view) :]
                size += len(chunk)
                self._report_progress(size, total_bytes)
        finally:
            os.close(descriptor)
        return size

    def _report_progress(self, size: int, total_bytes: int) -> None:
        now = time.monotonic()
        if now - self._last_progress_s < _PROGRESS_S and size != total_bytes:
            return
        self._last_progress_s = now
        done = f"{size // _MIB} MiB"
        if total_bytes:
            done = f"{100 * size // total_bytes} % ({size // _MIB} of {total_bytes // _MIB} MiB)"
        self._progress(f"Downloading {self._name}: {done}")

    def _check_space(self, needed_bytes: int) -> None:
        free = shutil.disk_usage(self._path.parent).free
        if needed_bytes > free:
            raise HostError(
                f'failed to download "{self._url}": {needed_bytes // _MIB} MiB are needed in '
                f'"{self._path.parent}", {free // _MIB} MiB are free'
            )

    def _no_space(self, error: OSError) -> HostError:
        return HostError(
            f'failed to download "{self._url}": cannot write "{self._path}": {error.strerror}; '
            "free some space; the next attempt resumes the download"
        )


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the server does not respond"
    return " ".join(str(error).split()) or type(error).__name__
