# SPDX-License-Identifier: Apache-2.0
"""Objects of every namespace: a ServiceAccount and the root certificate."""

from typing import Any

import pytest
from tests.controllers.builtin.builtin_world import ROOT_CA, World

from rdd.api import errors
from rdd.apiserver.http.request import Request
from rdd.client import ApiResource
from rdd.client.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS

BOTH = [
    pytest.param("serviceaccount", SERVICE_ACCOUNTS, "default", id="serviceaccount"),
    pytest.param("root-ca", CONFIG_MAPS, "kube-root-ca.crt", id="root-ca"),
]


def exists(obj: dict[str, Any] | None) -> bool:
    return obj is not None


@pytest.mark.parametrize("controller, resource, name", BOTH)
async def test_every_namespace_has_the_object(
    world: World, controller: str, resource: ApiResource, name: str
) -> None:
    await world.start(controller)
    await world.namespace("new")
    for namespace in ("default", "kube-system", "kube-public", "new"):
        await world.until(resource, name, exists, namespace=namespace)


@pytest.mark.parametrize("controller, resource, name", BOTH)
async def test_recreates_a_deleted_object(
    world: World, controller: str, resource: ApiResource, name: str
) -> None:
    await world.start(controller)
    first = await world.until(resource, name, exists, namespace="default")
    assert first is not None
    await world.client.delete(resource, name, namespace="default")
    uid = first["metadata"]["uid"]
    await world.until(
        resource,
        name,
        lambda o: o is not None and o["metadata"]["uid"] != uid,
        namespace="default",
    )


@pytest.mark.parametrize("controller, resource, name", BOTH)
async def test_recreates_an_object_deleted_during_a_lost_watch(
    world: World, controller: str, resource: ApiResource, name: str
) -> None:
    await world.start(controller)
    await world.until(resource, name, exists, namespace="default")
    await world.settled()
    served = world.server.core.registry.get("", "v1", resource.plural)
    assert served is not None
    world.server.core.end_watches(served)
    await world.client.delete(resource, name, namespace="default")
    await world.until(resource, name, exists, namespace="default")


@pytest.mark.parametrize("controller, resource, name", BOTH)
async def test_does_not_recreate_in_a_terminating_namespace(
    world: World, controller: str, resource: ApiResource, name: str
) -> None:
    await world.start(controller)
    await world.namespace("ns")
    await world.until(resource, name, exists, namespace="ns")
    await world.client.delete(NAMESPACES, "ns")
    await world.client.delete(resource, name, namespace="ns")
    await world.settled()
    assert await world.get(name, resource, "ns") is None
    assert [w for w in world.writes if "/ns/" in w[1] and w[0] == "POST"] == [
        ("POST", resource.path("ns"))
    ]


@pytest.mark.parametrize("controller, resource, name", BOTH)
async def test_namespaces_can_be_deleted_while_all_controllers_run(
    world: World, controller: str, resource: ApiResource, name: str
) -> None:
    await world.start()
    await world.namespace("ns")
    await world.until(resource, name, exists, namespace="ns")
    await world.client.delete(NAMESPACES, "ns")
    await world.gone("ns", NAMESPACES)
    assert await world.get(name, resource, "ns") is None


async def test_retries_a_failed_creation(world: World) -> None:
    failures = 3

    def fail(request: Request) -> errors.ApiError | None:
        nonlocal failures
        if request.method != "POST" or not failures:
            return None
        failures -= 1
        return errors.InternalError("disk full")

    world.intercepts.append(fail)
    await world.start("serviceaccount")
    for namespace in ("default", "kube-system", "kube-public"):
        await world.until(SERVICE_ACCOUNTS, "default", exists, namespace=namespace)


async def test_does_not_change_existing_accounts(world: World) -> None:
    await world.start("serviceaccount")
    await world.until(SERVICE_ACCOUNTS, "default", exists, namespace="default")
    change = {"metadata": {"labels": {"a": "b"}}, "imagePullSecrets": [{"name": "s"}]}
    await world.client.patch(SERVICE_ACCOUNTS, "default", change, namespace="default")
    await world.settled()
    account = await world.get("default", SERVICE_ACCOUNTS)
    assert account is not None
    assert account["imagePullSecrets"] == [{"name": "s"}]


async def test_publishes_the_root_certificate_with_a_description(world: World) -> None:
    await world.start("root-ca")
    found = await world.until(CONFIG_MAPS, "kube-root-ca.crt", exists, namespace="default")
    assert found is not None
    assert found["data"] == {"ca.crt": ROOT_CA}
    assert found["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"data": {"ca.crt": "forged"}}, id="certificate replaced"),
        pytest.param({"data": {"more": "data"}}, id="key added"),
        pytest.param({"data": None}, id="data removed"),
        pytest.param({"metadata": {"annotations": None}}, id="description removed"),
    ],
)
async def test_repairs_a_changed_root_certificate(world: World, change: dict[str, Any]) -> None:
    await world.start("root-ca")
    await world.until(CONFIG_MAPS, "kube-root-ca.crt", exists, namespace="default")
    labels = {"metadata": {"labels": {"mine": "stays"}}}
    for patch in (labels, change):
        await world.client.patch(CONFIG_MAPS, "kube-root-ca.crt", patch, namespace="default")
    await world.settled()
    found = await world.get("kube-root-ca.crt")
    assert found is not None
    assert found["data"] == {"ca.crt": ROOT_CA}
    assert found["metadata"]["annotations"]["kubernetes.io/description"]
    assert found["metadata"]["labels"] == {"mine": "stays"}


async def test_replaces_the_root_certificate_at_start(world: World) -> None:
    old = {"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}}
    await world.client.create(CONFIG_MAPS, {**old, "data": {"ca.crt": "old"}})
    await world.start("root-ca")
    await world.until(
        CONFIG_MAPS,
        "kube-root-ca.crt",
        lambda o: o is not None and o["data"] == {"ca.crt": ROOT_CA},
        namespace="default",
    )
