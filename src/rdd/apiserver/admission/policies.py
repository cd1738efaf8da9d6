# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicy: validation in CEL instead of a webhook.

A policy takes effect through its bindings. Each binding defines the scope, the parameters and the
action for a failed validation: reject the write (Deny), warn the client (Warn), or record it for
the audit (Audit). Policies and bindings are indexed when they change and compiled when they first
match.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.admission import params, review, warnings
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.matching import CriteriaIndex, is_namespace
from rdd.apiserver.admission.params import ConfigurationError
from rdd.apiserver.admission.rules import Criteria, NarrowedCriteria
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.resources import Resource

if TYPE_CHECKING:
    from rdd.apiserver.admission.evaluation import Evaluator, Failure, PolicyEvaluation

POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
_AUDIT_KEY = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
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


class Policy:
    """A policy with its bindings; `previous` provides the compiled expressions if unchanged."""

    def __init__(
        self, policy: Mapping[str, Any], bindings: CriteriaIndex[Binding], previous: "Policy | None"
    ) -> None:
        self.name: str = policy["metadata"]["name"]
        self.version: str = policy["metadata"]["resourceVersion"]
        self.spec: Mapping[str, Any] = policy.get("spec") or {}
        self.bindings = bindings
        self.is_lenient = self.spec.get("failurePolicy") == "Ignore"
        is_same = previous is not None and previous.version == self.version
        self._evaluator: Evaluator | None = previous._evaluator if previous and is_same else None

    @property
    def evaluator(self) -> "Evaluator":
        if self._evaluator is None:
            # CEL is a large import, and most servers have no policies.
            from rdd.apiserver.admission.evaluation import Evaluator

            self._evaluator = Evaluator(self.spec)
        return self._evaluator


@dataclass(slots=True)
class _Denial:
    """The reason of a rejection, with its policy and binding."""

    policy: str
    binding: str
    message: str
    reason: str = ""

    def __str__(self) -> str:
        by = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{by} denied request: {self.message}"


