# SPDX-License-Identifier: Apache-2.0
"""Real controllers under faults: lost watches, lost leases, conflicts, rejected writes."""

import asyncio
import logging
from functools import partial
from typing import Any

import pytest
from tests.controllers.controller_world import controller_environment, eventually, gone, managed
from tests.runtime.runtime_world import World, loop_clock, until

from rdd.api import errors, timestamps
from rdd.api.types import Object
from rdd.apiserver.http import responses
from rdd.apiserver.http.request import AnyResponse, Request, Stream
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.demo import demo
from rdd.controllers.rdd.configmapreplicaset import configmapreplicaset
from rdd.controllers.rdd.notary import notary
from rdd.kinds.configmapreplicaset import ConfigMapReplicaSet
from rdd.kinds.demo import Demo
from rdd.kinds.notary import Notary
from rdd.runtime import (
    CLEANUP,
    Condition,
    InProcessHost,
    Manager,
    ManagerOptions,
    ObjectKey,
    Ownership,
    find_condition,
    resource_of,
    set_condition,
    update_status,
)

pytestmark = pytest.mark.looptime

SETS, NOTARIES, DEMOS = resource_of(ConfigMapReplicaSet), resource_of(Notary), resource_of(Demo)


def replicas(count: int, namespace: str = "default") -> Object:
    return {"metadata": {"name": "s", "namespace": namespace}, "spec": {"replicas": count}}


def is_ready(count: int) -> Any:
    return lambda obj: (obj.get("status") or {}).get("readyReplicas") == count


async def test_catches_up_after_lost_watches(world: World) -> None:
    inner, is_down, cut = world.server.handle, False, asyncio.Event()

    async def handle(request: Request) -> AnyResponse:
        if is_down and request.info.verb in ("watch", "list"):
            return responses.error(request, errors.ServiceUnavailable("down"))
        answer = await inner(request)
        if not isinstance(answer, Stream) or request.info.verb != "watch":
            return answer
        produce = answer.produce

        async def until_cut(writer: Any) -> None:
            following = asyncio.ensure_future(produce(writer))
            cutting = asyncio.ensure_future(cut.wait())
            await asyncio.wait({following, cutting}, return_when=asyncio.FIRST_COMPLETED)
            for task in (following, cutting):
                task.cancel()
            await asyncio.gather(following, cutting, return_exceptions=True)
            raise ConnectionResetError("cut")

        return Stream(until_cut)

    world.server.handle = handle  # type: ignore[method-assign]
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, replicas(4))
        await eventually(world, SETS, "s", is_ready(4))
        is_down = True
        cut.set()
        await asyncio.sleep(1)
        await world.client.delete(CONFIG_MAPS, "s-1", namespace="default")
        patch = {"spec": {"replicas": 3}}
        await world.client.patch(SETS, "s", patch, namespace="default")
        await asyncio.sleep(30)
        cut, is_down = asyncio.Event(), False
        await eventually(world, SETS, "s", is_ready(3))
        await eventually(world, CONFIG_MAPS, "s-1", lambda obj: obj)
        await gone(world, CONFIG_MAPS, "s-3")


