# SPDX-License-Identifier: Apache-2.0
"""Locks of the cache between processes, and threads that can be cancelled."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

from rdd.fetch.progress import Progress, Report
from rdd.host.errors import HostError
from rdd.host.locks import FileLock

_LOCK_POLL_S = 0.2
T = TypeVar("T")


class Cancelled(Exception):
    """Blocking work in a thread was cancelled."""


@contextlib.asynccontextmanager
async def locked(path: Path, report: Report) -> AsyncIterator[None]:
    """Hold a lock file; wait for another process that holds it. Raises HostError."""
    is_reported = False
    while (lock := FileLock.try_acquire(path)) is None:
        if not is_reported:
            report(Progress("Waiting for another fetch of the same file"))
            is_reported = True
        await asyncio.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()


async def in_thread(function: Callable[[threading.Event], T]) -> T:
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
