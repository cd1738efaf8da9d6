# SPDX-License-Identifier: Apache-2.0
"""ClusterRole aggregation on a real server."""

from tests.controllers.builtin.builtin_world import World

from rdd.api.types import Object
from rdd.client.resources import CLUSTER_ROLES


def rule(*resources: str) -> Object:
    return {"verbs": ["get"], "apiGroups": [""], "resources": list(resources)}


async def create_role(
    world: World, name: str, *rules: Object, to: str = "", gathers: str = ""
) -> None:
    role: Object = {"metadata": {"name": name}, "rules": list(rules)}
    if to:
        role["metadata"]["labels"] = {"to": to}
    if gathers:
        selector = {"matchLabels": {"to": gathers}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    await world.client.create(CLUSTER_ROLES, role)


async def until_rules(world: World, name: str, *rules: Object) -> None:
    await world.until(
        CLUSTER_ROLES, name, lambda o: o is not None and (o["rules"] or []) == list(rules)
    )


async def test_aggregates_rules_of_matching_roles(world: World) -> None:
    await world.start("clusterrole-aggregation")
    await create_role(world, "all", gathers="all")
    await create_role(world, "b", rule("secrets"), to="all")
    await until_rules(world, "all", rule("secrets"))
    await create_role(world, "a", rule("events"), rule("secrets"), to="all")
    await until_rules(world, "all", rule("events"), rule("secrets"))
    change = {"rules": [rule("leases")]}
    await world.client.patch(CLUSTER_ROLES, "b", change)
    await until_rules(world, "all", rule("events"), rule("secrets"), rule("leases"))
    await world.client.patch(CLUSTER_ROLES, "a", {"metadata": {"labels": None}})
    await until_rules(world, "all", rule("leases"))
    await world.client.delete(CLUSTER_ROLES, "b")
    await until_rules(world, "all")


async def test_aggregates_aggregated_roles(world: World) -> None:
    await create_role(world, "top", gathers="top")
    await create_role(world, "middle", to="top", gathers="middle")
    await create_role(world, "leaf", rule("events"), to="middle")
    await world.start("clusterrole-aggregation")
    await until_rules(world, "top", rule("events"))


async def test_replaces_manually_written_rules(world: World) -> None:
    await create_role(world, "all", rule("secrets"), gathers="all")
    await create_role(world, "a", rule("events"), to="all")
    await world.start("clusterrole-aggregation")
    await until_rules(world, "all", rule("events"))
    await world.client.patch(CLUSTER_ROLES, "all", {"rules": [rule("secrets")]})
    await until_rules(world, "all", rule("events"))
    await world.client.delete(CLUSTER_ROLES, "a")
    await until_rules(world, "all")


async def test_default_roles_have_aggregated_rules(world: World) -> None:
    await world.start("clusterrole-aggregation")
    await world.settled()
    view = await world.get("view", CLUSTER_ROLES)
    admin = await world.get("admin", CLUSTER_ROLES)
    assert view is not None and admin is not None
    assert view["rules"]
    for found in view["rules"]:
        assert found in admin["rules"]


async def test_irrelevant_change_causes_no_write(world: World) -> None:
    await world.start("clusterrole-aggregation")
    await create_role(world, "all", gathers="all")
    await create_role(world, "a", rule("events"), to="all")
    await until_rules(world, "all", rule("events"))
    await world.settled()
    before = len(world.requests)
    await create_role(world, "other", rule("leases"))
    await world.client.patch(CLUSTER_ROLES, "a", {"metadata": {"annotations": {"x": "y"}}})
    await world.settled()
    assert len(world.requests) == before


async def test_does_not_recreate_a_deleted_role(world: World) -> None:
    await world.start("clusterrole-aggregation")
    await create_role(world, "all", gathers="all")
    await world.settled()
    await create_role(world, "a", rule("events"), to="all")
    await world.client.delete(CLUSTER_ROLES, "all")
    await world.settled()
    assert await world.get("all", CLUSTER_ROLES) is None