async def test_records_a_value_once_if_the_lease_is_lost_between_two_writes(
    world: World,
) -> None:
    """The first owner is suspended after writing the ConfigMap; the second completes the work."""
    inner, resume = world.server.handle, asyncio.Event()
    late: list[asyncio.Task[AnyResponse]] = []

    async def arrive_late(request: Request) -> AnyResponse:
        await resume.wait()
        return await inner(request)

    async def handle(request: Request) -> AnyResponse:
        is_status = request.path.endswith("/notaries/n/status")
        if is_status and request.method == "PATCH" and not late:
            frozen.freeze()
            # It is in flight, and arrives even if its sender loses the lease.
            late.append(asyncio.ensure_future(arrive_late(request)))
            return await asyncio.shield(late[0])
        return await inner(request)

    world.server.handle = handle  # type: ignore[method-assign]
    frozen, second = world.process(), world.process()
    managers = [
        Manager(
            "m",
            Client(process),
            [notary(controller_environment())],
            ownership=Ownership(Client(process), "m", clock=loop_clock),
            host=InProcessHost(world.server.endpoints),
            options=ManagerOptions(clock=loop_clock),
        )
        for process in (frozen, second)
    ]
    for manager in managers:
        await manager.start()
    spec = {"value": "v", "configMapName": "record"}
    metadata = {"name": "n", "namespace": "default"}
    await world.client.create(NOTARIES, {"metadata": metadata, "spec": spec})
    await until(lambda: late)
    await until(lambda: managers[1].running == ("notary",), timeout_s=120)
    done = await eventually(world, NOTARIES, "n", lambda obj: obj.get("status"))
    resume.set()
    frozen.resume()
    await until(lambda: managers[0].running == ())
    for manager in managers:
        await manager.stop()
    record = await world.get("record")
    assert done["status"]["changeCount"] == 1
    assert sorted(record["data"]) == ["change_000", "change_count", "latest_change"]
    assert (await late[0]).status == 409
    assert (await world.client.get(NOTARIES, "n", namespace="default")) == done


async def test_concurrent_status_writers_lose_no_update(world: World) -> None:
    async with managed(world, demo(controller_environment())):
        await world.client.create(DEMOS, {"metadata": {"name": "demo"}, "spec": {"count": 30}})

        def change(i: int, obj: Object) -> Object:
            status = obj.get("status") or {}
            conditions = set_condition(
                status.get("conditions"),
                Condition("Foreign", "True", "Counting", str(i)),
                now=timestamps.now_text(loop_clock),
            )
            return {**status, "conditions": conditions}

        for i in range(100):
            await update_status(world.client, Demo, ObjectKey("", "demo"), partial(change, i))
            await asyncio.sleep(0.02)
        done = await eventually(
            world,
            DEMOS,
            "demo",
            lambda obj: (
                (find_condition(obj["status"]["conditions"], "Completed") or {}).get("status")
                == "True"
            ),
        )
    assert done["status"]["processedCount"] == 30
    foreign = find_condition(done["status"]["conditions"], "Foreign")
    assert foreign is not None
    assert foreign["message"] == "99"


async def test_owner_is_kept_until_all_dependents_are_deleted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    inner, rejections = world.server.handle, [1] * 4

    async def handle(request: Request) -> AnyResponse:
        info = request.info
        if info.resource == "configmaps" and info.verb == "list" and info.namespace and rejections:
            rejections.pop()
            return responses.error(request, errors.InternalError("the list is damaged"))
        return await inner(request)

    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, replicas(2))
        await eventually(world, SETS, "s", is_ready(2))
        world.server.handle = handle  # type: ignore[method-assign]
        kept = await world.client.delete(SETS, "s", namespace="default")
        assert kept["metadata"]["finalizers"] == [CLEANUP]
        await gone(world, SETS, "s")
        await gone(world, CONFIG_MAPS, "s-0")
    assert rejections == []
    warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert [r.getMessage() for r in warnings] == [
        "configmapreplicaset: default/s: objects owned by ConfigMapReplicaSet s: "
        "the list is damaged"
    ]
    assert all(r.exc_info is None for r in warnings)


async def test_backs_off_in_a_terminating_namespace(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "leaving"}})
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, replicas(1, "leaving"))
        await eventually(world, SETS, "s", is_ready(1), namespace="leaving")
        await world.client.delete(NAMESPACES, "leaving")
        inner, attempts = world.server.handle, 0

        async def handle(request: Request) -> AnyResponse:
            nonlocal attempts
            attempts += request.method == "POST" and request.info.resource == "configmaps"
            return await inner(request)

        world.server.handle = handle  # type: ignore[method-assign]
        patch = {"spec": {"replicas": 2}}
        await world.client.patch(SETS, "s", patch, namespace="leaving")
        # Other sets are not affected.
        await world.client.create(SETS, replicas(1))
        await eventually(world, SETS, "s", is_ready(1))
        await asyncio.sleep(60)
    assert 2 <= attempts <= 20
