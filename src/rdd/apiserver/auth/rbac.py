# SPDX-License-Identifier: Apache-2.0
"""Role-based access control, evaluated on the RBAC objects in the cache.

`RbacAuthorizer` evaluates, like Kubernetes, first the cluster role bindings and then the role
bindings of the request's namespace; the first rule that allows the request decides. RBAC has no
deny rules: a request that no rule allows is not allowed.

Everything derived from objects is cached: bindings indexed by subject (per namespace, built on
first use; a change indexes the changed bindings only), the rules that apply to a user, and the
decisions. The last two are discarded when the revision of the objects changes and made when they
are needed. A repeated request costs two dictionary lookups.
"""

from collections.abc import Callable, Iterator
from typing import Any

from rdd.api import names
from rdd.api.errors import Forbidden
from rdd.api.fielderrors import aggregate
from rdd.apiserver.auth import identities
from rdd.apiserver.auth.authorizer import AuthorizationAttributes, Decision, Lister
from rdd.apiserver.auth.ceiling import ADMINISTRATORS, Ceiling
from rdd.apiserver.auth.policy_rules import PolicyRule, RbacRule, policies_of
from rdd.apiserver.http.request import User
from rdd.base import gotext

_MAX_CACHED_SUBJECTS = 1024
_MAX_CACHED_DECISIONS = 4096

_ALLOWED = Decision(True)

Binding = dict[str, Any]
SubjectKey = tuple[str, str]


