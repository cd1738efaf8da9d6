# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.apiserver.auth.identity_world import World, rule, user

from rdd.apiserver.auth.authorizer import AuthorizationAttributes
from rdd.apiserver.auth.bootstrap_policy import AUTOUPDATE, OWN_GROUPS, cluster_roles, reconcile
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.http.request import ANONYMOUS, User
from rdd.controllers.builtin.clusterrole_aggregation import aggregated_rules

USER = User("user", ("system:authenticated",))
ANN = User("ann", ("system:authenticated",))


def may(who: User, verb: str, what: str, group: str = "") -> bool:
    """Decide a request; a path starts with a slash, a resource does not."""
    authorizer = RbacAuthorizer(World().bootstrap())
    if what.startswith("/"):
        attributes = AuthorizationAttributes(who, verb, is_resource=False, path=what)
    else:
        attributes = AuthorizationAttributes(who, verb, group=group, resource=what, namespace="ns")
    return authorizer.authorize(attributes).allowed


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version", "/version/"])
def test_anonymous_requests_can_read_health_and_version(path: str) -> None:
    assert may(ANONYMOUS, "get", path)


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/metrics", "/healthz/ping", "/"])
def test_anonymous_requests_can_read_nothing_else(path: str) -> None:
    assert not may(ANONYMOUS, "get", path)


@pytest.mark.parametrize("path", ["/api", "/apis/x/v1", "/openapi/v2", "/openapi/v3/api/v1"])
def test_authenticated_users_discover_the_api(path: str) -> None:
    assert may(ANN, "get", path)
    assert not may(ANN, "post", path)


@pytest.mark.parametrize(
    ("resource", "group"),
    [
        ("selfsubjectaccessreviews", "authorization.k8s.io"),
        ("selfsubjectrulesreviews", "authorization.k8s.io"),
        ("selfsubjectreviews", "authentication.k8s.io"),
    ],
)
def test_authenticated_users_can_review_themselves(resource: str, group: str) -> None:
    assert may(ANN, "create", resource, group)
    assert not may(ANONYMOUS, "create", resource, group)


@pytest.mark.parametrize("verb", ["get", "list", "watch"])
@pytest.mark.parametrize(
    ("resource", "group"),
    [("configmaps", ""), ("namespaces", ""), ("events", ""), *(("things", g) for g in OWN_GROUPS)],
)
def test_user_reads_what_view_reads_and_the_own_kinds(verb: str, resource: str, group: str) -> None:
    assert may(USER, verb, resource, group)
    assert not may(ANN, verb, resource, group)


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "deletecollection"])
@pytest.mark.parametrize(
    ("resource", "group"), [("configmaps", ""), *(("things", g) for g in OWN_GROUPS)]
)
def test_user_changes_nothing(verb: str, resource: str, group: str) -> None:
    assert not may(USER, verb, resource, group)


@pytest.mark.parametrize("verb", ["get", "list", "watch"])
def test_user_never_reads_secrets(verb: str) -> None:
    assert not may(USER, verb, "secrets")


def test_admin_edit_and_view_aggregate_the_rules_of_the_roles_below_them() -> None:
    roles = {role["metadata"]["name"]: role for role in cluster_roles()}
    for name in ("view", "edit", "admin"):
        roles[name]["rules"] = aggregated_rules(roles[name], roles.values())
    world = World()
    for role in roles.values():
        world.put("clusterroles", role)
    for name in ("view", "edit", "admin"):
        world.bind(name, name, user(name))
    authorizer = RbacAuthorizer(world)

    def allowed(verb: str, resource: str, group: str = "") -> list[str]:
        def decide(who: str) -> bool:
            attributes = AuthorizationAttributes(
                User(who), verb, group=group, resource=resource, namespace="ns"
            )
            return authorizer.authorize(attributes).allowed

        return [who for who in ("view", "edit", "admin") if decide(who)]

    assert allowed("get", "configmaps") == ["view", "edit", "admin"]
    assert allowed("create", "configmaps") == ["edit", "admin"]
    assert allowed("get", "secrets") == ["edit", "admin"]
    assert allowed("create", "roles", "rbac.authorization.k8s.io") == ["admin"]
    assert allowed("create", "namespaces") == []
    assert allowed("list", "events", "events.k8s.io") == ["view", "edit", "admin"]
    assert allowed("create", "events", "events.k8s.io") == ["edit", "admin"]


def test_defaults_carry_the_bootstrapping_label_and_autoupdate() -> None:
    for role in cluster_roles():
        metadata = role["metadata"]
        assert metadata["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert metadata["annotations"] == {AUTOUPDATE: "true"}


def test_empty_server_gets_all_defaults_and_a_full_one_none() -> None:
    world = World()
    changes = reconcile(world)
    assert {change.action for change in changes} == {"create"}
    resources = [change.resource for change in changes]
    assert resources == sorted(resources, reverse=True)
    for change in changes:
        world.put(change.resource, change.obj)
    assert reconcile(world) == []


def test_missing_rules_are_added_and_extra_ones_kept() -> None:
    world = World().bootstrap()
    extra = rule("get", "pods")
    role = world.get("clusterroles", "", "system:basic-user")
    assert role is not None
    kept = role["rules"][1]
    world.put("clusterroles", {**role, "rules": [extra, kept]})
    (change,) = reconcile(world)
    assert change.action == "update"
    assert change.obj["rules"] == [
        extra,
        kept,
        rule("create", "selfsubjectaccessreviews", "authorization.k8s.io"),
        rule("create", "selfsubjectrulesreviews", "authorization.k8s.io"),
    ]
    world.put("clusterroles", change.obj)
    assert reconcile(world) == []


def test_objects_protected_by_annotation_are_unchanged() -> None:
    world = World().bootstrap()
    for resource in ("clusterroles", "clusterrolebindings"):
        obj = world.get(resource, "", "system:discovery")
        assert obj is not None
        metadata = {**obj["metadata"], "annotations": {AUTOUPDATE: "false"}}
        world.put(resource, {**obj, "metadata": metadata, "rules": [], "subjects": []})
    assert reconcile(world) == []


def test_missing_subjects_are_added() -> None:
    world = World().bootstrap()
    obj = world.get("clusterrolebindings", "", "system:discovery")
    assert obj is not None
    world.put("clusterrolebindings", {**obj, "subjects": [user("ann")]})
    (change,) = reconcile(world)
    assert change.action == "update"
    assert [s["name"] for s in change.obj["subjects"]] == ["ann", "system:authenticated"]


def test_binding_to_another_role_is_replaced() -> None:
    world = World().bootstrap()
    world.bind("system:discovery", "other", user("ann"))
    (change,) = reconcile(world)
    assert (change.action, change.obj["roleRef"]["name"]) == ("replace", "system:discovery")
