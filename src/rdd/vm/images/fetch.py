# SPDX-License-Identifier: Apache-2.0
"""From a location and a digest to an unpacked file in the cache.

One file is fetched by one process at a time: others that want it wait for the lock beside
its partial file and then find it done. Cancelling leaves a partial download for the next time,
and nothing else.
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
from rdd.vm.images.cache import Digest, ImageCache, LocationRecord, written
from rdd.vm.images.download import Download, Progress
from rdd.vm.images.expansion import Cancelled, expand, packing

_LOCK_POLL_S = 0.2
T = TypeVar("T")


async def fetch(
    location: str,
    digest: str,
    *,
    cache: ImageCache,
    progress: Progress,
) -> Path:
    """The file at a URL or path, unpacked, in the cache. Raises HostError.

    `digest` may be empty; then what is at the location is taken as it is.
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
        known = None if expected else cache.recorded(url)
        if known and await _is_same(url, known):
            return Digest.parse(known.digest)
        download = Download(url, partial, has_digest=bool(expected), progress=progress)
        done = await download.run()
        algorithm = expected.algorithm if expected else "sha256"
        actual = await _in_thread(lambda cancelled: Digest.of(done.path, algorithm))
        if expected and actual != expected:
            download.discard()
            raise HostError(
                f'the digest of "{url}" is {actual}, expected {expected}: the file there was '
                "changed or damaged on the way; nothing was kept"
            )
        cache.add(done.path, actual)
        download.discard()
        if not expected:
            cache.record_location(url, LocationRecord(str(actual), done.etag, done.last_modified))
        return actual


async def _is_same(url: str, known: LocationRecord) -> bool:
    """Whether a file without a digest is still the one we have; who is offline believes so."""
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
            return (etag, last_modified) == (known.etag, known.last_modified)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return True


async def _local(
    path: Path, expected: Digest | None, cache: ImageCache, progress: Progress
) -> Digest:
    mark = _mark(path)
    known = cache.recorded(str(path))
    algorithm = expected.algorithm if expected else "sha256"
    if known and known.etag == mark and known.digest.startswith(algorithm):
        actual = Digest.parse(known.digest)
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
    if not known or known.etag != mark:
        cache.record_location(str(path), LocationRecord(str(actual), mark))
    return actual


def _expanded_user(path: str) -> Path:
    return Path(path).expanduser()


def _mark(path: Path) -> str:
    """What changes when a file on this machine does."""
    try:
        status = path.stat()
    except OSError as error:
        raise HostError(f'failed to read image "{path}": {error.strerror}') from error
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def _copy(source: Path, target: Path) -> None:
    with written(target):
        shutil.copyfile(source, target)


async def _expanded(digest: Digest, cache: ImageCache, progress: Progress) -> Path:
    path = cache.path(digest)
    if not packing(path):
        return path
    target = cache.expanded_path(digest)
    if target.is_file():
        return target
    partial = cache.partial(f"expanded {digest}")
    async with _locked(partial.with_name(partial.name + ".lock"), progress):
        if not target.is_file():
            progress("Unpacking the image")
            await _in_thread(lambda cancelled: expand(path, partial, cancelled=cancelled))
            cache.add_expanded(partial, digest)
    return target


@contextlib.asynccontextmanager
async def _locked(path: Path, progress: Progress) -> AsyncIterator[None]:
    is_told = False
    while (lock := FileLock.take(path)) is None:
        if not is_told:
            progress("Waiting for another download of the same image")
            is_told = True
        await asyncio.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()


async def _in_thread(function: Callable[[threading.Event], T]) -> T:
    """Run blocking work; when we are cancelled it is told, and waited for."""
    cancelled = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(function, cancelled))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        cancelled.set()
        with contextlib.suppress(Cancelled, HostError, OSError):
            await work
        raise
