# SPDX-License-Identifier: Apache-2.0
"""The compiled mutations of a MutatingAdmissionPolicy.

A mutation is an expression that results in an apply configuration, merged as server-side apply
merges (without field owners), or in the operations of a JSON patch. `Mutation.patched` returns
the object after one of them. Every mutation has the object of the one before and its own budget.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from rdd import cel
from rdd.api import errors, typedvalues
from rdd.api.shapes import DEDUCED, ItemError, Shape, shape_of
from rdd.api.types import Object
from rdd.apiserver.admission import conditions, patches
from rdd.apiserver.admission.conditions import (
    Bindings,
    BudgetExceeded,
    Expression,
    ExpressionFailed,
    MatchConditions,
)
from rdd.apiserver.resources import Resource
from rdd.cel import admission, mutation
from rdd.cel.values import ObjectValue, Optional, Timestamp, Uint, type_of

_TEST_FAILED = "testing value "
"""The start of the reason why a `test` operation fails."""


MAX_RESULT_BYTES = 3 * 1024 * 1024
"""Of one mutation, as of a request; an object may have half of it."""


class MutationFailed(Exception):
    """A mutation cannot be made; failurePolicy decides the effect."""


class Mutator:
    """The compiled expressions of a policy."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        has_params = spec.get("paramKind") is not None
        self._conditions = MatchConditions(
            (c.get("expression", "") for c in spec.get("matchConditions") or ()),
            has_params=has_params,
        )
        named = [(v.get("name", ""), v.get("expression", "")) for v in spec.get("variables") or ()]
        environment = admission.environment(has_params=has_params, is_mutation=True)
        variables = admission.Variables(environment, named)
        self.mutations = [Mutation(m, variables) for m in spec.get("mutations") or ()]

    def applies(self, bindings: Bindings) -> bool:
        """Return whether the match conditions hold. Raises MutationFailed."""
        failures = self._conditions.failures(bindings)
        if failures:
            raise MutationFailed(conditions.join_failures(failures))
        return failures is not None


class Mutation:
    """One mutation."""

    def __init__(self, source: Mapping[str, Any], variables: admission.Variables) -> None:
        self._is_patch = source.get("patchType") == "JSONPatch"
        form = source.get("jsonPatch" if self._is_patch else "applyConfiguration") or {}
        self._expression = Expression(form.get("expression", ""), variables.environment)
        self._variables = variables

    def patched(self, target: Resource, bindings: Bindings) -> Object | None:
        """Return the changed object, None without a change. Raises MutationFailed."""
        budget = cel.Budget()
        scope = {**bindings, "variables": self._variables.bind(bindings, budget=budget)}
        try:
            value = self._expression.evaluate(scope, budget=budget)
        except (ExpressionFailed, BudgetExceeded) as error:
            raise MutationFailed(str(error)) from None
        _check_size(value)
        if self._is_patch:
            return _patched(bindings["object"], value)
        return _merged(target, bindings["object"], value)


def _patched(obj: Object, value: Any) -> Object | None:
    if not isinstance(value, list):
        raise MutationFailed(f"unsupported return type from JSONPatch expression: {type_of(value)}")
    operations = [_plain(operation) for operation in value]
    if not operations:
        return None
    try:
        return patches.apply(obj, operations)
    except errors.ApiError as error:
        why = error.message.removeprefix("Internal error occurred: ")
        if why.startswith(_TEST_FAILED):
            return None  # as in Kubernetes, a failed test skips the patch
        raise MutationFailed(f"JSON Patch: {why}") from None


def _merged(target: Resource, obj: Object, value: Any) -> Object:
    if not isinstance(value, ObjectValue):
        raise MutationFailed(
            f"unsupported return type from ApplyConfiguration expression: {type_of(value)}"
        )
    why = mutation.type_problem(value)
    if why:
        raise MutationFailed(f"type mismatch: {why}")
    patch = {**_plain(value), "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    shape = shape_of(target.node)
    problems = typedvalues.validate(shape, patch)
    if problems:
        raise MutationFailed(
            "error applying patch: failed to convert patch object to typed object: "
            + typedvalues.aggregate(problems)
        )
    atomic = _atomic_parts(shape, patch, "")
    if atomic:
        raise MutationFailed(
            "error applying patch: invalid ApplyConfiguration: "
            f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        )
    try:
        merged = typedvalues.merge(shape, obj, patch)
    except ItemError as error:
        raise MutationFailed(f"error applying patch: failed to merge patch: {error}") from None
    # The result shares nothing with the object, which later mutations modify.
    copy: Object = orjson.loads(orjson.dumps(merged))
    return copy


def _atomic_parts(shape: Shape, value: Any, path: str) -> list[str]:
    """Return the paths at which a value would replace a whole object or list."""
    found: list[str] = []
    if isinstance(value, dict):
        if not shape.granular:
            return [path]
        members, element = shape.members or {}, shape.element or DEDUCED
        for name, below in value.items():
            declared = members.get(name)
            found += _atomic_parts(declared[1] if declared else element, below, f"{path}.{name}")
    elif isinstance(value, list):
        if not shape.associative:
            return [path]
        for i, below in enumerate(value):
            found += _atomic_parts(shape.item or DEDUCED, below, f"{path}[{i}]")
    return found


def _check_size(value: Any) -> None:
    """Raise MutationFailed for a value that is too large.

    Its parts may occur in it any number of times, which costs an expression nothing.
    """
    left = MAX_RESULT_BYTES
    pending = [value]
    while pending:
        part = pending.pop()
        left -= len(part) + 1 if isinstance(part, str | list | dict) else 1
        if left < 0:
            raise MutationFailed(f"the result is larger than {MAX_RESULT_BYTES} bytes")
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part


def _plain(value: Any) -> Any:
    """Return the JSON value of a CEL value. Raises MutationFailed if it has none."""
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise MutationFailed("the keys of a map in a mutation must be strings")
        return {name: _plain(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_plain(below) for below in value]
    if isinstance(value, Uint):
        return int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Optional):
        raise MutationFailed("an optional value must be unwrapped in a mutation")
    if isinstance(value, Timestamp):
        from rdd.cel.library import time

        return time.format_timestamp(value)
    raise MutationFailed(f"unsupported value of type {type_of(value)} in a mutation")
