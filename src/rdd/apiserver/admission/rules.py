# SPDX-License-Identifier: Apache-2.0
"""The writes that the rules of a webhook or policy select.

A rule names operations, groups, versions, resources and a scope; `*` matches all. Under matchPolicy
Equivalent, a write in a version that the rules do not name is selected, too, if they name another
version of the same resource: the write is then shown in that version (`MatchedVersion.resource`).

The result depends only on operation, resource and subresource, so the caller runs
`Criteria.narrow` once per such triple and caches it. `rdd.apiserver.admission.matching` checks the
remaining criteria for each write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdd.api.selectors import EVERYTHING, LabelSelector, from_label_selector_object
from rdd.apiserver.resources import Resource, ResourceRegistry

_ANY = "*"
_NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """A RuleWithOperations; `names` is empty unless a policy restricts it to some objects."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resource and subresource; each can be `*`."""
    scope: str = _ANY
    names: frozenset[str] = _NO_NAMES

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> "AdmissionRule":
        """Return the rule of a configuration object."""
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
        """Return whether the rule matches such writes, regardless of names."""
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
_EVERY_RESOURCE = AdmissionRule(_EVERY, _EVERY, _EVERY, ((_ANY, _ANY),))


def _has(wanted: frozenset[str], value: str) -> bool:
    return value in wanted or _ANY in wanted


@dataclass(frozen=True, slots=True)
class MatchedVersion:
    """The version in which a write is shown, and the required names (empty: any)."""

    resource: Resource
    names: frozenset[str] = _NO_NAMES


@dataclass(frozen=True, slots=True)
class Criteria:
    """The selection criteria of a webhook, a policy or a binding."""

    rules: tuple[AdmissionRule, ...]
    excluded: tuple[AdmissionRule, ...] = ()
    is_equivalent: bool = True
    namespaces: LabelSelector = EVERYTHING
    objects: LabelSelector = EVERYTHING
    problem: str = ""
    """Why a selector cannot be parsed; only objects of older versions have such selectors."""

    @classmethod
    def of_webhook(cls, hook: Mapping[str, Any]) -> "Criteria":
        """Return the criteria of a webhook; without rules it selects nothing."""
        return cls._of(hook, tuple(map(AdmissionRule.of, hook.get("rules") or ())))

    @classmethod
    def of_resources(cls, found: Mapping[str, Any]) -> "Criteria":
        """Return the criteria of MatchResources; without rules they select every resource."""
        rules = tuple(map(AdmissionRule.of, found.get("resourceRules") or ()))
        return cls._of(found, rules or (_EVERY_RESOURCE,))

    @classmethod
    def _of(cls, found: Mapping[str, Any], rules: tuple[AdmissionRule, ...]) -> "Criteria":
        problem = ""
        namespaces = objects = EVERYTHING
        try:
            namespaces = from_label_selector_object(found.get("namespaceSelector") or {})
            objects = from_label_selector_object(found.get("objectSelector") or {})
        except ValueError as error:
            problem = str(error)
        return cls(
            rules,
            tuple(map(AdmissionRule.of, found.get("excludeResourceRules") or ())),
            found.get("matchPolicy", "Equivalent") == "Equivalent",
            namespaces,
            objects,
            problem,
        )

    def narrow(
        self, registry: ResourceRegistry, operation: str, resource: Resource, subresource: str
    ) -> "NarrowedCriteria | None":
        """Return the criteria that remain for such writes; None if they are not selected."""
        others = equivalents(registry, resource, subresource) if self.is_equivalent else ()
        excluded = _matched_versions(self.excluded, operation, resource, subresource, others)
        if any(not target.names for target in excluded):
            return None
        matched = _matched_versions(self.rules, operation, resource, subresource, others)
        if not matched:
            return None
        names = frozenset(name for target in excluded for name in target.names)
        return NarrowedCriteria(matched, names, self.namespaces, self.objects, self.problem)


@dataclass(frozen=True, slots=True)
class NarrowedCriteria:
    """The remaining criteria for writes of one kind: names and labels."""

    targets: tuple[MatchedVersion, ...]
    """In the order of preference; only the last one can be without names."""
    excluded_names: frozenset[str]
    namespaces: LabelSelector
    objects: LabelSelector
    problem: str = ""


def equivalents(
    registry: ResourceRegistry, resource: Resource, subresource: str
) -> Sequence[Resource]:
    """Return the other versions in which the same objects are served, with the same subresource."""
    return [
        other
        for other in registry.sharing(resource)
        if other is not resource and (not subresource or subresource in other.subresources)
    ]


def _matched_versions(
    rules: Sequence[AdmissionRule],
    operation: str,
    resource: Resource,
    subresource: str,
    others: Sequence[Resource],
) -> tuple[MatchedVersion, ...]:
    # All rules are tried with the version of the request first, then with other versions.
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
