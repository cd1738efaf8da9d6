# SPDX-License-Identifier: Apache-2.0
"""What the registry derives from its resources stays right when they come and go."""

import asyncio

from tests.http.client import CRDS, Api

from rdd.testing import Options, Server

GADGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
            for name in ("v1", "v2beta1")
        ],
    },
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def groups_of(api: Api) -> dict[str, list[str]]:
    found = (await api.call("GET", "/apis", headers={"Accept": AGGREGATED})).json()
    return {g["metadata"]["name"]: [v["version"] for v in g["versions"]] for g in found["items"]}


async def test_groups_follow_definitions() -> None:
    async with Server(Options(builtin_controllers="")) as server:
        api, registry = Api(server), server.running.core.registry
        before = await groups_of(api)
        assert "example.com" not in before
        await server.install(GADGETS)
        assert await groups_of(api) == {**before, "example.com": ["v1", "v2beta1"]}
        assert sorted(registry.versions_of("example.com")) == ["v1", "v2beta1"]
        resource = registry.get("example.com", "v1", "gadgets")
        assert resource is not None
        assert {r.version for r in registry.sharing(resource)} == {"v1", "v2beta1"}
        assert registry.by_kind("example.com", "Gadget", "v2beta1") is not None
        assert registry.by_kind("example.com", "Gadget", "v3") is None
        await api.delete(f"{CRDS}/gadgets.example.com")
        async with asyncio.timeout(60):
            while registry.has_group("example.com"):  # noqa: ASYNC110  (the loop has to run)
                await asyncio.sleep(0)
        assert await groups_of(api) == before
        assert not registry.has_group("example.com")
        assert registry.versions_of("example.com") == []


async def test_resources_of_two_groups_share_objects() -> None:
    async with Server(Options(builtin_controllers="")) as server:
        registry = server.running.core.registry
        events = registry.get("", "v1", "events")
        assert events is not None
        assert {r.group for r in registry.sharing(events)} == {"", "events.k8s.io"}
