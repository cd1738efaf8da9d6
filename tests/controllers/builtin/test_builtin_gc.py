# SPDX-License-Identifier: Apache-2.0
"""Garbage collection on a real server: all policies and shapes of ownership."""

import asyncio

import pytest
from tests.controllers.builtin.builtin_world import WIDGETS, World, is_deleting, reference

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.client.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    SECRETS,
)

HELD = ("example.com/held",)


async def test_deletes_all_levels_of_dependents_of_a_deleted_owner(world: World) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    child = await world.create("child", owner)
    await world.create("grandchild", child, resource=SECRETS)
    await world.create("stranger")
    await world.delete(owner)
    await world.gone("grandchild", SECRETS)
    await world.gone("child")
    assert await world.get("stranger") is not None


async def test_collects_garbage_from_before_the_start(world: World) -> None:
    owner = await world.create("owner")
    child = await world.create("child", owner)
    await world.create("grandchild", child, resource=SECRETS)
    await world.delete(owner)
    await world.start("gc")
    await world.gone("grandchild", SECRETS)
    await world.gone("child")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"uid": "00000000-0000-0000-0000-000000000000"}, id="uid"),
        pytest.param({"name": "nobody"}, id="name"),
        pytest.param({"kind": "Secret"}, id="kind"),
    ],
)
async def test_owner_must_match_kind_name_and_uid(world: World, wrong: dict[str, str]) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    ref = {**reference(owner), **wrong}
    metadata = {"name": "child", "namespace": "default", "ownerReferences": [ref]}
    await world.client.create(CONFIG_MAPS, {"metadata": metadata})
    await world.gone("child")
    assert await world.get("owner") is not None


async def test_removes_only_dangling_references_if_an_owner_remains(world: World) -> None:
    await world.start("gc")
    first, second = await world.create("first"), await world.create("second")
    await world.create("child", first, second)
    await world.delete(first)
    child = await world.until(
        CONFIG_MAPS,
        "child",
        lambda o: o is not None and len(o["metadata"]["ownerReferences"]) == 1,
        namespace="default",
    )
    assert child is not None
    assert child["metadata"]["ownerReferences"] == [reference(second)]
    await world.delete(second)
    await world.gone("child")


async def test_removed_reference_prevents_the_deletion(world: World) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("child", owner)
    await world.client.patch(
        CONFIG_MAPS, "child", {"metadata": {"ownerReferences": None}}, namespace="default"
    )
    await world.delete(owner)
    await world.settled()
    assert await world.get("child") is not None


# -- orphan


async def test_orphaned_dependents_are_kept_without_reference(world: World) -> None:
    await world.start("gc")
    owner, other = await world.create("owner"), await world.create("other")
    await world.create("child", owner, other)
    await world.create("only-child", owner, resource=SECRETS)
    await world.delete(owner, propagation_policy="Orphan")
    await world.gone("owner")
    await world.settled()
    child, only_child = await world.get("child"), await world.get("only-child", SECRETS)
    assert child is not None and only_child is not None
    assert child["metadata"]["ownerReferences"] == [reference(other)]
    assert "ownerReferences" not in only_child["metadata"]


async def test_orphaning_keeps_other_finalizers_of_the_owner(world: World) -> None:
    await world.start("gc")
    owner = await world.create("owner", finalizers=HELD)
    await world.create("child", owner)
    await world.delete(owner, propagation_policy="Orphan")
    owner_left = await world.until(
        CONFIG_MAPS,
        "owner",
        lambda o: o is not None and o["metadata"]["finalizers"] == [*HELD],
        namespace="default",
    )
    assert is_deleting(owner_left)
    await world.release("owner")
    await world.gone("owner")
    assert await world.get("child") is not None


async def test_second_delete_changes_the_policy(world: World) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("child", owner, block=True, finalizers=HELD)
    await world.delete(owner, propagation_policy="Foreground")
    await world.until(CONFIG_MAPS, "child", is_deleting, namespace="default")
    await world.delete(owner, propagation_policy="Orphan")
    await world.gone("owner")
    child = await world.get("child")
    assert child is not None and "ownerReferences" not in child["metadata"]


# -- foreground


async def test_foreground_deletion_starts_at_the_leaves(world: World) -> None:
    await world.start("gc")
    owner = await world.create("a")
    child = await world.create("b", owner, block=True)
    await world.create("c", child, block=True)
    order: list[str] = []
    changes = world.client.watch(CONFIG_MAPS, namespace="default")
    async for event in changes:
        if event.type == "ADDED" and event.object["metadata"]["name"] == "c":
            await world.delete(owner, propagation_policy="Foreground")
        if event.type == "DELETED":
            order.append(event.object["metadata"]["name"])
            if len(order) == 3:
                break
    await changes.aclose()
    assert order == ["c", "b", "a"]


