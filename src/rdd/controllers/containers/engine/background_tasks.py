# SPDX-License-Identifier: Apache-2.0
"""Background tasks for slow work on items (stopping, removing) that must not delay the mirror.

An item has at most one task at a time. A request for another one while it runs is
recorded and passed to the callback when the task ends. The tasks end with the
session that started them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from rdd.controllers.containers.engine.items import EngineItem

_MAX_CONCURRENT = 32

TaskDone = Callable[[EngineItem, Exception | None, bool], None]
"""Receives the item, the failure, and whether the task was requested again meanwhile."""


class BackgroundTasks:
    """At most one task per item."""

    def __init__(self, done: TaskDone) -> None:
        self._done = done
        self._requested_again: set[EngineItem] = set()
        self._tasks: dict[EngineItem, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    def start(self, item: EngineItem, work: Callable[[], Awaitable[None]]) -> None:
        """Start work on an item, or record the request if a task of the item is running."""
        if item in self._tasks:
            self._requested_again.add(item)
        else:
            self._tasks[item] = asyncio.get_running_loop().create_task(
                self._run(item, work), name=f"rdd-engine-task {item}"
            )

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, item: EngineItem, work: Callable[[], Awaitable[None]]) -> None:
        failure: Exception | None = None
        try:
            async with self._slots:
                await work()
        except Exception as error:
            failure = error
        finally:
            del self._tasks[item]
            requested_again = item in self._requested_again
            self._requested_again.discard(item)
        self._done(item, failure, requested_again)


async def first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until the first one ends, cancel the others and raise its exception."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work, name="rdd-engine") for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
