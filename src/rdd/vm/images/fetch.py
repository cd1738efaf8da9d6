# SPDX-License-Identifier: Apache-2.0
"""Fetches an image: from a location and a digest to a decompressed file in the cache.

One process at a time fetches a file: others wait for the lock beside its partial file and then
find it in the cache. A cancellation leaves only the partial download, for the next attempt.
"""

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

from rdd.host.errors import HostError
from rdd.host.locks import FileLock
from rdd.vm.images.cache import Digest, ImageCache, LocationRecord, write_errors
from rdd.vm.images.download import Download, Progress
from rdd.vm.images.expansion import Cancelled, compression, expand

_LOCK_POLL_S = 0.2
T = TypeVar("T")


async def fetch(
    location: str,
    digest: str,
    *,
    cache: ImageCache,
    progress: Progress,
) -> Path:
    """Return the decompressed file of a URL or path, in the cache. Raises HostError.

    Without a `digest` the content is not verified.
    """
    expected = Digest.parse(digest) if digest else None
    path = location.removeprefix("file://")
    if "://" in path:
        found = await _remote(path, expected, cache, progress)
    else:
        found = await _local(_expanded_user(path), expected, cache, progress)
    return await _expanded(found, cache, progress)


async def _remote(
    url: str,
    expected: Digest | None,
    cache: ImageCache,
    progress: Progress,
) -> Digest:
    if not url.startswith(("http://", "https://")):
        raise HostError(f'failed to download "{url}": only http, https and file are supported')
    if expected and cache.find(expected):
        return expected
    partial = cache.partial(f"{url} {expected or ''}")
    async with _locked(partial.with_name(partial.name + ".lock"), progress):
        if expected and cache.find(expected):
            return expected
        recorded = None if expected else cache.recorded(url)
        if recorded and await _is_same(url, recorded):
            return Digest.parse(recorded.digest)
        download = Download(url, partial, has_digest=bool(expected), progress=progress)
        done = await download.run()
        algorithm = expected.algorithm if expected else "sha256"
        actual = await _in_thread(lambda cancelled: Digest.of(done.path, algorithm))
        if expected and actual != expected:
            download.discard()
            raise HostError(
                f'the digest of "{url}" is {actual}, expected {expected}: the file was changed '
                "or damaged; the download was deleted"
            )
        cache.add(done.path, actual)
        download.discard()
        if not expected:
            cache.record_location(url, LocationRecord(str(actual), done.etag, done.last_modified))
        return actual


async def _is_same(url: str, recorded: LocationRecord) -> bool:
    """Return whether the cached file is still current; True if the server is unreachable."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=15)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.head(url, allow_redirects=True) as response,
        ):
            if response.status >= 400:
                return True
            etag = response.headers.get("ETag", "")
            last_modified = response.headers.get("Last-Modified", "")
            return (etag, last_modified) == (recorded.etag, recorded.last_modified)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return True


async def _local(
    path: Path, expected: Digest | None, cache: ImageCache, progress: Progress
) -> Digest:
    mark = _mark(path)
    recorded = cache.recorded(str(path))
    algorithm = expected.algorithm if expected else "sha256"
    if recorded and recorded.etag == mark and recorded.digest.startswith(algorithm):
        actual = Digest.parse(recorded.digest)
    else:
        progress(f"Reading {path}")
        actual = await _in_thread(lambda cancelled: Digest.of(path, algorithm))
    if expected and actual != expected:
        raise HostError(f'the digest of "{path}" is {actual}, expected {expected}')
    if not cache.find(actual):
        partial = cache.partial(f"{path} {actual} {os.getpid()}")
        try:
            await _in_thread(lambda cancelled: _copy(path, partial))
            cache.add(partial, actual)
        finally:
            partial.unlink(missing_ok=True)
    if not recorded or recorded.etag != mark:
        cache.record_location(str(path), LocationRecord(str(actual), mark))
    return actual


def _expanded_user(path: str) -> Path:
    return Path(path).expanduser()


def _mark(path: Path) -> str:
    """Return a text that changes with a file on this host."""
    try:
        status = path.stat()
    except OSError as error:
        raise HostError(f'failed to read image "{path}": {error.strerror}') from error
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def _copy(source: Path, target: Path) -> None:
    with write_errors(target):
        shutil.copyfile(source, target)


async def _expanded(digest: Digest, cache: ImageCache, progress: Progress) -> Path:
    path = cache.path(digest)
    if not compression(path):
        return path
    target = cache.expanded_path(digest)
    if target.is_file():
        return target
    partial = cache.partial(f"expanded {digest}")
    async with _locked(partial.with_name(partial.name + ".lock"), progress):
        if not target.is_file():
            progress("Decompressing the image")
            await _in_thread(lambda cancelled: expand(path, partial, cancelled=cancelled))
            cache.add_expanded(partial, digest)
    return target


@contextlib.asynccontextmanager
async def _locked(path: Path, progress: Progress) -> AsyncIterator[None]:
    is_reported = False
    while (lock := FileLock.try_acquire(path)) is None:
        if not is_reported:
            progress("Waiting for another download of the same image")
            is_reported = True
        await asyncio.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()


async def _in_thread(function: Callable[[threading.Event], T]) -> T:
    """Run a blocking function; on cancellation set its event and wait for its end."""
    cancelled = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(function, cancelled))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        cancelled.set()
        with contextlib.suppress(Cancelled, HostError, OSError):
            await work
        raise
