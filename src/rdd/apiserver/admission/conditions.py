# SPDX-License-Identifier: Apache-2.0
"""CEL in admission: variables of expressions, and match conditions of webhooks and policies.

Evaluation is synchronous and limited by the cost budgets of Kubernetes; it runs in
`cel_evaluation.run`, since these budgets are long for an event loop. Programs are cached by
their text, because compilation takes a thousand times as long as evaluation and configurations
are compiled again with every change.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rdd import cel
from rdd.apiserver import cel_evaluation
from rdd.apiserver.admission import review
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.auth.authorizer import AuthorizationAttributes, Authorizer
from rdd.apiserver.auth.tokens import service_account_user
from rdd.apiserver.http.request import User
from rdd.apiserver.resources import Resource
from rdd.cel import admission

Bindings = dict[str, Any]

BUDGET_EXCEEDED = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class BudgetExceeded(Exception):
    """The expressions of one webhook or policy exceed their total cost budget."""

    def __init__(self) -> None:
        super().__init__(BUDGET_EXCEEDED)


class ExpressionFailed(Exception):
    """An expression has no value; the text is the reason."""


class Expression:
    """A compiled expression, or the reason why it does not compile."""

    __slots__ = ("_problem", "_program", "text")

    def __init__(self, text: str, environment: cel.Environment) -> None:
        self.text = text
        self._problem = ""
        self._program: cel.Program | None = None
        try:
            self._program = environment.compile(text)
        except cel.CompileError as error:
            self._problem = f"compilation error: compilation failed: {error}"

    def evaluate(self, bindings: Mapping[str, Any], *, budget: cel.Budget) -> Any:
        """Return the value; raise ExpressionFailed, or BudgetExceeded without remaining budget."""
        if self._program is None:
            raise ExpressionFailed(self._problem)
        try:
            return self._program.evaluate(bindings, budget=budget)
        except cel.CostExceeded as error:
            if error.is_total:
                raise BudgetExceeded from None
            raise ExpressionFailed(self._worded(error)) from None
        except cel.EvaluationError as error:
            raise ExpressionFailed(self._worded(error)) from None

    def _worded(self, error: Exception) -> str:
        return f"expression '{self.text}' resulted in error: {error}"


@lru_cache(maxsize=512)
def _condition(text: str, has_params: bool) -> Expression:
    return Expression(text, admission.environment(has_params=has_params))


class MatchConditions:
    """The match conditions of one webhook or policy, compiled on first use."""

    def __init__(self, expressions: Iterable[str], *, has_params: bool = False) -> None:
        self._texts = tuple(expressions)
        self._has_params = has_params

    def failures(self, bindings: Mapping[str, Any]) -> Sequence[str] | None:
        """Return None if a condition is false, otherwise the failures of the evaluation."""
        budget = cel.Budget(cel.MATCH_CONDITIONS_BUDGET)
        failures: list[str] = []
        try:
            values = [self._value(text, bindings, budget, failures) for text in self._texts]
        except BudgetExceeded as error:
            return [str(error)]
        return None if any(value is False for value in values) else failures

    def _value(
        self, text: str, bindings: Mapping[str, Any], budget: cel.Budget, failures: list[str]
    ) -> Any:
        try:
            return _condition(text, self._has_params).evaluate(bindings, budget=budget)
        except ExpressionFailed as error:
            failures.append(str(error))
            return None


def join_failures(failures: Sequence[str]) -> str:
    """Join several errors into one text."""
    unique = list(dict.fromkeys(failures))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


async def bindings(
    attributes: AdmissionAttributes, target: Resource, versions: Versions, authorizer: Authorizer
) -> Bindings:
    """Return the variables of expressions about a write in the version `target`."""
    obj, old = await versions.of(target)
    return {
        "object": obj,
        "oldObject": old,
        "request": review.request_attributes(attributes, target),
        "namespaceObject": None,
        "params": None,
        **admission.authorizer_bindings(
            _authorize(attributes.user, authorizer),
            admission.AuthorizationQuery(
                group=attributes.resource.group,
                resource=attributes.resource.plural,
                subresource=attributes.subresource,
                namespace=review.namespace_of(attributes),
                name=review.name_of(attributes),
            ),
        ),
    }


def _authorize(user: User, authorizer: Authorizer) -> Any:
    decide = cel_evaluation.on_loop(authorizer.authorize)

    def authorize(query: admission.AuthorizationQuery) -> admission.Decision:
        decision = decide(
            AuthorizationAttributes(
                service_account_user(*query.service_account) if query.service_account else user,
                query.verb,
                is_resource=query.path is None,
                group=query.group,
                version="*",
                resource=query.resource,
                subresource=query.subresource,
                namespace=query.namespace,
                name=query.name,
                path=query.path or "",
                field_selector=query.field_selector,
                label_selector=query.label_selector,
            )
        )
        return admission.Decision(decision.allowed, decision.reason, decision.error)

    return authorize
