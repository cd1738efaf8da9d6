# SPDX-License-Identifier: Apache-2.0
"""Checks of URLMonitors, each in a task of its own.

The time of the next check is in the status, so a restart of the daemon causes no check, and one
timer per monitor is all that runs in between. A failed check is retried with exponential
backoff, from a minute to an hour; the content that was found before is kept. It is a pinned file
of the cache.
"""

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

from rdd.api import errors, timestamps
from rdd.api.types import Object
from rdd.base.gotext import parse_duration
from rdd.client import Unreachable
from rdd.controllers.resources.fetcher import Fetcher
from rdd.controllers.resources.reasons import MONITOR_REASONS, READY
from rdd.fetch.cache import write_errors
from rdd.fetch.digests import Digest
from rdd.fetch.failures import FetchError
from rdd.fetch.small import SmallResponse, read_small
from rdd.host.errors import HostError
from rdd.kinds.urlmonitor import MAX_CONTENT_BYTES, URLMonitor
from rdd.runtime import (
    CLEANUP,
    ObjectKey,
    Result,
    add_finalizer,
    conditions_of,
    find_condition,
    is_deleting,
    resource_of,
)

log = logging.getLogger("rdd.resource")


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the monitor has from an earlier check of the same URL."""

    etag: str = ""
    last_modified: str = ""

    @classmethod
    def of(cls, found: URLMonitor) -> "_Kept":
        status = found.status
        has_content = found.spec.method == "HEAD" or (
            bool(status.local_path) and Path(status.local_path).is_file()
        )
        if status.url != found.spec.url or not has_content:
            return cls()
        return cls(status.etag, status.last_modified)

    def headers(self) -> dict[str, str]:
        """Return the headers with which a server answers 304 for unchanged content."""
        found = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in found.items() if value}


class MonitorReconciler(Fetcher[URLMonitor, bool]):
    """Checks URLs when they are due."""

    KIND = URLMonitor
    CONCURRENT = 2
    RETRY_S = (60.0, 3600.0)

    async def reconcile(self, key: ObjectKey) -> Result:
        found = self._objects.get(key)
        if found is None or is_deleting(found.raw):
            await self._end(key, found)
            return Result.done()
        task = self._tasks.find(key)
        if task is not None:
            if not task.done():
                return Result.done()  # its end enqueues the key
            if not task.result():
                return Result.requeue(self.RETRY_S[0])
            # The cache may not have its outcome yet: decide on the object of the server.
            found = URLMonitor.of(await self._context.client.get(resource_of(URLMonitor), key.name))
        if found.spec.suspended:
            await self._status.write(found.raw, members={"nextCheck": None})
            return Result.done()
        remaining_s = _due(found) - self._context.clock()
        if remaining_s > 0:
            return Result.requeue(remaining_s)
        obj = await add_finalizer(self._context.client, URLMonitor, found.raw, CLEANUP)
        self._tasks.start(key, self._run(key, URLMonitor.of(obj)))
        return Result.done()

    async def _run(self, key: ObjectKey, found: URLMonitor) -> bool:
        """Check and write the outcome; return whether it could be written."""
        members: Object = {"lastStatus": None}
        reason, message = "Fetched", ""
        pause_s = parse_duration(found.spec.interval)
        try:
            async with self._places:
                members = await self._check(found)
            self._backoffs.pop(key, None)
        except HostError as error:
            reason = error.failure if isinstance(error, FetchError) else "NotKept"
            message = str(error)
            if isinstance(error, FetchError) and error.status:
                members = {"lastStatus": error.status}
            pause_s = min(pause_s, self._backoff_s(key))
        now = self._context.clock()
        times = {
            "lastCheck": timestamps.text(int(now)),
            "nextCheck": timestamps.text(int(now + pause_s) + 1),
        }
        condition = MONITOR_REASONS.condition(READY, reason, message)
        try:
            await self._status.write(found.raw, condition, members={**members, **times})
        except errors.NotFound:
            pass  # deleted meanwhile
        except (errors.ApiError, Unreachable) as error:
            log.warning("cannot write the outcome of monitor %s: %s", key, error)
            return False
        return True

    async def _check(self, found: URLMonitor) -> Object:
        """Send the request; return the members of the status that follow from the response."""
        spec, kept = found.spec, _Kept.of(found)
        response = await read_small(
            spec.url,
            limit_bytes=MAX_CONTENT_BYTES,
            network=await self._network(),
            method=spec.method,
            body=spec.body,
            headers={} if spec.method == "POST" else kept.headers(),
        )
        members: Object = {"lastStatus": response.status}
        if response.status == 304:
            return members
        members |= {
            "url": spec.url,
            "etag": response.etag or None,
            "lastModified": response.last_modified or None,
        }
        if spec.method == "HEAD":
            is_same = (kept.etag, kept.last_modified) == (response.etag, response.last_modified)
            members |= dict.fromkeys(("digest", "size", "localPath"))
        else:
            digest = Digest("sha256", hashlib.sha256(response.content).hexdigest())
            is_same = (str(digest), spec.url) == (found.status.digest, found.status.url)
            path = await asyncio.to_thread(self._keep, found, digest, response)
            members |= {
                "digest": str(digest),
                "size": len(response.content),
                "localPath": str(path),
            }
        if not is_same:
            members["lastChange"] = timestamps.text(int(self._context.clock()))
            if found.status.digest and found.status.digest != members["digest"]:
                await asyncio.to_thread(self._unpin, found, found.status.digest)
        return members

    def _keep(self, found: URLMonitor, digest: Digest, response: SmallResponse) -> Path:
        """Write the content to the cache and pin it. Blocking. Raises HostError."""
        self._cache.pin(digest, self._pin(found))
        path = self._cache.find(digest)
        if path is None:
            partial = self._cache.partial(f"monitor {self._pin(found)}")
            try:
                with write_errors(partial):
                    partial.write_bytes(response.content)
                path = self._cache.add(partial, digest, location=found.spec.url)
            finally:
                partial.unlink(missing_ok=True)
        return path

    def _unpin(self, found: URLMonitor, digest: str) -> None:
        self._cache.unpin(Digest.parse(digest), self._pin(found))


def _is_changed(found: URLMonitor) -> bool:
    """Return whether the spec has changed since the last check."""
    ready = find_condition(conditions_of(found.raw), READY) or {}
    return ready.get("observedGeneration") != found.metadata.generation


def _due(found: URLMonitor) -> float:
    """Return when the next check is due, in seconds since the epoch; 0 means at once.

    A changed spec is checked at once, unless it has a later time itself.
    """
    requested = _seconds(found.spec.next_check)
    if _is_changed(found):
        return requested
    due = _seconds(found.status.next_check)
    if requested > _seconds(found.status.last_check):
        due = min(due, requested)
    return due


def _seconds(time: str) -> float:
    return timestamps.parse(time)[0] if time else 0.0