async def test_foreground_deletion_waits_for_a_blocking_dependent(world: World) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("child", owner, block=True, finalizers=HELD)
    await world.delete(owner, propagation_policy="Foreground")
    await world.until(CONFIG_MAPS, "child", is_deleting, namespace="default")
    await world.settled()
    assert is_deleting(await world.get("owner"))
    await world.release("child")
    await world.gone("child")
    await world.gone("owner")


async def test_foreground_deletion_ignores_dependents_that_do_not_block(world: World) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("child", owner, block=False, finalizers=HELD)
    await world.delete(owner, propagation_policy="Foreground")
    await world.gone("owner")
    child = await world.until(CONFIG_MAPS, "child", is_deleting, namespace="default")
    assert child is not None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ownerReferences": None}, id="reference removed"),
        pytest.param({"ownerReferences": "unblocked"}, id="reference unblocked"),
    ],
)
async def test_changed_dependent_unblocks_its_owner(world: World, change: Object) -> None:
    """Also if its own deletion is rejected, so that it does not change otherwise."""

    def reject(request: Request) -> errors.ApiError | None:
        is_delete = request.method == "DELETE" and request.info.name == "child"
        return errors.Forbidden("no") if is_delete else None

    world.intercepts.append(reject)
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("child", owner, block=True)
    await world.delete(owner, propagation_policy="Foreground")
    await world.settled()
    assert is_deleting(await world.get("owner"))
    if change["ownerReferences"] == "unblocked":
        change = {"ownerReferences": [reference(owner, block=False)]}
    await world.client.patch(CONFIG_MAPS, "child", {"metadata": change}, namespace="default")
    await world.gone("owner")


async def test_retries_a_rejected_deletion(world: World) -> None:
    rejections = 3

    def reject(request: Request) -> errors.ApiError | None:
        nonlocal rejections
        if request.method != "DELETE" or rejections == 0:
            return None
        rejections -= 1
        return errors.InternalError("webhook rejects")

    world.intercepts.append(reject)
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("child", owner)
    await world.delete(owner)
    await world.gone("child")
    assert rejections == 0


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_collects_a_cycle_of_owners(world: World, policy: str) -> None:
    await world.start("gc")
    first = await world.create("first")
    second = await world.create("second", first, block=True)
    third = await world.create("third", second, block=True)
    refs = {"metadata": {"ownerReferences": [reference(third, block=True)]}}
    first = await world.client.patch(CONFIG_MAPS, "first", refs, namespace="default")
    await world.delete(first, propagation_policy=policy)
    for name in ("first", "second", "third"):
        await world.gone(name)


# -- scopes and kinds


async def test_collects_custom_resources_that_are_defined_later(world: World) -> None:
    await world.start("gc")
    await world.define_widgets()
    config = await world.create("config")
    widget = await world.create("widget", config, resource=WIDGETS)
    await world.create("secret", widget, resource=SECRETS)
    await world.delete(config)
    await world.gone("secret", SECRETS)
    await world.gone("widget", WIDGETS)


async def test_deleting_a_definition_collects_dependents_of_its_objects(world: World) -> None:
    await world.start("gc")
    await world.define_widgets()
    widget = await world.create("widget", resource=WIDGETS)
    await world.create("secret", widget, resource=SECRETS)
    await world.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    await world.gone("secret", SECRETS)


async def test_collects_when_the_definition_is_deleted_while_its_object_is_read(
    world: World,
) -> None:
    noticed = asyncio.Event()

    def no_watch(request: Request) -> errors.ApiError | None:
        if request.path.endswith("/widgets"):
            return errors.ServiceUnavailable("not yet")
        return None

    async def late_response(request: Request) -> AnyResponse:
        response = await world.server.handle(request)
        if request.path.endswith("/widgets/widget"):
            # The owner exists; the collector gets this response after the deletion.
            if not noticed.is_set():
                await world.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
                await world.until(
                    CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", lambda crd: crd is None
                )
                for _ in range(100):
                    await asyncio.sleep(0)
            noticed.set()
        return response

    world.intercepts.append(no_watch)
    world.behind = late_response
    await world.start("gc")
    await world.define_widgets()
    widget = await world.create("widget", resource=WIDGETS)
    await world.create("secret", widget, resource=SECRETS)
    await noticed.wait()
    await world.gone("secret", SECRETS)


