# SPDX-License-Identifier: Apache-2.0
"""Startup hooks of reconcilers: they all run before any key is reconciled."""

import asyncio

from tests.controllers.controller_world import managed
from tests.runtime.runtime_world import World, open_world, until

from rdd.api import errors
from rdd.client.resources import CONFIG_MAPS
from rdd.runtime import Context, Controller, Manager, ObjectKey, Ownership, Result, watch


class Beginner:
    """Records its startup and its keys; the test passes a gate and an error."""

    def __init__(self, context: Context, log: list[str], gate: asyncio.Event) -> None:
        self._name = context.name
        self._log = log
        self._gate = gate
        self.error: Exception | None = None

    async def begin(self) -> None:
        await self._gate.wait()
        self._log.append(f"{self._name} begins")
        if self.error is not None:
            raise self.error

    async def reconcile(self, key: ObjectKey) -> Result:
        self._log.append(f"{self._name} reconciles")
        return Result.done()


def beginner(
    name: str, log: list[str], gate: asyncio.Event, error: Exception | None = None
) -> Controller:
    def make(context: Context) -> Beginner:
        made = Beginner(context, log, gate)
        made.error = error
        return made

    return Controller(name, make, sources=(watch(CONFIG_MAPS, namespace="default"),))


def gates(*, slow: bool) -> tuple[asyncio.Event, asyncio.Event]:
    quick, late = asyncio.Event(), asyncio.Event()
    quick.set()
    if not slow:
        late.set()
    return quick, late


async def test_no_key_is_reconciled_before_all_startup_hooks_have_run() -> None:
    async with open_world() as world:
        await world.create("c")
        log: list[str] = []
        quick, late = gates(slow=True)
        manager = Manager("m", world.client, [beginner("a", log, quick), beginner("b", log, late)])
        starting = asyncio.ensure_future(manager.start())
        await until(lambda: log)
        await asyncio.sleep(1)
        assert (log, starting.done()) == (["a begins"], False)
        late.set()
        await starting
        await until(lambda: len(log) == 4)
        assert log[:2] == ["a begins", "b begins"]
        assert sorted(log[2:]) == ["a reconciles", "b reconciles"]
        await manager.stop()


async def test_stop_does_not_wait_for_startup_hooks() -> None:
    async with open_world() as world:
        log: list[str] = []
        quick, late = gates(slow=True)
        manager = Manager("m", world.client, [beginner("a", log, quick), beginner("b", log, late)])
        starting = asyncio.ensure_future(manager.start())
        await until(lambda: log)
        before = asyncio.get_running_loop().time()
        late.set()
        await manager.stop()
        assert asyncio.get_running_loop().time() - before < 5
        await asyncio.gather(starting, return_exceptions=True)


async def test_server_error_in_a_startup_hook_does_not_block_others(world: World) -> None:
    await world.create("c")
    log: list[str] = []
    quick, _ = gates(slow=False)
    full = errors.InternalError("the disk is full")
    async with managed(world, beginner("a", log, quick, full), beginner("b", log, quick)):
        await until(lambda: "a reconciles" in log and "b reconciles" in log)


async def test_controller_of_another_process_does_not_block_the_start() -> None:
    async with open_world() as world:
        log: list[str] = []
        quick, _ = gates(slow=False)
        other = Manager(
            "other",
            world.client,
            [beginner("b", [], quick)],
            ownership=Ownership(world.client, "other"),
        )
        await other.start()
        manager = Manager(
            "m",
            world.client,
            [beginner("a", log, quick), beginner("b", log, quick)],
            ownership=Ownership(world.client, "m"),
        )
        await manager.start()
        assert log == ["a begins"]
        await other.stop()
        await until(lambda: "b begins" in log)
        await manager.stop()
