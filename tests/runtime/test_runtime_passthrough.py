# SPDX-License-Identifier: Apache-2.0
"""Endpoints of controllers over their life: offered while they work, and only then."""

import asyncio
from collections.abc import Mapping

import pytest
from aiohttp import web
from tests.runtime.runtime_world import Recorder, World, recorded, until

from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS, LEASES
from rdd.runtime import (
    Context,
    Controller,
    Manager,
    ManagerOptions,
    ObjectKey,
    Ownership,
    Result,
)
from rdd.runtime.passthrough import Handler

pytestmark = pytest.mark.looptime


class Board:
    """A host that remembers what is offered, and everything that was said to it."""

    def __init__(self) -> None:
        self.offered: dict[tuple[str, str], Handler] = {}
        self.said: list[str] = []

    async def start(self) -> None:
        self.said.append("start")

    def expect(self, controller: str) -> None:
        self.said.append(f"expect {controller}")

    def add(self, controller: str, endpoint: str, handler: Handler) -> None:
        self.offered[controller, endpoint] = handler
        self.said.append(f"add {controller}/{endpoint}")

    def remove(self, controller: str, endpoint: str, handler: Handler) -> None:
        assert self.offered.pop((controller, endpoint)) is handler
        self.said.append(f"remove {controller}/{endpoint}")

    async def stop(self) -> None:
        self.said.append("stop")


async def hello(request: web.BaseRequest, rest: str) -> web.StreamResponse:
    return web.Response(text="hello")


def with_endpoint(recorder: Recorder) -> Controller:
    return recorded("c", recorder, passthroughs={"hello": hello})


async def test_endpoints_are_there_when_the_start_returns_and_gone_after_the_stop(
    world: World,
) -> None:
    board = Board()
    manager = Manager(
        "m", world.client, [with_endpoint(Recorder()), recorded("d", Recorder())], passthrough=board
    )
    await manager.start()
    assert board.offered == {("c", "hello"): hello}
    assert manager.passthroughs == {"c": ("hello",)}
    await manager.stop()
    assert manager.passthroughs == {}
    assert board.said == ["expect c", "start", "add c/hello", "remove c/hello", "stop"]


async def test_handlers_can_read_what_the_reconciler_reads(world: World) -> None:
    found: list[int] = []

    def endpoints(context: Context) -> Mapping[str, Handler]:
        async def count(request: web.BaseRequest, rest: str) -> web.StreamResponse:
            found.append(len(context.cache.informer(CONFIG_MAPS)))
            return web.Response()

        return {"count": count}

    board = Board()
    controller = recorded("c", Recorder(), passthroughs=endpoints)
    manager = Manager("m", world.client, [controller], passthrough=board)
    await world.create("a")
    await manager.start()
    await board.offered["c", "count"](None, "/")  # type: ignore[arg-type]
    assert found[0] >= 1
    await manager.stop()


async def test_a_manager_without_a_place_for_endpoints_offers_none(world: World) -> None:
    manager = Manager("m", world.client, [with_endpoint(Recorder())])
    await manager.start()
    assert manager.passthroughs == {}
    assert manager.running == ("c",)
    await manager.stop()


async def test_a_controller_that_belongs_to_another_process_offers_nothing_here(
    world: World,
) -> None:
    boards = Board(), Board()
    managers = []
    for board in boards:
        client = Client(world.process())
        managers.append(
            Manager(
                "m",
                client,
                [with_endpoint(Recorder())],
                ownership=Ownership(client, "m"),
                passthrough=board,
                options=ManagerOptions(if_held="wait"),
            )
        )
    await managers[0].start()
    await managers[1].start()
    assert boards[0].offered
    assert not boards[1].offered
    await managers[0].stop()
    assert not boards[0].offered
    await until(lambda: boards[1].offered)
    await managers[1].stop()


async def test_the_loss_of_the_lease_withdraws_endpoints_in_the_middle_of_a_reconciliation(
    world: World,
) -> None:
    recorder, board = Recorder(), Board()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(key: ObjectKey) -> Result:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
            # Whatever was asked of the endpoint meanwhile, nobody may answer for it any more.
        return Result.done()

    recorder.do = forever
    client = Client(world.process())
    manager = Manager(
        "m",
        client,
        [with_endpoint(recorder)],
        ownership=Ownership(client, "m"),
        passthrough=board,
    )
    await manager.start()
    await world.create("a")
    await begun.wait()
    assert board.offered
    stolen = {"spec": {"holderIdentity": "thief"}}
    await world.client.patch(LEASES, "controller-c", stolen, namespace="rdd-system")
    await until(ended.is_set)
    await until(lambda: not board.offered)
    await manager.stop()
