# SPDX-License-Identifier: Apache-2.0
"""Selecting, starting and stopping the built-in controllers."""

import asyncio
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.builtin.builtin_world import MANAGER, World

from rdd.api import errors
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.client import Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.builtin.manager import (
    NAMES,
    RESOURCE_QUOTA,
    BuiltinControllers,
    UnknownControllers,
    select,
)


@pytest.mark.parametrize(
    "selection, expected",
    [
        pytest.param("*", NAMES, id="all"),
        pytest.param("", (), id="none"),
        pytest.param(" , ,", (), id="blanks"),
        pytest.param("gc", ("gc",), id="one"),
        pytest.param(" root-ca , namespace ", ("namespace", "root-ca"), id="start order"),
        pytest.param("*,-gc", tuple(n for n in NAMES if n != "gc"), id="all but one"),
        pytest.param("-gc,*", tuple(n for n in NAMES if n != "gc"), id="order does not matter"),
        pytest.param("-gc", (), id="only exclusions"),
        pytest.param("gc,-gc", (), id="exclusion wins"),
        pytest.param("*,-*", (), id="all excluded"),
        pytest.param("gc,gc", ("gc",), id="twice"),
    ],
)
def test_selection(selection: str, expected: tuple[str, ...]) -> None:
    assert select(selection) == expected


@pytest.mark.parametrize("selection", ["nope", "*,-nope", "gc,nope", "--gc", "GC"])
def test_rejects_unknown_names_and_lists_valid_ones(selection: str) -> None:
    with pytest.raises(UnknownControllers) as rejected:
        select(selection)
    for name in NAMES:
        assert name in str(rejected.value)


@given(st.lists(st.sampled_from(["*", "", *NAMES, *(f"-{n}" for n in NAMES)])))
def test_selects_included_names_that_are_not_excluded(items: list[str]) -> None:
    selected = select(",".join(items))
    for name in NAMES:
        wanted = ("*" in items or name in items) and f"-{name}" not in items
        assert (name in selected) == wanted


async def test_empty_selection_is_ready_at_once(world: World) -> None:
    client = Client(LocalTransport(world.server.handle, partial(Request, user=MANAGER)))
    controllers = BuiltinControllers(client, select(""))
    await controllers.start()
    assert controllers.is_ready
    await controllers.stop()


async def test_skips_root_ca_without_a_certificate(world: World) -> None:
    controllers = BuiltinControllers(world.client)
    elsewhere = ("root-ca", RESOURCE_QUOTA)
    assert [c.name for c in controllers.controllers] == [n for n in NAMES if n not in elsewhere]


async def test_start_waits_for_sync(world: World) -> None:
    broken = asyncio.Event()
    healed = False

    def fail(request: Request) -> errors.ApiError | None:
        if healed or request.info.resource != "leases":
            return None
        broken.set()
        return errors.ServiceUnavailable("not yet")

    world.intercepts.append(fail)
    starting = asyncio.create_task(world.start())
    await broken.wait()
    assert not starting.done()
    healed = True
    controllers = await starting
    assert controllers.is_ready


async def test_stop_ends_all_tasks_and_watches(world: World) -> None:
    before = asyncio.all_tasks()
    await world.start()
    await world.create("a")
    await world.settled()
    assert world.server.core.watch_count > 20
    await world.stop()
    assert asyncio.all_tasks() == before
    assert world.server.core.watch_count == 0


async def test_stop_completes_work_in_progress(world: World) -> None:
    """A deletion in progress during the stop is completed, and no other is started."""
    entered, proceed = asyncio.Event(), asyncio.Event()
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("child", owner)
    await world.settled()

    async def slow(request: Request) -> AnyResponse:
        if request.method == "DELETE":
            entered.set()
            await proceed.wait()
        return await world.server.handle(request)

    world.behind = slow
    await world.delete(owner)
    await entered.wait()
    stopping = asyncio.create_task(world.stop())
    await asyncio.sleep(0)
    proceed.set()
    await stopping
    assert await world.get("child") is None


async def test_reports_the_failure_of_a_controller(world: World) -> None:
    failures: list[BaseException] = []
    controllers = BuiltinControllers(world.client, ("serviceaccount",), on_failure=failures.append)

    async def broken() -> None:
        raise RuntimeError("bug")

    controllers.controllers[0].run = broken  # type: ignore[method-assign]
    with pytest.raises(ExceptionGroup):
        await controllers.start()
    assert len(failures) == 1
    assert not controllers.is_ready
    await controllers.stop()


async def test_idle_controllers_schedule_no_timers(world: World) -> None:
    """No timer is due within the next day: no polling, no resync, no renewal of watches."""
    loop = asyncio.get_running_loop()
    await world.start()
    await world.namespace("ns")
    owner = await world.create("owner", namespace="ns")
    await world.create("child", owner, namespace="ns")
    await world.client.delete(CONFIG_MAPS, "owner", namespace="ns")
    await world.gone("child", namespace="ns")
    await world.client.delete(NAMESPACES, "ns")
    await world.gone("ns", NAMESPACES)
    await world.settled()
    scheduled: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]

    def due() -> list[asyncio.TimerHandle]:
        return [h for h in scheduled if not h.cancelled() and h.when() < loop.time() + 86_400]

    # The pause after a change of what is monitored ends by itself. Without a timeout, which is a
    # timer, too.
    for _ in range(1000):
        if not due():
            break
        await asyncio.sleep(0.01)
    for _ in range(5):
        await asyncio.sleep(0.01)
        assert due() == []
