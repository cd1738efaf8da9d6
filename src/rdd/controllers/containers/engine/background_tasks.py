# SPDX-License-Identifier: Apache-2.0
"""Work that may take long and must not hold up the mirror: stopping, removing.

There is at most one errand per item at a time; asking for another one while it
runs is remembered and told when it is over. Errands end with the session that
started them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from rdd.runtime import ObjectKey

_AT_ONCE = 32


class Errands:
    """Tasks by item."""

    def __init__(self, done: Callable[[ObjectKey, Exception | None, bool], None]) -> None:
        """`done` gets the item, what went wrong, and whether another errand was asked for."""
        self._done = done
        self._asked_again: set[ObjectKey] = set()
        self._tasks: dict[ObjectKey, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def begin(self, item: ObjectKey, work: Callable[[], Awaitable[None]]) -> None:
        """Do something about an item, unless something is being done."""
        if item in self._tasks:
            self._asked_again.add(item)
        else:
            self._tasks[item] = asyncio.get_running_loop().create_task(
                self._run(item, work), name=f"rdd-errand {item}"
            )

    async def stop(self) -> None:
        """End all of them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, item: ObjectKey, work: Callable[[], Awaitable[None]]) -> None:
        failure: Exception | None = None
        try:
            async with self._turns:
                await work()
        except Exception as error:
            failure = error
        finally:
            del self._tasks[item]
            asked_again = item in self._asked_again
            self._asked_again.discard(item)
        self._done(item, failure, asked_again)


async def first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Do several things until one of them ends; what it raises is raised."""
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
