# SPDX-License-Identifier: Apache-2.0
"""Controllers that crash and restart reach the same state.

One scenario has every policy, a cycle and a namespace with content. It runs with a crash at
each write, before and after it takes effect, and once with repeated crashes. New controllers
must always reach the same state.
"""

import asyncio
import itertools

import pytest
from tests.controllers.builtin.builtin_world import ROOT_CA, WIDGETS, World, open_world, reference

from rdd.apiserver.http.request import AnyResponse, Request
from rdd.client.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)


class Crash:
    """Blocks the n-th write, as if the process had crashed just before or just after it."""

    def __init__(self, world: World, n: int, *, after: bool) -> None:
        self._world = world
        self._left = n
        self._after = after
        self.happened = asyncio.Event()
        world.behind = self.handle

    async def handle(self, request: Request) -> AnyResponse:
        if request.method != "GET":
            if self._left == 0:
                if self._after and not self.happened.is_set():
                    await self._world.server.handle(request)
                self.happened.set()
                await asyncio.get_running_loop().create_future()
            self._left -= 1
        return await self._world.server.handle(request)


async def prepare(world: World) -> None:
    await world.define_widgets()
    background = await world.create("background")
    await world.create("background-child", background, resource=WIDGETS)
    foreground = await world.create("foreground")
    child = await world.create("foreground-child", foreground, block=True)
    await world.create("foreground-grandchild", child, block=True, resource=SECRETS)
    orphan = await world.create("orphan")
    for n in range(3):
        await world.create(f"orphan-child{n}", orphan, resource=SECRETS)
    first = await world.create("first")
    second = await world.create("second", first, block=True)
    refs = {"metadata": {"ownerReferences": [reference(second, block=True)]}}
    first = await world.client.patch(CONFIG_MAPS, "first", refs, namespace="default")
    await world.namespace("ns")
    await world.create("content", namespace="ns")
    await world.create("content", namespace="ns", resource=WIDGETS)
    await world.create("part", resource=CLUSTER_ROLES, rules=[])
    await world.delete(background)
    await world.delete(foreground, propagation_policy="Foreground")
    await world.delete(orphan, propagation_policy="Orphan")
    await world.delete(first, propagation_policy="Foreground")
    await world.client.delete(NAMESPACES, "ns")


async def until_converged(world: World) -> None:
    for name in ("background", "foreground", "foreground-child", "orphan", "first", "second"):
        await world.gone(name)
    await world.gone("background-child", WIDGETS)
    await world.gone("foreground-grandchild", SECRETS)
    await world.gone("ns", NAMESPACES)
    for n in range(3):
        child = await world.get(f"orphan-child{n}", SECRETS)
        assert child is not None
        assert "ownerReferences" not in child["metadata"]
    for resource in (CONFIG_MAPS, WIDGETS, SERVICE_ACCOUNTS):
        assert (await world.client.list(resource, namespace="ns")).items == []
    for namespace in ("default", "kube-system", "kube-public"):
        await world.until(SERVICE_ACCOUNTS, "default", lambda o: o is not None, namespace=namespace)
        found = await world.until(
            CONFIG_MAPS, "kube-root-ca.crt", lambda o: o is not None, namespace=namespace
        )
        assert found is not None and found["data"] == {"ca.crt": ROOT_CA}


async def run_until(world: World, crash: Crash) -> bool:
    """Run until the crash, or until the controllers are idle; return whether it crashed."""
    await world.start()
    crashing = asyncio.create_task(crash.happened.wait())
    converging = asyncio.create_task(until_converged(world))
    await asyncio.wait((crashing, converging), return_when=asyncio.FIRST_COMPLETED)
    crashed = crash.happened.is_set()
    for task in (crashing, converging):
        task.cancel()
    outcomes = await asyncio.gather(crashing, converging, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, AssertionError):
            raise outcome
    await world.stop(timeout_s=0)
    return crashed


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_crash_at_any_write_leads_to_the_same_state(after: bool) -> None:
    for n in itertools.count():
        async with open_world() as world:
            await prepare(world)
            crashed = await run_until(world, Crash(world, n, after=after))
            world.behind = world.server.handle
            await world.start()
            await until_converged(world)
        if not crashed:
            assert n > 20
            return


async def test_repeated_crashes_lead_to_the_same_state() -> None:
    """Each run of the same world does one write more than the previous one."""
    async with open_world() as world:
        await prepare(world)
        for n in itertools.count():
            if not await run_until(world, Crash(world, n, after=True)):
                break
        world.behind = world.server.handle
        await world.start()
        await until_converged(world)
