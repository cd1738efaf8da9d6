# SPDX-License-Identifier: Apache-2.0
"""Environments of admission expressions: policies and match conditions.

`object`, `oldObject` and `params` are dynamic, since one expression meets many
kinds; `request` and `namespaceObject` have declared fields. A policy can name
expressions as `variables`: each is evaluated when it is first read, at most once
per request, and can use those before it.

    names = Variables(environment(has_params=True), [("replicas", "object.spec.replicas")])
    rule = names.environment.compile("variables.replicas < 5", expect=BOOL)
    values = {"object": …, "oldObject": …, "request": …, "params": …, "namespaceObject": …,
              **authorizer_bindings(…)}
    rule.evaluate({**values, "variables": names.bind(values, budget=budget)}, budget=budget)
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rdd.base.gotext import quote
from rdd.cel import types as t
from rdd.cel.environment import Budget, Environment, Program
from rdd.cel.errors import CompileError, CostExceeded, EvaluationError, ProgramError
from rdd.cel.library.authorization import (
    AuthorizationQuery,
    Authorize,
    Authorizer,
    Decision,
    ResourceCheck,
)

__all__ = [
    "AuthorizationQuery",
    "Decision",
    "Variables",
    "authorizer_bindings",
    "environment",
    "problem",
]

_STRINGS = t.list_of(t.STRING)
_TEXTS = t.map_of(t.STRING, t.STRING)


def _texts(*names: str) -> dict[str, t.Type]:
    return dict.fromkeys(names, t.STRING)


_KIND = t.object_type("kubernetes.GroupVersionKind", _texts("group", "version", "kind"))
_RESOURCE = t.object_type("kubernetes.GroupVersionResource", _texts("group", "version", "resource"))
_USER = t.object_type(
    "kubernetes.UserInfo",
    {**_texts("username", "uid"), "groups": _STRINGS, "extra": t.map_of(t.STRING, _STRINGS)},
)
REQUEST = t.object_type(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        "userInfo": _USER,
        "dryRun": t.BOOL,
        "options": t.DYN,
    },
)
"""The type of `request`: an AdmissionRequest without its objects."""

_METADATA = t.object_type(
    "kubernetes.NamespaceMetadata",
    {
        **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "creationTimestamp": t.TIMESTAMP,
        "deletionTimestamp": t.TIMESTAMP,
        "deletionGracePeriodSeconds": t.INT,
        "generation": t.INT,
        "finalizers": _STRINGS,
    },
)
_CONDITION = t.object_type(
    "kubernetes.NamespaceCondition",
    {**_texts("status", "type", "message", "reason"), "lastTransitionTime": t.TIMESTAMP},
)
NAMESPACE = t.object_type(
    "kubernetes.Namespace",
    {
        "metadata": _METADATA,
        "spec": t.object_type("kubernetes.NamespaceSpec", {"finalizers": _STRINGS}),
        "status": t.object_type(
            "kubernetes.NamespaceStatus", {"conditions": t.list_of(_CONDITION), "phase": t.STRING}
        ),
    },
)
"""The type of `namespaceObject`."""


def environment(
    *, has_params: bool = False, has_authorizer: bool = True, is_mutation: bool = False
) -> Environment:
    """Return the environment of an admission expression; `variables` come with `Variables`.

    Expressions of a mutation may construct objects (`rdd.cel.mutation`).
    """
    variables = {
        "object": t.DYN,
        "oldObject": t.DYN,
        "namespaceObject": NAMESPACE,
        "request": REQUEST,
    }
    if has_params:
        variables["params"] = t.DYN
    if has_authorizer:
        variables["authorizer"] = t.AUTHORIZER
        variables["authorizer.requestResource"] = t.RESOURCE_CHECK
    if is_mutation:
        from rdd.cel import mutation

        return Environment(
            variables, object_types=mutation.object_type, functions=mutation.FUNCTIONS
        )
    return Environment(variables)


def authorizer_bindings(authorize: Authorize, request: AuthorizationQuery) -> dict[str, Any]:
    """Return values of `authorizer` and `authorizer.requestResource`.

    `authorize` answers questions; `request` describes the resource of the request.
    """
    return {
        "authorizer": Authorizer(authorize),
        "authorizer.requestResource": ResourceCheck(authorize, request),
    }


def problem(environment: Environment, expression: str, *returns: t.Type) -> str | None:
    """Return why an expression cannot be used, as a field error; None if it can.

    It must be of one of the types in `returns`; none given means any type. Raises ProgramError
    if only its constants are wrong.
    """
    failed: ProgramError | None = None
    try:
        found = environment.compile(expression).result_type
    except ProgramError as error:
        assert error.result_type is not None
        failed, found = error, error.result_type
    except CompileError as error:
        return f"compilation failed: {error}"
    if not returns or any(t.same(found, wanted) for wanted in returns):
        if failed is not None:
            raise failed
        return None
    if len(returns) == 1:
        return f"must evaluate to {_name(returns[0])} but got {_name(found)}"
    names = " ".join(map(_name, returns))
    return f"must evaluate to one of [{names}] but got {_name(found)}"


def _name(kind: t.Type) -> str:
    """Return a type as Go prints it, which differs from how CEL errors show it."""
    if not kind.params:
        return kind.name
    return f"{kind.name}({', '.join(map(_name, kind.params))})"


class Variables:
    """The named expressions of a policy, compiled in their order.

    A variable that does not compile has no type and fails when it is read, with
    the reason; `errors` has the reasons by name.
    """

    def __init__(self, environment: Environment, named: Iterable[tuple[str, str]]) -> None:
        self._programs: dict[str, Program] = {}
        self.errors: dict[str, str] = {}
        self._fields: dict[str, t.Field] = {}
        self._base = environment
        self.environment = _with_variables(environment, {})
        for name, expression in named:
            self.add(name, expression)

    def add(self, name: str, expression: str) -> None:
        """Declare one more variable, which those before it cannot read."""
        try:
            program = self.environment.compile(expression)
        except ProgramError as error:
            self.errors[name] = f"program instantiation failed: {error}"
            self._fields[name] = t.Field(name, t.DYN)
        except CompileError as error:
            self.errors[name] = f"compilation failed: {error}"
            self._fields[name] = t.Field(name, t.DYN)
        else:
            self._programs[name] = program
            self._fields[name] = t.Field(name, program.result_type)
        self.environment = _with_variables(self._base, self._fields)

    def bind(self, bindings: Mapping[str, Any], *, budget: Budget) -> dict[str, Any]:
        """Return the value of `variables` for one request; reading it evaluates."""
        return _Values(self._programs, self.errors, bindings, budget)


def _with_variables(environment: Environment, fields: Mapping[str, t.Field]) -> Environment:
    return environment.extended({"variables": t.object_type("kubernetes.variables", fields)})


class _Values(dict[str, Any]):
    """Variables evaluated when they are first looked up."""

    def __init__(
        self,
        programs: Mapping[str, Program],
        errors: Mapping[str, str],
        bindings: Mapping[str, Any],
        budget: Budget,
    ) -> None:
        super().__init__()
        self._programs = programs
        self._errors = errors
        self._bindings = {**bindings, "variables": self}
        self._budget = budget
        self._failed: dict[str, EvaluationError | CostExceeded] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._programs or name in self._errors

    def __missing__(self, name: str) -> Any:
        if name in self._failed:
            raise self._failed[name]
        if name in self._errors:
            reason = f"fails to compile: {self._errors[name]}"
            raise EvaluationError(f"composited variable {quote(name)} {reason}")
        try:
            value = self._programs[name].evaluate(self._bindings, budget=self._budget)
        except EvaluationError as error:
            self._failed[name] = EvaluationError(
                f"composited variable {quote(name)} fails to evaluate: {error}"
            )
            raise self._failed[name] from None
        except CostExceeded as error:
            self._failed[name] = error
            raise
        self[name] = value
        return value
