# SPDX-License-Identifier: Apache-2.0
"""One background task per object, because fetches take longer than a reconciler may."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from rdd.runtime import Context, ObjectKey

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
