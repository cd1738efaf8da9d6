# SPDX-License-Identifier: Apache-2.0
"""ResourceQuota: enforced when objects are created, its status kept current."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.http.client import (
    CONFIG_MAPS,
    CORE,
    NAMESPACES,
    ROLES,
    SECRETS,
    Api,
    config_map,
    namespace,
    secret,
)

from rdd.api.types import Object
from rdd.apiserver.http.request import User
from rdd.testing import Options, Server

QUOTAS = f"{CORE}/resourcequotas"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def quota(name: str, hard: dict[str, str], **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
    }


def widgets() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema},
        }
        for name in ("v1", "v2")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions,
        },
    }


def widget(name: str, version: str = "v1") -> Object:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}}


@pytest.fixture
async def counted() -> AsyncIterator[Api]:
    """A server whose quotas are counted."""
    async with Server(Options(builtin_controllers="resourcequota")) as server:
        yield Api(server)


async def until_used(api: Api, name: str, used: dict[str, str]) -> Object:
    """Wait for the usage of a quota and return its status."""
    async with asyncio.timeout(60):
        while True:
            status: Object = (await api.get(f"{QUOTAS}/{name}")).get("status") or {}
            if status.get("used") == used:
                return status
            await asyncio.sleep(0.01)


async def test_status_shows_limits_and_usage(counted: Api) -> None:
    await counted.post(CONFIG_MAPS, config_map("a"))
    hard = {
        "configmaps": "5",
        "count/configmaps": "5",
        "count/roles.rbac.authorization.k8s.io": "2",
        "pods": "3",
        "requests.cpu": "500m",
        "count/unknown.example.com": "1",
    }
    await counted.post(QUOTAS, quota("q", hard))
    status = await until_used(
        counted,
        "q",
        {
            "configmaps": "1",
            "count/configmaps": "1",
            "count/roles.rbac.authorization.k8s.io": "0",
            "pods": "0",
            "requests.cpu": "0",
        },
    )
    assert status["hard"] == hard


async def test_rejects_what_exceeds_a_limit_with_the_text_of_kubernetes(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"secrets": "1", "count/secrets": "1"}))
    await until_used(counted, "q", {"secrets": "0", "count/secrets": "0"})
    await counted.post(SECRETS, secret("a"))
    status = await counted.refused(403, "POST", SECRETS, secret("b"))
    assert status["message"] == (
        'secrets "b" is forbidden: exceeded quota: q, requested: count/secrets=1,secrets=1, '
        "used: count/secrets=1,secrets=1, limited: count/secrets=1,secrets=1"
    )
    assert status["details"] == {"name": "b", "kind": "secrets"}
    assert status["reason"] == "Forbidden"


@pytest.mark.parametrize("how", ["put", "apply"])
async def test_limits_updates_and_applies_that_create(counted: Api, how: str) -> None:
    await counted.post(QUOTAS, quota("q", {"count/roles.rbac.authorization.k8s.io": "0"}))
    await until_used(counted, "q", {"count/roles.rbac.authorization.k8s.io": "0"})
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": [],
    }
    if how == "put":
        await counted.put(f"{ROLES}/r", role, expect=403)
    else:
        await counted.apply(f"{ROLES}/r", role, expect=403)


async def test_updates_need_no_quota(counted: Api) -> None:
    await counted.post(CONFIG_MAPS, config_map("a"))
    await counted.post(QUOTAS, quota("q", {"configmaps": "0"}))
    await until_used(counted, "q", {"configmaps": "1"})
    await counted.put(f"{CONFIG_MAPS}/a", config_map("a", {"k": "v"}))
    await counted.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "w"}})


async def test_deleting_gives_back(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"configmaps": "1"}))
    await until_used(counted, "q", {"configmaps": "0"})
    for name in ("a", "b"):
        await counted.post(CONFIG_MAPS, config_map(name))
        await counted.refused(403, "POST", CONFIG_MAPS, config_map("more"))
        await counted.delete(f"{CONFIG_MAPS}/{name}")
        await until_used(counted, "q", {"configmaps": "0"})


async def test_an_object_held_by_finalizers_is_used_until_it_is_gone(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"configmaps": "1"}))
    await until_used(counted, "q", {"configmaps": "0"})
    await counted.post(CONFIG_MAPS, config_map("a", finalizers=["example.com/x"]))
    await counted.delete(f"{CONFIG_MAPS}/a")
    await counted.refused(403, "POST", CONFIG_MAPS, config_map("b"))
    await counted.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
    await until_used(counted, "q", {"configmaps": "0"})


async def test_deleting_a_collection_gives_back(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"configmaps": "9"}))
    await until_used(counted, "q", {"configmaps": "0"})
    for name in "abc":
        await counted.post(CONFIG_MAPS, config_map(name))
    await until_used(counted, "q", {"configmaps": "3"})
    await counted.delete(CONFIG_MAPS)
    await until_used(counted, "q", {"configmaps": "0"})


async def test_a_failed_create_gives_back(counted: Api) -> None:
    await counted.post(CONFIG_MAPS, config_map("a"))
    await counted.post(QUOTAS, quota("q", {"configmaps": "2"}))
    await until_used(counted, "q", {"configmaps": "1"})
    for _ in range(3):
        status = await counted.refused(409, "POST", CONFIG_MAPS, config_map("a"))
        assert status["reason"] == "AlreadyExists"
        await until_used(counted, "q", {"configmaps": "1"})
    await counted.post(CONFIG_MAPS, config_map("b"))


async def test_a_dry_run_is_checked_and_not_charged(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"configmaps": "1"}))
    await until_used(counted, "q", {"configmaps": "0"})
    await counted.post(CONFIG_MAPS, config_map("a"), query={"dryRun": "All"})
    assert (await counted.get(f"{QUOTAS}/q"))["status"]["used"] == {"configmaps": "0"}
    await counted.post(CONFIG_MAPS, config_map("a"))
    await counted.refused(403, "POST", CONFIG_MAPS, config_map("b"), query={"dryRun": "All"})


async def test_concurrent_creates_do_not_pass_a_limit_together(counted: Api) -> None:
    await counted.post(QUOTAS, quota("first", {"configmaps": "7"}))
    await counted.post(QUOTAS, quota("second", {"count/configmaps": "9"}))
    await until_used(counted, "first", {"configmaps": "0"})
    await until_used(counted, "second", {"count/configmaps": "0"})

    async def churn(worker: int) -> list[int]:
        codes = []
        for turn in range(4):
            reply = await counted.call("POST", CONFIG_MAPS, config_map(f"c-{worker}-{turn}"))
            codes.append(reply.status)
            # The controller counts between the creates.
            await counted.call("DELETE", f"{CONFIG_MAPS}/missing-{worker}")
        return codes

    codes = [c for found in await asyncio.gather(*map(churn, range(8))) for c in found]
    assert codes.count(201) == 7
    assert set(codes) == {201, 403}
    assert len(await counted.names(CONFIG_MAPS)) == 7
    await until_used(counted, "first", {"configmaps": "7"})
    await until_used(counted, "second", {"count/configmaps": "7"})


async def test_concurrent_creates_and_deletes_keep_to_the_limit(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"configmaps": "3"}))
    await until_used(counted, "q", {"configmaps": "0"})
    largest = 0

    async def churn(worker: int) -> None:
        nonlocal largest
        for turn in range(10):
            name = f"c-{worker}-{turn}"
            if (await counted.call("POST", CONFIG_MAPS, config_map(name))).status == 201:
                largest = max(largest, len(await counted.names(CONFIG_MAPS)))
                await counted.delete(f"{CONFIG_MAPS}/{name}")

    await asyncio.gather(*(churn(n) for n in range(8)))
    assert 1 <= largest <= 3
    await until_used(counted, "q", {"configmaps": "0"})


async def test_counts_custom_resources_in_all_versions(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"count/widgets.example.com": "2"}))
    await counted.install(widgets())
    await counted.post(WIDGETS, widget("a"))
    await counted.post(WIDGETS.replace("/v1/", "/v2/"), widget("b", "v2"))
    status = await counted.refused(403, "POST", WIDGETS, widget("c"))
    assert status["message"].startswith(
        'widgets.example.com "c" is forbidden: exceeded quota: q, '
        "requested: count/widgets.example.com=1"
    )
    await counted.delete(f"{WIDGETS}/a")
    await until_used(counted, "q", {"count/widgets.example.com": "1"})


async def test_a_changed_limit_takes_effect(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"configmaps": "0"}))
    await until_used(counted, "q", {"configmaps": "0"})
    await counted.refused(403, "POST", CONFIG_MAPS, config_map("a"))
    await counted.patch(f"{QUOTAS}/q", {"spec": {"hard": {"configmaps": "1", "secrets": "4"}}})
    await until_used(counted, "q", {"configmaps": "0", "secrets": "0"})
    await counted.post(CONFIG_MAPS, config_map("a"))
    await counted.delete(f"{QUOTAS}/q")
    await counted.post(CONFIG_MAPS, config_map("b"))


async def test_a_quota_with_scopes_limits_no_other_objects(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"pods": "1"}, scopes=["BestEffort"]))
    await until_used(counted, "q", {"pods": "0"})
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}
    spec = quota("r", {"count/configmaps": "0"}, scopeSelector=selector)
    await counted.post(QUOTAS, spec)
    await until_used(counted, "r", {"count/configmaps": "0"})
    await counted.post(CONFIG_MAPS, config_map("a"))


async def test_a_quota_can_limit_quotas(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"resourcequotas": "1"}))
    await until_used(counted, "q", {"resourcequotas": "1"})
    await counted.refused(403, "POST", QUOTAS, quota("r", {"pods": "1"}))


async def test_quotas_limit_their_own_namespace_only(counted: Api) -> None:
    await counted.post(NAMESPACES, namespace("other"))
    await counted.post(QUOTAS, quota("q", {"configmaps": "0"}))
    await until_used(counted, "q", {"configmaps": "0"})
    await counted.post(f"{NAMESPACES}/other/configmaps", config_map("a"))


async def test_limits_administrators_too(counted: Api) -> None:
    await counted.post(QUOTAS, quota("q", {"configmaps": "0"}))
    await until_used(counted, "q", {"configmaps": "0"})
    root = User("root", ("system:masters",))
    await counted.refused(403, "POST", CONFIG_MAPS, config_map("a"), user=root)


async def test_without_a_count_the_status_of_others_decides(api: Api) -> None:
    """As kube-apiserver without a controller manager: a quota without status limits nothing."""
    await api.post(QUOTAS, quota("q", {"configmaps": "0"}))
    await api.post(CONFIG_MAPS, config_map("a"))
    body = quota("q", {"configmaps": "0"})
    await api.put(f"{QUOTAS}/q/status", {**body, "status": {"hard": {"configmaps": "2"}}})
    status = await api.refused(403, "POST", CONFIG_MAPS, config_map("b"))
    assert status["message"] == (
        'configmaps "b" is forbidden: status unknown for quota: q, resources: configmaps'
    )
    used = {"hard": {"configmaps": "2"}, "used": {"configmaps": "1"}}
    await api.put(f"{QUOTAS}/q/status", {**body, "status": used})
    await api.post(CONFIG_MAPS, config_map("b"))
    await api.refused(403, "POST", CONFIG_MAPS, config_map("c"))
    await api.delete(f"{CONFIG_MAPS}/b")
    await api.refused(403, "POST", CONFIG_MAPS, config_map("c"))
