# SPDX-License-Identifier: Apache-2.0
"""Which writes the rules of a webhook or policy are about.

A rule names operations, groups, versions, resources and a scope; `*` stands for
all. Under matchPolicy Equivalent a write in a version the rules do not name
counts too, if another version of the same resource is named: it is then shown
in that version (`MatchedVersion.resource`).

All of this depends on the operation, the resource and the subresource only, so
`Criteria.narrow` is done once per such triple and remembered by the caller.
What is left to look at for each write is in `rdd.apiserver.admission.matching`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdd.api.selectors import EVERYTHING, LabelSelector, from_label_selector_object
from rdd.apiserver.resources import Registry, Resource

_ANY = "*"
_NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """One RuleWithOperations; `names` is empty unless a policy restricts it to some objects."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resource and subresource, each possibly `*`."""
    scope: str = _ANY
    names: frozenset[str] = _NO_NAMES

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> "Rule":
        """The rule of a configuration object."""
        pairs = [item.partition("/") for item in rule.get("resources") or ()]
        return cls(
            frozenset(rule.get("operations") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("apiVersions") or ()),
            tuple((resource, subresource) for resource, _, subresource in pairs),
            rule.get("scope") or _ANY,
            frozenset(rule.get("resourceNames") or ()),
        )

    def matches(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Whether the rule is about such writes, names aside."""
        if self.scope != _ANY and resource.namespaced != (self.scope == "Namespaced"):
            return False
        return (
            _has(self.operations, operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and any(
                wanted in (_ANY, resource.plural) and below in (_ANY, subresource)
                for wanted, below in self.resources
            )
        )


_EVERY = frozenset({_ANY})
_EVERY_RESOURCE = Rule(_EVERY, _EVERY, _EVERY, ((_ANY, _ANY),))


def _has(wanted: frozenset[str], value: str) -> bool:
    return value in wanted or _ANY in wanted


@dataclass(frozen=True, slots=True)
class MatchedVersion:
    """The version in which a write is shown, and the names it must have (none: any)."""

    resource: Resource
    names: frozenset[str] = _NO_NAMES


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a webhook, a policy or a binding selects."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...] = ()
    is_equivalent: bool = True
    namespaces: LabelSelector = EVERYTHING
    objects: LabelSelector = EVERYTHING
    problem: str = ""
    """Why a selector cannot be read; such an object cannot be created any more."""

    @classmethod
    def of_webhook(cls, hook: Mapping[str, Any]) -> "Criteria":
        """The criteria of a webhook; without rules it selects nothing."""
        return cls._of(hook, tuple(map(Rule.of, hook.get("rules") or ())))

    @classmethod
    def of_resources(cls, found: Mapping[str, Any]) -> "Criteria":
        """The criteria of MatchResources; without rules they select every resource."""
        rules = tuple(map(Rule.of, found.get("resourceRules") or ()))
        return cls._of(found, rules or (_EVERY_RESOURCE,))

    @classmethod
    def _of(cls, found: Mapping[str, Any], rules: tuple[Rule, ...]) -> "Criteria":
        problem = ""
        namespaces = objects = EVERYTHING
        try:
            namespaces = from_label_selector_object(found.get("namespaceSelector") or {})
            objects = from_label_selector_object(found.get("objectSelector") or {})
        except ValueError as error:
            problem = str(error)
        return cls(
            rules,
            tuple(map(Rule.of, found.get("excludeResourceRules") or ())),
            found.get("matchPolicy", "Equivalent") == "Equivalent",
            namespaces,
            objects,
            problem,
        )

    def narrow(
        self, registry: Registry, operation: str, resource: Resource, subresource: str
    ) -> "Narrowed | None":
        """What remains to be checked for writes of this kind; None if they are not selected."""
        others = equivalents(registry, resource, subresource) if self.is_equivalent else ()
        excluded = _targets(self.excluded, operation, resource, subresource, others)
        if any(not target.names for target in excluded):
            return None
        targets = _targets(self.rules, operation, resource, subresource, others)
        if not targets:
            return None
        names = frozenset(name for target in excluded for name in target.names)
        return Narrowed(targets, names, self.namespaces, self.objects, self.problem)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Criteria for writes of one kind: what is left are names and labels."""

    targets: tuple[MatchedVersion, ...]
    """In the order of preference; the last one may be the only one without names."""
    excluded_names: frozenset[str]
    namespaces: LabelSelector
    objects: LabelSelector
    problem: str = ""


def equivalents(registry: Registry, resource: Resource, subresource: str) -> Sequence[Resource]:
    """The other versions in which the same objects are served, with the same subresource."""
    return [
        other
        for other in registry.all()
        if other.cache is resource.cache
        and other is not resource
        and (not subresource or subresource in other.subresources)
    ]


def _targets(
    rules: Sequence[Rule],
    operation: str,
    resource: Resource,
    subresource: str,
    others: Sequence[Resource],
) -> tuple[MatchedVersion, ...]:
    # The version of the request comes first for all rules, then other versions rule by rule.
    found: list[MatchedVersion] = []
    for rule in rules:
        if rule.matches(operation, resource, subresource):
            found.append(MatchedVersion(resource, rule.names))
            if not rule.names:
                return tuple(found)
    for rule in rules:
        for other in others:
            if rule.matches(operation, other, subresource):
                found.append(MatchedVersion(other, rule.names))
                if not rule.names:
                    return tuple(found)
    return tuple(found)
