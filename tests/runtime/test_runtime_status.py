# SPDX-License-Identifier: Apache-2.0
"""StatusWriter on a real server: merge with retries, server-side apply, events."""

from typing import Any

import pytest
from tests.runtime.runtime_world import World, loop_clock

from rdd.api.types import Object
from rdd.kinds.crd import definition_of
from rdd.kinds.demo import Demo
from rdd.runtime import (
    Cache,
    Condition,
    Context,
    EventRecorder,
    StatusWriter,
    conditions_of,
    install_definitions,
    record_transition,
    resource_of,
)
from rdd.runtime.events import EVENTS

pytestmark = pytest.mark.looptime

READY = Condition("Ready", "True", "Up", "It is up")
T1 = "2026-01-01T00:00:00Z"
DEMOS = resource_of(Demo)


@pytest.fixture
def context(world: World) -> Context:
    events = EventRecorder(world.client, "c", instance="m-1", clock=loop_clock)
    return Context("c", world.client, Cache(world.client), events, lambda key: None, loop_clock)


@pytest.fixture
async def demo(world: World) -> Object:
    await install_definitions(world.client, [definition_of(Demo)])
    return await world.client.create(DEMOS, {"metadata": {"name": "demo"}, "spec": {}})


def types(obj: Object) -> list[str]:
    return [condition["type"] for condition in conditions_of(obj)]


async def label(world: World, value: str) -> Object:
    patch = {"metadata": {"labels": {"a": value}}}
    return await world.client.patch(DEMOS, "demo", patch)


async def test_writes_conditions_and_members(context: Context, demo: Object) -> None:
    writer = StatusWriter(context, DEMOS)
    written = await writer.write(demo, READY, members={"processedCount": 2})
    assert written["status"]["processedCount"] == 2
    assert READY.at(1).is_in(conditions_of(written))
    removed = await writer.write(written, remove=["Ready"], members={"processedCount": None})
    assert removed["status"] == {"conditions": []}
    without = StatusWriter(context, DEMOS, has_generation=False)
    (condition,) = conditions_of(await without.write(removed, READY))
    assert "observedGeneration" not in condition


@pytest.mark.parametrize("field_manager", ["", "one"])
async def test_sends_nothing_if_nothing_changes(
    world: World, context: Context, demo: Object, field_manager: str
) -> None:
    writer = StatusWriter(context, DEMOS, field_manager=field_manager)
    written = await writer.write(demo, READY)
    assert await writer.write(written, READY, remove=["Absent"]) is written


async def test_retries_on_conflict_with_the_current_object(
    world: World, context: Context, demo: Object
) -> None:
    await label(world, "b")
    await StatusWriter(context, DEMOS, field_manager="other").write(
        demo, Condition("Other", "False", "Down")
    )
    seen: list[list[str]] = []

    def members(current: Object) -> dict[str, Any]:
        seen.append(types(current))
        return {"processedCount": 1}

    written = await StatusWriter(context, DEMOS).write(demo, READY, members=members)
    assert written["metadata"]["labels"]["a"] == "b"
    assert types(written) == ["Other", "Ready"]
    assert seen == [[], ["Other"]]


async def test_apply_owns_exactly_its_part(world: World, context: Context, demo: Object) -> None:
    mine = StatusWriter(context, DEMOS, field_manager="mine")
    others = StatusWriter(context, DEMOS, field_manager="others")
    mirrored = Condition("Running", "True", "Up").to_object(now=T1)
    written = await others.write(demo, Condition("Other", "False", "Down"))
    written = await mine.write(written, mirrored, READY)
    assert sorted(types(written)) == ["Other", "Ready", "Running"]
    assert mirrored in conditions_of(written)
    written = await mine.write(written, READY, remove=["Running"])
    assert sorted(types(written)) == ["Other", "Ready"]


@pytest.mark.parametrize("field_manager", ["", "one"])
async def test_records_transitions_of_status_or_reason(
    world: World, context: Context, demo: Object, field_manager: str
) -> None:
    callback = record_transition(context, types=("Ready",), warnings=("Degraded",))
    writer = StatusWriter(context, DEMOS, field_manager=field_manager, on_transition=callback)
    written = await writer.write(demo, READY, Condition("Other", "True", "Up"))
    written = await writer.write(written, READY._replace(message="still"))
    written = await writer.write(written, READY._replace(reason="Degraded"))
    await writer.write(written, Condition("Ready", "False", "StartFailed", "no disk"))
    await context.events.flush()
    events = (await world.client.list(EVENTS)).items
    assert sorted((e["type"], e["note"]) for e in events if e["reason"] == "ConditionChanged") == [
        ("Normal", "Ready=True: It is up (Up)"),
        ("Warning", "Ready=False: no disk (StartFailed)"),
        ("Warning", "Ready=True: It is up (Degraded)"),
    ]
