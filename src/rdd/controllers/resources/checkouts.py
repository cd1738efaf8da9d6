# SPDX-License-Identifier: Apache-2.0
"""Fetches for Checkouts, each in a task of its own.

The reconciler starts a task and returns; the task writes progress and outcome. At most four
fetches run at once.

A failure that another attempt may resolve is retried with exponential backoff; any other one
after ten minutes, or when the Resource changes.
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rdd.api import errors
from rdd.api.types import Object
from rdd.client import Unreachable
from rdd.controllers.object_tasks import ProgressWriter
from rdd.controllers.resources.fetcher import Fetcher
from rdd.controllers.resources.reasons import READY, REASONS
from rdd.fetch import checkout
from rdd.fetch.digests import Digest
from rdd.fetch.failures import FetchError, SourceUnreachable
from rdd.fetch.fetching import fetch, published_digest
from rdd.fetch.network import Network
from rdd.fetch.progress import Progress
from rdd.fetch.publisher_signatures import PublisherSignature
from rdd.fetch.signatures import Signature
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.kinds.resource import Checkout, Resource
from rdd.runtime import (
    CLEANUP,
    Lister,
    ObjectKey,
    Result,
    StatusWriter,
    add_finalizer,
    conditions_of,
    find_condition,
    is_deleting,
    is_true,
)

log = logging.getLogger("rdd.resource")

_FINAL_RETRY_S = 600.0
_FETCH_MEMBERS = ("progress", "fetchedBytes", "totalBytes", "bytesPerSecond", "secondsLeft")


class CheckoutReconciler(Fetcher[Checkout, float | None]):
    """Fetches files, and reports what the cache has."""

    KIND = Checkout
    CONCURRENT = 4
    RETRY_S = (1.0, 120.0)

    @property
    def _resources(self) -> Lister[Resource]:
        return self._context.cache.of(Resource)

    async def reconcile(self, key: ObjectKey) -> Result:
        if not key.namespace:
            return await self._reconcile_resource(key)
        found = self._objects.get(key)
        task = self._tasks.find(key)
        if found is None or is_deleting(found.raw):
            await self._end(key, found)
            return Result.done()
        if task is not None:
            return await self._take(key, task)
        if self._is_complete(found):
            return Result.done()
        resource = self._resources.get(ObjectKey("", found.spec.resource))
        if resource is None:
            message = f'Resource "{found.spec.resource}" does not exist'
            await self._write(found.raw, "ResourceMissing", message)
            return Result.done()
        obj = await add_finalizer(self._context.client, Checkout, found.raw, CLEANUP)
        self._tasks.start(key, self._run(key, Checkout.of(obj), resource))
        return Result.done()

    async def _take(self, key: ObjectKey, task: "asyncio.Task[float | None]") -> Result:
        """Return when to retry what a finished task could not do."""
        if not task.done():
            return Result.done()
        retry_s = task.result()
        if retry_s is None:
            self._backoffs.pop(key, None)
            return Result.done()
        return Result.requeue(retry_s)

    def _is_complete(self, found: Checkout) -> bool:
        is_ready = is_true(conditions_of(found.raw), READY)
        return is_ready and Path(found.status.local_path).exists()

    async def _run(self, key: ObjectKey, found: Checkout, resource: Resource) -> float | None:
        """Fetch and place the file; return after how many seconds to retry, None if done."""
        try:
            try:
                async with self._places:
                    members = await self._check_out(found, resource)
            except FetchError as error:
                await self._write(found.raw, error.failure, str(error))
                return self._retry_s(key, isinstance(error, SourceUnreachable))
            except HostError as error:
                await self._write(found.raw, "PlacementFailed", str(error))
                return self._retry_s(key, False)
            await self._write(found.raw, "CheckedOut", members=members)
            self._context.enqueue(ObjectKey("", found.spec.resource))
        except (errors.ApiError, Unreachable) as error:
            log.warning("cannot write the outcome of checkout %s: %s", key, error)
            return self._retry_s(key, True)
        return None

    def _retry_s(self, key: ObjectKey, is_transient: bool) -> float:
        return self._backoff_s(key) if is_transient else _FINAL_RETRY_S

    async def _check_out(self, found: Checkout, resource: Resource) -> Object:
        network = await self._network()
        if not resource.spec.digest:
            network.check_digest(resource.spec.url, "")
        await self._write(found.raw, "Fetching", members={"progress": "Starting"})
        digest = await self._digest(resource, network)
        signature = await self._signature_of_file(resource, network, digest)
        reporter = ProgressWriter[Progress](lambda progress: self._write_progress(found, progress))
        try:
            fetched = await fetch(
                resource.spec.url,
                str(digest),
                cache=self._cache,
                report=reporter.report,
                network=network,
                signature=signature,
            )
        finally:
            await reporter.finish()
        if signature is not None:
            self._cache.record_verified(resource.spec.url, fetched)
        spec = found.spec
        source = self._cache.path(fetched)
        target = Path(spec.destination) if spec.destination else source
        if not spec.destination:
            await asyncio.to_thread(self._cache.pin, fetched, self._pin(found))
        elif spec.readonly and not spec.executable:
            await asyncio.to_thread(_place_link, source, target)
        else:
            mode = 0o755 if spec.executable else 0o644
            await asyncio.to_thread(_place_copy, source, target, mode)
        return {"localPath": str(target), "digest": str(fetched)}

    async def _digest(self, resource: Resource, network: Network) -> Digest:
        """Return the digest of a Resource; a published one is pinned when it is first read."""
        known = resource.spec.digest or resource.status.digest
        if known:
            return Digest.parse(known)
        url, wanted = resource.spec.url, resource.spec.signature
        if (wanted is None or wanted.signed == "file") and (found := self._cache.verified(url)):
            await self._write_resource(resource, {"digest": str(found)})
            return found
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        signature = await self._signature(resource, network, "checksums")
        digest = await published_digest(
            resource.spec.checksum_url, name, network=network, signature=signature
        )
        await self._write_resource(resource, {"digest": str(digest)})
        return digest

    async def _signature_of_file(
        self, resource: Resource, network: Network, digest: Digest
    ) -> Signature | None:
        """Read the signature of the file; None without one, or if it was verified before."""
        if self._cache.verified(resource.spec.url) == digest:
            return None
        return await self._signature(resource, network, "file")

    async def _signature(self, resource: Resource, network: Network, of: str) -> Signature | None:
        """Read the signature of the file or of its checksums; None if the Resource has none."""
        wanted = resource.spec.signature
        if wanted is None or wanted.signed != of:
            return None
        source = PublisherSignature(wanted.url, wanted.signed, wanted.key, wanted.key_url)
        return await source.read(self._cache, network)

    async def _reconcile_resource(self, key: ObjectKey) -> Result:
        found = self._resources.get(key)
        if found is None or is_deleting(found.raw):
            return Result.done()
        digest = found.spec.digest or found.status.digest
        path = self._cache.path(Digest.parse(digest)) if digest else None
        is_cached = path is not None and path.is_file()
        members: Object = {"status": "cached" if is_cached else "available"}
        if digest:
            members["digest"] = digest
        members["size"] = path.stat().st_size if path is not None and is_cached else None
        await self._write_resource(found, members)
        for waiting in self._waiting_for(key.name):
            self._context.enqueue(waiting)
        return Result.done()

    def _waiting_for(self, name: str) -> Iterator[ObjectKey]:
        for found in self._objects.list():
            ready = find_condition(conditions_of(found.raw), READY) or {}
            if found.spec.resource == name and ready.get("status") != "True":
                yield ObjectKey.of(found.raw)

    async def _write_resource(self, found: Resource, members: Object) -> None:
        await StatusWriter(self._context, Resource).write(found.raw, members=members)

    async def _write(
        self, obj: Object, reason: str, message: str = "", *, members: Object | None = None
    ) -> None:
        cleared: Object = dict.fromkeys(_FETCH_MEMBERS)
        condition = REASONS.condition(READY, reason, message)
        try:
            await self._status.write(obj, condition, members={**cleared, **(members or {})})
        except errors.NotFound:
            pass  # deleted meanwhile

    async def _write_progress(self, found: Checkout, progress: Progress) -> None:
        members: Object = {
            "progress": str(progress),
            "fetchedBytes": progress.done_bytes,
            "totalBytes": progress.total_bytes or None,
            "bytesPerSecond": int(progress.bytes_per_s),
            "secondsLeft": progress.remaining_s,
        }
        await self._write(found.raw, "Fetching", members=members)


def _place_copy(source: Path, target: Path, mode: int) -> None:
    make_private_dir(target.parent)
    checkout.copy(source, target, mode=mode)


def _place_link(source: Path, target: Path) -> None:
    if target.exists() or target.is_symlink():
        if target.is_file() and target.samefile(source):
            return
        raise HostError(f'failed to write "{target}": it exists')
    make_private_dir(target.parent)
    checkout.link_or_copy(source, target)
