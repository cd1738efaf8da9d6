# SPDX-License-Identifier: Apache-2.0
"""The permissions of every operation: those it needs suffice, and each of them is necessary.

A row of the matrix is one request with its permissions. It is made by a user with exactly
these, and by users who have every other verb on everything but lack one of them.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.http.client import (
    ACCOUNTS,
    APPLY,
    BINDINGS,
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    JSON_PATCH,
    LEASES,
    MERGE,
    NAMESPACES,
    RBAC,
    ROLES,
    SECRETS,
    STRATEGIC,
    WIDGETS,
    Api,
    Body,
    account,
    as_user,
    binding,
    config_map,
    crd,
    event,
    lease,
    namespace,
    role,
    secret,
    widget,
)

from rdd.api.types import Object

RBAC_GROUP = "rbac.authorization.k8s.io"
VERBS = [
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
    "bind", "escalate", "impersonate", "approve", "sign",
]  # fmt: skip
PATH_VERBS = ["get", "post", "put", "patch", "delete", "head", "options"]

Grant = tuple[str, str, str]
"""Verb, group and resource; for a path: verb, "path" and the path."""


@dataclass(frozen=True)
class Row:
    """A request and the permissions it needs."""

    id: str
    method: str
    path: str
    needs: tuple[Grant, ...]
    body: Body = None
    options: dict[str, Any] = field(default_factory=dict)
    expect: tuple[int, ...] = (200, 201, 202)


def core(resource: str, *verbs: str) -> tuple[Grant, ...]:
    return tuple((verb, "", resource) for verb in verbs)


def rbac(resource: str, *verbs: str) -> tuple[Grant, ...]:
    return tuple((verb, RBAC_GROUP, resource) for verb in verbs)


def custom(resource: str, *verbs: str) -> tuple[Grant, ...]:
    return tuple((verb, "shop.example.com", resource) for verb in verbs)


def applied(**query: Any) -> dict[str, Any]:
    return {"content_type": APPLY, "query": {"fieldManager": "m", **query}}


def patched(kind: str) -> dict[str, Any]:
    return {"content_type": kind}


A = f"{CONFIG_MAPS}/a"
LARGE = {"verbs": ["own"], "apiGroups": [""], "resources": ["configmaps"]}
"""A rule that no user of the matrix has."""
READ = {"data": {"k": "2"}}
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}}
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
ACCESS = "/apis/authorization.k8s.io/v1"
WATCH = {"query": {"watch": "1", "timeoutSeconds": "1"}}

ROWS = [
    # -- objects
    Row("get", "GET", A, core("configmaps", "get")),
    Row("list", "GET", CONFIG_MAPS, core("configmaps", "list")),
    Row("list everywhere", "GET", "/api/v1/configmaps", core("configmaps", "list")),
    Row("create", "POST", CONFIG_MAPS, core("configmaps", "create"), config_map("new")),
    Row("create by name", "POST", CONFIG_MAPS, core("configmaps", "create"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}}),
    Row("dry run", "POST", CONFIG_MAPS, core("configmaps", "create"), config_map("new"),
        {"query": {"dryRun": "All"}}),
    Row("update", "PUT", A, core("configmaps", "update"), config_map("a", {"k": "2"})),
    Row("json patch", "PATCH", A, core("configmaps", "patch"), [], patched(JSON_PATCH)),
    Row("merge patch", "PATCH", A, core("configmaps", "patch"), READ, patched(MERGE)),
    Row("strategic patch", "PATCH", A, core("configmaps", "patch"), READ, patched(STRATEGIC)),
    Row("apply", "PATCH", A, core("configmaps", "patch"), config_map("a"), applied()),
    Row("delete", "DELETE", A, core("configmaps", "delete")),
    Row("delete collection", "DELETE", CONFIG_MAPS, core("configmaps", "deletecollection")),
    # -- writes that create
    Row("apply creates", "PATCH", f"{CONFIG_MAPS}/new", core("configmaps", "patch", "create"),
        config_map("new"), applied()),
    Row("apply creates, dry run", "PATCH", f"{SECRETS}/new", core("secrets", "patch", "create"),
        secret("new"), applied(dryRun="All")),
    Row("forced apply creates", "PATCH", f"{ACCOUNTS}/new",
        core("serviceaccounts", "patch", "create"), account("new"), applied(force="true")),
    Row("apply creates a namespace", "PATCH", f"{NAMESPACES}/new",
        core("namespaces", "patch", "create"), namespace("new"), applied()),
    Row("apply creates an event", "PATCH", f"{EVENTS}/new", core("events", "patch", "create"),
        event("new"), applied()),
    Row("apply creates a custom object", "PATCH", f"{WIDGETS}/new",
        custom("widgets", "patch", "create"), widget("new"), applied()),
    Row("put creates a custom object", "PUT", f"{WIDGETS}/new",
        custom("widgets", "update"), widget("new"), expect=(404,)),
    Row("put creates a lease", "PUT", f"{LEASES}/new",
        (("update", "coordination.k8s.io", "leases"), ("create", "coordination.k8s.io", "leases")),
        lease("new")),
    Row("put creates an event", "PUT", f"{EVENTS}/new", core("events", "update", "create"),
        event("new")),
    Row("put creates a role", "PUT", f"{ROLES}/new", rbac("roles", "update", "create"),
        role("new", [])),
    Row("put creates a cluster role", "PUT", f"{RBAC}/clusterroles/new",
        rbac("clusterroles", "update", "create"), role("new", [], kind="ClusterRole")),
    Row("put creates a binding", "PUT", f"{BINDINGS}/new",
        (*rbac("rolebindings", "update", "create"), ("bind", RBAC_GROUP, "roles")),
        binding("new", "large")),
    Row("put does not create a config map", "PUT", f"{CONFIG_MAPS}/new",
        core("configmaps", "update"), config_map("new"), expect=(404,)),
    # -- subresources
    Row("read the status", "GET", f"{NAMESPACES}/default/status", core("namespaces/status", "get")),
    Row("write the status", "PATCH", f"{NAMESPACES}/default/status",
        core("namespaces/status", "patch"), {"status": {}}, patched(MERGE)),
    Row("finalize", "PUT", f"{NAMESPACES}/default/finalize", core("namespaces/finalize", "update"),
        namespace("default")),
    Row("request a token", "POST", f"{ACCOUNTS}/robot/token",
        core("serviceaccounts/token", "create"), TOKEN),
    Row("read the status of a custom object", "GET", f"{WIDGETS}/w/status",
        custom("widgets/status", "get")),
    Row("update the status of a custom object", "PUT", f"{WIDGETS}/w/status",
        custom("widgets/status", "update"), widget("w"), expect=(422,)),
    Row("apply the status of a custom object", "PATCH", f"{WIDGETS}/w/status",
        custom("widgets/status", "patch"), {**widget("w"), "status": {"n": 1}}, applied()),
    Row("a status is not created", "PATCH", f"{WIDGETS}/new/status",
        custom("widgets/status", "patch"), {**widget("new"), "status": {"n": 1}}, applied(),
        (404,)),
    Row("read the scale", "GET", f"{WIDGETS}/w/scale", custom("widgets/scale", "get")),
    Row("update the scale", "PUT", f"{WIDGETS}/w/scale", custom("widgets/scale", "update"),
        {**SCALE, "spec": {"replicas": 2}}),
    # -- escalation
    Row("grant more than held", "POST", ROLES, rbac("roles", "create", "escalate"),
        role("new", [LARGE])),
    Row("bind a larger role", "POST", BINDINGS,
        (("create", RBAC_GROUP, "rolebindings"), ("bind", RBAC_GROUP, "roles")),
        binding("new", "large")),
    # -- definitions
    Row("define a kind", "POST", CRDS,
        (("create", "apiextensions.k8s.io", "customresourcedefinitions"),),
        crd("gadgets", "Gadget")),
    # -- reviews
    Row("review the access of others", "POST", f"{ACCESS}/subjectaccessreviews",
        (("create", "authorization.k8s.io", "subjectaccessreviews"),),
        {"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "x"}}}),
    Row("review a token", "POST", "/apis/authentication.k8s.io/v1/tokenreviews",
        (("create", "authentication.k8s.io", "tokenreviews"),), {"spec": {"token": "x"}}),
    Row("review the access in a namespace", "POST",
        "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
        (("create", "authorization.k8s.io", "localsubjectaccessreviews"),),
        {"metadata": {"namespace": "default"}, "spec": {"user": "x", "resourceAttributes": {
            "verb": "get", "resource": "x", "namespace": "default"}}}),
    # -- custom objects, and the forms of patches of subresources
    Row("delete a custom object", "DELETE", f"{WIDGETS}/w", custom("widgets", "delete")),
    Row("delete custom objects", "DELETE", WIDGETS, custom("widgets", "deletecollection")),
    Row("patch the scale", "PATCH", f"{WIDGETS}/w/scale", custom("widgets/scale", "patch"),
        {"spec": {"replicas": 2}}, patched(MERGE)),
    Row("json patch of a status", "PATCH", f"{WIDGETS}/w/status",
        custom("widgets/status", "patch"), [], patched(JSON_PATCH)),
    Row("update the status of a namespace", "PUT", f"{NAMESPACES}/default/status",
        core("namespaces/status", "update"), namespace("default")),
    Row("read a table", "GET", CONFIG_MAPS, core("configmaps", "list"),
        options={"headers": {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}}),
    Row("escalate by patch", "PATCH", f"{ROLES}/small",
        (*rbac("roles", "patch", "escalate"),), {"rules": [LARGE]}, patched(MERGE)),
    Row("escalate by apply", "PATCH", f"{ROLES}/small",
        (*rbac("roles", "patch", "escalate"),), role("small", [LARGE]), applied()),
    # -- paths
    Row("post to a path", "POST", "/metrics", (("post", "path", "/metrics"),)),
    Row("put to discovery", "PUT", "/apis/", (("put", "path", "/apis/"),), expect=(405,)),
    Row("service levels", "GET", "/metrics/slis", (("get", "path", "/metrics/slis"),)),
    Row("metrics", "GET", "/metrics", (("get", "path", "/metrics"),)),
    Row("health check", "GET", "/healthz/ping", (("get", "path", "/healthz/ping"),)),
    Row("unknown path", "GET", "/odd", (("get", "path", "/odd"),), expect=(404,)),
]  # fmt: skip


async def grant(api: Api, user: str, rules: list[Object]) -> None:
    """Give a user a ClusterRole with some rules, everywhere."""
    path = f"{RBAC}/clusterroles"
    await api.post(path, role(f"of-{user}", rules, kind="ClusterRole"))
    body = binding(
        f"of-{user}",
        f"of-{user}",
        kind="ClusterRoleBinding",
        to_kind="ClusterRole",
        subjects=[{"kind": "User", "name": user, "apiGroup": RBAC_GROUP}],
    )
    await api.post(f"{RBAC}/clusterrolebindings", body)


def rule_of(needed: Grant) -> Object:
    verb, group, what = needed
    if group == "path":
        return {"verbs": [verb], "nonResourceURLs": [what]}
    return {"verbs": [verb], "apiGroups": [group], "resources": [what]}


def all_but(missing: Grant) -> list[Object]:
    """Return rules with every verb on everything, but for one verb."""
    verb, group, _ = missing
    if group == "path":
        other = [v for v in PATH_VERBS if v != verb]
        return [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": other, "nonResourceURLs": ["*"]},
        ]
    other = [v for v in VERBS if v != verb]
    return [{"verbs": other, "apiGroups": ["*"], "resources": ["*"]}]


async def prepare(api: Api) -> None:
    """Create the objects that the rows use."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await api.install(crd(subresources={"status": {}, "scale": scale}))
    await api.post(WIDGETS, widget("w", {"replicas": 1}))
    await api.post(CONFIG_MAPS, config_map("a", {"k": "1"}))
    await api.post(ACCOUNTS, account("robot"))
    await api.post(ROLES, role("large", [LARGE]))
    await api.post(ROLES, role("small", []))


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS])
async def test_operation_needs_exactly_its_permissions(row: Row, api: Api) -> None:
    await prepare(api)
    for number, missing in enumerate(row.needs):
        user = f"lacks-{number}"
        await grant(api, user, all_but(missing))
        status = await api.refused(
            403, row.method, row.path, row.body, user=as_user(user), **row.options
        )
        assert status["reason"] == "Forbidden"
        if missing[0] not in ("bind", "escalate"):
            assert f'User "{user}" cannot {missing[0]} ' in status["message"]
    await grant(api, "exact", [rule_of(needed) for needed in row.needs])
    reply = await api.call(row.method, row.path, row.body, user=as_user("exact"), **row.options)
    assert reply.status in row.expect, reply.text


