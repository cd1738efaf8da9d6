# SPDX-License-Identifier: Apache-2.0
"""A compiled ValidatingAdmissionPolicy and its evaluation for a write.

The result for one set of parameters is a `PolicyEvaluation`: the validations that are false (or,
under failurePolicy Fail, have no value), and the values of audit annotations. The binding
determines the effect of a failed validation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rdd import cel
from rdd.api.types import Object
from rdd.apiserver.admission import conditions
from rdd.apiserver.admission.conditions import (
    Bindings,
    BudgetExceeded,
    Expression,
    ExpressionFailed,
    MatchConditions,
)
from rdd.cel import admission
from rdd.cel.values import type_of

_MAX_MESSAGE_BYTES = 5 * 1024  # of the value of a messageExpression
_MAX_ANNOTATION = 10 * 1024
_INVALID = "Invalid"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed validation."""

    position: int
    message: str
    reason: str = ""


@dataclass(slots=True)
class PolicyEvaluation:
    """The result of a policy for a write with certain parameters."""

    failures: list[Failure] = field(default_factory=list)
    annotation_errors: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: Expression
    message_expression: Expression | None
    message: str
    reason: str


class Evaluator:
    """The compiled expressions of a policy."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        has_params = spec.get("paramKind") is not None
        self._is_lenient = spec.get("failurePolicy") == "Ignore"
        self._conditions = MatchConditions(
            (c.get("expression", "") for c in spec.get("matchConditions") or ()),
            has_params=has_params,
        )
        named = [(v.get("name", ""), v.get("expression", "")) for v in spec.get("variables") or ()]
        full = admission.environment(has_params=has_params)
        self._variables = admission.Variables(full, named)
        # Message expressions and their variables have no authorizer.
        without_authorizer = admission.environment(has_params=has_params, has_authorizer=False)
        messages = admission.Variables(without_authorizer, named).environment
        self._validations = [
            _Validation(
                Expression(v.get("expression", ""), self._variables.environment),
                Expression(text, messages) if (text := v.get("messageExpression")) else None,
                (v.get("message") or "").strip(),
                v.get("reason") or _INVALID,
            )
            for v in spec.get("validations") or ()
        ]
        self._annotations = [
            (
                a.get("key", ""),
                Expression(a.get("valueExpression", ""), self._variables.environment),
            )
            for a in spec.get("auditAnnotations") or ()
        ]

    def evaluate(self, bindings: Bindings) -> PolicyEvaluation:
        """Evaluate the policy for the write that the bindings describe."""
        result = PolicyEvaluation()
        failures = self._conditions.failures(bindings)
        if failures is None:
            return result
        if failures:
            return self._evaluation_failed(result, conditions.join_failures(failures))
        budget = cel.Budget()
        try:
            self._validate(result, bindings, budget)
            self._annotate(result, bindings)
        except BudgetExceeded as error:
            return self._evaluation_failed(PolicyEvaluation(), str(error))
        return result

    def _evaluation_failed(self, result: PolicyEvaluation, why: str) -> PolicyEvaluation:
        if not self._is_lenient:
            result.failures.append(Failure(0, why))
        return result

    def _validate(self, result: PolicyEvaluation, bindings: Bindings, budget: cel.Budget) -> None:
        scope = self._with_variables(bindings, budget)
        violated: list[int] = []
        problems: dict[int, str] = {}
        for i, validation in enumerate(self._validations):
            try:
                if validation.expression.evaluate(scope, budget=budget) is not True:
                    violated.append(i)
            except ExpressionFailed as error:
                problems[i] = str(error)
        messages: dict[int, str] = {}
        if violated:
            try:
                messages = self._messages(bindings, budget)
            except BudgetExceeded as error:
                for i in range(len(self._validations)):
                    problems.setdefault(i, f"failed messageExpression: {error}")
        for i, validation in enumerate(self._validations):
            if i in problems:
                if not self._is_lenient:
                    result.failures.append(Failure(i, problems[i]))
            elif i in violated:
                message = messages.get(i) or validation.message
                text = validation.expression.text.strip()
                message = message or f"failed expression: {text}"
                result.failures.append(Failure(i, message, validation.reason))

    def _messages(self, bindings: Bindings, budget: cel.Budget) -> dict[int, str]:
        """Return the values of message expressions; unusable values are omitted."""
        scope = self._with_variables(bindings, budget)
        found: dict[int, str] = {}
        for i, validation in enumerate(self._validations):
            if validation.message_expression is None:
                continue
            try:
                value = validation.message_expression.evaluate(scope, budget=budget)
            except ExpressionFailed:
                continue
            text = value.strip() if isinstance(value, str) else ""
            if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_BYTES:
                found[i] = text
        return found

    def _annotate(self, result: PolicyEvaluation, bindings: Bindings) -> None:
        if not self._annotations:
            return
        budget = cel.Budget()
        scope = self._with_variables(bindings, budget)
        for key, expression in self._annotations:
            try:
                value = expression.evaluate(scope, budget=budget)
            except ExpressionFailed as error:
                if not self._is_lenient:
                    result.annotation_errors.append(str(error))
                continue
            if isinstance(value, str):
                if value.strip():
                    result.annotations[key] = value.strip()[:_MAX_ANNOTATION]
            elif value is not None:
                result.annotation_errors.append(
                    f"valueExpression '{expression.text}' resulted in unsupported return type: "
                    f"{type_of(value)}. Return type must be either string or null."
                )

    def _with_variables(self, bindings: Bindings, budget: cel.Budget) -> Bindings:
        return {**bindings, "variables": self._variables.bind(bindings, budget=budget)}


def namespace_object(namespace: Object) -> Object:
    """Return a namespace with the members that expressions can access."""
    meta = namespace["metadata"]
    return {
        "metadata": {name: meta[name] for name in _NAMESPACE_METADATA if name in meta},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }


_NAMESPACE_METADATA: Sequence[str] = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("labels", "annotations", "finalizers"),
)
