# SPDX-License-Identifier: Apache-2.0
"""The default RBAC objects of every server, and their reconciliation.

These are the default cluster roles and bindings of Kubernetes, restricted to the kinds that this
server serves, with upstream's names, labels and annotations, plus the read-only role of the
`user` identity and the roles of viewers, who see no content. On start, `reconcile` returns
the objects to write: missing ones, and existing ones that lack a rule, a subject, a label or
an annotation. Additions of an administrator are kept, and an object annotated
`rbac.authorization.kubernetes.io/autoupdate: "false"` is left unchanged, both as in Kubernetes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from rdd.api import names
from rdd.api.types import Object
from rdd.apiserver.auth import identities
from rdd.apiserver.auth.authorizer import Lister
from rdd.apiserver.auth.policy_rules import PolicyRule, RbacRule, compact, uncovered

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_API_VERSION = f"{names.RBAC_GROUP}/v1"
_AGGREGATE = f"{names.RBAC_GROUP}/aggregate-to-"

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_READ_WRITE = tuple(sorted(_READ + _WRITE))

OWN_GROUPS = (
    names.APP_GROUP,
    names.CONTAINERS_GROUP,
    names.LIMA_GROUP,
    names.RDD_GROUP,
)
"""API groups of the project's own kinds; the `user` identity may read them."""


def _rule(verbs: Iterable[str], group: str, *resources: str, names: Iterable[str] = ()) -> Object:
    rule: Object = {
        "apiGroups": [group],
        "resources": sorted(resources),
        "verbs": list(verbs),
    }
    if names:
        rule["resourceNames"] = list(names)
    return rule


def _urls(*urls: str) -> Object:
    return {"nonResourceURLs": sorted(urls), "verbs": ["get"]}


_VIEW = [
    _rule(_READ, "", "configmaps", "serviceaccounts"),
    _rule(
        _READ, "",
        "events", "namespaces/status", "resourcequotas", "resourcequotas/status",
    ),
    _rule(_READ, "", "namespaces"),
    _rule(_READ, names.EVENTS_GROUP, "events"),
]  # fmt: skip
_EDIT = [
    _rule(_READ, "", "secrets"),
    _rule(["impersonate"], "", "serviceaccounts"),
    _rule(_WRITE, "", "configmaps", "events", "secrets", "serviceaccounts"),
    _rule(["create"], "", "serviceaccounts/token"),
    _rule(_WRITE, names.EVENTS_GROUP, "events"),
    _rule(_READ_WRITE, names.COORDINATION_GROUP, "leases"),
]
_ADMIN = [
    _rule(["create"], names.AUTHORIZATION_GROUP, "localsubjectaccessreviews"),
    _rule(_READ_WRITE, names.RBAC_GROUP, "rolebindings", "roles"),
]

_VIEWER = [
    _rule(_READ, "", "events", "namespaces"),
    _rule(_READ, names.EVENTS_GROUP, "events"),
    _rule(_READ, names.APP_GROUP, "apps", "diagnostics"),
    _rule(
        _READ, names.CONTAINERS_GROUP,
        "containernamespaces", "containers", "images", "networks", "volumes",
        "imagepullrequests", "imagepushrequests", "imagetagrequests",
    ),
    _rule(_READ, names.LIMA_GROUP, "limavms"),
    _rule(_READ, names.RDD_GROUP, "hostinfos"),
    _urls(
        "/passthrough/engine/details/*", "/passthrough/engine/stats/*",
        "/passthrough/engine/usage", names.HOST_STATS_PATH,
    ),
]  # fmt: skip
"""State, names, ports, sizes and figures. Requests whose spec may contain secrets (build
arguments, arguments of containers), templates of machines, logs and files are not in it."""

_HEALTH = ("/healthz", "/livez", "/readyz")

_CLUSTER_ROLES: dict[str, list[Object]] = {
    "cluster-admin": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ],
    "system:aggregate-to-admin": _ADMIN,
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:auth-delegator": [
        _rule(["create"], names.AUTHENTICATION_GROUP, "tokenreviews"),
        _rule(["create"], names.AUTHORIZATION_GROUP, "subjectaccessreviews"),
    ],
    "system:basic-user": [
        _rule(
            ["create"], names.AUTHORIZATION_GROUP,
            "selfsubjectaccessreviews", "selfsubjectrulesreviews",
        ),
        _rule(["create"], names.AUTHENTICATION_GROUP, "selfsubjectreviews"),
    ],
    "system:discovery": [
        _urls(
            *_HEALTH, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*",
            "/version", "/version/",
        )
    ],
    "system:monitoring": [
        _urls(*_HEALTH, *(f"{url}/*" for url in _HEALTH), "/metrics", "/metrics/slis")
    ],
    "system:public-info-viewer": [_urls(*_HEALTH, "/version", "/version/")],
    "system:service-account-issuer-discovery": [
        _urls("/.well-known/openid-configuration", "/openid/v1/jwks")
    ],
    # Aggregation fills the `view` role and can be switched off, so its rules are repeated here.
    "rdd:viewer": _VIEWER,
    # Not bound: whoever may also read the output of containers gets both roles.
    "rdd:viewer-logs": [_urls("/passthrough/engine/logs/*")],
    "rdd:user": [*_VIEW, *(_rule(_READ, group, "*") for group in OWN_GROUPS)],
}  # fmt: skip

