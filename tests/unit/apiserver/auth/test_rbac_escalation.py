# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.apiserver.auth.identity_world import World, binding, rule, user

from rdd.api import names
from rdd.api.errors import ApiError, Forbidden, NotFound
from rdd.api.types import Object
from rdd.apiserver.auth.escalation import check_escalation
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.http.request import User, parse_path
from rdd.controllers.builtin.clusterrole_aggregation import aggregated_rules

ANN = User("ann", ("devs", "system:authenticated"))
ADMIN = User("admin", ("system:masters",))


def attempt(
    world: World,
    resource: str,
    obj: Object,
    *,
    who: User = ANN,
    namespace: str = "",
    old: Object | None = None,
) -> None:
    path = f"/apis/{names.RBAC_GROUP}/v1/"
    path += f"namespaces/{namespace}/{resource}" if namespace else resource
    if old is not None:
        path += f"/{old['metadata']['name']}"
    info = parse_path("POST" if old is None else "PUT", path)
    comparison = check_escalation(RbacAuthorizer(world), who, info=info, obj=obj, old=old)
    if comparison is not None:
        comparison.check()


def denial(world: World, resource: str, obj: Object, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        attempt(world, resource, obj, **options)
    return caught.value


def role(name: str, *rules: Object, **members: Any) -> Object:
    return {"metadata": {"name": name}, "rules": list(rules), **members}


def world_of_ann(*rules: Object) -> World:
    world = World()
    world.grant("held", user("ann"), *rules, namespace="ns")
    return world


def test_role_may_contain_what_its_author_holds() -> None:
    world = world_of_ann(rule("get list", "configmaps"))
    attempt(world, "roles", role("new", rule("get", "configmaps")), namespace="ns")


def test_rejects_role_with_more_than_its_author_holds() -> None:
    world = world_of_ann(rule("get", "configmaps"))
    new = role("new", rule("get list", "configmaps secrets"))
    error = denial(world, "roles", new, namespace="ns")
    assert isinstance(error, Forbidden)
    assert error.message == (
        f'roles.{names.RBAC_GROUP} "new" is forbidden: user "ann" '
        '(groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions '
        "not currently held:\n"
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )
    assert error.details == {"name": "new", "group": names.RBAC_GROUP, "kind": "roles"}


def test_cluster_permissions_count_in_namespaces_but_not_the_reverse() -> None:
    world = World()
    world.grant("held", user("ann"), rule("get", "configmaps"))
    attempt(world, "roles", role("new", rule("get", "configmaps")), namespace="ns")
    world = world_of_ann(rule("get", "configmaps"))
    error = denial(world, "clusterroles", role("new", rule("get", "configmaps")))
    assert 'clusterroles.rbac.authorization.k8s.io "new" is forbidden' in error.message


def test_unresolvable_bindings_of_the_author_are_mentioned() -> None:
    world = world_of_ann(rule("get", "configmaps"))
    world.bind("broken", "none", user("ann"), namespace="ns")
    error = denial(world, "roles", role("new", rule("get", "secrets")), namespace="ns")
    assert error.message.endswith(
        f'; resolution errors: [roles.{names.RBAC_GROUP} "none" not found]'
    )


@pytest.mark.parametrize(
    ("verb", "resource"),
    [pytest.param("escalate", "roles", id="escalate"), pytest.param("*", "*", id="everything")],
)
def test_escalate_verb_lifts_the_check_of_roles(verb: str, resource: str) -> None:
    world = world_of_ann(rule(verb, resource, names.RBAC_GROUP))
    attempt(world, "roles", role("new", rule("get", "secrets")), namespace="ns")


def test_masters_may_write_any_role_and_binding() -> None:
    attempt(World(), "clusterroles", role("new", rule("*", "*", "*")), who=ADMIN)
    attempt(World(), "clusterrolebindings", binding("new", "none"), who=ADMIN)


def test_rejects_binding_to_a_role_with_more_than_its_author_holds() -> None:
    world = world_of_ann(rule("get", "configmaps"))
    world.role("small", rule("get", "configmaps"), namespace="ns")
    world.role("large", rule("get", "secrets"), namespace="ns")
    attempt(world, "rolebindings", binding("b1", "small", namespace="ns"), namespace="ns")
    error = denial(world, "rolebindings", binding("b2", "large", namespace="ns"), namespace="ns")
    assert error.message.startswith(
        f'rolebindings.{names.RBAC_GROUP} "b2" is forbidden: user "ann"'
    )
    assert error.message.endswith('\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}')


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_binding_to_a_missing_role_names_the_bindings_resource(kind: str) -> None:
    new = binding("b", "none", namespace="ns", kind=kind)
    error = denial(World(), "rolebindings", new, namespace="ns")
    assert isinstance(error, NotFound)
    assert error.message == f'rolebindings.{names.RBAC_GROUP} "none" not found'
    assert error.details == {"name": "none", "group": names.RBAC_GROUP, "kind": "rolebindings"}


@pytest.mark.parametrize(
    ("roles", "is_allowed"),
    [
        pytest.param([], True, id="any-role"),
        pytest.param(["large"], True, id="this-role"),
        pytest.param(["other"], False, id="another-role"),
    ],
)
def test_bind_verb_lifts_the_check_of_bindings(roles: list[str], is_allowed: bool) -> None:
    world = world_of_ann(rule("bind", "clusterroles", names.RBAC_GROUP, resourceNames=roles))
    world.role("large", rule("get", "secrets"))
    new = binding("b", "large", namespace="ns", kind="ClusterRole")
    if is_allowed:
        attempt(world, "rolebindings", new, namespace="ns")
    else:
        assert isinstance(denial(world, "rolebindings", new, namespace="ns"), Forbidden)


def test_updates_of_garbage_collection_fields_are_not_escalations() -> None:
    old = role("r", rule("get", "secrets"))
    old["metadata"]["resourceVersion"] = "5"
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["x/y"]}}
    attempt(World(), "roles", new, namespace="ns", old=old)
    relabelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert isinstance(denial(World(), "roles", relabelled, namespace="ns", old=old), Forbidden)


