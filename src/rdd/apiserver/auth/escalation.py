# SPDX-License-Identifier: Apache-2.0
"""Privilege escalation checks: users cannot grant permissions they do not have.

Writing a Role requires every permission in it (or the verb `escalate`); writing a binding
requires every permission of the referenced role (or the verb `bind` on that role). The checks
run after mutating admission and before validation, where the policy-based storage of Kubernetes
runs them. An aggregated ClusterRole can collect any rule, so writing one requires all
permissions.
"""

from rdd.api import names
from rdd.api.errors import Forbidden, InternalError, NotFound
from rdd.api.fielderrors import aggregate
from rdd.api.types import Object
from rdd.apiserver.auth.authorizer import AuthorizationAttributes
from rdd.apiserver.auth.policy_rules import (
    ALL,
    RbacRule,
    compact,
    covers,
    describe,
    quoted_list,
    rules_of,
)
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.http.request import RequestInfo, User
from rdd.base import gotext

_ROLES = frozenset({"roles", "clusterroles"})
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})

_EVERYTHING = (
    RbacRule({"verbs": [ALL], "apiGroups": [ALL], "resources": [ALL]}),
    RbacRule({"verbs": [ALL], "nonResourceURLs": [ALL]}),
)


def check_escalation(
    rbac: RbacAuthorizer,
    user: User,
    *,
    info: RequestInfo,
    obj: Object,
    old: Object | None = None,
) -> None:
    """Raise Forbidden unless the user may write this RBAC object; accept other resources.

    `info` belongs to the request, `old` is the stored object of an update.
    """
    if info.group != names.RBAC_GROUP or user.is_master or info.subresource:
        return
    if info.resource in _ROLES:
        _check_role(rbac, user, info, obj, old)
    elif info.resource in _BINDINGS:
        _check_binding(rbac, user, info, obj, old)


def _check_role(
    rbac: RbacAuthorizer, user: User, info: RequestInfo, obj: Object, old: Object | None
) -> None:
    may_escalate = AuthorizationAttributes(
        user, "escalate",
        group=names.RBAC_GROUP, version=ALL, resource=info.resource,
        name=info.name, namespace=info.namespace,
    )  # fmt: skip
    if rbac.authorize(may_escalate).allowed or _changes_only_gc_fields(obj, old):
        return
    name = str(obj["metadata"].get("name") or "")
    _confirm(rbac, user, info, name, rules_of(obj))
    if obj.get("aggregationRule") or (old is not None and old.get("aggregationRule")):
        held, _ = rbac.rules_for(user, info.namespace)
        if covers(held, _EVERYTHING):
            why = "must have cluster-admin privileges to use an aggregationRule"
            raise Forbidden.to_object(info.resource, names.RBAC_GROUP, name, why)


def _check_binding(
    rbac: RbacAuthorizer, user: User, info: RequestInfo, obj: Object, old: Object | None
) -> None:
    if _changes_only_gc_fields(obj, old):
        return
    role_ref = obj.get("roleRef") or {}
    if _may_bind(rbac, user, role_ref, info.namespace):
        return
    try:
        rules = rbac.referenced_rules(role_ref, info.namespace)
    except ValueError as e:
        raise InternalError(str(e), reason="") from e
    if rules is None:
        # Kubernetes names the binding's resource here, not the role's.
        raise NotFound.of(info.resource, names.RBAC_GROUP, str(role_ref.get("name") or ""))
    _confirm(rbac, user, info, str(obj["metadata"].get("name") or ""), rules)


def _may_bind(rbac: RbacAuthorizer, user: User, role_ref: Object, namespace: str) -> bool:
    resource = {"ClusterRole": "clusterroles", "Role": "roles"}.get(str(role_ref.get("kind")))
    if resource is None or role_ref.get("apiGroup", names.RBAC_GROUP) != names.RBAC_GROUP:
        return False
    attributes = AuthorizationAttributes(
        user, "bind",
        group=names.RBAC_GROUP, version=ALL, resource=resource,
        name=str(role_ref.get("name") or ""), namespace=namespace,
    )  # fmt: skip
    return rbac.authorize(attributes).allowed


def _confirm(
    rbac: RbacAuthorizer, user: User, info: RequestInfo, name: str, wanted: list[RbacRule]
) -> None:
    held, _ = rbac.rules_for(user, info.namespace)
    missing = covers(held, wanted)
    if missing:
        lines = sorted({describe(policy) for policy in compact(missing)})
        why = (
            f"user {gotext.quote(user.name)} (groups={quoted_list(user.groups)}) is attempting "
            "to grant RBAC permissions not currently held:\n" + "\n".join(lines)
        )
        errors = _resolution_errors(rbac, user, info)
        if errors:
            why += f"; resolution errors: [{aggregate(errors)}]"
        raise Forbidden.to_object(info.resource, names.RBAC_GROUP, name, why)


def _resolution_errors(rbac: RbacAuthorizer, user: User, info: RequestInfo) -> list[str]:
    """Return the errors of resolving the user's rules, worded for the resource of the request."""
    _, errors = rbac.rules_for(user, info.namespace)
    what = f"{info.resource}.{names.RBAC_GROUP}"
    return [what + e.partition(names.RBAC_GROUP)[2] if names.RBAC_GROUP in e else e for e in errors]


_GC_FIELDS = ("finalizers", "managedFields", "ownerReferences", "selfLink")


def _changes_only_gc_fields(obj: Object, old: Object | None) -> bool:
    """Return whether an update changes only the fields that deletion needs."""
    return old is not None and _without_gc_fields(obj) == _without_gc_fields(old)


def _without_gc_fields(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _GC_FIELDS and v}
    return {**{k: v for k, v in obj.items() if v}, "metadata": metadata}
