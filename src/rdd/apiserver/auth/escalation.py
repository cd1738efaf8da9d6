# SPDX-License-Identifier: Apache-2.0
"""Privilege escalation checks: users cannot grant permissions they do not have.

Writing a Role requires every permission in it (or the verb `escalate`); writing a binding
requires every permission of the referenced role (or the verb `bind` on that role). The checks
run after mutating admission and before validation, where the policy-based storage of Kubernetes
runs them. An aggregated ClusterRole can collect any rule, so writing one requires all
permissions.

The comparison of large roles takes long, so `check_escalation` only collects what has to be
compared, on the event loop, and the caller may run the comparison in a thread. It has a limit,
because the lists of a rule multiply.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rdd.api import names
from rdd.api.errors import Forbidden, InternalError, NotFound
from rdd.api.fielderrors import aggregate
from rdd.api.types import Object
from rdd.apiserver.auth.authorizer import AuthorizationAttributes
from rdd.apiserver.auth.policy_rules import (
    ALL,
    PolicyRule,
    RbacRule,
    TooManyCombinations,
    compact,
    describe,
    policies_of,
    quoted_list,
    uncovered,
)
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.http.request import RequestInfo, User
from rdd.base import gotext

_ROLES = frozenset({"roles", "clusterroles"})
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})

_EVERYTHING: tuple[PolicyRule, ...] = (
    {"verbs": [ALL], "apiGroups": [ALL], "resources": [ALL]},
    {"verbs": [ALL], "nonResourceURLs": [ALL]},
)

MAX_STEPS = 1_000_000
"""Steps of a comparison, about half a second."""
_BYTES_PER_RULE = 64


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rules that a user must hold, and those that the user holds."""

    user: User
    info: RequestInfo
    name: str
    held: Sequence[RbacRule]
    wanted: Sequence[PolicyRule]
    resolution_errors: Sequence[str]
    is_aggregated: bool = False

    @property
    def size(self) -> int:
        """Estimate of the bytes that are compared."""
        return (len(self.held) + len(self.wanted)) * _BYTES_PER_RULE

    def check(self) -> None:
        """Raise Forbidden if a wanted rule is not held."""
        try:
            missing = uncovered(self.held, self.wanted, most=MAX_STEPS)
        except TooManyCombinations:
            raise self._forbidden(
                "its rules have too many combinations of verbs, groups, resources and names to "
                f"compare them with those of user {gotext.quote(self.user.name)}; "
                'write fewer rules, or have it written by a user with the verb "escalate"'
            ) from None
        if missing:
            raise self._forbidden(self._not_held(missing))
        if self.is_aggregated and uncovered(self.held, _EVERYTHING):
            raise self._forbidden("must have cluster-admin privileges to use an aggregationRule")

    def _not_held(self, missing: list[PolicyRule]) -> str:
        lines = sorted({describe(policy) for policy in compact(missing)})
        why = (
            f"user {gotext.quote(self.user.name)} (groups={quoted_list(self.user.groups)}) is "
            "attempting to grant RBAC permissions not currently held:\n" + "\n".join(lines)
        )
        if self.resolution_errors:
            why += f"; resolution errors: [{aggregate(self.resolution_errors)}]"
        return why

    def _forbidden(self, why: str) -> Forbidden:
        return Forbidden.to_object(self.info.resource, names.RBAC_GROUP, self.name, why)


def check_escalation(
    rbac: RbacAuthorizer,
    user: User,
    *,
    info: RequestInfo,
    obj: Object,
    old: Object | None = None,
) -> Comparison | None:
    """Return what to compare before the user may write this RBAC object; None: nothing.

    `info` belongs to the request, `old` is the stored object of an update.
    """
    if info.group != names.RBAC_GROUP or user.is_master or info.subresource:
        return None
    if info.resource in _ROLES:
        return _check_role(rbac, user, info, obj, old)
    if info.resource in _BINDINGS:
        return _check_binding(rbac, user, info, obj, old)
    return None


def _check_role(
    rbac: RbacAuthorizer, user: User, info: RequestInfo, obj: Object, old: Object | None
) -> Comparison | None:
    may_escalate = AuthorizationAttributes(
        user, "escalate",
        group=names.RBAC_GROUP, version=ALL, resource=info.resource,
        name=info.name, namespace=info.namespace,
    )  # fmt: skip
    if rbac.authorize(may_escalate).allowed or _changes_only_gc_fields(obj, old):
        return None
    is_aggregated = bool(obj.get("aggregationRule") or (old and old.get("aggregationRule")))
    return _comparison(rbac, user, info, obj, policies_of(obj), is_aggregated=is_aggregated)


def _check_binding(
    rbac: RbacAuthorizer, user: User, info: RequestInfo, obj: Object, old: Object | None
) -> Comparison | None:
    if _changes_only_gc_fields(obj, old):
        return None
    role_ref = obj.get("roleRef") or {}
    if _may_bind(rbac, user, role_ref, info.namespace):
        return None
    try:
        wanted = rbac.referenced_policies(role_ref, info.namespace)
    except ValueError as e:
        raise InternalError(str(e), reason="") from e
    if wanted is None:
        # Kubernetes names the binding's resource here, not the role's.
        raise NotFound.of(info.resource, names.RBAC_GROUP, str(role_ref.get("name") or ""))
    return _comparison(rbac, user, info, obj, wanted)


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


def _comparison(
    rbac: RbacAuthorizer,
    user: User,
    info: RequestInfo,
    obj: Object,
    wanted: list[PolicyRule],
    *,
    is_aggregated: bool = False,
) -> Comparison:
    held, errors = rbac.rules_for(user, info.namespace)
    # The errors are worded for the resource of the request.
    what = f"{info.resource}.{names.RBAC_GROUP}"
    errors = [
        what + e.partition(names.RBAC_GROUP)[2] if names.RBAC_GROUP in e else e for e in errors
    ]
    name = str(obj["metadata"].get("name") or "")
    return Comparison(user, info, name, held, wanted, errors, is_aggregated)


_GC_FIELDS = ("finalizers", "managedFields", "ownerReferences", "selfLink")


def _changes_only_gc_fields(obj: Object, old: Object | None) -> bool:
    """Return whether an update changes only the fields that deletion needs."""
    return old is not None and _without_gc_fields(obj) == _without_gc_fields(old)


def _without_gc_fields(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _GC_FIELDS and v}
    return {**{k: v for k, v in obj.items() if v}, "metadata": metadata}
