# SPDX-License-Identifier: Apache-2.0
"""notary: every value is recorded exactly once."""

from typing import Any

import pytest
from tests.controllers.controller_world import (
    controller_environment,
    event_about,
    eventually,
    gone,
    managed,
    reasons,
)
from tests.runtime.runtime_world import World, until

from rdd.api import errors
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.rdd.notary import notary
from rdd.kinds.notary import Notary
from rdd.runtime import CLEANUP, resource_of

pytestmark = pytest.mark.looptime

NOTARIES = resource_of(Notary)


def made(name: str = "n", value: str = "one", config_map: str = "record") -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"value": value, "configMapName": config_map},
    }


def count_is(count: int) -> Any:
    return lambda obj: (obj.get("status") or {}).get("changeCount") == count


async def test_records_each_value_with_time_and_number(world: World) -> None:
    async with managed(world, notary(controller_environment())):
        await world.client.create(NOTARIES, made())
        first = await eventually(world, NOTARIES, "n", count_is(1))
        await world.client.patch(NOTARIES, "n", {"spec": {"value": "a=b,c"}}, namespace="default")
        second = await eventually(world, NOTARIES, "n", count_is(2))
        record = await world.get("record")
    assert first["metadata"]["finalizers"] == [CLEANUP]
    assert first["status"] == {
        "lastRecordedValue": "one",
        "changeCount": 1,
        "configMapStatus": "Updated",
    }
    assert second["status"]["lastRecordedValue"] == "a=b,c"
    data = record["data"]
    assert sorted(data) == ["change_000", "change_001", "change_count", "latest_change"]
    assert data["change_000"].startswith("timestamp=2027-01-15T08:0")
    assert data["change_000"].endswith("Z,value=one")
    assert data["change_001"].endswith("Z,value=a=b,c")
    assert data["latest_change"] == data["change_001"]
    assert data["change_count"] == "1"
    assert record["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "notary-controller",
        "app.kubernetes.io/instance": "n",
    }
    (owner,) = record["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Notary", "n")
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is True


async def test_empty_value_is_a_change_only_after_another_value(world: World) -> None:
    async with managed(world, notary(controller_environment())):
        await world.client.create(NOTARIES, made(value=""))
        await eventually(world, NOTARIES, "n", lambda obj: obj["metadata"].get("finalizers"))
        patch = {"spec": {"value": "x"}}
        await world.client.patch(NOTARIES, "n", patch, namespace="default")
        await eventually(world, NOTARIES, "n", count_is(1))
        await world.client.patch(NOTARIES, "n", {"spec": {"value": ""}}, namespace="default")
        await eventually(world, NOTARIES, "n", count_is(2))
        data = (await world.get("record"))["data"]
    assert data["change_000"].endswith("value=x")
    assert data["change_001"].endswith(",value=")


async def test_records_events_and_merges_repetitions(world: World) -> None:
    async with managed(world, notary(controller_environment())):
        await world.client.create(NOTARIES, made())
        await eventually(world, NOTARIES, "n", count_is(1))
        for i in range(20):
            labels = {"metadata": {"labels": {"i": str(i)}}}
            await world.client.patch(NOTARIES, "n", labels, namespace="default")
            await event_about(world, "n", "NoChange", repeated=i > 0)
    found = await reasons(world, "n")
    assert found["ValueRecorded"] == ['Recorded value "one" as change 1']
    assert len(found["NoChange"]) == 1
    assert len(found["Reconcile"]) == 1


async def test_deletes_the_record_with_the_notary(world: World) -> None:
    async with managed(world, notary(controller_environment())):
        await world.client.create(NOTARIES, made())
        await eventually(world, NOTARIES, "n", count_is(1))
        await world.client.delete(NOTARIES, "n", namespace="default")
        await gone(world, NOTARIES, "n")
        await gone(world, CONFIG_MAPS, "record")


async def test_uses_and_keeps_a_config_map_of_the_user(world: World) -> None:
    async with managed(world, notary(controller_environment())):
        await world.create("record", data={"mine": "yes"})
        await world.client.create(NOTARIES, made())
        await eventually(world, NOTARIES, "n", count_is(1))
        await world.client.delete(NOTARIES, "n", namespace="default")
        await gone(world, NOTARIES, "n")
        record = await world.get("record")
    assert record["data"]["mine"] == "yes"
    assert record["data"]["change_000"].endswith("value=one")
    assert "ownerReferences" not in record["metadata"]


