# SPDX-License-Identifier: Apache-2.0
"""Endpoints of controllers: they exist only while the controllers work."""

import asyncio
from collections.abc import Mapping

import pytest
from tests.runtime.runtime_world import Recorder, World, recorded, until

from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS, LEASES
from rdd.http.exchange import Exchange
from rdd.http.responses import Response
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


class FakeHost:
    """A host that records its endpoints and all calls."""

    def __init__(self) -> None:
        self.offered: dict[tuple[str, str], Handler] = {}
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    def expect(self, controller: str) -> None:
        self.calls.append(f"expect {controller}")

    def add(self, controller: str, endpoint: str, handler: Handler) -> None:
        self.offered[controller, endpoint] = handler
        self.calls.append(f"add {controller}/{endpoint}")

    def remove(self, controller: str, endpoint: str, handler: Handler) -> None:
        assert self.offered.pop((controller, endpoint)) is handler
        self.calls.append(f"remove {controller}/{endpoint}")

    async def stop(self) -> None:
        self.calls.append("stop")


async def hello(exchange: Exchange, rest: str) -> Response | None:
    return Response.text("hello")


def with_endpoint(recorder: Recorder) -> Controller:
    return recorded("c", recorder, passthroughs={"hello": hello})


async def test_endpoints_exist_between_start_and_stop(
    world: World,
) -> None:
    board = FakeHost()
    manager = Manager(
        "m", world.client, [with_endpoint(Recorder()), recorded("d", Recorder())], passthrough=board
    )
    await manager.start()
    assert board.offered == {("c", "hello"): hello}
    assert manager.passthroughs == {"c": ("hello",)}
    await manager.stop()
    assert manager.passthroughs == {}
    assert board.calls == ["expect c", "start", "add c/hello", "remove c/hello", "stop"]


async def test_endpoint_handlers_can_use_the_cache(world: World) -> None:
    found: list[int] = []

    def endpoints(context: Context) -> Mapping[str, Handler]:
        async def count(exchange: Exchange, rest: str) -> Response | None:
            found.append(len(context.cache.informer(CONFIG_MAPS)))
            return Response.text("")

        return {"count": count}

    board = FakeHost()
    controller = recorded("c", Recorder(), passthroughs=endpoints)
    manager = Manager("m", world.client, [controller], passthrough=board)
    await world.create("a")
    await manager.start()
    await board.offered["c", "count"](None, "/")  # type: ignore[arg-type]
    assert found[0] >= 1
    await manager.stop()


async def test_manager_without_a_host_has_no_endpoints(world: World) -> None:
    manager = Manager("m", world.client, [with_endpoint(Recorder())])
    await manager.start()
    assert manager.passthroughs == {}
    assert manager.running == ("c",)
    await manager.stop()


async def test_controller_of_another_process_has_no_endpoints_here(
    world: World,
) -> None:
    boards = FakeHost(), FakeHost()
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


async def test_lost_lease_removes_endpoints_during_a_reconciliation(
    world: World,
) -> None:
    recorder, board = Recorder(), FakeHost()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(key: ObjectKey) -> Result:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
            # The endpoint must not serve requests any more.
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
    stolen = {"spec": {"holderIdentity": "other"}}
    await world.client.patch(LEASES, "controller-c", stolen, namespace="rdd-system")
    await until(ended.is_set)
    await until(lambda: not board.offered)
    await manager.stop()
