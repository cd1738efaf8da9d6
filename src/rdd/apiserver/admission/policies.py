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

from rdd.api import errors
from rdd.apiserver.admission import params, review, warnings
from rdd.apiserver.admission.bound_policies import Binding, BoundPolicies, Policy
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.params import ConfigurationError
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.resources import Resource

if TYPE_CHECKING:
    from rdd.apiserver.admission.evaluation import Evaluator, Failure, PolicyEvaluation

POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
_AUDIT_KEY = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


def _make_evaluator(spec: Mapping[str, Any]) -> "Evaluator":
    # CEL is a large import, and most servers have no policies.
    from rdd.apiserver.admission.evaluation import Evaluator

    return Evaluator(spec)


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
        self._bound = BoundPolicies(dependencies, POLICIES, BINDINGS, _make_evaluator)

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        return not mutating and self._bound.selects(attributes)

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Do nothing."""

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Evaluate the policies and raise the first denial."""
        outcome = _Outcome()
        versions = Versions(attributes)
        for policy, narrowed in self._bound.candidates(attributes):
            target = self._dependencies.matcher.target(narrowed, attributes, attributes.object)
            if target is not None:
                await self._apply(policy, target, attributes, versions, outcome)
        warnings.add(attributes.request.warnings, outcome.warnings)
        if outcome.denials:
            raise _rejection(attributes, outcome.denials[0])

    # -- one write

    async def _apply(
        self,
        policy: "Policy[Evaluator]",
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
        from rdd.apiserver import cel_evaluation  # with CEL, as the evaluator

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
                evaluator = await policy.evaluator()
                variables = await self._bound.variables(attributes, target, versions, param)
                size = len(attributes.request.body)
                result = await cel_evaluation.run(size, evaluator.evaluate, variables)
                _apply_actions(policy, binding, result, attributes, outcome)
                for key, value in result.annotations.items():
                    if value not in annotations.setdefault(key, []):
                        annotations[key].append(value)
        for key, values in annotations.items():
            attributes.request.audit_annotations[f"{policy.name}/{key}"] = ", ".join(values)


def _apply_actions(
    policy: "Policy[Evaluator]",
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
    policy: "Policy[Evaluator]",
    binding: Binding,
    failure: "Failure",
    attributes: AdmissionAttributes,
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
