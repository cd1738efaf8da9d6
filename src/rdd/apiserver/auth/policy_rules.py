# SPDX-License-Identifier: Apache-2.0
"""RBAC policy rules: matching requests, and coverage of rules by other rules.

An `RbacRule` matches requests with the lists of a PolicyRule as they are: most have one or two
items, decisions are cached, and a role of 20,000 rules must not be converted before its first
decision. The second part is the coverage computation of
escalation checks: rules are split into atoms (one verb, group, resource and name each), and a
single rule of the author must cover each atom, exactly as `Covers` of Kubernetes does. So `pods/*`
is a literal text, as in Kubernetes, and only `*` and `*/scale` are wildcards.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rdd.base import gotext

ALL = "*"
_STEPS_PER_ATOM = 50
"""Cost of an atom that is not covered: it is kept, and listed in the error."""

PolicyRule = dict[str, Any]
"""A PolicyRule in the JSON form of a Role."""


class RbacRule:
    """A policy rule as it is matched with requests."""

    __slots__ = ("policy",)

    def __init__(self, policy: PolicyRule) -> None:
        self.policy = policy

    def allows_resource(
        self, verb: str, group: str, resource: str, subresource: str, name: str
    ) -> bool:
        """Return whether the rule allows the verb on a resource.

        An empty `name` stands for any name, or for a name that is not generated yet.
        """
        policy = self.policy
        verbs = policy.get("verbs") or ()
        if verb not in verbs and ALL not in verbs:
            return False
        groups = policy.get("apiGroups") or ()
        if group not in groups and ALL not in groups:
            return False
        resources = policy.get("resources") or ()
        if ALL not in resources:
            if not subresource:
                if resource not in resources:
                    return False
            elif (
                f"{resource}/{subresource}" not in resources and f"*/{subresource}" not in resources
            ):
                return False
        names = policy.get("resourceNames")
        return not names or name in names

    def allows_path(self, verb: str, path: str) -> bool:
        """Return whether the rule allows the (lower-case) method on a non-resource path."""
        verbs = self.policy.get("verbs") or ()
        if verb not in verbs and ALL not in verbs:
            return False
        urls = self.policy.get("nonResourceURLs") or ()
        return path in urls or path.startswith(_prefixes(urls))


def _prefixes(urls: Iterable[str]) -> tuple[str, ...]:
    return tuple(url.rstrip(ALL) for url in urls if url.endswith(ALL))


def policies_of(role: dict[str, Any]) -> list[PolicyRule]:
    """Return the rules of a Role or ClusterRole as they are written."""
    policies: list[PolicyRule] = role.get("rules") or []
    return policies


class TooManyCombinations(Exception):
    """Rules have too many combinations of verb, group, resource and name to compare them."""


def uncovered(
    owner: Iterable[RbacRule], wanted: Iterable[PolicyRule], *, most: int | None = None
) -> list[PolicyRule]:
    """Return the atoms of `wanted` that no rule of `owner` covers; empty means covered.

    Raises TooManyCombinations when that takes more than `most` steps (None: no limit). A rule of a
    few kilobytes can have millions of combinations, because its lists multiply.
    """
    held = _HeldRules(owner, most)
    return [atom for policy in wanted for atom in held.missing(policy)]


class _HeldRule:
    """A rule of an author, whose lists are converted to sets to compare many others with them."""

    __slots__ = ("groups", "names", "resources", "url_prefixes", "urls", "verbs")

    def __init__(self, policy: PolicyRule) -> None:
        self.verbs = frozenset(policy.get("verbs") or ())
        self.groups = frozenset(policy.get("apiGroups") or ())
        self.resources = frozenset(policy.get("resources") or ())
        self.names = frozenset(policy.get("resourceNames") or ())
        self.urls = frozenset(policy.get("nonResourceURLs") or ())
        self.url_prefixes = _prefixes(self.urls)


class _HeldRules:
    """The rules of an author, by resource and by URL.

    Whether they cover a verb on a resource of a group is decided once, and the names of all rules
    that do are merged: 20,000 rules that differ only in their names cost one pass.
    """

    def __init__(self, rules: Iterable[RbacRule], most: int | None) -> None:
        self._left = most
        self._by_resource: dict[str, list[_HeldRule]] = {}
        self._with_urls: list[_HeldRule] = []
        self._names: dict[tuple[str, str, str], frozenset[str] | None] = {}
        for rule in (_HeldRule(rule.policy) for rule in rules):
            for resource in rule.resources:
                self._by_resource.setdefault(resource, []).append(rule)
            if rule.urls:
                self._with_urls.append(rule)

    def missing(self, policy: PolicyRule) -> Iterator[PolicyRule]:
        """Yield the atoms of a rule that are not covered."""
        verbs: Sequence[str] = policy.get("verbs") or ()
        names: Sequence[str] = policy.get("resourceNames") or ()
        for group in policy.get("apiGroups") or ():
            for resource in policy.get("resources") or ():
                for verb in verbs:
                    covered = self._covered_names(verb, group, resource)
                    if covered is None:
                        continue
                    atom = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                    if not names:
                        yield self._atom(atom)
                    self._spend(len(names))
                    for name in names:
                        if name not in covered:
                            yield self._atom({**atom, "resourceNames": [name]})
        for url in policy.get("nonResourceURLs") or ():
            for verb in verbs:
                self._spend(len(self._with_urls) + 1)
                if not any(
                    _has_verb(held, verb) and _covers_url(held, url) for held in self._with_urls
                ):
                    yield self._atom({"nonResourceURLs": [url], "verbs": [verb]})

    def _covered_names(self, verb: str, group: str, resource: str) -> frozenset[str] | None:
        """Return the names for which a verb is allowed on a resource; None: for all."""
        key = (verb, group, resource)
        if key not in self._names:
            self._names[key] = self._find_names(verb, group, resource)
        self._spend(1)
        return self._names[key]

    def _find_names(self, verb: str, group: str, resource: str) -> frozenset[str] | None:
        names: set[str] = set()
        _, slash, subresource = resource.partition("/")
        # A wildcard that is asked for is a literal text, as any other resource.
        for place in dict.fromkeys((ALL, resource, *([f"*/{subresource}"] if slash else ()))):
            rules = self._by_resource.get(place, ())
            self._spend(len(rules))
            for held in rules:
                if not _has_verb(held, verb) or not (group in held.groups or ALL in held.groups):
                    continue
                if not held.names:
                    return None
                self._spend(len(held.names))
                names |= held.names
        return frozenset(names)

    def _atom(self, atom: PolicyRule) -> PolicyRule:
        self._spend(_STEPS_PER_ATOM)
        return atom

    def _spend(self, steps: int) -> None:
        if self._left is not None:
            self._left -= steps
            if self._left < 0:
                raise TooManyCombinations


def _has_verb(held: _HeldRule, verb: str) -> bool:
    return verb in held.verbs or ALL in held.verbs


def _covers_url(held: _HeldRule, url: str) -> bool:
    return url in held.urls or url.startswith(held.url_prefixes)


def compact(atoms: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merge atoms into one rule per group, resource and name, with all its verbs."""
    rest: list[PolicyRule] = []
    by_resource: dict[tuple[str, ...], PolicyRule] = {}
    for policy in atoms:
        if policy.get("nonResourceURLs"):
            rest.append(policy)
            continue
        key = (policy["apiGroups"][0], policy["resources"][0], *(policy.get("resourceNames") or ()))
        merged = by_resource.setdefault(key, {**policy, "verbs": {}})
        merged["verbs"].update(dict.fromkeys(policy["verbs"]))
    return [*rest, *({**merged, "verbs": list(merged["verbs"])} for merged in by_resource.values())]


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