# aggregated role → the role into which it is aggregated in turn
_AGGREGATED = {"admin": "", "edit": "admin", "view": "edit"}

# binding → role, subject kind, subject names
_CLUSTER_BINDINGS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "cluster-admin": ("cluster-admin", "Group", (identities.MASTERS,)),
    "rdd:user": ("rdd:user", "User", ("user",)),
    "rdd:user:view": ("view", "User", ("user",)),
    "rdd:viewer": ("rdd:viewer", "Group", (identities.VIEWERS,)),
    "system:basic-user": ("system:basic-user", "Group", (identities.AUTHENTICATED,)),
    "system:discovery": ("system:discovery", "Group", (identities.AUTHENTICATED,)),
    "system:monitoring": ("system:monitoring", "Group", ("system:monitoring",)),
    "system:public-info-viewer": (
        "system:public-info-viewer", "Group",
        (identities.AUTHENTICATED, identities.UNAUTHENTICATED),
    ),
    "system:service-account-issuer-discovery": (
        "system:service-account-issuer-discovery", "Group", (identities.SERVICE_ACCOUNTS,),
    ),
}  # fmt: skip


def rules_of(role: str) -> list[Object]:
    """Return the rules of one of the default roles."""
    return _CLUSTER_ROLES[role]


def _object(kind: str, name: str, *, labels: Object | None = None, **members: Any) -> Object:
    metadata: Object = {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
        "annotations": {AUTOUPDATE: "true"},
    }
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, **members}


def cluster_roles() -> list[Object]:
    roles = []
    for name, into in _AGGREGATED.items():
        labels = {f"{_AGGREGATE}{into}": "true"} if into else None
        selector = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
        rule = {"clusterRoleSelectors": [selector]}
        roles.append(_object("ClusterRole", name, labels=labels, aggregationRule=rule, rules=None))
    for name, rules in _CLUSTER_ROLES.items():
        into = name.removeprefix("system:aggregate-to-")
        labels = {f"{_AGGREGATE}{into}": "true"} if into != name else None
        roles.append(_object("ClusterRole", name, labels=labels, rules=rules))
    return roles


def cluster_role_bindings() -> list[Object]:
    return [
        _object(
            "ClusterRoleBinding",
            name,
            roleRef={"apiGroup": names.RBAC_GROUP, "kind": "ClusterRole", "name": role},
            subjects=[{"apiGroup": names.RBAC_GROUP, "kind": kind, "name": n} for n in subjects],
        )
        for name, (role, kind, subjects) in _CLUSTER_BINDINGS.items()
    ]


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """An object that `reconcile` requires to be written.

    `replace` means delete and create, because the role reference of a binding cannot change.
    """

    action: Literal["create", "update", "replace"]
    resource: str
    obj: Object


def reconcile(lister: Lister) -> list[PolicyChange]:
    """Return the changes that create or complete the defaults; roles come before bindings."""
    changes = [_role_change(r, lister) for r in cluster_roles()]
    changes += [_binding_change(b, lister) for b in cluster_role_bindings()]
    return [change for change in changes if change is not None]


def _role_change(wanted: Object, lister: Lister) -> PolicyChange | None:
    existing = lister.get("clusterroles", "", wanted["metadata"]["name"])
    if existing is None:
        return PolicyChange("create", "clusterroles", wanted)
    if _is_protected(existing):
        return None
    merged = _merge_metadata(existing, wanted)
    if "aggregationRule" in wanted:
        merged["aggregationRule"] = _merge_aggregation(existing, wanted)
    else:
        merged["rules"] = _merge_rules(existing.get("rules") or [], wanted["rules"])
    return None if merged == existing else PolicyChange("update", "clusterroles", merged)


def _binding_change(wanted: Object, lister: Lister) -> PolicyChange | None:
    existing = lister.get("clusterrolebindings", "", wanted["metadata"]["name"])
    if existing is None:
        return PolicyChange("create", "clusterrolebindings", wanted)
    if _is_protected(existing):
        return None
    if existing.get("roleRef") != wanted["roleRef"]:
        return PolicyChange("replace", "clusterrolebindings", wanted)
    merged = _merge_metadata(existing, wanted)
    subjects = existing.get("subjects") or []
    merged["subjects"] = [*subjects, *(s for s in wanted["subjects"] if s not in subjects)]
    return None if merged == existing else PolicyChange("update", "clusterrolebindings", merged)


def _is_protected(existing: Object) -> bool:
    return (existing["metadata"].get("annotations") or {}).get(AUTOUPDATE) == "false"


def _merge_metadata(existing: Object, wanted: Object) -> Object:
    """Return a copy of the existing object with the wanted labels and annotations it lacks."""
    metadata = dict(existing["metadata"])
    for member in ("labels", "annotations"):
        metadata[member] = {**wanted["metadata"][member], **(metadata.get(member) or {})}
    return {**existing, "metadata": metadata}


def _merge_aggregation(existing: Object, wanted: Object) -> Object:
    selectors = (existing.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    missing = [s for s in wanted["aggregationRule"]["clusterRoleSelectors"] if s not in selectors]
    return {"clusterRoleSelectors": [*selectors, *missing]}


def _merge_rules(existing: list[PolicyRule], wanted: list[PolicyRule]) -> list[PolicyRule]:
    missing = uncovered([RbacRule(r) for r in existing], wanted)
    return [*existing, *compact(missing)]