@pytest.mark.parametrize("path", [CONFIG_MAPS, "/api/v1/configmaps", "/api/v1/watch/configmaps"])
async def test_watch_needs_the_verb_watch(path: str, api: Api) -> None:
    await grant(api, "reader", all_but(("watch", "", "configmaps")))
    options: dict[str, Any] = {} if "/watch/" in path else WATCH
    status = await api.refused(403, "GET", path, user=as_user("reader"), **options)
    assert 'User "reader" cannot watch resource "configmaps"' in status["message"]
    await grant(api, "watcher", [rule_of(("watch", "", "configmaps"))])
    async with api.watch(path, user=as_user("watcher")) as stream:
        await api.post(CONFIG_MAPS, config_map("a"))
        assert (await stream.next())["type"] == "ADDED"


@pytest.mark.parametrize(
    ("method", "path", "body", "options", "text"),
    [
        pytest.param(
            "PATCH", f"{CONFIG_MAPS}/x", config_map("x"), applied(),
            'configmaps "x" is forbidden: User "jo" cannot create resource "configmaps" in API '
            'group "" in the namespace "default"', id="apply",
        ),
        pytest.param(
            "PUT", f"{ROLES}/x", role("x", []), {},
            f'roles.{RBAC_GROUP} "x" is forbidden: User "jo" cannot create resource "roles" in '
            f'API group "{RBAC_GROUP}" in the namespace "default"', id="put",
        ),
        pytest.param(
            "PATCH", f"{NAMESPACES}/x", namespace("x"), applied(),
            'namespaces "x" is forbidden: User "jo" cannot create resource "namespaces" in API '
            'group "" at the cluster scope', id="cluster scope",
        ),
    ],
)  # fmt: skip
async def test_creation_by_update_is_refused_with_the_missing_verb(
    method: str, path: str, body: Object, options: dict[str, Any], text: str, api: Api
) -> None:
    await grant(api, "jo", all_but(("create", "", "")))
    status = await api.refused(403, method, path, body, user=as_user("jo"), **options)
    assert status["message"] == text
    await api.refused(404, "GET", path)


