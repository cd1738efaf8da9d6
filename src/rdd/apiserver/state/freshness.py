# SPDX-License-Identifier: Apache-2.0
"""Reads on a distributed store, whose changes reach the cache a little later.

As in Kubernetes, a read without a resourceVersion includes every write that was acknowledged
before, by any server, so it waits for the cache to catch up; `resourceVersion=0` accepts the
cache as it is; a read of a version that the cache has not reached waits for it up to three
seconds, then the handler answers 504. Where nothing else writes, the cache is current as long as
the watch of the store is open (`Store.is_current`). On SQLite none of this runs.

A write is decided by the store, but first compared with the cache: an object that another server
has just created, changed or deleted would be missing, in conflict or in the way. So a write that
fails for such a reason is repeated once the cache has caught up; if nothing new came, the failure
stands. Kubernetes does the same when it decides from its cache.

Without a quorum a consistent read is impossible: 503 with Retry-After.
"""

import asyncio
from collections.abc import Awaitable, Callable

from rdd.api import errors
from rdd.apiserver.components import Core
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.store.contract import Unavailable

WAIT_S = 3.0
RETRY_AFTER_S = 1
_POLL_S = 0.1
_ATTEMPTS = 5
READS = frozenset({"get", "list", "watch"})
_MAX_DIGITS = 19


async def catch_up(core: Core, request: Request) -> None:
    """Wait until the cache is as new as a read requires. Raises ServiceUnavailable."""
    version = request.first("resourceVersion")
    if version:
        if version == "0" or request.info.verb == "watch":
            return  # any version will do, or the watch delivers what follows the version
        if version.isascii() and version.isdigit() and len(version) <= _MAX_DIGITS:
            await _reach(core, int(version))
        return  # the handler reports a malformed version
    if core.store.is_current:
        return
    await _refresh(core)


async def _refresh(core: Core) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            await core.store.refresh()
    except TimeoutError:
        raise _unavailable("the store did not respond in time") from None
    except Unavailable as error:
        raise _unavailable(str(error)) from error


async def write_current(
    core: Core, request: Request, call: Callable[[], Awaitable[AnyResponse]]
) -> AnyResponse:
    """Make a write whose failure is not due to a cache that is behind. Raises ApiError."""
    for _ in range(_ATTEMPTS):
        revision, warnings = core.store.revision, len(request.warnings)
        try:
            return await call()
        except (errors.NotFound, errors.Conflict, errors.AlreadyExists) as failure:
            if core.store.is_current:
                raise
            await _refresh(core)
            if core.store.revision == revision:
                raise  # the cache was as new as the store when it was compared
            del request.warnings[warnings:]
            request.condition = request.charge = None
            last = failure
    raise last


async def _reach(core: Core, revision: int) -> None:
    """Wait for a revision; after the timeout, the handler reports that it is too large."""
    if revision <= core.cache.revision:
        return
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                await core.store.refresh(revision)
                core.cache.advance(core.store.revision)
                if revision <= core.cache.revision:
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return
    except Unavailable as error:
        raise _unavailable(str(error)) from error


def _unavailable(reason: str) -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable(
        f"the newest state is unknown: {reason}; resourceVersion=0 reads the last known one",
        retry_after_s=RETRY_AFTER_S,
    )