class _BindingIndex:
    """The bindings of a namespace, or those of the cluster, by subject."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._bindings: dict[str, Binding] = {}
        self._by_subject: dict[SubjectKey, dict[str, int]] = {}
        """Per subject the names of its bindings, with its first index in each."""

    def update(self, bindings: list[Binding]) -> None:
        """Index what has changed; unchanged bindings are the same objects as before."""
        current = {str(binding["metadata"]["name"]): binding for binding in bindings}
        for name, binding in self._bindings.items():
            if current.get(name) is not binding:
                self._remove(name, binding)
        for name, binding in current.items():
            if self._bindings.get(name) is not binding:
                for position, subject in enumerate(binding.get("subjects") or ()):
                    key = _subject_key(subject, self._namespace)
                    if key is not None:
                        self._by_subject.setdefault(key, {}).setdefault(name, position)
        self._bindings = current

    def _remove(self, name: str, binding: Binding) -> None:
        for subject in binding.get("subjects") or ():
            key = _subject_key(subject, self._namespace)
            names = self._by_subject.get(key) if key is not None else None
            if key is not None and names is not None:
                names.pop(name, None)
                if not names:
                    del self._by_subject[key]

    def of_user(self, user: User) -> Iterator[tuple[Binding, dict[str, Any]]]:
        """Yield the bindings of a user and its groups, each with its first matching subject.

        They have the order of their names (Kubernetes has none).
        """
        found: dict[str, int] = {}
        for key in (("User", user.name), *(("Group", group) for group in user.groups)):
            for name, position in self._by_subject.get(key, {}).items():
                found[name] = min(position, found.get(name, position))
        for name in sorted(found):
            binding = self._bindings[name]
            yield binding, binding["subjects"][found[name]]


class _Grant:
    """The grant of one binding to a user."""

    __slots__ = ("errors", "rules", "source")

    def __init__(self, source: str, rules: list[RbacRule], error: str) -> None:
        self.source = source
        self.rules = rules
        self.errors = [error] if error else []


class _UserRules:
    """The rules that apply to a user in a namespace (or in the cluster), with cached decisions."""

    __slots__ = ("decisions", "errors", "has_names", "rules")

    def __init__(self, grants: list[_Grant]) -> None:
        self.rules = [(rule, grant.source) for grant in grants for rule in grant.rules]
        self.errors = [error for grant in grants for error in grant.errors]
        self.has_names = any(rule.policy.get("resourceNames") for rule, _ in self.rules)
        self.decisions: dict[tuple[str, ...], Decision] = {}

    def decide(self, key: tuple[str, ...]) -> Decision:
        decision = self.decisions.get(key)
        if decision is None:
            if len(self.decisions) >= _MAX_CACHED_DECISIONS:
                self.decisions.clear()
            decision = self.decisions[key] = self._decide(key)
        return decision

    def _decide(self, key: tuple[str, ...]) -> Decision:
        if len(key) == 2:
            verb, path = key
            sources = (source for rule, source in self.rules if rule.allows_path(verb, path))
        else:
            sources = (source for rule, source in self.rules if rule.allows_resource(*key))
        source = next(sources, None)
        if source is not None:
            return Decision(True, f"RBAC: allowed by {source}")
        return Decision(False, f"RBAC: {aggregate(self.errors)}" if self.errors else "")


class RbacAuthorizer:
    """Decides by the Roles, ClusterRoles and bindings of a Lister.

    Members of system:masters may do everything; their decisions have no reason.
    """

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._ceiling: Ceiling | None = None
        self._cluster_revision = (-1, -1)
        self._namespaced_revision = (-1, -1)
        self._cluster_bindings = _BindingIndex("")
        self._namespaced_bindings: dict[str, tuple[int, _BindingIndex]] = {}
        """By namespace, with the revision of the bindings that is indexed."""
        self._users: dict[tuple[str, tuple[str, ...], str], _UserRules] = {}

    @property
    def ceiling(self) -> Ceiling | None:
        """The most that anybody outside of system:masters may do; None: no limit."""
        return self._ceiling

    @ceiling.setter
    def ceiling(self, ceiling: Ceiling | None) -> None:
        self._ceiling = ceiling
        self._cluster_revision = (-1, -1)  # what was derived from it is discarded

    def authorize(self, attributes: AuthorizationAttributes) -> Decision:
        """Decide whether the user may perform the request."""
        if attributes.user.is_master:
            return _ALLOWED
        ceiling = self._ceiling
        if ceiling is not None and not ceiling.allows(attributes):
            return Decision(False, f"rdd.rules of {ceiling.origin} do not allow it")
        return self._decide(attributes)

    def _decide(self, attributes: AuthorizationAttributes) -> Decision:
        user = attributes.user
        cached = self._rules(user, attributes.namespace)
        if not attributes.is_resource:
            return cached.decide((attributes.verb, attributes.path))
        # Object names matter only if some rule is restricted to names.
        return cached.decide(
            (
                attributes.verb,
                attributes.group,
                attributes.resource,
                attributes.subresource,
                attributes.name if cached.has_names else "",
            )
        )

    def rules_for(self, user: User, namespace: str) -> tuple[list[RbacRule], list[str]]:
        """Return the rules of a user in a namespace (empty: cluster), and resolution errors."""
        cached = self._rules(user, namespace)
        return [rule for rule, _ in cached.rules], list(cached.errors)

    def referenced_policies(
        self, role_ref: dict[str, Any], namespace: str
    ) -> list[PolicyRule] | None:
        """Return the rules of the role that a binding references; None if the role does not exist.

        Raises ValueError if the reference is not to a role.
        """
        kind, name = role_ref.get("kind"), str(role_ref.get("name") or "")
        if kind == "Role":
            role = self._lister.get("roles", namespace, name)
        elif kind == "ClusterRole":
            role = self._lister.get("clusterroles", "", name)
        else:
            raise ValueError(f"unsupported role reference kind: {gotext.quote(str(kind or ''))}")
        return None if role is None else policies_of(role)

    def _rules(self, user: User, namespace: str) -> _UserRules:
        revision = self._lister.revision
        cluster = revision("clusterroles"), revision("clusterrolebindings")
        if cluster != self._cluster_revision:
            self._cluster_revision = cluster
            self._cluster_bindings.update(self._lister.list("clusterrolebindings"))
            self._users = {}
        namespaced = revision("roles"), revision("rolebindings")
        if namespaced != self._namespaced_revision:
            self._namespaced_revision = namespaced
            self._users = {}
        key = (user.name, user.groups, namespace)
        cached = self._users.get(key)
        if cached is None:
            if len(self._users) >= _MAX_CACHED_SUBJECTS:
                self._users.clear()
            cached = self._users[key] = _UserRules(self._grants(user, namespace))
        return cached

    def _grants(self, user: User, namespace: str) -> list[_Grant]:
        grants = [
            self._grant("ClusterRoleBinding", binding, subject, "")
            for binding, subject in self._cluster_bindings.of_user(user)
        ]
        if self._ceiling is not None and ADMINISTRATORS in user.groups:
            source = f"rdd.rules of {self._ceiling.origin}"
            grants.append(_Grant(source, self._ceiling.rules, ""))
        if namespace:
            grants += [
                self._grant("RoleBinding", binding, subject, namespace)
                for binding, subject in self._bindings_in(namespace).of_user(user)
            ]
        return grants

    def _bindings_in(self, namespace: str) -> _BindingIndex:
        revision = self._namespaced_revision[1]
        known, index = self._namespaced_bindings.get(namespace, (-1, _BindingIndex(namespace)))
        if known != revision:
            if len(self._namespaced_bindings) >= _MAX_CACHED_SUBJECTS:
                self._namespaced_bindings.clear()
            index.update(self._lister.list("rolebindings", namespace))
            self._namespaced_bindings[namespace] = revision, index
        return index

    def _grant(
        self, kind: str, binding: Binding, subject: dict[str, Any], namespace: str
    ) -> _Grant:
        role_ref = binding.get("roleRef") or {}
        rules, error = self._resolve(role_ref, namespace)
        name = binding["metadata"]["name"]
        of = f"of {role_ref.get('kind')} {gotext.quote(role_ref.get('name', ''))}"
        shown = gotext.quote(f"{name}/{namespace}" if namespace else name)
        source = f"{kind} {shown} {of} to {_subject_text(subject, namespace)}"
        return _Grant(source, rules, error)

    def _resolve(self, role_ref: dict[str, Any], namespace: str) -> tuple[list[RbacRule], str]:
        try:
            policies = self.referenced_policies(role_ref, namespace)
        except ValueError as e:
            return [], str(e)
        if policies is None:
            name = gotext.quote(str(role_ref.get("name") or ""))
            return [], f"{role_ref['kind'].lower()}.{names.RBAC_GROUP} {name} not found"
        return [RbacRule(policy) for policy in policies], ""


def _subject_key(subject: dict[str, Any], namespace: str) -> SubjectKey | None:
    """Return the key of a subject; None if it can match no user.

    A service account is a user; its namespace defaults to that of the binding.
    """
    kind, name = subject.get("kind"), str(subject.get("name") or "")
    if kind == "User" or kind == "Group":
        return kind, name
    if kind == "ServiceAccount" and (home := subject.get("namespace") or namespace):
        return "User", identities.account_username(home, name)
    return None


def _subject_text(subject: dict[str, Any], namespace: str) -> str:
    """Return a subject as reasons name it."""
    name = str(subject.get("name") or "")
    if subject["kind"] == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f"{subject['kind']} {gotext.quote(name)}"


_SANITIZE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def forbidden_error(attributes: AuthorizationAttributes, decision: Decision) -> Forbidden:
    """Return the error of a request that is not allowed, worded as kube-apiserver words it."""
    quote: Callable[[str], str] = gotext.quote
    message = f"User {quote(attributes.user.name)} cannot {attributes.verb} "
    if attributes.is_resource:
        resource = attributes.resource
        if attributes.subresource:
            resource = f"{resource}/{attributes.subresource}"
        message += f"resource {quote(resource)} in API group {quote(attributes.group)} "
        if attributes.namespace:
            message += f"in the namespace {quote(attributes.namespace)}"
        else:
            message += "at the cluster scope"
    else:
        message += f"path {quote(attributes.path)}"
    message = message.translate(_SANITIZE)
    why = f"{decision.error}: {decision.reason}" if decision.error else decision.reason
    if why:
        message = f"{message}: {why}"
    if not attributes.resource:
        return Forbidden(f"forbidden: {message}", details={})
    return Forbidden.to_object(attributes.resource, attributes.group, attributes.name, message)
