# SPDX-License-Identifier: Apache-2.0
"""Controllers on a real server: from a change to a reconciliation, with failures."""

import asyncio
import logging
from itertools import pairwise

import pytest
from tests.runtime.runtime_world import (
    Recorder,
    World,
    config_map,
    loop_clock,
    recorded,
    until,
)

from rdd.api import errors
from rdd.client.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from rdd.kinds.catalog import crds_of
from rdd.kinds.notary import Notary
from rdd.runtime import (
    Cache,
    Manager,
    ManagerOptions,
    ObjectKey,
    Result,
    TerminalError,
    has_labels,
    install_definitions,
    maps,
    owns,
    resource_of,
    update_status,
    watch,
    with_controller,
)
from rdd.runtime.controller import Workers

pytestmark = pytest.mark.looptime

OPTIONS = ManagerOptions(clock=loop_clock)


async def test_reconciles_existing_objects_and_changes(world: World) -> None:
    await world.create("a")
    recorder = Recorder()
    manager = Manager("m", world.client, [recorded("c", recorder)], options=OPTIONS)
    await manager.start()
    await until(lambda: recorder.names == ["a"])
    await world.create("b")
    await world.patch("a", {"data": {"x": "y"}})
    await until(lambda: recorder.names == ["a", "b", "a"])
    await manager.stop()


async def test_deduplicates_5000_updates_of_100_objects(world: World) -> None:
    for i in range(100):
        await world.create(f"c{i}")
    recorder = Recorder()
    begin = asyncio.Event()

    async def wait(key: ObjectKey) -> Result:
        await begin.wait()
        return Result.done()

    manager = Manager("m", world.client, [recorded("c", recorder)], options=OPTIONS)
    recorder.do = wait
    await manager.start()
    for round_ in range(50):
        for i in range(100):
            await world.patch(f"c{i}", {"data": {"round": str(round_)}})
    begin.set()
    await until(lambda: len(set(recorder.names)) == 100)
    await asyncio.sleep(1)
    assert len(recorder.names) <= 101
    await manager.stop()


async def test_failing_key_is_retried_with_backoff_without_affecting_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    times: list[float] = []

    async def fail(key: ObjectKey) -> Result:
        if key.name == "broken":
            times.append(asyncio.get_running_loop().time())
            raise ZeroDivisionError("cannot make sense of it")
        return Result.done()

    recorder = Recorder()
    recorder.do = fail
    await world.create("broken")
    manager = Manager("m", world.client, [recorded("c", recorder)], options=OPTIONS)
    await manager.start()
    await until(lambda: len(times) == 8)
    pauses = [round(b - a, 3) for a, b in pairwise(times)]
    assert pauses == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32]
    await world.create("fine")
    await until(lambda: "fine" in recorder.names)
    await manager.stop()
    logged = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert [r.getMessage() for r in logged] == ["c: reconciling default/broken failed"]
    assert logged[0].exc_info is not None
    failed = manager.metrics.value("controller_runtime_reconcile_panics_total", controller="c")
    assert failed == 1


async def test_terminal_error_waits_for_the_next_change(world: World) -> None:
    async def fail(key: ObjectKey) -> Result:
        raise TerminalError("spec.size must be even")

    recorder = Recorder()
    recorder.do = fail
    await world.create("a")
    manager = Manager("m", world.client, [recorded("c", recorder)], options=OPTIONS)
    await manager.start()
    await asyncio.sleep(3600)
    assert recorder.names == ["a"]
    await world.patch("a", {"data": {"x": "y"}})
    await until(lambda: recorder.names == ["a", "a"])
    await manager.stop()


async def test_result_can_requeue_the_key(world: World) -> None:
    times: list[float] = []

    async def again(key: ObjectKey) -> Result:
        times.append(asyncio.get_running_loop().time())
        return Result.requeue(30) if len(times) < 3 else Result.done()

    recorder = Recorder()
    recorder.do = again
    await world.create("a")
    manager = Manager("m", world.client, [recorded("c", recorder)], options=OPTIONS)
    await manager.start()
    await asyncio.sleep(300)
    assert [round(t - times[0]) for t in times] == [0, 30, 60]
    await manager.stop()


async def test_sources_and_predicates_select_the_keys(world: World) -> None:
    recorder = Recorder()
    controller = recorded(
        "c",
        recorder,
        watch(CONFIG_MAPS, has_labels("mine")),
        owns(SECRETS, CONFIG_MAPS),
        maps(SECRETS, lambda secret: [ObjectKey("x", "mapped")], has_labels("map")),
    )
    manager = Manager("m", world.client, [controller], options=OPTIONS)
    await manager.start()
    owner = await world.create("owner")
    secret = {**config_map("child"), "kind": "Secret", "apiVersion": "v1"}
    await world.client.create(SECRETS, with_controller(secret, owner))
    await world.client.create(SECRETS, config_map("free"))
    labelled = {"metadata": {"name": "s", "namespace": "default", "labels": {"map": ""}}}
    await world.client.create(SECRETS, labelled)
    await until(lambda: len(recorder.keys) == 2)
    await asyncio.sleep(1)
    assert recorder.keys == [ObjectKey("default", "owner"), ObjectKey("x", "mapped")]
    await manager.stop()


