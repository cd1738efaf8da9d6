# SPDX-License-Identifier: Apache-2.0
"""Background tasks of reconcilers."""

import asyncio

from tests.runtime.runtime_world import World, open_world, until

from rdd.client.resources import CONFIG_MAPS
from rdd.runtime import Cache, Context, Controller, ObjectKey, Result, watch
from rdd.runtime.controller import Workers


class Follower:
    """Records its calls, in order."""

    def __init__(self, context: Context) -> None:
        self.log: list[str] = []

    async def reconcile(self, key: ObjectKey) -> Result:
        return Result.done()

    async def run(self) -> None:
        self.log.append("runs")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("ended")

    async def drain(self) -> None:
        self.log.append("drained")


def follower(world: World, cache: Cache) -> tuple[Workers, list[Follower]]:
    made: list[Follower] = []

    def make(context: Context) -> Follower:
        made.append(Follower(context))
        return made[0]

    controller = Controller("c", make, sources=(watch(CONFIG_MAPS),))
    return Workers(controller, world.client, cache), made


async def test_run_is_cancelled_after_the_drain() -> None:
    async with open_world() as world, Cache(world.client) as cache:
        workers, made = follower(world, cache)
        await workers.wait_for_sync()
        running = asyncio.ensure_future(workers.run())
        await until(lambda: made and made[0].log)
        await workers.drain()
        await running
        assert made[0].log == ["runs", "drained", "ended"]


async def test_run_is_cancelled_at_once_when_ownership_is_lost() -> None:
    async with open_world() as world, Cache(world.client) as cache:
        workers, made = follower(world, cache)
        await workers.wait_for_sync()
        running = asyncio.ensure_future(workers.run())
        await until(lambda: made and made[0].log)
        running.cancel()
        await asyncio.wait([running])
        assert made[0].log == ["runs", "ended"]
