# SPDX-License-Identifier: Apache-2.0
"""Authentication and authorisation: anonymous users, tokens, roles, impersonation, reviews."""

from typing import Any

import pytest
from tests.http.client import (
    ACCOUNTS,
    BINDINGS,
    CONFIG_MAPS,
    MERGE,
    NAMESPACES,
    RBAC,
    ROLES,
    SECRETS,
    WIDGETS,
    Api,
    account,
    as_user,
    binding,
    config_map,
    crd,
    namespace,
    role,
    secret,
    widget,
)

from rdd.api.types import Object

REVIEWS = "/apis/authorization.k8s.io/v1"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ROBOT = "system:serviceaccount:default:robot"


def rule(*verbs: str, resources: Any = ("configmaps",), **more: Any) -> Object:
    return {"verbs": list(verbs), "apiGroups": [""], "resources": list(resources), **more}


async def robot(api: Api, *rules: Object, **spec: Any) -> dict[str, str]:
    """Return the headers of a service account that has a role with some rules."""
    await api.post(ACCOUNTS, account("robot"))
    if rules:
        await api.post(ROLES, role("granted", list(rules)))
        subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
        await api.post(BINDINGS, binding("granted", "granted", subjects=[subject]))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    issued = await api.post(f"{ACCOUNTS}/robot/token", request)
    return {"Authorization": f"Bearer {issued['status']['token']}"}


# -- authentication


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        pytest.param(
            "GET", CONFIG_MAPS, 'configmaps is forbidden: User "system:anonymous" cannot list '
            'resource "configmaps" in API group "" in the namespace "default"', id="list",
        ),
        pytest.param(
            "POST", ROLES, 'roles.rbac.authorization.k8s.io is forbidden: User "system:anonymous" '
            'cannot create resource "roles" in API group "rbac.authorization.k8s.io" in the '
            'namespace "default"', id="create",
        ),
        pytest.param(
            "GET", "/api/v1/configmaps", 'configmaps is forbidden: User "system:anonymous" cannot '
            'list resource "configmaps" in API group "" at the cluster scope', id="everywhere",
        ),
        pytest.param(
            "GET", "/apis", 'forbidden: User "system:anonymous" cannot get path "/apis"', id="path"
        ),
        pytest.param(
            "GET", "/odd", 'forbidden: User "system:anonymous" cannot get path "/odd"', id="unknown"
        ),
    ],
)  # fmt: skip
async def test_anonymous_users_have_no_permissions(
    method: str, path: str, text: str, api: Api
) -> None:
    anonymous = {"Authorization": ""}
    body = role("x") if method == "POST" else None
    status = await api.refused(403, method, path, body, headers=anonymous)
    assert (status["reason"], status["message"]) == ("Forbidden", text)


@pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer a.b.c"])
async def test_wrong_token_is_unauthorized_not_anonymous(header: str, api: Api) -> None:
    status = await api.refused(401, "GET", "/version", headers={"Authorization": header})
    assert (status["reason"], status["message"]) == ("Unauthorized", "Unauthorized")


async def test_token_is_valid_for_its_audience_only(api: Api) -> None:
    headers = await robot(api, audiences=["another-audience"])
    await api.refused(401, "GET", CONFIG_MAPS, headers=headers)


async def test_token_is_invalid_after_deletion_of_its_account(api: Api) -> None:
    headers = await robot(api)
    status = await api.refused(403, "GET", CONFIG_MAPS, headers=headers)
    assert f'User "{ROBOT}" cannot list' in status["message"]
    await api.delete(f"{ACCOUNTS}/robot")
    await api.refused(401, "GET", CONFIG_MAPS, headers=headers)


async def test_token_expires(api: Api) -> None:
    headers = await robot(api, expirationSeconds=600)
    await api.refused(403, "GET", CONFIG_MAPS, headers=headers)
    await api.server.advance(700)
    await api.refused(401, "GET", CONFIG_MAPS, headers=headers)