async def test_names_in_a_rule_allow_creation_by_update(api: Api) -> None:
    verbs = ["create", "patch"]
    rule = {"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]}
    await grant(api, "jo", [rule])
    jo = as_user("jo")
    await api.patch(
        f"{CONFIG_MAPS}/a", config_map("a"), APPLY, user=jo, query={"fieldManager": "m"}
    )
    await api.refused(403, "POST", CONFIG_MAPS, config_map("a"), user=jo)
    await api.refused(403, "PATCH", f"{CONFIG_MAPS}/b", config_map("b"), user=jo, **applied())


async def test_validation_precedes_the_permission_to_create(api: Api) -> None:
    await grant(api, "jo", all_but(("create", "", "")))
    body = config_map("a", {"not a key": "x"})
    status = await api.refused(
        422, "PATCH", f"{CONFIG_MAPS}/a", body, user=as_user("jo"), **applied()
    )
    assert status["reason"] == "Invalid"


@pytest.mark.parametrize(
    ("headers", "needs"),
    [
        pytest.param({"Impersonate-User": "ann"}, core("users", "impersonate"), id="user"),
        pytest.param(
            {"Impersonate-User": "ann", "Impersonate-Group": "devs"},
            core("users", "impersonate") + core("groups", "impersonate"),
            id="group",
        ),
        pytest.param(
            {"Impersonate-User": "system:serviceaccount:default:robot"},
            core("serviceaccounts", "impersonate"),
            id="service account",
        ),
        pytest.param(
            {"Impersonate-User": "ann", "Impersonate-Uid": "7"},
            (
                *core("users", "impersonate"),
                ("impersonate", "authentication.k8s.io", "uids"),
            ),
            id="uid",
        ),
        pytest.param(
            {"Impersonate-User": "ann", "Impersonate-Extra-Scopes": "x"},
            (
                *core("users", "impersonate"),
                ("impersonate", "authentication.k8s.io", "userextras/scopes"),
            ),
            id="extra",
        ),
    ],
)
async def test_impersonation_needs_a_permission_for_each_part(
    headers: dict[str, str], needs: tuple[Grant, ...], api: Api
) -> None:
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    await api.post(ACCOUNTS, account("robot"))
    token = (await api.post(f"{ACCOUNTS}/robot/token", TOKEN))["status"]["token"]
    headers = {"Authorization": f"Bearer {token}", **headers}
    robot = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    bound = binding("b", "r", kind="ClusterRoleBinding", to_kind="ClusterRole", subjects=[robot])
    await api.post(f"{RBAC}/clusterrolebindings", bound)
    roles = f"{RBAC}/clusterroles"
    await api.post(roles, role("r", [], kind="ClusterRole"))
    for missing in needs:
        rules = [rule_of(needed) for needed in needs if needed != missing]
        await api.put(f"{roles}/r", role("r", rules, kind="ClusterRole"))
        await api.refused(403, "POST", who, {}, headers=headers)
    rules = [rule_of(needed) for needed in needs]
    await api.put(f"{roles}/r", role("r", rules, kind="ClusterRole"))
    answer = await api.post(who, {}, headers=headers)
    assert answer["status"]["userInfo"]["username"] == headers["Impersonate-User"]
