# SPDX-License-Identifier: Apache-2.0
"""Helpers that write objects, on a real server: finalizers, owners, status, events."""

import asyncio
from typing import Any

import pytest
from tests.runtime.runtime_world import World, config_map, loop_clock

from rdd.api import errors
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from rdd.runtime import (
    CLEANUP,
    EventRecorder,
    Metrics,
    ObjectKey,
    add_finalizer,
    apply_status,
    delete_owned,
    owned_by,
    patch_status,
    remove_finalizer,
    with_controller,
)
from rdd.runtime import events as events_module
from rdd.runtime.events import EVENTS

pytestmark = pytest.mark.looptime


# -- finalizers


async def test_adds_and_removes_finalizers_next_to_others(world: World) -> None:
    stale = await world.create("a")
    await world.patch("a", {"metadata": {"finalizers": ["other/one"]}})
    with_own = await add_finalizer(world.client, CONFIG_MAPS, stale, CLEANUP)
    assert with_own["metadata"]["finalizers"] == ["other/one", CLEANUP]
    assert await add_finalizer(world.client, CONFIG_MAPS, with_own, CLEANUP) is with_own
    await world.patch("a", {"metadata": {"finalizers": ["other/two", CLEANUP]}})
    without = await remove_finalizer(world.client, CONFIG_MAPS, with_own, CLEANUP)
    assert without is not None
    assert without["metadata"]["finalizers"] == ["other/two"]
    assert await remove_finalizer(world.client, CONFIG_MAPS, without, CLEANUP) is without


async def test_removing_the_last_finalizer_completes_the_deletion(world: World) -> None:
    obj = await add_finalizer(world.client, CONFIG_MAPS, await world.create("a"), CLEANUP)
    await world.client.delete(CONFIG_MAPS, "a", namespace="default")
    await remove_finalizer(world.client, CONFIG_MAPS, obj, CLEANUP)
    with pytest.raises(errors.NotFound):
        await world.get("a")
    assert await remove_finalizer(world.client, CONFIG_MAPS, obj, CLEANUP) is None


async def test_object_of_the_same_name_is_another_object(world: World) -> None:
    old = await add_finalizer(world.client, CONFIG_MAPS, await world.create("a"), CLEANUP)
    await world.patch("a", {"metadata": {"finalizers": None}})
    await world.client.delete(CONFIG_MAPS, "a", namespace="default")
    new = await world.create("a")
    await add_finalizer(world.client, CONFIG_MAPS, new, CLEANUP)
    assert await remove_finalizer(world.client, CONFIG_MAPS, old, CLEANUP) is None
    assert (await world.get("a"))["metadata"]["finalizers"] == [CLEANUP]


async def test_adds_no_finalizer_to_an_object_being_deleted(world: World) -> None:
    await world.create("a")
    await world.patch("a", {"metadata": {"finalizers": ["other/one"]}})
    await world.client.delete(CONFIG_MAPS, "a", namespace="default")
    with pytest.raises(errors.Conflict, match="it is being deleted"):
        await add_finalizer(world.client, CONFIG_MAPS, await world.get("a"), CLEANUP)


async def test_object_has_at_most_one_owned_by_finalizer(world: World) -> None:
    obj = await world.create("a")
    obj = await add_finalizer(world.client, CONFIG_MAPS, obj, owned_by("App"))
    with pytest.raises(errors.Conflict, match="it is owned by App"):
        await add_finalizer(world.client, CONFIG_MAPS, obj, owned_by("LimaVM"))


async def test_concurrent_writers_lose_no_finalizer(world: World) -> None:
    obj = await world.create("a")
    async with asyncio.TaskGroup() as group:
        for i in range(8):
            group.create_task(add_finalizer(world.client, CONFIG_MAPS, obj, f"x/f{i}"))
    found = await world.get("a")
    assert sorted(found["metadata"]["finalizers"]) == [f"x/f{i}" for i in range(8)]


# -- owned objects


async def owned(world: World, owner: Object, name: str, *finalizers: str) -> Object:
    child: Object = {**config_map(name), "kind": "ConfigMap", "apiVersion": "v1"}
    child["metadata"]["finalizers"] = list(finalizers)
    return await world.client.create(CONFIG_MAPS, with_controller(child, owner))


async def test_delete_owned_deletes_only_owned_objects(world: World) -> None:
    owner = await world.client.create(SECRETS, config_map("owner"))
    await owned(world, owner, "plain")
    await owned(world, owner, "held", owned_by("Secret"))
    await owned(world, owner, "mirror", owned_by("Secret"), "engine.rancherdesktop.io/mirror")
    await world.create("free")
    assert await delete_owned(world.client, owner) == 3
    left = await world.client.list(CONFIG_MAPS, namespace="default")
    names = {o["metadata"]["name"]: o["metadata"] for o in left.items}
    assert names.keys() == {"free", "mirror"}
    assert names["mirror"]["finalizers"] == ["engine.rancherdesktop.io/mirror"]
    assert names["mirror"]["deletionTimestamp"]
    assert await delete_owned(world.client, owner) == 1


async def test_cluster_scoped_owner_selects_the_namespace(world: World) -> None:
    owner = await world.client.create(NAMESPACES, {"metadata": {"name": "owner"}})
    await owned(world, owner, "child")
    assert await delete_owned(world.client, {**owner, "spec": {"namespace": "kube-public"}}) == 0
    assert await delete_owned(world.client, owner) == 1


