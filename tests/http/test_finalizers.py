# SPDX-License-Identifier: Apache-2.0
"""Deletion in two steps: finalizers, propagation policies, namespaces."""

from typing import Any

import pytest
from tests.http.client import (
    APPLY,
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    MERGE,
    NAMESPACES,
    RBAC,
    WIDGETS,
    Api,
    causes,
    config_map,
    crd,
    event,
    namespace,
    role,
    secret,
    widget,
)

from rdd.api.types import Object

A, B, C = (f"shop.example.com/{n}" for n in "abc")
X = f"{CONFIG_MAPS}/x"


@pytest.fixture
async def leaving(api: Api) -> Api:
    """A server with the config map `x`, deleted but retained by two finalizers."""
    await api.post(CONFIG_MAPS, config_map("x", {"k": "v"}, finalizers=[A, B]))
    marked = await api.delete(X)
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    return api


async def test_second_deletion_changes_nothing(leaving: Api) -> None:
    before = await leaving.get(X)
    assert await leaving.delete(X) == before


async def test_marked_object_accepts_data_but_no_new_finalizers(leaving: Api) -> None:
    await leaving.patch(X, {"data": {"k": "w"}, "metadata": {"labels": {"l": "m"}}}, MERGE)
    for names in ([A, B, C], [C]):
        patch = {"metadata": {"finalizers": names}}
        status = await leaving.refused(422, "PATCH", X, patch, content_type=MERGE)
        assert status["message"] == (
            'ConfigMap "x" is invalid: metadata.finalizers: Forbidden: no new finalizers can be '
            f'added if the object is being deleted, found new finalizers []string{{"{C}"}}'
        )
    after = await leaving.patch(X, {"metadata": {"finalizers": [B, A]}}, MERGE)
    assert after["metadata"]["finalizers"] == [B, A]


async def test_deletion_timestamp_cannot_be_removed_or_changed(leaving: Api) -> None:
    marked = (await leaving.get(X))["metadata"]["deletionTimestamp"]
    for value in (None, "2001-01-01T00:00:00Z"):
        after = await leaving.patch(X, {"metadata": {"deletionTimestamp": value}})
        assert after["metadata"]["deletionTimestamp"] == marked
    patch = {"metadata": {"deletionGracePeriodSeconds": 30}}
    status = await leaving.refused(422, "PATCH", X, patch, content_type=MERGE)
    assert set(causes(status)) == {("metadata.deletionGracePeriodSeconds", "FieldValueInvalid")}


