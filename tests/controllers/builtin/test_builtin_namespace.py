# SPDX-License-Identifier: Apache-2.0
"""Namespace deletion: content is deleted, remaining objects are reported."""

import pytest
from tests.controllers.builtin.builtin_world import WIDGETS, World, condition

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.http.request import Request
from rdd.client.resources import CONFIG_MAPS, LEASES, NAMESPACES, ROLES, SECRETS

HELD = ("example.com/held",)
GOOD = {
    "NamespaceDeletionDiscoveryFailure": (
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": (
        "False",
        "ContentRemoved",
        "All content successfully removed",
    ),
    "NamespaceFinalizersRemaining": (
        "False",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


def shown(namespace: Object | None) -> dict[str, tuple[str, str, str]]:
    assert namespace is not None
    return {
        c["type"]: (c["status"], c["reason"], c["message"])
        for c in namespace["status"]["conditions"]
    }


async def until_reported(world: World, type_: str, status: str = "True") -> Object:
    found = await world.until(
        NAMESPACES, "ns", lambda o: o is not None and condition(o, type_)["status"] == status
    )
    assert found is not None
    return found


async def test_deletes_a_namespace_with_its_content(world: World) -> None:
    await world.start("namespace")
    await world.define_widgets()
    await world.namespace("ns")
    await world.namespace("other")
    for resource in (CONFIG_MAPS, SECRETS, LEASES, ROLES, WIDGETS):
        for n in range(3):
            await world.create(f"a{n}", resource=resource, namespace="ns")
            await world.create(f"a{n}", resource=resource, namespace="other")
    await world.client.delete(NAMESPACES, "ns")
    await world.gone("ns", NAMESPACES)
    for resource in (CONFIG_MAPS, SECRETS, LEASES, ROLES, WIDGETS):
        assert (await world.client.list(resource, namespace="ns")).items == []
        assert len((await world.client.list(resource, namespace="other")).items) == 3


async def test_deletes_a_namespace_that_terminated_before_the_start(world: World) -> None:
    await world.namespace("ns")
    await world.create("a", namespace="ns")
    await world.client.delete(NAMESPACES, "ns")
    await world.start("namespace")
    await world.gone("ns", NAMESPACES)


async def test_reports_and_awaits_content_held_by_finalizers(world: World) -> None:
    await world.start("namespace")
    await world.define_widgets()
    await world.namespace("ns")
    await world.create("free", namespace="ns")
    await world.create("a", namespace="ns", finalizers=(*HELD, "example.com/two"))
    await world.create("b", namespace="ns", finalizers=HELD)
    await world.create("c", namespace="ns", resource=WIDGETS, finalizers=HELD)
    await world.client.delete(NAMESPACES, "ns")
    assert shown(await until_reported(world, "NamespaceContentRemaining")) == GOOD | {
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances, "
            "widgets.example.com has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: "
            "example.com/held in 3 resource instances, "
            "example.com/two in 1 resource instances",
        ),
    }
    assert await world.get("free", namespace="ns") is None
    await world.release("a", namespace="ns")
    await world.release("b", namespace="ns")
    left = await world.until(
        NAMESPACES,
        "ns",
        lambda o: o is not None and "configmaps" not in shown(o)["NamespaceContentRemaining"][2],
    )
    assert shown(left)["NamespaceFinalizersRemaining"][2].endswith(
        ": example.com/held in 1 resource instances"
    )
    await world.release("c", WIDGETS, namespace="ns")
    await world.gone("ns", NAMESPACES)


async def test_waiting_for_finalizers_sends_no_requests(world: World) -> None:
    await world.start("namespace")
    await world.namespace("ns")
    await world.create("a", namespace="ns", finalizers=HELD)
    await world.client.delete(NAMESPACES, "ns")
    await until_reported(world, "NamespaceContentRemaining")
    await world.settled()
    before = len(world.requests)
    await world.create("unrelated")
    await world.settled()
    assert len(world.requests) == before


async def test_reports_a_kind_that_cannot_be_deleted_and_deletes_others(
    world: World,
) -> None:
    rejecting = True

    def reject(request: Request) -> errors.ApiError | None:
        is_meant = request.info.resource == "secrets" and request.info.namespace == "ns"
        if rejecting and request.method == "DELETE" and is_meant:
            return errors.Forbidden('admission webhook "guard" denied the request: not today')
        return None

    world.intercepts.append(reject)
    await world.start("namespace")
    await world.namespace("ns")
    await world.namespace("free")
    for namespace in ("ns", "free"):
        await world.create("config", namespace=namespace)
        await world.create("secret", namespace=namespace, resource=SECRETS)
    await world.client.delete(NAMESPACES, "ns")
    found = await until_reported(world, "NamespaceDeletionContentFailure")
    assert shown(found)["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 1 remaining: "
        'admission webhook "guard" denied the request: not today',
    )
    assert await world.get("config", namespace="ns") is None
    await world.client.delete(NAMESPACES, "free")
    await world.gone("free", NAMESPACES)
    assert await world.get("ns", NAMESPACES) is not None
    rejecting = False
    await world.gone("ns", NAMESPACES)


async def test_reports_and_retries_failing_discovery(world: World) -> None:
    broken = True

    def fail(request: Request) -> errors.ApiError | None:
        is_discovery = request.path == "/apis"
        return errors.ServiceUnavailable("no discovery") if broken and is_discovery else None

    world.intercepts.append(fail)
    await world.start("namespace")
    await world.namespace("ns")
    await world.client.delete(NAMESPACES, "ns")
    found = await until_reported(world, "NamespaceDeletionDiscoveryFailure")
    assert shown(found)["NamespaceDeletionDiscoveryFailure"] == (
        "True",
        "DiscoveryFailed",
        "no discovery",
    )
    broken = False
    await world.gone("ns", NAMESPACES)


@pytest.mark.parametrize("where", ["spec", "metadata"])
async def test_other_finalizers_block_the_deletion_of_a_namespace(world: World, where: str) -> None:
    await world.start("namespace")
    namespace: Object = {"metadata": {"name": "ns"}}
    namespace.setdefault(where, {})["finalizers"] = ["example.com/other"]
    await world.client.create(NAMESPACES, namespace)
    await world.create("a", namespace="ns")
    await world.client.delete(NAMESPACES, "ns")
    found = await world.until(
        NAMESPACES,
        "ns",
        lambda o: o is not None and "kubernetes" not in o["spec"].get("finalizers", ()),
    )
    assert found is not None
    assert shown(found) == GOOD
    await world.settled()
    assert await world.get("ns", NAMESPACES) is not None
    found = await world.get("ns", NAMESPACES)
    assert found is not None
    if where == "spec":
        released = {**found, "spec": {"finalizers": []}}
        await world.client.update(NAMESPACES, released, subresource="finalize")
    else:
        await world.release("ns", NAMESPACES)
    await world.gone("ns", NAMESPACES)


async def test_deletes_a_namespace_that_was_finalized_before(world: World) -> None:
    await world.start("namespace")
    namespace = await world.namespace("ns")
    await world.create("a", namespace="ns")
    await world.client.update(
        NAMESPACES, {**namespace, "spec": {"finalizers": []}}, subresource="finalize"
    )
    await world.client.delete(NAMESPACES, "ns")
    await world.gone("ns", NAMESPACES)
    assert await world.get("a", namespace="ns") is None


async def test_conflicting_status_writers_do_not_stop_the_deletion(world: World) -> None:
    conflicts = 4

    def conflict(request: Request) -> errors.ApiError | None:
        nonlocal conflicts
        if request.method != "PUT" or not conflicts:
            return None
        conflicts -= 1
        return errors.Conflict.of("namespaces", "", "ns")

    world.intercepts.append(conflict)
    await world.start("namespace")
    await world.namespace("ns")
    await world.client.delete(NAMESPACES, "ns")
    await world.gone("ns", NAMESPACES)
    assert conflicts == 0