async def test_reconciler_can_enqueue_keys(world: World) -> None:
    recorder = Recorder()
    manager = Manager("m", world.client, [recorded("c", recorder)], options=OPTIONS)
    await manager.start()
    assert recorder.context is not None
    recorder.context.enqueue(ObjectKey("default", "process-ended"))
    await until(lambda: recorder.names == ["process-ended"])
    await manager.stop()


async def test_two_workers_never_have_the_same_key(world: World) -> None:
    active: list[str] = []
    most: list[int] = []

    async def slow(key: ObjectKey) -> Result:
        assert key.name not in active
        active.append(key.name)
        most.append(len(active))
        await asyncio.sleep(1)
        active.remove(key.name)
        return Result.done()

    recorder = Recorder()
    recorder.do = slow
    controller = recorded("c", recorder, workers=2)
    manager = Manager("m", world.client, [controller], options=OPTIONS)
    await manager.start()
    for name in ("a", "b", "c"):
        await world.create(name)
    for i in range(5):
        await world.patch("a", {"data": {"i": str(i)}})
        await asyncio.sleep(0.3)
    await until(lambda: len(recorder.names) >= 5)
    assert max(most) == 2
    await manager.stop()


async def test_two_status_writers_lose_no_update_under_conflicts(
    world: World,
) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "shared"}})
    key = ObjectKey("", "shared")
    turn = 0

    async def write(writer: str) -> None:
        nonlocal turn
        for i in range(10):
            # Another client writes between the read and the write.
            stale = await world.client.get(NAMESPACES, "shared")
            await asyncio.sleep(0.001 * (turn % 3))
            turn += 1

            def change(obj: dict[str, object], i: int = i) -> dict[str, object]:
                status = dict(obj["status"])  # type: ignore[call-overload]
                others = [c for c in status.get("conditions") or () if c["type"] != f"{writer}{i}"]
                mine = {"type": f"{writer}{i}", "status": "True"}
                return {**status, "conditions": [*others, mine]}

            await update_status(world.client, NAMESPACES, key, change, known=stale)

    async with asyncio.TaskGroup() as group:
        for writer in ("x", "y", "z"):
            group.create_task(write(writer))
    found = await world.client.get(NAMESPACES, "shared")
    types = {c["type"] for c in found["status"]["conditions"]}
    assert types == {f"{writer}{i}" for writer in "xyz" for i in range(10)}


async def test_raises_the_conflict_after_the_last_attempt(world: World) -> None:
    obj = await world.client.create(NAMESPACES, {"metadata": {"name": "busy"}})
    count = 0

    def change(found: dict[str, object]) -> dict[str, object]:
        nonlocal count
        count += 1
        found["metadata"] = {**obj["metadata"]}  # always the first version: always stale
        return {"phase": "Active", "conditions": [{"type": f"c{count}", "status": "True"}]}

    await world.client.patch(NAMESPACES, "busy", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(errors.Conflict):
        await update_status(world.client, NAMESPACES, ObjectKey("", "busy"), change)
    assert count == 20


async def test_queue_overflow_is_repaired_by_listing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(key: ObjectKey) -> Result:
        await asyncio.sleep(1)
        return Result.done()

    recorder = Recorder()
    recorder.do = slow
    for i in range(8):
        await world.create(f"c{i}")
    controller = recorded("c", recorder)
    workers = Workers(controller, world.client, cache := Cache(world.client))
    monkeypatch.setattr(workers.queue, "_capacity", 5)
    async with cache:
        await workers.wait_for_sync()
        running = asyncio.ensure_future(workers.run())
        await until(lambda: len(recorder.keys) >= 5)
        monkeypatch.setattr(workers.queue, "_capacity", 100)
        await until(lambda: len(set(recorder.names)) == 8)
        await workers.drain()
        await running


async def test_reads_typed_objects_from_the_cache(world: World) -> None:
    (definition,) = crds_of("notary")
    await install_definitions(world.client, [definition])
    made = {**config_map("a"), "spec": {"value": "v", "configMapName": "c"}}
    await world.client.create(resource_of(Notary), made)
    async with Cache(world.client) as cache:
        notaries = cache.of(Notary)
        notaries.informer.add_index("value", lambda obj: [obj["spec"]["value"]])
        await cache.wait_for_sync()
        found = notaries.get(ObjectKey("default", "a"))
        assert found is not None
        assert found.spec.config_map_name == "c"
        assert notaries.get(ObjectKey("default", "b")) is None
        assert [n.metadata.name for n in notaries.by_index("value", "v")] == ["a"]
        assert [n.metadata.name for n in notaries.list(namespace="other")] == []
        assert len(list(cache.list(Notary, namespace="default"))) == 1
