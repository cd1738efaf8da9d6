# SPDX-License-Identifier: Apache-2.0
"""A thousand containers created and removed in a burst."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from tests.controllers.containers.engine_parts import Dockerd
from tests.controllers.containers.engine_world import World, running_world

from rdd.kinds.container import Container

T = TypeVar("T")
R = TypeVar("R")

COUNT = 1000
RUNNING = 20


async def uids(world: World) -> dict[str, str]:
    return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in await world.list(Container)}


async def states(world: World) -> dict[str, str]:
    found = await world.list(Container)
    return {obj["metadata"]["name"]: obj.get("status", {}).get("status", "") for obj in found}


@pytest.mark.timeout(300)
async def test_thousand_containers_are_created_and_removed_in_a_burst(
    docker: Dockerd, tmp_path: Path
) -> None:
    def create(i: int) -> str:
        return docker.create(f"burst{i}", NetworkDisabled=True)

    async with running_world(tmp_path, docker) as world:
        with ThreadPoolExecutor(4) as pool:
            ids = await in_pool(pool, create, range(COUNT))
            await in_pool(pool, lambda id_: docker.post(id_, "start"), ids[:RUNNING])
            running = set(ids[:RUNNING])
            wanted = {id_: "running" if id_ in running else "created" for id_ in ids}
            await settled(world, wanted)
            before = await uids(world)
            await world.restart()  # a full sync of unchanged items writes nothing
            world.writes.clear()
            await world.ready("Connected")
            assert await uids(world) == before
            assert [path for _, path in world.writes if "/containers/" in path] == []
            await in_pool(pool, docker.remove, ids)
            await settled(world, {})


async def in_pool(pool: ThreadPoolExecutor, do: Callable[[T], R], items: Iterable[T]) -> list[R]:
    loop = asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(pool, do, item) for item in items))


async def settled(world: World, wanted: dict[str, str]) -> None:
    async def is_settled() -> bool:
        return await states(world) == wanted

    await world.until(is_settled, pause_s=0.2)
