# SPDX-License-Identifier: Apache-2.0
"""Fetches a file: from a location and a digest to an entry of the cache.

One process at a time fetches a file: others wait for the lock beside its partial file and then
find it in the cache. A cancellation leaves only the partial download, for the next attempt.
"""

import hashlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from rdd.fetch.cache import Cache, LocationRecord, write_errors
from rdd.fetch.digests import Digest, find_checksum
from rdd.fetch.download import Download
from rdd.fetch.expansion import compression, expand
from rdd.fetch.failures import FetchError, FetchFailure
from rdd.fetch.locks import Cancelled, in_thread, locked
from rdd.fetch.network import DIRECT, Network
from rdd.fetch.progress import Progress, Report
from rdd.fetch.signatures import Signature
from rdd.fetch.small import read_small
from rdd.host.errors import FailureReason, HostError
from rdd.host.files import open_new

_CHECKSUM_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20


async def fetch_expanded(
    location: str, digest: str, *, cache: Cache, report: Report, network: Network = DIRECT
) -> Path:
    """Return the decompressed file of a URL or path, in the cache. Raises HostError."""
    found = await fetch(location, digest, cache=cache, report=report, network=network)
    return await _expanded(found, cache, report)


async def fetch(
    location: str,
    digest: str,
    *,
    cache: Cache,
    report: Report,
    network: Network = DIRECT,
    signature: Signature | None = None,
) -> Digest:
    """Fetch a URL or path into the cache and return its digest. Raises HostError.

    Without a `digest` the content is not verified. With a `signature` it is verified, too, also
    if the file is in the cache already.
    """
    network.check_digest(location, digest)
    expected = Digest.parse(digest) if digest else None
    path = location.removeprefix("file://")
    if signature is not None and expected and (cached := cache.find(expected)) is not None:
        await in_thread(lambda cancelled: signature.verify(cached, location))
    if "://" in path:
        return await _remote(path, expected, cache, report, network, signature)
    network.check_url(str(_home_expanded(path)))
    return await _local(_home_expanded(path), expected, cache, report, signature)


async def published_digest(
    url: str, name: str, *, network: Network = DIRECT, signature: Signature | None = None
) -> Digest:
    """Return the digest that a publisher's checksum file lists for a file. Raises FetchError.

    `signature` is that of the checksum file.
    """
    response = await read_small(url, limit_bytes=_CHECKSUM_BYTES, network=network)
    if signature is not None:
        with tempfile.NamedTemporaryFile(prefix="rdd-checksums-") as file:
            file.write(response.content)
            file.flush()
            path = Path(file.name)
            await in_thread(lambda cancelled: signature.verify(path, url))
    found = find_checksum(response.content.decode("utf-8", "replace"), name)
    if found is None:
        raise FetchError(
            f'the checksum file "{network.resolve(url)}" does not list "{name}"',
            FetchFailure.NO_CHECKSUM,
        )
    return found


async def remote_size(url: str, *, network: Network = DIRECT) -> int | None:
    """Return the size of a file on its server; None if it cannot be determined."""
    import aiohttp

    try:
        actual_url = network.resolve(url)
        timeout = aiohttp.ClientTimeout(total=10)
        options = network.options(actual_url)
        async with (
            network.session() as session,
            session.head(actual_url, allow_redirects=True, timeout=timeout, **options) as response,
        ):
            length = response.headers.get("Content-Length")
            return int(length) if response.status == 200 and length else None
    except (aiohttp.ClientError, FetchError, TimeoutError, OSError, ValueError):
        return None


async def _remote(
    url: str,
    expected: Digest | None,
    cache: Cache,
    report: Report,
    network: Network,
    signature: Signature | None,
) -> Digest:
    network.resolve(url)  # rejects what cannot be downloaded before anything is written
    if expected and cache.find(expected):
        return expected
    partial = cache.partial(f"{url} {expected or ''}")
    async with locked(partial.with_name(partial.name + ".lock"), report):
        if expected and cache.find(expected):
            return expected
        recorded = None if expected else cache.recorded(url)
        if recorded and await _is_same(url, recorded, network):
            return Digest.parse(recorded.digest)
        download = Download(
            url,
            partial,
            algorithm=expected.algorithm if expected else "sha256",
            has_digest=bool(expected),
            network=network,
            report=report,
        )
        done = await download.run()
        if expected and done.digest != expected:
            download.discard()
            raise FetchError(
                f'the digest of "{url}" is {done.digest}, expected {expected}: the file was '
                "changed or damaged; the download was deleted",
                FetchFailure.CHECKSUM_MISMATCH,
            )
        if signature is not None:
            try:
                await in_thread(lambda cancelled: signature.verify(done.path, url))
            except FetchError:
                download.discard()
                raise
        cache.add(done.path, done.digest, location=url)
        download.discard()
        if not expected:
            found = LocationRecord(str(done.digest), done.etag, done.last_modified)
            cache.record_location(url, found)
        return done.digest


