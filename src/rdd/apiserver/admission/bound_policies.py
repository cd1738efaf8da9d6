# SPDX-License-Identifier: Apache-2.0
"""Policies in CEL with their bindings: what validating and mutating ones share.

A policy takes effect through its bindings, which narrow its scope and select its parameters.
Policies and bindings are indexed when they change and compiled when they first match.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import orjson

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.matching import CriteriaIndex, is_namespace
from rdd.apiserver.admission.rules import Criteria, NarrowedCriteria
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.resources import Resource

E = TypeVar("E")

_EXEMPT_KINDS = frozenset(
    kind + suffix
    for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
    for suffix in ("", "Binding")
)
_REVIEW_GROUPS = frozenset({names.AUTHENTICATION_GROUP, names.AUTHORIZATION_GROUP})
"""Reviews are exempt: a policy that rejects them would break the server."""


class Binding:
    """A compiled binding of a policy."""

    def __init__(self, binding: Mapping[str, Any]) -> None:
        spec = binding.get("spec") or {}
        self.name: str = binding["metadata"]["name"]
        self.actions: list[str] = spec.get("validationActions") or []
        self.param_ref: Mapping[str, Any] | None = spec.get("paramRef")
        self.criteria = Criteria.of_resources(spec.get("matchResources") or {})


class Policy(Generic[E]):
    """A policy with its bindings; `previous` provides the compiled expressions if unchanged."""

    def __init__(
        self,
        policy: Mapping[str, Any],
        bindings: CriteriaIndex[Binding],
        make_evaluator: Callable[[Mapping[str, Any]], E],
        previous: "Policy[E] | None",
    ) -> None:
        self.name: str = policy["metadata"]["name"]
        self.version: str = policy["metadata"]["resourceVersion"]
        self.spec: Mapping[str, Any] = policy.get("spec") or {}
        self.bindings = bindings
        self.is_lenient = self.spec.get("failurePolicy") == "Ignore"
        is_same = previous is not None and previous.version == self.version
        self._make_evaluator = make_evaluator
        self._evaluator: E | None = previous._evaluator if previous and is_same else None

    async def evaluator(self) -> E:
        """Return the compiled expressions; many of them are compiled in a thread."""
        if self._evaluator is None:
            from rdd.apiserver import cel_evaluation

            size = len(orjson.dumps(self.spec))
            self._evaluator = await cel_evaluation.run(size, self._make_evaluator, self.spec)
        return self._evaluator


class BoundPolicies(Generic[E]):
    """The policies of one kind, indexed by what they select."""

    def __init__(
        self,
        dependencies: AdmissionDependencies,
        policies: str,
        bindings: str,
        make_evaluator: Callable[[Mapping[str, Any]], E],
    ) -> None:
        """`policies` and `bindings` are the names of the resources."""
        self.dependencies = dependencies
        self._resources = policies, bindings
        found = [dependencies.registry.builtin(name) for name in self._resources]
        assert found[0] is not None
        assert found[1] is not None
        # Read with every write: two attributes cost a fifth of two lookups by name.
        self._caches = found[0].cache, found[1].cache
        self._make_evaluator = make_evaluator
        self._revisions = (-1, -1)
        self._policies: dict[str, Policy[E]] = {}
        self._index: CriteriaIndex[Policy[E]] | None = None

    def selects(self, attributes: AdmissionAttributes) -> bool:
        """Return whether a policy selects a write; its bindings are not considered."""
        policies, bindings = self._caches
        if self._index is None and self._revisions == (policies.revision, bindings.revision):
            return False
        return self.dependencies.matcher.selects_any(self.candidates(attributes), attributes)

    def candidates(
        self, attributes: AdmissionAttributes
    ) -> tuple[tuple[Policy[E], NarrowedCriteria], ...]:
        """Return the policies whose rules select the write; labels and names remain."""
        policies, bindings = self._caches
        revisions = policies.revision, bindings.revision
        if revisions != self._revisions:
            self._compile()
            self._revisions = revisions
        if self._index is None or _is_exempt(attributes.resource):
            return ()
        return self._index.candidates(attributes)

    def _compile(self) -> None:
        lister, registry = self.dependencies.lister, self.dependencies.registry
        bindings: dict[str, list[Binding]] = {}
        for found in lister.list(self._resources[1]):
            name = (found.get("spec") or {}).get("policyName", "")
            bindings.setdefault(name, []).append(Binding(found))
        policies: dict[str, Policy[E]] = {}
        for found in lister.list(self._resources[0]):
            name = found["metadata"]["name"]
            if name in bindings:
                index = CriteriaIndex(registry, ((b, b.criteria) for b in bindings[name]))
                previous = self._policies.get(name)
                policies[name] = Policy(found, index, self._make_evaluator, previous)
        self._policies = policies
        self._index = None
        if policies:
            self._index = CriteriaIndex(
                registry,
                (
                    (p, Criteria.of_resources(p.spec.get("matchConstraints") or {}))
                    for p in policies.values()
                ),
            )

    async def variables(
        self,
        attributes: AdmissionAttributes,
        target: Resource,
        versions: Versions,
        param: Object | None,
    ) -> dict[str, Any]:
        """Return the variables of the expressions for a write in the version `target`."""
        from rdd.apiserver.admission import conditions, evaluation

        found = await conditions.bindings(
            attributes, target, versions, self.dependencies.authorizer
        )
        found["params"] = param
        if attributes.namespace and not is_namespace(attributes.resource):
            namespace = self.dependencies.lister.get("namespaces", "", attributes.namespace)
            if namespace is None:
                raise errors.NotFound.of("namespaces", "", attributes.namespace)
            found["namespaceObject"] = evaluation.namespace_object(namespace)
        return found


def _is_exempt(resource: Resource) -> bool:
    if resource.group in _REVIEW_GROUPS:
        return True
    return resource.group == names.ADMISSION_GROUP and resource.kind in _EXEMPT_KINDS