async def test_does_not_write_the_record_of_another_notary(world: World) -> None:
    async with managed(world, notary(controller_environment())):
        await world.client.create(NOTARIES, made("a", "of a"))
        await eventually(world, NOTARIES, "a", count_is(1))
        await world.client.create(NOTARIES, made("b", "of b"))
        await eventually(world, NOTARIES, "b", lambda obj: obj["metadata"].get("finalizers"))
        await world.client.create(NOTARIES, made("c", "of c", "other"))
        await eventually(world, NOTARIES, "c", count_is(1))
        # When the record is free, the controller uses it without another change.
        await world.client.delete(NOTARIES, "a", namespace="default")
        await eventually(world, NOTARIES, "b", count_is(1))
        data = (await world.get("record"))["data"]
    assert data["change_000"].endswith("value=of b")
    found = await reasons(world, "b")
    assert found["ConfigMapError"] == ['ConfigMap "record" is controlled by Notary a']


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("No Such Name", "Invalid value", id="wrong"),
        pytest.param("", "resource name may not be empty", id="empty"),
    ],
)
async def test_reports_an_invalid_name_without_affecting_others(
    world: World, name: str, why: str
) -> None:
    async with managed(world, notary(controller_environment())) as manager:
        await world.client.create(NOTARIES, made("bad", config_map=name))
        await world.client.create(NOTARIES, made("good"))
        await eventually(world, NOTARIES, "good", count_is(1))
        failed = lambda: "reconcile_errors_total" in manager.metrics.render()  # noqa: E731
        await until(failed)
        patch = {"spec": {"configMapName": "better"}}
        await world.client.patch(NOTARIES, "bad", patch, namespace="default")
        await eventually(world, NOTARIES, "bad", count_is(1))
    (note,) = (await reasons(world, "bad"))["ConfigMapError"]
    assert note.startswith(f'ConfigMap "{name}": ')
    assert why in note


async def test_failed_status_write_does_not_duplicate_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process can end between the two writes: the retry keeps the first record."""
    patch, rejections = Client.patch, [1, 1]

    async def rejecting(self: Client, resource: Any, *args: Any, **members: Any) -> Object:
        if members.get("subresource") == "status" and rejections:
            rejections.pop()
            raise errors.InternalError("the disk is full")
        return await patch(self, resource, *args, **members)

    monkeypatch.setattr(Client, "patch", rejecting)
    async with managed(world, notary(controller_environment())):
        await world.client.create(NOTARIES, made())
        await eventually(world, CONFIG_MAPS, "record", lambda obj: obj.get("data"))
        first = (await world.get("record"))["data"]
        await eventually(world, NOTARIES, "n", count_is(1))
        assert (await world.get("record"))["data"] == first
    assert rejections == []
    assert (await reasons(world, "n"))["StatusUpdateError"] == ["the disk is full"]


async def test_rejects_invalid_values_and_warns_about_long_ones(
    world: World,
) -> None:
    warnings: list[str] = []
    client = Client(world.client.transport, on_warning=warnings.append)
    async with managed(world, notary(controller_environment())):
        with pytest.raises(errors.Forbidden) as rejected:
            await client.create(NOTARIES, made(value="InValid thing"))
        await client.create(NOTARIES, made(value="x" * 24))
        assert warnings == []
        long = {"spec": {"value": "x" * 25}}
        await client.patch(NOTARIES, "n", long, namespace="default")
        invalid = {"spec": {"value": "invalid"}}
        with pytest.raises(errors.Forbidden):
            await client.patch(NOTARIES, "n", invalid, namespace="default")
    assert rejected.value.message == (
        'admission webhook "notary.rdd.rancherdesktop.io" denied the request: '
        "spec.value cannot start with 'invalid' (case-insensitive): \"InValid thing\""
    )
    assert warnings == ["spec.value is longer than 24 characters (25 chars)"]