async def _is_same(url: str, recorded: LocationRecord, network: Network) -> bool:
    """Return whether the cached file is still current; True if the server is unreachable."""
    import aiohttp

    actual_url = network.resolve(url)
    timeout = aiohttp.ClientTimeout(total=15)
    options = network.options(actual_url)
    try:
        async with (
            network.session() as session,
            session.head(actual_url, allow_redirects=True, timeout=timeout, **options) as response,
        ):
            if response.status >= 400:
                return True
            etag = response.headers.get("ETag", "")
            last_modified = response.headers.get("Last-Modified", "")
            return (etag, last_modified) == (recorded.etag, recorded.last_modified)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return True


async def _local(
    path: Path,
    expected: Digest | None,
    cache: Cache,
    report: Report,
    signature: Signature | None,
) -> Digest:
    mark = _mark(path)
    recorded = cache.recorded(str(path))
    algorithm = expected.algorithm if expected else "sha256"
    if recorded and recorded.etag == mark and recorded.digest.startswith(algorithm):
        actual = Digest.parse(recorded.digest)
    else:
        report(Progress(f"Reading {path}"))
        actual = await in_thread(lambda cancelled: _digest(path, algorithm, cancelled))
    if expected and actual != expected:
        raise FetchError(
            f'the digest of "{path}" is {actual}, expected {expected}',
            FetchFailure.CHECKSUM_MISMATCH,
        )
    if signature is not None:
        await in_thread(lambda cancelled: signature.verify(path, str(path)))
    if not cache.find(actual):
        partial = cache.partial(f"{path} {actual} {os.getpid()}")
        try:
            await in_thread(lambda cancelled: _copy(path, partial, cancelled))
            cache.add(partial, actual, location=str(path))
        finally:
            partial.unlink(missing_ok=True)
    if not recorded or recorded.etag != mark:
        cache.record_location(str(path), LocationRecord(str(actual), mark))
    return actual


def _home_expanded(path: str) -> Path:
    return Path(path).expanduser()


def _mark(path: Path) -> str:
    """Return a text that changes with a file on this host."""
    try:
        status = path.stat()
    except OSError as error:
        raise HostError(
            f'failed to read "{path}": {error.strerror}', reason=FailureReason.INVALID_SOURCE
        ) from error
    if not stat.S_ISREG(status.st_mode):  # the content of a device or a pipe may not end
        raise HostError(
            f'failed to read "{path}": it is not a file', reason=FailureReason.INVALID_SOURCE
        )
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def _digest(path: Path, algorithm: str, cancelled: threading.Event) -> Digest:
    hashed = hashlib.new(algorithm)
    for piece in _pieces(path, cancelled):
        hashed.update(piece)
    return Digest(algorithm, hashed.hexdigest())


def _copy(source: Path, target: Path, cancelled: threading.Event) -> None:
    needed, free = source.stat().st_size, shutil.disk_usage(target.parent).free
    if needed > free:
        raise FetchError(
            f'failed to copy "{source}": {needed >> 20} MiB are needed in "{target.parent}", '
            f"{free >> 20} MiB are free",
            FetchFailure.DISK_FULL,
        )
    with write_errors(target), os.fdopen(open_new(target, 0o644), "wb") as output:
        for piece in _pieces(source, cancelled):
            output.write(piece)


def _pieces(path: Path, cancelled: threading.Event) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            if cancelled.is_set():
                raise Cancelled
            yield piece


async def _expanded(digest: Digest, cache: Cache, report: Report) -> Path:
    path = cache.path(digest)
    if not compression(path):
        return path
    target = cache.expanded_path(digest)
    if target.is_file():
        return target
    partial = cache.partial(f"expanded {digest}")
    async with locked(partial.with_name(partial.name + ".lock"), report):
        if not target.is_file():
            report(Progress("Decompressing the image"))
            await in_thread(lambda cancelled: expand(path, partial, cancelled=cancelled))
            cache.add_expanded(partial, digest)
    return target