async def test_token_bound_to_a_secret_is_invalid_after_its_deletion(api: Api) -> None:
    await api.post(SECRETS, secret("anchor"))
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "anchor"}
    headers = await robot(api, boundObjectRef=bound)
    await api.refused(403, "GET", CONFIG_MAPS, headers=headers)
    await api.delete(f"{SECRETS}/anchor")
    await api.refused(401, "GET", CONFIG_MAPS, headers=headers)


async def test_authenticated_users_can_review_themselves(api: Api) -> None:
    headers = await robot(api)
    answer = await api.post(WHO, {}, headers=headers)
    info = answer["status"]["userInfo"]
    assert info["username"] == ROBOT
    assert info["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    await api.refused(403, "POST", WHO, {}, headers={"Authorization": ""})


# -- roles


async def test_role_grants_exactly_its_rules(api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    headers = await robot(api, rule("get", "list", "create"))
    assert await api.names(CONFIG_MAPS, headers=headers) == []
    await api.post(CONFIG_MAPS, config_map("a"), headers=headers)
    await api.get(f"{CONFIG_MAPS}/a", headers=headers)
    for method, path, verb in (
        ("DELETE", f"{CONFIG_MAPS}/a", "delete"),
        ("GET", f"{CONFIG_MAPS}?watch=1", "watch"),
        ("DELETE", CONFIG_MAPS, "deletecollection"),
        ("GET", SECRETS, "list"),
        ("GET", CONFIG_MAPS.replace("default", "team"), "list"),
    ):
        status = await api.refused(403, method, path, headers=headers)
        assert f'User "{ROBOT}" cannot {verb} resource' in status["message"]


async def test_names_restrict_a_role_to_single_objects(api: Api) -> None:
    headers = await robot(api, rule("get", "list", "delete", resourceNames=["a"]))
    for name in ("a", "b"):
        await api.post(CONFIG_MAPS, config_map(name))
    await api.refused(403, "GET", f"{CONFIG_MAPS}/b", headers=headers)
    await api.refused(403, "GET", CONFIG_MAPS, headers=headers)
    query = {"fieldSelector": "metadata.name=a"}
    assert await api.names(CONFIG_MAPS, query=query, headers=headers) == ["a"]
    await api.delete(f"{CONFIG_MAPS}/a", headers=headers)


async def test_wildcards_match_everything_in_their_field(api: Api) -> None:
    granted = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["configmaps", "*/token"]}
    headers = await robot(api, granted)
    await api.post(CONFIG_MAPS, config_map("a"), headers=headers)
    await api.delete(CONFIG_MAPS, headers=headers)
    await api.post(f"{ACCOUNTS}/robot/token", {"spec": {}}, headers=headers)
    await api.refused(403, "GET", SECRETS, headers=headers)


async def test_cluster_role_is_bound_in_a_namespace_or_everywhere(api: Api) -> None:
    await api.post(f"{RBAC}/clusterroles", role("lister", [rule("list")], kind="ClusterRole"))
    jo = as_user("jo")
    subjects = [{"kind": "User", "name": "jo"}]
    await api.post(BINDINGS, binding("b", "lister", to_kind="ClusterRole", subjects=subjects))
    assert await api.names(CONFIG_MAPS, user=jo) == []
    await api.refused(403, "GET", "/api/v1/configmaps", user=jo)
    everywhere = binding(
        "b", "lister", kind="ClusterRoleBinding", to_kind="ClusterRole", subjects=subjects
    )
    await api.post(f"{RBAC}/clusterrolebindings", everywhere)
    assert await api.names("/api/v1/configmaps", user=jo) == []


async def test_groups_can_be_bound(api: Api) -> None:
    headers = await robot(api)
    await api.post(ROLES, role("r", [rule("list")]))
    group = {"kind": "Group", "name": "system:serviceaccounts:default"}
    await api.post(BINDINGS, binding("b", "r", subjects=[group]))
    assert await api.names(CONFIG_MAPS, headers=headers) == []


async def test_binding_to_a_missing_role_is_reported(api: Api) -> None:
    subjects = [{"kind": "User", "name": "jo"}]
    await api.post(BINDINGS, binding("b", "none", subjects=subjects))
    status = await api.refused(403, "GET", CONFIG_MAPS, user=as_user("jo"))
    assert status["message"].endswith(': RBAC: role.rbac.authorization.k8s.io "none" not found')


async def test_cluster_roles_grant_non_resource_paths(api: Api) -> None:
    jo = as_user("jo")
    await api.refused(403, "GET", "/metrics", user=jo)
    urls = [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/healthz/*"]}]
    await api.post(f"{RBAC}/clusterroles", role("paths", urls, kind="ClusterRole"))
    body = binding(
        "paths",
        "paths",
        kind="ClusterRoleBinding",
        to_kind="ClusterRole",
        subjects=[{"kind": "User", "name": "jo"}],
    )
    await api.post(f"{RBAC}/clusterrolebindings", body)
    assert (await api.call("GET", "/metrics", user=jo)).status == 200
    assert (await api.call("GET", "/healthz/ping", user=jo)).status == 200
    await api.refused(403, "GET", "/configz", user=jo)


async def test_custom_resources_and_their_status_are_granted_separately(api: Api) -> None:
    await api.install(crd(subresources={"status": {}}))
    granted = {
        "verbs": ["get", "patch"],
        "apiGroups": ["shop.example.com"],
        "resources": ["widgets"],
    }
    headers = await robot(api, granted)
    await api.post(WIDGETS, widget("w", {"n": 1}))
    path = f"{WIDGETS}/w"
    await api.patch(path, {"spec": {"n": 2}}, MERGE, headers=headers)
    status = await api.refused(
        403, "PATCH", f"{path}/status", {"status": {}}, content_type=MERGE, headers=headers
    )
    assert status["message"] == (
        f'widgets.shop.example.com "w" is forbidden: User "{ROBOT}" cannot patch resource '
        '"widgets/status" in API group "shop.example.com" in the namespace "default"'
    )


# -- escalation


async def test_users_cannot_grant_more_than_they_have(api: Api) -> None:
    groups = ["rbac.authorization.k8s.io"]
    manage = {
        "verbs": ["create", "update"],
        "apiGroups": groups,
        "resources": ["roles", "rolebindings"],
    }
    headers = await robot(api, manage, rule("get"))
    await api.post(ROLES, role("small", [rule("get")]), headers=headers)
    status = await api.refused(403, "POST", ROLES, role("large", [rule("list")]), headers=headers)
    assert "is attempting to grant RBAC permissions not currently held" in status["message"]
    await api.post(ROLES, role("large", [rule("list")]))
    subject = {"kind": "User", "name": "eve"}
    await api.post(BINDINGS, binding("b1", "small", subjects=[subject]), headers=headers)
    status = await api.refused(
        403, "POST", BINDINGS, binding("b2", "large", subjects=[subject]), headers=headers
    )
    assert "is attempting to grant RBAC permissions not currently held" in status["message"]
    status = await api.refused(
        404, "POST", BINDINGS, binding("b3", "none", subjects=[subject]), headers=headers
    )
    assert status["message"] == 'rolebindings.rbac.authorization.k8s.io "none" not found'


@pytest.mark.parametrize(
    ("verb", "resource", "path", "body"),
    [
        pytest.param("escalate", "roles", ROLES, role("large", [rule("list")]), id="escalate"),
        pytest.param("bind", "roles", BINDINGS, binding("b", "large"), id="bind"),
    ],
)
async def test_escalate_and_bind_permissions_allow_granting_more(
    verb: str, resource: str, path: str, body: Object, api: Api
) -> None:
    groups = ["rbac.authorization.k8s.io"]
    manage = {
        "verbs": ["create"],
        "apiGroups": groups,
        "resources": ["roles", "rolebindings"],
    }
    more = {"verbs": [verb], "apiGroups": groups, "resources": [resource]}
    if path == BINDINGS:
        await api.post(ROLES, role("large", [rule("list")]))
    headers = await robot(api, manage, more)
    await api.post(path, body, headers=headers, expect=201)


# -- impersonation


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(
            {"Impersonate-User": "ann"},
            {"username": "ann", "groups": ["system:authenticated"]},
            id="user",
        ),
        pytest.param(
            {"Impersonate-User": "ann", "Impersonate-Group": "devs"},
            {"username": "ann", "groups": ["devs", "system:authenticated"]},
            id="group",
        ),
        pytest.param(
            {"Impersonate-User": ROBOT},
            {
                "username": ROBOT,
                "groups": [
                    "system:serviceaccounts",
                    "system:serviceaccounts:default",
                    "system:authenticated",
                ],
            },
            id="account",
        ),
        pytest.param(
            {"Impersonate-User": "ann", "Impersonate-Uid": "7", "Impersonate-Extra-Scopes": "view"},
            {
                "username": "ann",
                "uid": "7",
                "groups": ["system:authenticated"],
                "extra": {"scopes": ["view"]},
            },
            id="uid and extra",
        ),
    ],
)
async def test_administrator_can_impersonate_users(
    headers: dict[str, str], expected: Object, api: Api
) -> None:
    admin = {"Authorization": f"Bearer {api.server.tokens['admin']}"}
    answer = await api.post(WHO, {}, headers={**admin, **headers})
    assert answer["status"]["userInfo"] == expected
    status = await api.refused(403, "GET", CONFIG_MAPS, headers={**admin, **headers})
    assert f'User "{expected["username"]}" cannot list' in status["message"]


async def test_impersonating_a_group_requires_a_user(api: Api) -> None:
    admin = {"Authorization": f"Bearer {api.server.tokens['admin']}"}
    await api.refused(400, "POST", WHO, {}, headers={**admin, "Impersonate-Group": "devs"})


async def test_impersonation_must_be_granted(api: Api) -> None:
    headers = await robot(api)
    status = await api.refused(
        403, "GET", CONFIG_MAPS, headers={**headers, "Impersonate-User": "ann"}
    )
    assert "cannot impersonate" in status["message"]


# -- reviews


async def allowed(api: Api, spec: Object, kind: str = "subjectaccessreviews", **kw: Any) -> Any:
    answer = await api.post(f"{REVIEWS}/{kind}", {"spec": spec}, expect=201, **kw)
    return answer["status"]["allowed"]


async def test_access_reviews_return_the_decision(api: Api) -> None:
    await api.post(ROLES, role("r", [rule("get")]))
    await api.post(BINDINGS, binding("b", "r", subjects=[{"kind": "User", "name": "ann"}]))

    def attributes(verb: str, **more: str) -> Object:
        what = {"verb": verb, "resource": "configmaps", "namespace": "default", **more}
        return {"resourceAttributes": what}

    assert await allowed(api, {"user": "ann", **attributes("get")}) is True
    assert await allowed(api, {"user": "ann", **attributes("list")}) is False
    assert await allowed(api, {"user": "ben", **attributes("get")}) is False
    assert await allowed(api, {"user": "ann", **attributes("get", subresource="status")}) is False
    groups = {"user": "ben", "groups": ["system:masters"]}
    assert await allowed(api, {**groups, **attributes("delete")}) is True
    url = {"path": "/version", "verb": "get"}
    anonymous = {"user": "system:anonymous", "groups": ["system:unauthenticated"]}
    assert await allowed(api, {**anonymous, "nonResourceAttributes": url}) is True
    assert await allowed(api, {"user": "ann", "nonResourceAttributes": url}) is False


async def test_self_subject_reviews_use_the_requesting_user(api: Api) -> None:
    headers = await robot(api, rule("get"))
    mine = {"verb": "get", "resource": "configmaps", "namespace": "default"}
    path = f"{REVIEWS}/selfsubjectaccessreviews"
    answer = await api.post(path, {"spec": {"resourceAttributes": mine}}, headers=headers)
    assert answer["status"]["allowed"] is True
    assert answer["status"]["reason"].startswith('RBAC: allowed by RoleBinding "granted/default"')
    stars = {"verb": "*", "resource": "*"}
    assert not await allowed(
        api, {"resourceAttributes": stars}, "selfsubjectaccessreviews", headers=headers
    )
    await api.refused(403, "POST", path, {"spec": {}}, headers={"Authorization": ""})
    rules = await api.post(
        f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, headers=headers
    )
    granted = [r for r in rules["status"]["resourceRules"] if r["resources"] == ["configmaps"]]
    assert granted == [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]


@pytest.mark.parametrize(
    ("path", "spec", "field"),
    [
        pytest.param(
            "subjectaccessreviews",
            {"resourceAttributes": {"verb": "get"}},
            "spec.user",
            id="anonymous",
        ),
        pytest.param(
            "subjectaccessreviews", {"user": "x"}, "spec.resourceAttributes", id="nothing"
        ),
        pytest.param(
            "namespaces/default/localsubjectaccessreviews",
            {"user": "x", "resourceAttributes": {"verb": "get", "namespace": "other"}},
            "spec.resourceAttributes.namespace",
            id="another namespace",
        ),
        pytest.param(
            "namespaces/default/localsubjectaccessreviews",
            {"user": "x", "nonResourceAttributes": {"path": "/", "verb": "get"}},
            "spec.nonResourceAttributes",
            id="a path in a namespace",
        ),
        pytest.param(
            "subjectaccessreviews",
            {
                "user": "x",
                "resourceAttributes": {
                    "verb": "list",
                    "labelSelector": {
                        "rawSelector": "a=b",
                        "requirements": [{"key": "a", "operator": "Exists"}],
                    },
                },
            },
            "spec.resourceAttributes.labelSelector.rawSelector",
            id="two selectors",
        ),
    ],
)
async def test_malformed_reviews_are_rejected(
    path: str, spec: Object, field: str, api: Api
) -> None:
    body = {"metadata": {"namespace": "default"} if "/" in path else {}, "spec": spec}
    status = await api.refused(422, "POST", f"{REVIEWS}/{path}", body)
    assert field in [c["field"] for c in status["details"]["causes"]]


async def test_tokens_are_reviewed(api: Api) -> None:
    headers = await robot(api)
    token = headers["Authorization"].removeprefix("Bearer ")
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    good = await api.post(path, {"spec": {"token": token}})
    assert good["status"]["authenticated"] is True
    assert good["status"]["user"]["username"] == ROBOT
    bad = await api.post(path, {"spec": {"token": "nonsense"}})
    assert "authenticated" not in bad["status"] or bad["status"]["authenticated"] is False
    assert bad["status"]["error"]


_ATTRIBUTES = {"nonResourceAttributes": {"path": "/"}}
_SYSTEM = {
    "uid": "x",
    "selfLink": "/x",
    "creationTimestamp": "2001-01-01T00:00:00Z",
    "deletionTimestamp": "2001-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 0,
}


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("authorization.k8s.io/v1/subjectaccessreviews", {"user": "u", **_ATTRIBUTES}),
        ("authorization.k8s.io/v1/selfsubjectaccessreviews", _ATTRIBUTES),
        ("authentication.k8s.io/v1/tokenreviews", {"token": "x"}),
    ],
)
async def test_reviews_ignore_what_only_the_server_sets(path: str, spec: Object, api: Api) -> None:
    body = {"metadata": {"namespace": "elsewhere", **_SYSTEM}, "spec": spec}
    assert (await api.post(f"/apis/{path}", body))["metadata"] == {}


async def test_token_requests_belong_to_the_namespace_of_their_path(api: Api) -> None:
    await api.post(ACCOUNTS, account("robot"))
    path = f"{ACCOUNTS}/robot/token"
    assert (await api.post(path, {"metadata": _SYSTEM}))["metadata"].get("uid") != "x"
    status = await api.refused(400, "POST", path, {"metadata": {"namespace": "elsewhere"}})
    assert status["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


async def test_a_list_of_one_name_needs_the_right_to_that_name(api: Api) -> None:
    headers = await robot(api, rule("list", "watch", resourceNames=["a"]))
    one = f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Da"
    assert (await api.call("GET", one, headers=headers)).status == 200
    for query in ("", "?fieldSelector=metadata.name%3Db", "?fieldSelector=metadata.name!%3Da"):
        await api.refused(403, "GET", f"{CONFIG_MAPS}{query}", headers=headers)
    # Malformed options select nothing: the right to list is missing, which is reported first.
    for query in ("&limit=x", "&labelSelector=%2C", "&timeoutSeconds=x"):
        await api.refused(403, "GET", f"{one}{query}", headers=headers)
        await api.refused(400, "GET", f"{one}{query}")