async def test_incomplete_cleanup_fails_after_all_attempts(world: World) -> None:
    owner = await world.client.create(SECRETS, config_map("owner"))
    for name in ("a", "b"):
        await owned(world, owner, name)
    inner = world.server.handle

    async def handle(request: Any) -> Any:
        if request.info.resource == "leases" and request.info.verb == "list":
            from rdd.apiserver.http import responses

            return responses.error(request, errors.InternalError.because("disk"))
        return await inner(request)

    world.server.handle = handle  # type: ignore[method-assign]
    with pytest.raises(ExceptionGroup, match="objects owned by Secret owner"):
        await delete_owned(world.client, owner)
    assert (await world.client.list(CONFIG_MAPS, namespace="default")).items == []


# -- status


async def test_patch_status_uses_a_lock_and_skips_equal_status(world: World) -> None:
    obj = await world.client.create(NAMESPACES, {"metadata": {"name": "n"}})
    assert await patch_status(world.client, NAMESPACES, obj, {"phase": "Active"}) is obj
    await world.client.patch(NAMESPACES, "n", {"metadata": {"labels": {"a": "b"}}})
    status = {"phase": "Active", "conditions": [{"type": "X", "status": "True"}]}
    with pytest.raises(errors.Conflict):
        await patch_status(world.client, NAMESPACES, obj, status)
    written = await patch_status(world.client, NAMESPACES, obj, status, is_locked=False)
    assert written["status"]["conditions"][0]["type"] == "X"


async def test_two_field_managers_apply_parts_of_a_status(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "n"}})
    for manager in ("one", "two"):
        await apply_status(
            world.client,
            NAMESPACES,
            ObjectKey("", "n"),
            {"conditions": [{"type": manager, "status": "True"}]},
            field_manager=manager,
        )
    found = await world.client.get(NAMESPACES, "n")
    assert {c["type"] for c in found["status"]["conditions"]} == {"one", "two"}


# -- events


async def recorded_events(world: World) -> list[Object]:
    return (await world.client.list(EVENTS)).items


@pytest.fixture
async def obj(world: World) -> Object:
    return await world.create("a")


async def test_event_has_object_reason_and_reporter(world: World, obj: Object) -> None:
    recorder = EventRecorder(world.client, "c", instance="m-1", clock=loop_clock)
    recorder.event(obj, "Warning", "StartFailed", "no disk", action="Start", related=obj)
    await recorder.flush()
    (event,) = await recorded_events(world)
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "StartFailed", "no disk")
    assert event["regarding"]["uid"] == event["related"]["uid"] == obj["metadata"]["uid"]
    assert (event["reportingInstance"], event["action"]) == ("m-1", "Start")


async def test_repetitions_become_a_series(world: World, obj: Object) -> None:
    recorder = EventRecorder(world.client, "c", clock=loop_clock)
    running = asyncio.ensure_future(recorder.run())
    recorder.event(obj, "Warning", "Failed", "again")
    await asyncio.sleep(1)
    recorder.event(obj, "Warning", "Failed", "again")
    await asyncio.sleep(1)
    (event,) = await recorded_events(world)
    assert event["series"]["count"] == 2
    version = event["metadata"]["resourceVersion"]
    for _ in range(98):
        recorder.event(obj, "Warning", "Failed", "again")
    await asyncio.sleep(1)
    (event,) = await recorded_events(world)
    assert event["metadata"]["resourceVersion"] == version
    await asyncio.sleep(60)
    (event,) = await recorded_events(world)
    assert event["series"]["count"] == 100
    recorder.event(obj, "Warning", "Failed", "something else")
    await asyncio.sleep(1)
    assert len(await recorded_events(world)) == 2
    await asyncio.sleep(events_module.SERIES_S + 1)
    recorder.event(obj, "Warning", "Failed", "again")
    await asyncio.sleep(1)
    assert len(await recorded_events(world)) == 3
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_series_continues_in_a_new_event_after_expiry(world: World, obj: Object) -> None:
    recorder = EventRecorder(world.client, "c", clock=loop_clock)
    recorder.event(obj, "Normal", "Seen", "x")
    await recorder.flush()
    await world.client.delete_collection(EVENTS, namespace="default")
    recorder.event(obj, "Normal", "Seen", "x")
    await recorder.flush()
    (event,) = await recorded_events(world)
    assert event["series"]["count"] == 2


async def test_truncates_long_notes_between_characters(world: World, obj: Object) -> None:
    recorder = EventRecorder(world.client, "c", clock=loop_clock)
    recorder.event(obj, "Normal", "Seen", "ä" * 1000)
    await recorder.flush()
    (event,) = await recorded_events(world)
    assert event["note"] == "ä" * 510 + "…"


async def test_drops_rejected_and_excess_events(
    world: World, obj: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "MAX_WAITING", 5)
    monkeypatch.setattr(events_module, "MAX_SERIES", 3)
    metrics = Metrics()
    recorder = EventRecorder(world.client, "c", clock=loop_clock, metrics=metrics)
    label = {"controller": "rdd.rancherdesktop.io/c"}
    for i in range(8):
        recorder.event(obj, "Normal", "Seen", f"note {i}")
    assert metrics.value("rdd_events_dropped_total", **label) == 3
    await recorder.flush()
    recorder.event(obj, "Normal", "r" * 200, "too long a reason")
    recorder.event(obj, "Normal", "Fine", "fine")
    await recorder.flush()
    assert metrics.value("rdd_events_dropped_total", **label) == 4
    reasons = {e["reason"] for e in await recorded_events(world)}
    assert "Fine" in reasons
