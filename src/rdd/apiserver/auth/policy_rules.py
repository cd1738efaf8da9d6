# SPDX-License-Identifier: Apache-2.0
"""RBAC policy rules: matching requests, and coverage of rules by other rules.

An `RbacRule` is a PolicyRule of a Role or ClusterRole whose lists are converted to sets, because
authorisation evaluates it for every request. The second part is the coverage computation of
escalation checks: rules are split into atoms (one verb, group, resource and name each), and a
single rule of the author must cover each atom, exactly as `Covers` of Kubernetes does. So `pods/*`
is a literal text, as in Kubernetes, and only `*` and `*/scale` are wildcards.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from rdd.base import gotext

ALL = "*"

PolicyRule = dict[str, Any]
"""A PolicyRule in the JSON form of a Role."""


class RbacRule:
    """A policy rule, compiled for matching."""

    __slots__ = ("groups", "names", "policy", "resources", "url_prefixes", "urls", "verbs")

    def __init__(self, policy: PolicyRule) -> None:
        self.policy = policy
        self.verbs = frozenset(policy.get("verbs") or ())
        self.groups = frozenset(policy.get("apiGroups") or ())
        self.resources = frozenset(policy.get("resources") or ())
        self.names = frozenset(policy.get("resourceNames") or ())
        self.urls = frozenset(policy.get("nonResourceURLs") or ())
        self.url_prefixes = tuple(u.rstrip(ALL) for u in self.urls if u.endswith(ALL))

    def allows_resource(
        self, verb: str, group: str, resource: str, subresource: str, name: str
    ) -> bool:
        """Return whether the rule allows the verb on a resource.

        An empty `name` stands for any name, or for a name that is not generated yet.
        """
        verbs, groups, resources = self.verbs, self.groups, self.resources
        if verb not in verbs and ALL not in verbs:
            return False
        if group not in groups and ALL not in groups:
            return False
        if ALL not in resources:
            if not subresource:
                if resource not in resources:
                    return False
            elif (
                f"{resource}/{subresource}" not in resources and f"*/{subresource}" not in resources
            ):
                return False
        return not self.names or name in self.names

    def allows_path(self, verb: str, path: str) -> bool:
        """Return whether the rule allows the (lower-case) method on a non-resource path."""
        if verb not in self.verbs and ALL not in self.verbs:
            return False
        return path in self.urls or path.startswith(self.url_prefixes)


def rules_of(role: dict[str, Any]) -> list[RbacRule]:
    """Return the rules of a Role or ClusterRole."""
    return [RbacRule(policy) for policy in role.get("rules") or ()]


def covers(owner: Iterable[RbacRule], wanted: Iterable[RbacRule]) -> list[RbacRule]:
    """Return the atoms of `wanted` that no rule of `owner` covers; empty means covered."""
    owner = list(owner)
    return [
        atom
        for rule in wanted
        for atom in breakdown(rule)
        if not any(_covers_atom(held, atom) for held in owner)
    ]


def breakdown(rule: RbacRule) -> list[RbacRule]:
    """Split a rule into rules with one verb and one group, resource and name, or one URL, each."""
    policy = rule.policy
    verbs: Sequence[str] = policy.get("verbs") or ()
    names: Sequence[str] = policy.get("resourceNames") or ()
    atoms: list[PolicyRule] = []
    for group in policy.get("apiGroups") or ():
        for resource in policy.get("resources") or ():
            for verb in verbs:
                atom = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                atoms += [{**atom, "resourceNames": [n]} for n in names] if names else [atom]
    for url in policy.get("nonResourceURLs") or ():
        atoms += [{"nonResourceURLs": [url], "verbs": [verb]} for verb in verbs]
    return [RbacRule(atom) for atom in atoms]


def _covers_atom(held: RbacRule, atom: RbacRule) -> bool:
    if ALL not in held.verbs and not atom.verbs <= held.verbs:
        return False
    if atom.urls:
        return all(_covers_url(held, url) for url in atom.urls)
    if ALL not in held.groups and not atom.groups <= held.groups:
        return False
    if not all(_covers_resource(held, resource) for resource in atom.resources):
        return False
    return not held.names or (bool(atom.names) and atom.names <= held.names)


def _covers_resource(held: RbacRule, resource: str) -> bool:
    if ALL in held.resources or resource in held.resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in held.resources


def _covers_url(held: RbacRule, url: str) -> bool:
    return url in held.urls or url.startswith(held.url_prefixes)


def compact(atoms: Iterable[RbacRule]) -> list[PolicyRule]:
    """Merge atoms into one rule per group, resource and name, with all its verbs."""
    rest: list[PolicyRule] = []
    by_resource: dict[tuple[str, ...], PolicyRule] = {}
    for atom in atoms:
        policy = atom.policy
        if policy.get("nonResourceURLs"):
            rest.append(policy)
            continue
        key = (policy["apiGroups"][0], policy["resources"][0], *(policy.get("resourceNames") or ()))
        merged = by_resource.setdefault(key, {**policy, "verbs": []})
        merged["verbs"] += [verb for verb in policy["verbs"] if verb not in merged["verbs"]]
    return [*rest, *by_resource.values()]


_DESCRIBED = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def describe(policy: PolicyRule) -> str:
    """Return a rule in one line, as escalation messages show it."""
    parts = [f"{label}:{quoted_list(policy[key])}" for label, key in _DESCRIBED if policy.get(key)]
    return "{" + ", ".join(parts) + "}"


def quoted_list(items: Iterable[str]) -> str:
    """Format a list of texts like Go's %q: `["a" "b"]`."""
    return "[" + " ".join(gotext.quote(item) for item in items) + "]"