@pytest.mark.parametrize("is_update", [False, True])
def test_aggregation_requires_all_permissions(is_update: bool) -> None:
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    new = role("new", aggregationRule=aggregation)
    old = new if is_update else None
    if is_update:
        new = role("new")
    world = World()
    world.grant("held", user("ann"), rule("get", "*", "*"))
    error = denial(world, "clusterroles", new, old=old)
    why = "must have cluster-admin privileges to use an aggregationRule"
    assert error.message == f'clusterroles.{names.RBAC_GROUP} "new" is forbidden: {why}'
    world.grant("all", user("ann"), rule("*", "*", "*"), rule("*", nonResourceURLs=["*"]))
    attempt(world, "clusterroles", new, old=old)


def test_other_resources_are_not_checked() -> None:
    info = parse_path("POST", "/api/v1/namespaces/ns/configmaps")
    check_escalation(RbacAuthorizer(World()), ANN, info=info, obj={"metadata": {}})


def labelled(name: str, labels: dict[str, str], *rules: Object) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


def test_aggregated_role_collects_rules_by_selector_and_name_without_duplicates() -> None:
    a, b, c = (rule("get", name) for name in ("as", "bs", "cs"))
    target = labelled("all", {"to": "all"}, rule("get", "old"))
    target["aggregationRule"] = {
        "clusterRoleSelectors": [
            {"matchLabels": {"to": "all"}},
            {"matchExpressions": [{"key": "also", "operator": "Exists"}]},
        ]
    }
    others = [
        labelled("z", {"to": "all"}, b, a, b),
        labelled("y", {"to": "all"}, a),
        labelled("x", {"also": ""}, c, a),
        labelled("w", {"to": "none"}, rule("get", "ws")),
        target,
    ]
    assert aggregated_rules(target, others) == [a, b, c]


def test_role_without_aggregation_has_no_aggregated_rules() -> None:
    assert aggregated_rules(labelled("a", {}), []) is None


def test_twenty_thousand_names_are_compared_in_one_pass() -> None:
    rules = [rule("get", "configmaps", resourceNames=[f"n{i}"]) for i in range(20_000)]
    world = world_of_ann(*rules)
    attempt(world, "roles", role("new", *rules), namespace="ns")
    extra = rule("get", "configmaps", resourceNames=["other"])
    error = denial(world, "roles", role("new", *rules, extra), namespace="ns")
    assert error.message.endswith('ResourceNames:["other"], Verbs:["get"]}')


_WORDS = [f"w{i}" for i in range(200)]
_LARGE = {"verbs": _WORDS, "apiGroups": _WORDS, "resources": _WORDS}


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        pytest.param(rule("get", "pods"), _LARGE, id="nothing held"),
        pytest.param(
            rule("*", "*", "*", resourceNames=_WORDS),
            {**_LARGE, "resourceNames": _WORDS},
            id="names held",
        ),
        pytest.param(
            rule("get", nonResourceURLs=_WORDS),
            {"verbs": _WORDS, "nonResourceURLs": [f"/{i}" for i in range(20_000)]},
            id="URLs",
        ),
    ],
)
def test_rules_whose_lists_multiply_are_refused(held: Object, wanted: Object) -> None:
    error = denial(world_of_ann(held), "roles", role("new", wanted), namespace="ns")
    assert isinstance(error, Forbidden)
    assert "too many combinations of verbs, groups, resources and names" in error.message