@dataclass(slots=True)
class _Outcome:
    """The combined result of all policies for a write."""

    denials: list[_Denial] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class ValidatingPolicies:
    """The admission plugin ValidatingAdmissionPolicy."""

    def __init__(self, dependencies: AdmissionDependencies) -> None:
        self._dependencies = dependencies
        self._revisions = (-1, -1)
        self._policies: dict[str, Policy] = {}
        self._index: CriteriaIndex[Policy] | None = None

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        return not mutating and self._dependencies.matcher.selects_any(
            self._candidates(attributes), attributes
        )

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Do nothing."""

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Evaluate the policies and raise the first denial."""
        outcome = _Outcome()
        versions = Versions(attributes)
        for policy, narrowed in self._candidates(attributes):
            target = self._dependencies.matcher.target(narrowed, attributes, attributes.object)
            if target is not None:
                await self._apply(policy, target, attributes, versions, outcome)
        warnings.add(attributes.request.warnings, outcome.warnings)
        if outcome.denials:
            raise _rejection(attributes, outcome.denials[0])

    # -- compiled policies

    def _candidates(
        self, attributes: AdmissionAttributes
    ) -> tuple[tuple[Policy, NarrowedCriteria], ...]:
        revision = self._dependencies.lister.revision
        revisions = revision(POLICIES), revision(BINDINGS)
        if revisions != self._revisions:
            self._compile()
            self._revisions = revisions
        if self._index is None or _is_exempt(attributes.resource):
            return ()
        return self._index.candidates(attributes)

    def _compile(self) -> None:
        lister, registry = self._dependencies.lister, self._dependencies.registry
        bindings: dict[str, list[Binding]] = {}
        for found in lister.list(BINDINGS):
            name = (found.get("spec") or {}).get("policyName", "")
            bindings.setdefault(name, []).append(Binding(found))
        policies: dict[str, Policy] = {}
        for found in lister.list(POLICIES):
            name = found["metadata"]["name"]
            if name in bindings:
                index = CriteriaIndex(registry, ((b, b.criteria) for b in bindings[name]))
                policies[name] = Policy(found, index, self._policies.get(name))
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

    # -- one write

    async def _apply(
        self,
        policy: Policy,
        target: Resource,
        attributes: AdmissionAttributes,
        versions: Versions,
        outcome: _Outcome,
    ) -> None:
        kind = policy.spec.get("paramKind")
        try:
            resource = params.find_kind(self._dependencies.registry, kind) if kind else None
        except ConfigurationError as error:
            if not policy.is_lenient:
                message = f"failed to configure policy: {error}"
                outcome.denials.append(_Denial(policy.name, "", message))
            return
        annotations: dict[str, list[str]] = {}
        for binding, narrowed in policy.bindings.candidates(attributes):
            if self._dependencies.matcher.target(narrowed, attributes, attributes.object) is None:
                continue
            try:
                found = await params.collect(
                    resource, binding.param_ref, review.namespace_of(attributes)
                )
            except ConfigurationError as error:
                if not policy.is_lenient:
                    message = f"failed to configure binding: {error}"
                    outcome.denials.append(_Denial(policy.name, binding.name, message))
                continue
            for param in found:
                result = policy.evaluator.evaluate(
                    await self._bindings(attributes, target, versions, param)
                )
                _apply_actions(policy, binding, result, attributes, outcome)
                for key, value in result.annotations.items():
                    if value not in annotations.setdefault(key, []):
                        annotations[key].append(value)
        for key, values in annotations.items():
            attributes.request.audit_annotations[f"{policy.name}/{key}"] = ", ".join(values)

    async def _bindings(
        self,
        attributes: AdmissionAttributes,
        target: Resource,
        versions: Versions,
        param: Object | None,
    ) -> dict[str, Any]:
        from rdd.apiserver.admission import conditions, evaluation

        found = await conditions.bindings(
            attributes, target, versions, self._dependencies.authorizer
        )
        found["params"] = param
        if attributes.namespace and not is_namespace(attributes.resource):
            namespace = self._dependencies.lister.get("namespaces", "", attributes.namespace)
            if namespace is None:
                raise errors.NotFound.of("namespaces", "", attributes.namespace)
            found["namespaceObject"] = evaluation.namespace_object(namespace)
        return found


def _is_exempt(resource: Resource) -> bool:
    if resource.group in _REVIEW_GROUPS:
        return True
    return resource.group == names.ADMISSION_GROUP and resource.kind in _EXEMPT_KINDS


def _apply_actions(
    policy: Policy,
    binding: Binding,
    result: "PolicyEvaluation",
    attributes: AdmissionAttributes,
    outcome: _Outcome,
) -> None:
    for failure in result.failures:
        for action in binding.actions:
            if action == "Deny":
                outcome.denials.append(
                    _Denial(policy.name, binding.name, failure.message, failure.reason)
                )
            elif action == "Warn":
                outcome.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' "
                    f"with binding '{binding.name}': {failure.message}"
                )
            elif action == "Audit":
                _record_audit(policy, binding, failure, attributes)
    for error in result.annotation_errors:
        outcome.denials.append(_Denial(policy.name, binding.name, error))


def _record_audit(
    policy: Policy, binding: Binding, failure: "Failure", attributes: AdmissionAttributes
) -> None:
    attributes.request.audit_annotations[_AUDIT_KEY] = orjson.dumps(
        [
            {
                "message": failure.message,
                "policy": policy.name,
                "binding": binding.name,
                "expressionIndex": failure.position,
                "validationActions": binding.actions,
            }
        ]
    ).decode()


def _rejection(attributes: AdmissionAttributes, denial: _Denial) -> errors.ApiError:
    resource = attributes.resource
    error = errors.Forbidden.to_object(
        resource.plural, resource.group, _shown_name(attributes), str(denial)
    )
    error.reason = denial.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    assert error.details is not None
    error.details["causes"] = [{"message": str(denial)}]
    return error


def _shown_name(attributes: AdmissionAttributes) -> str:
    """Return the name of the object, or a substitute."""
    meta = (attributes.object or {}).get("metadata") or {}
    name = review.name_of(attributes) or meta.get("name") or meta.get("generateName")
    return name or "Unknown"
