# SPDX-License-Identifier: Apache-2.0
"""configmapreplicaset: it compares names of ConfigMaps, not their number."""

from typing import Any

import pytest
from tests.controllers.controller_world import (
    controller_environment,
    eventually,
    gone,
    managed,
    reasons,
)
from tests.runtime.runtime_world import World

from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.rdd import configmapreplicaset as module
from rdd.controllers.rdd.configmapreplicaset import configmapreplicaset
from rdd.kinds.configmapreplicaset import ConfigMapReplicaSet
from rdd.runtime import CLEANUP, find_condition, resource_of

pytestmark = pytest.mark.looptime

SETS = resource_of(ConfigMapReplicaSet)


def made(name: str = "s", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def ready_is(count: int) -> Any:
    return lambda obj: (obj.get("status") or {}).get("readyReplicas") == count


def reason_is(reason: str) -> Any:
    def holds(obj: Object) -> bool:
        condition = find_condition((obj.get("status") or {}).get("conditions"), "Ready") or {}
        return bool(condition.get("reason") == reason)

    return holds


async def names(world: World) -> list[str]:
    found = (await world.client.list(CONFIG_MAPS, namespace="default")).items
    return sorted(obj["metadata"]["name"] for obj in found)


async def scale(world: World, replicas: int | None) -> None:
    await world.client.patch(SETS, "s", {"spec": {"replicas": replicas}}, namespace="default")


async def test_config_maps_have_indexes_and_labels(world: World) -> None:
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, made(replicas=2, data={"a": "1", "index": "mine"}))
        owner = await eventually(world, SETS, "s", ready_is(2))
        child = await world.get("s-1")
    assert owner["metadata"]["finalizers"] == [CLEANUP]
    assert child["data"] == {"a": "1", "index": "1"}
    assert child["metadata"]["labels"] == {
        "app.kubernetes.io/name": "configmap",
        "app.kubernetes.io/instance": "s",
        "app.kubernetes.io/component": "controller",
        "app.kubernetes.io/managed-by": "rdd-configmapreplicaset",
    }
    assert child["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert "finalizers" not in child["metadata"]
    condition = find_condition(owner["status"]["conditions"], "Ready")
    assert condition is not None
    assert condition["reason"] == "Complete"
    assert condition["observedGeneration"] == owner["metadata"]["generation"]


async def test_scales_up_and_down_with_one_replica_by_default(world: World) -> None:
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, made())
        await eventually(world, SETS, "s", ready_is(1))
        await scale(world, 5)
        await eventually(world, SETS, "s", ready_is(5))
        await scale(world, 2)
        await eventually(world, SETS, "s", ready_is(2))
        assert await names(world) == ["s-0", "s-1"]
        await scale(world, 0)
        await eventually(world, SETS, "s", ready_is(0))
        assert await names(world) == []
        await scale(world, None)
        await eventually(world, SETS, "s", ready_is(1))
        assert await names(world) == ["s-0"]


async def test_recreates_a_deleted_member_with_its_index(world: World) -> None:
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, made(replicas=3))
        await eventually(world, SETS, "s", ready_is(3))
        lost = await world.get("s-1")
        await world.client.delete(CONFIG_MAPS, "s-1", namespace="default")
        back = await eventually(world, CONFIG_MAPS, "s-1", lambda obj: obj)
        await eventually(world, SETS, "s", ready_is(3))
    assert back["metadata"]["uid"] != lost["metadata"]["uid"]


async def test_existing_members_keep_their_data(world: World) -> None:
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, made(replicas=1, data={"v": "old"}))
        await eventually(world, SETS, "s", ready_is(1))
        patch = {"spec": {"replicas": 2, "data": {"v": "new"}}}
        await world.client.patch(SETS, "s", patch, namespace="default")
        await eventually(world, SETS, "s", ready_is(2))
        assert (await world.get("s-0"))["data"]["v"] == "old"
        assert (await world.get("s-1"))["data"]["v"] == "new"


async def test_completes_a_set_that_is_larger_than_a_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 7)
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, made(replicas=40))
        await eventually(world, SETS, "s", ready_is(40))
        await scale(world, 1)
        for index in range(1, 40):
            await gone(world, CONFIG_MAPS, f"s-{index}")
        assert await names(world) == ["s-0"]


async def test_reports_a_taken_name_and_creates_the_others(world: World) -> None:
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.create("s-1", data={"of": "the user"})
        await world.client.create(SETS, made(replicas=3))
        owner = await eventually(world, SETS, "s", ready_is(2))
        condition = find_condition(owner["status"]["conditions"], "Ready")
        assert condition is not None
        assert condition["status"] == "False"
        assert condition["reason"] == "NameTaken"
        assert condition["message"] == 'ConfigMap "s-1" exists and is not part of this set'
        assert (await world.get("s-1"))["data"] == {"of": "the user"}
        # The name is retried.
        await world.client.delete(CONFIG_MAPS, "s-1", namespace="default")
        await eventually(world, SETS, "s", reason_is("Complete"))
    assert "NameTaken" in await reasons(world, "s")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"replicas": -1}, "InvalidReplicas", id="fewer than none"),
        pytest.param({"replicas": 2**31 - 1}, "InvalidReplicas", id="more than there is room for"),
        pytest.param({"data": {"no such key": ""}}, "InvalidReplica", id="a key that cannot be"),
    ],
)
async def test_reports_an_invalid_set_without_affecting_others(
    world: World, spec: Object, reason: str
) -> None:
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, made("bad", **spec))
        await world.client.create(SETS, made(replicas=1))
        await eventually(world, SETS, "bad", reason_is(reason))
        await eventually(world, SETS, "s", ready_is(1))
        assert await names(world) == ["s-0"]
        correct = {"spec": {"replicas": 2, "data": None}}
        await world.client.patch(SETS, "bad", correct, namespace="default")
        await eventually(world, SETS, "bad", reason_is("Complete"))


async def test_invalid_replicas_delete_nothing(world: World) -> None:
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.client.create(SETS, made(replicas=2))
        await eventually(world, SETS, "s", ready_is(2))
        await scale(world, -5)
        await eventually(world, SETS, "s", reason_is("InvalidReplicas"))
        assert await names(world) == ["s-0", "s-1"]


async def test_deletes_the_members_with_the_set(world: World) -> None:
    async with managed(world, configmapreplicaset(controller_environment())):
        await world.create("foreign")
        await world.client.create(SETS, made(replicas=3))
        await eventually(world, SETS, "s", ready_is(3))
        await world.client.delete(SETS, "s", namespace="default")
        await gone(world, SETS, "s")
        assert await names(world) == ["foreign"]
