# SPDX-License-Identifier: Apache-2.0
import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from rdd.daemon.garbage import FEW_CONNECTIONS, GarbagePolicy


class Node:
    """An object that can be part of a cycle."""

    def __init__(self) -> None:
        self.other: Node | None = None


def cycle() -> Node:
    first, second = Node(), Node()
    first.other, second.other = second, first
    return first


class World:
    """A policy and the number of connections it sees."""

    def __init__(self, long_s: float) -> None:
        self.connections = 0
        self.policy = GarbagePolicy(lambda: self.connections, long_s=long_s)


@pytest.fixture
async def eager() -> AsyncIterator[World]:
    """A policy for which every pass is long."""
    world = World(-1.0)
    world.policy.start()
    yield world
    world.policy.stop()


async def until_frozen(world: World) -> None:
    async with asyncio.timeout(60):
        while not world.policy.has_frozen:  # noqa: ASYNC110  (the loop has to run)
            await asyncio.sleep(0)


async def test_survivors_of_a_long_pass_are_not_visited_again(eager: World) -> None:
    kept = cycle()
    gc.collect()
    await until_frozen(eager)
    assert not any(obj is kept for obj in gc.get_objects())


async def test_frozen_cycles_are_collected_when_few_connections_are_open(eager: World) -> None:
    kept = cycle()
    seen = weakref.ref(kept)
    gc.collect()
    await until_frozen(eager)
    del kept
    gc.collect()
    assert seen() is not None
    eager.connections = FEW_CONNECTIONS + 1
    eager.policy.reclaim()
    assert seen() is not None
    assert eager.policy.has_frozen
    eager.connections = 0
    eager.policy.reclaim()
    assert seen() is None


async def test_frozen_objects_without_cycles_are_freed_at_once(eager: World) -> None:
    kept = Node()
    seen = weakref.ref(kept)
    gc.collect()
    del kept
    assert seen() is None


async def test_short_passes_freeze_nothing() -> None:
    world = World(1e9)
    world.policy.start()
    kept = cycle()
    seen = weakref.ref(kept)
    gc.collect()
    del kept
    gc.collect()
    assert seen() is None
    assert not world.policy.has_frozen
    world.policy.stop()
    world.policy.stop()