async def test_name_is_in_use_until_the_object_is_removed(leaving: Api) -> None:
    status = await leaving.refused(409, "POST", CONFIG_MAPS, config_map("x"))
    assert status["message"] == 'object is being deleted: configmaps "x" already exists'
    kept = await leaving.apply(X, config_map("x", {"z": "1"}))
    assert kept["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("way", ["put", "merge", "json", "strategic"])
async def test_removing_the_last_finalizer_removes_the_object(way: str, leaving: Api) -> None:
    if way == "put":
        last = await leaving.put(X, config_map("x"))
    elif way == "json":
        ops = [{"op": "remove", "path": "/metadata/finalizers"}]
        last = await leaving.patch(X, ops, "application/json-patch+json")
    else:
        kind = MERGE if way == "merge" else "application/strategic-merge-patch+json"
        await leaving.patch(X, {"metadata": {"finalizers": [A]}}, MERGE)
        last = await leaving.patch(X, {"metadata": {"finalizers": None}}, kind)
    assert last["metadata"]["name"] == "x"
    assert "finalizers" not in last["metadata"]
    await leaving.refused(404, "GET", X)


async def test_apply_without_the_last_finalizer_removes_the_object(api: Api) -> None:
    await api.apply(X, config_map("x", finalizers=[A]))
    await api.delete(X)
    await api.apply(X, config_map("x"))
    await api.refused(404, "GET", X)


async def test_removing_finalizers_of_an_unmarked_object_deletes_nothing(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x", finalizers=[A]))
    await api.patch(X, {"metadata": {"finalizers": None}}, MERGE)
    await api.get(X, expect=200)


# -- propagation


@pytest.mark.parametrize(
    ("options", "finalizer"),
    [
        pytest.param({"propagationPolicy": "Orphan"}, "orphan", id="orphan"),
        pytest.param({"propagationPolicy": "Foreground"}, "foregroundDeletion", id="foreground"),
        pytest.param({"propagationPolicy": "Background"}, None, id="background"),
        pytest.param({"orphanDependents": True}, "orphan", id="deprecated orphan"),
        pytest.param({"orphanDependents": False}, None, id="deprecated background"),
    ],
)
async def test_propagation_policy_adds_its_finalizer(
    options: Object, finalizer: str | None, api: Api
) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    gone = await api.delete(X, options)
    if finalizer is None:
        assert gone["kind"] == "Status"
        await api.refused(404, "GET", X)
    else:
        assert gone["metadata"]["finalizers"] == [finalizer]
    await api.post(CONFIG_MAPS, config_map("y", finalizers=[A]))
    code = 202 if options.get("orphanDependents") is False else 200
    held = await api.delete(f"{CONFIG_MAPS}/y", options, expect=code)
    assert held["metadata"]["finalizers"] == [A, *([finalizer] if finalizer else [])]


async def test_propagation_policy_keeps_the_order_of_finalizers(api: Api) -> None:
    order = [A, "orphan", "shop.example.com/b"]
    await api.post(CONFIG_MAPS, config_map("x", finalizers=order))
    held = await api.delete(X, {"propagationPolicy": "Orphan"})
    assert held["metadata"]["finalizers"] == order


async def test_events_have_no_propagation_policy(api: Api) -> None:
    await api.post(EVENTS, event("e"))
    assert (await api.delete(f"{EVENTS}/e", {"propagationPolicy": "Orphan"}))["kind"] == "Status"
    body = event("f")
    body["metadata"]["finalizers"] = ["foregroundDeletion"]
    await api.post(EVENTS, body)
    assert (await api.delete(f"{EVENTS}/f"))["kind"] == "Status"


async def test_namespaces_take_not_orphaning_for_foreground_deletion(api: Api) -> None:
    await api.post(NAMESPACES, namespace("n"))
    held = await api.delete(f"{NAMESPACES}/n", query={"orphanDependents": "false"}, expect=202)
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_later_propagation_policy_replaces_an_earlier_one(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    first = await api.delete(X, {"propagationPolicy": "Foreground"})
    assert first["metadata"]["finalizers"] == ["foregroundDeletion"]
    second = await api.delete(X, {"propagationPolicy": "Orphan"})
    assert second["metadata"]["finalizers"] == ["orphan"]
    assert (await api.delete(X, {"propagationPolicy": "Background"}))["kind"] == "Status"


async def test_marking_increments_the_generation_of_a_custom_resource_once(api: Api) -> None:
    await api.install(crd())
    path = f"{WIDGETS}/w"
    made = await api.post(WIDGETS, widget("w", {"n": 1}, finalizers=[A]))
    assert made["metadata"]["generation"] == 1
    for _ in range(2):
        assert (await api.delete(path))["metadata"]["generation"] == 2


async def test_deleting_a_definition_deletes_its_objects_first(api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("w", finalizers=[A]))
    path = f"{CRDS}/widgets.shop.example.com"
    marked = await api.delete(path)
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    await api.server.running.custom.settled()
    waiting = await api.get(path)
    terminating = [c for c in waiting["status"]["conditions"] if c["type"] == "Terminating"]
    assert [(c["status"], c["reason"]) for c in terminating] == [
        ("True", "InstanceDeletionInProgress")
    ]
    assert (await api.get(f"{WIDGETS}/w"))["metadata"]["deletionTimestamp"]
    status = await api.refused(405, "POST", WIDGETS, widget("new"))
    assert "create not allowed while custom resource definition is terminating" in status["message"]


# -- namespaces


async def test_terminating_namespace_accepts_no_new_objects(api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    path = "/api/v1/namespaces/team/configmaps"
    await api.post(path, config_map("old"))
    await api.delete(f"{NAMESPACES}/team")
    targets: list[tuple[str, Object, str]] = [
        (path, config_map("new"), "configmaps"),
        ("/api/v1/namespaces/team/secrets", secret("new"), "secrets"),
        (f"{RBAC}/namespaces/team/roles", role("new"), "roles.rbac.authorization.k8s.io"),
    ]
    for where, obj, what in targets:
        status = await api.refused(403, "POST", where, obj)
        assert status["message"] == (
            f'{what} "new" is forbidden: unable to create new content in namespace team '
            "because it is being terminated"
        )
        assert causes(status) == [("metadata.namespace", "NamespaceTerminating")]
    query = {"fieldManager": "m"}
    await api.refused(
        403, "PATCH", f"{path}/new", config_map("new"), content_type=APPLY, query=query
    )
    await api.patch(f"{path}/old", {"data": {"a": "b"}}, MERGE, expect=200)
    await api.delete(f"{path}/old")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_cannot_be_deleted(name: str, api: Api) -> None:
    for query in ({}, {"dryRun": "All"}):
        status = await api.refused(403, "DELETE", f"{NAMESPACES}/{name}", query=query)
        assert status["message"] == (
            f'namespaces "{name}" is forbidden: this namespace may not be deleted'
        )


async def test_deleting_a_namespace_checks_preconditions_and_policy(api: Api) -> None:
    made = await api.post(NAMESPACES, namespace("team"))
    path = f"{NAMESPACES}/team"
    status = await api.refused(409, "DELETE", path, {"preconditions": {"uid": "other"}})
    assert "Precondition failed: UID in precondition: other" in status["message"]
    options: dict[str, Any] = {
        "preconditions": {"uid": made["metadata"]["uid"]},
        "propagationPolicy": "Foreground",
    }
    marked = await api.delete(path, options)
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert (marked["status"]["phase"], marked["spec"]["finalizers"]) == (
        "Terminating",
        ["kubernetes"],
    )


async def test_dry_run_delete_of_a_namespace_returns_the_marked_object(api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    shown = await api.delete(f"{NAMESPACES}/team", query={"dryRun": "All"})
    assert shown["status"]["phase"] == "Terminating"
    kept = await api.get(f"{NAMESPACES}/team")
    assert kept["status"]["phase"] == "Active"
    assert "deletionTimestamp" not in kept["metadata"]


async def test_namespace_is_removed_when_finalize_clears_its_finalizers(api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    await api.delete(f"{NAMESPACES}/team")
    empty = namespace("team") | {"spec": {"finalizers": []}}
    await api.put(f"{NAMESPACES}/team/finalize", empty)
    await api.refused(404, "GET", f"{NAMESPACES}/team")


async def test_finalize_of_an_active_namespace_does_not_delete_it(api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    empty = namespace("team") | {"spec": {"finalizers": []}}
    await api.put(f"{NAMESPACES}/team/finalize", empty)
    assert (await api.get(f"{NAMESPACES}/team"))["spec"] == {}
    marked = await api.delete(f"{NAMESPACES}/team")
    assert marked["status"]["phase"] == "Terminating"
