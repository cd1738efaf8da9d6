# SPDX-License-Identifier: Apache-2.0
"""The work queue of the runtime with workers that call a handler.

The built-in controllers process uids and names of all resources, not the objects of one kind,
so they use the queue without the rest of a `Controller`. Failed keys are retried with
exponential backoff. The queue is bounded by the number of existing objects.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from rdd.api import errors
from rdd.runtime.workqueue import Drained, WorkQueue

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_S = 0.01
LONGEST_RETRY_S = 60.0

log = logging.getLogger("rdd.controllers.builtin")


class Retry(Exception):
    """Raised by a handler to retry its key for an expected reason."""


class HandledQueue(WorkQueue[K]):
    """Calls `handle` for each key, with at most `workers` concurrent calls."""

    def __init__(
        self,
        name: str,
        handle: Callable[[K], Awaitable[None]],
        *,
        workers: int = 1,
        first_retry_s: float = FIRST_RETRY_S,
    ) -> None:
        super().__init__(
            name,
            capacity=sys.maxsize,
            first_retry_s=first_retry_s,
            longest_retry_s=LONGEST_RETRY_S,
        )
        self._handle = handle
        self._workers = workers
        self._reported: dict[K, str] = {}

    async def run(self) -> None:
        """Process keys until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work(), name=f"rdd-{self._name}-worker")
                await asyncio.get_running_loop().create_future()
        finally:
            self.shut_down()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.get()
            except Drained:
                return
            try:
                await self._handle(key)
                self._reported.pop(key, None)
                self.forget(key)
            except Exception as error:
                self._report(key, error)
                self.add_rate_limited(key)
            finally:
                self.done(key)

    def _report(self, key: K, error: Exception) -> None:
        message = str(error) or type(error).__name__
        if isinstance(error, errors.Conflict) or message == self._reported.get(key):
            log.debug("%s: %s: %s", self._name, key, message)
        elif isinstance(error, Retry | errors.ApiError | ConnectionError):
            log.warning("%s: %s: %s", self._name, key, message)
        else:
            log.error("%s: %s failed", self._name, key, exc_info=error)
        self._reported[key] = message
