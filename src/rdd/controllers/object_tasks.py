# SPDX-License-Identifier: Apache-2.0
"""Background work of a controller that takes longer than a reconciler may.

One task per object, whose end enqueues the object; and the progress of such a task, which changes
more often than it should be written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from rdd.api import errors
from rdd.client import Unreachable
from rdd.runtime import Context, ObjectKey

log = logging.getLogger("rdd.controllers")

_REPORT_S = 1.0

T = TypeVar("T")


class ObjectTasks(Generic[T]):
    """The tasks of one controller; the end of a task enqueues its object."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._name = name
        self._tasks: dict[ObjectKey, asyncio.Task[T]] = {}

    async def run(self) -> None:
        """Wait until the controller stops, then cancel the tasks."""
        try:
            await asyncio.Event().wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def find(self, key: ObjectKey) -> "asyncio.Task[T] | None":
        """Return the task of an object; one that is done is returned once."""
        task = self._tasks.get(key)
        if task is not None and task.done():
            del self._tasks[key]
        return task

    def start(self, key: ObjectKey, work: Coroutine[Any, Any, T]) -> None:
        """Start the task of an object."""
        task = asyncio.get_running_loop().create_task(work, name=f"rdd-{self._name} {key}")
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._context.enqueue(key))

    async def cancel(self, key: ObjectKey) -> None:
        """Cancel the task of an object and wait for its end."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class ProgressWriter(Generic[T]):
    """Writes the latest progress, at most one write at a time and one per second."""

    def __init__(self, write: Callable[[T], Awaitable[None]]) -> None:
        self._write_one = write
        self._latest: list[T] = []
        self._writing: asyncio.Task[None] | None = None

    def report(self, progress: T) -> None:
        """Write this soon, unless a later one replaces it."""
        self._latest = [progress]
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def finish(self) -> None:
        """Stop writing, so that the outcome is the last write."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
            self._writing = None

    async def _write(self) -> None:
        while self._latest:
            latest = self._latest.pop()
            try:
                await self._write_one(latest)
            except (errors.ApiError, Unreachable) as error:
                log.debug("cannot write progress: %s", error)
            await asyncio.sleep(_REPORT_S)