async def test_keeps_dependents_while_the_kind_of_the_owner_is_unknown(world: World) -> None:
    await world.start("gc")
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "uid": "11111111-1111-1111-1111-111111111111"},
    }
    await world.create("child", owner)
    await world.settled()
    assert await world.get("child") is not None
    await world.define_widgets()
    await world.gone("child")


async def test_collects_namespaced_dependents_of_a_cluster_scoped_owner(world: World) -> None:
    await world.start("gc")
    role = await world.create("owner", resource=CLUSTER_ROLES, rules=[])
    await world.namespace("elsewhere")
    await world.create("child", role)
    await world.create("child", role, namespace="elsewhere")
    await world.client.delete(CLUSTER_ROLES, "owner")
    await world.gone("child")
    await world.gone("child", namespace="elsewhere")


@pytest.mark.parametrize("name", ["a,b", "a=b", "a\\b", "a,metadata.namespace=default", "A b"])
async def test_owner_with_an_invalid_name_counts_as_absent(world: World, name: str) -> None:
    await world.start("gc")
    uid = "11111111-1111-1111-1111-111111111111"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "uid": uid}}
    await world.create("child", owner)
    await world.gone("child")


async def test_owner_in_another_namespace_counts_as_absent_and_is_reported(world: World) -> None:
    await world.start("gc")
    await world.namespace("elsewhere")
    owner = await world.create("owner", namespace="elsewhere")
    await world.create("child", owner)
    await world.gone("child")
    (event,) = (await world.client.list(EVENTS, namespace="default")).items
    assert event["reason"] == "OwnerRefInvalidNamespace"
    assert event["type"] == "Warning"
    assert event["involvedObject"]["name"] == "child"
    uid = owner["metadata"]["uid"]
    assert event["message"] == (
        f"ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] "
        'does not exist in namespace "default"'
    )


async def test_cluster_scoped_object_with_a_namespaced_owner_is_never_collected(
    world: World,
) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("child", owner, resource=CLUSTER_ROLES, rules=[])
    await world.settled()
    (event,) = (await world.client.list(EVENTS, namespace="default")).items
    assert event["reason"] == "OwnerRefInvalidNamespace"
    assert event["involvedObject"]["name"] == "child"
    await world.delete(owner)
    await world.settled()
    assert await world.get("child", CLUSTER_ROLES) is not None


# -- incomplete caches


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_owner_keeps_its_finalizer_while_a_resource_cannot_be_listed(
    world: World, policy: str
) -> None:
    broken = False

    def fail(request: Request) -> errors.ApiError | None:
        is_list = request.info.verb in ("list", "watch") and request.info.resource == "widgets"
        return errors.InternalError("list failed") if broken and is_list else None

    world.intercepts.append(fail)
    await world.start("gc")
    broken = True
    await world.define_widgets()
    owner = await world.create("owner")
    await world.create("child", owner, resource=WIDGETS, block=True)
    await world.delete(owner, propagation_policy=policy)
    await world.settled()
    assert is_deleting(await world.get("owner"))
    assert await world.get("child", WIDGETS) is not None
    broken = False
    await world.gone("owner")
    child = await world.get("child", WIDGETS)
    assert (child is None) == (policy == "Foreground")


async def test_deletion_missed_by_a_broken_watch_is_noticed(world: World) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    middle = await world.create("middle", owner)
    await world.create("secret", owner, resource=SECRETS)
    await world.create("leaf", middle, resource=SECRETS)
    await world.settled()
    resource = world.server.core.registry.get("", "v1", "configmaps")
    assert resource is not None
    world.server.core.end_watches(resource)
    await world.delete(owner)
    await world.delete(middle)
    await world.gone("secret", SECRETS)
    await world.gone("leaf", SECRETS)


async def test_unrelated_writes_cost_the_collector_no_request(world: World) -> None:
    await world.start("gc")
    await world.create("a")
    await world.settled()
    before = len(world.requests)
    await world.client.patch(CONFIG_MAPS, "a", {"data": {"x": "y"}}, namespace="default")
    await world.create("b")
    await world.client.delete(CONFIG_MAPS, "a", namespace="default")
    await world.settled()
    assert len(world.requests) == before


async def test_new_dependents_of_a_known_owner_cost_no_request(world: World) -> None:
    await world.start("gc")
    owner = await world.create("owner")
    await world.create("first", owner)
    await world.settled()
    before = len(world.requests)
    await world.create("second", owner)
    await world.settled()
    assert len(world.requests) == before
