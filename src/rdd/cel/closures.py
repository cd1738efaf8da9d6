# SPDX-License-Identifier: Apache-2.0
"""The closures that expressions are made of.

Each function here builds one: from the closures of its operands, a function of a
frame. What is known when an expression is compiled is decided here and not when
it runs: how long a chain of keys is, which overload a call has, whether a value
needs converting.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from rdd.cel import types as t
from rdd.cel.ast import Call, Literal, Node, Select
from rdd.cel.checker import constant_type, is_variable
from rdd.cel.errors import CostExceeded, EvaluationError, NoSuchOverload
from rdd.cel.functions import TRAVERSAL, Overload
from rdd.cel.library.operators import (
    add_int,
    comparison_cost,
    divide_int,
    modulo_int,
    multiply_int,
    subtract_int,
)
from rdd.cel.library.optionals import optional_select
from rdd.cel.readers import Reader
from rdd.cel.values import NONE, Optional, equal, matcher, no_such_overload, type_of

Frame = list[Any]
Run = Callable[[Frame], Any]


def spend(frame: Frame, cost: int) -> None:
    """Take a cost from what is left. Raises CostExceeded when that is too little."""
    frame[0] -= cost
    if frame[0] < 0:
        raise CostExceeded(is_total=False)


def inner_type(optional: t.Type) -> t.Type:
    """Return the type of what an optional holds."""
    return optional.params[0] if t.is_optional(optional) else t.DYN


def some(value: Any) -> Any:
    """Return what a present optional holds."""
    if not isinstance(value, Optional):
        raise NoSuchOverload()
    return value.value


def constant(value: Any) -> Run:
    """Return always the same value."""
    return lambda frame: value


def variable(slot: int) -> Run:
    """Return the variable in a slot."""
    return lambda frame: frame[slot]


def is_plain(node: Select) -> bool:
    """Return whether a selection is one step of a chain of plain keys."""
    return (
        not node.test_only
        and not is_variable(node)
        and constant_type(node) is None
        and not t.is_optional(node.operand.type)
    )


def _missing(value: Any, steps: list[tuple[str, str]]) -> EvaluationError:
    """Return the error of a chain of keys that failed: which key was not there."""
    for key, name in steps:
        try:
            value = value[key]
        except (KeyError, TypeError, IndexError):
            return EvaluationError(f"no such key: {name}")
    raise AssertionError("the chain does not fail")


def variable_chain(slot: int, steps: list[tuple[str, str]]) -> Run:
    """Return `variable.a.b`; steps are keys, and names for errors."""
    keys = [key for key, _ in steps]
    first = keys[0]
    if len(keys) == 1:

        def one(frame: Frame) -> Any:
            try:
                return frame[slot][first]
            except (KeyError, TypeError):
                raise _missing(frame[slot], steps) from None

        return one
    second = keys[1]
    if len(keys) == 2:

        def two(frame: Frame) -> Any:
            try:
                return frame[slot][first][second]
            except (KeyError, TypeError):
                raise _missing(frame[slot], steps) from None

        return two
    return chain(variable(slot), steps)


def chain(operand: Run, steps: list[tuple[str, str]]) -> Run:
    """Return `operand.a.b.c`."""
    keys = [key for key, _ in steps]

    def run(frame: Frame) -> Any:
        value = start = operand(frame)
        try:
            for key in keys:
                value = value[key]
        except (KeyError, TypeError):
            raise _missing(start, steps) from None
        return value

    return run


def presence(operand: Run, key: str) -> Run:
    """Return `has(operand.key)`."""

    def run(frame: Frame) -> bool:
        value = operand(frame)
        return isinstance(value, dict) and key in value

    return run


def optional_field(operand: Run, key: str, convert: Reader | None) -> Run:
    """Return `operand.?key`."""

    def run(frame: Frame) -> Optional:
        found = optional_select(operand(frame), key)
        if found is NONE:
            return found
        value = found.value
        if isinstance(value, Optional):
            return value
        return found if convert is None else Optional(convert(value))

    return run


# -- logic


def all_true(operands: list[Run]) -> Run:
    """Return `&&`: false wins over an error, wherever it stands."""
    first, *others = operands

    def run(frame: Frame) -> bool:
        error: EvaluationError | None = None
        try:
            value = first(frame)
            if value is False:
                return False
            if value is not True:
                error = NoSuchOverload()
        except EvaluationError as caught:
            error = caught
        for operand in others:
            try:
                value = operand(frame)
            except EvaluationError as caught:
                error = error or caught
                continue
            if value is False:
                return False
            if value is not True:
                error = error or NoSuchOverload()
        if error is not None:
            raise error
        return True

    return run


def any_true(operands: list[Run]) -> Run:
    """Return `||`: true wins over an error, wherever it stands."""
    first, *others = operands

    def run(frame: Frame) -> bool:
        error: EvaluationError | None = None
        try:
            value = first(frame)
            if value is True:
                return True
            if value is not False:
                error = NoSuchOverload()
        except EvaluationError as caught:
            error = caught
        for operand in others:
            try:
                value = operand(frame)
            except EvaluationError as caught:
                error = error or caught
                continue
            if value is True:
                return True
            if value is not False:
                error = error or NoSuchOverload()
        if error is not None:
            raise error
        return False

    return run


# -- equality

PLAIN_EQUALITY = frozenset(
    (t.K_STRING, t.K_INT, t.K_UINT, t.K_BOOL, t.K_DOUBLE, t.K_BYTES, t.K_TIMESTAMP, t.K_DURATION)
)


def is_comparable_natively(declared: t.Type) -> bool:
    """Return whether Python compares values of a type as CEL does.

    It does not when a boolean could meet a number, nor for what is converted
    before it is compared; it is ten times as fast on whole objects.
    """
    if declared.kind in (t.K_LIST, t.K_MAP):
        return declared.list_type == "atomic" and all(map(is_comparable_natively, declared.params))
    if declared.kind is t.K_OBJECT:
        fields = declared.fields.values()
        return bool(fields) and all(is_comparable_natively(field.type) for field in fields)
    return declared.kind in (t.K_STRING, t.K_INT, t.K_BOOL)


def has_literal(node: Call) -> bool:
    """Return whether an operand is written down."""
    return any(isinstance(arg, Literal) for arg in node.args)


def equality_cost(node: Call) -> int:
    """Return the fixed cost of comparing: all of it for numbers and for literal texts."""
    kinds = {arg.type.kind for arg in node.args}
    if len(kinds) > 1 or not kinds <= PLAIN_EQUALITY:
        return 0
    if kinds <= {t.K_STRING, t.K_BYTES}:
        lengths = [len(arg.value) for arg in node.args if isinstance(arg, Literal)]
        return math.ceil(min(lengths) * TRAVERSAL) if lengths else 0
    return 1


def plain_equality(
    left: Node, right: Node, left_run: Run, right_run: Run, *, is_negated: bool
) -> Run:
    """Return comparison of values of one plain type."""
    if isinstance(left, Literal):
        left, right, left_run, right_run = right, left, right_run, left_run
    if isinstance(right, Literal):
        value = right.value
        if is_negated:
            return lambda frame: left_run(frame) != value
        return lambda frame: left_run(frame) == value
    if is_negated:
        return lambda frame: left_run(frame) != right_run(frame)
    return lambda frame: left_run(frame) == right_run(frame)


def charged_equality(left: Run, right: Run, *, is_negated: bool) -> Run:
    """Return comparison of two values that Python compares as CEL does, but for a cost."""

    def run(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        spend(frame, comparison_cost(a, b))
        return (a == b) is not is_negated

    return run


def general_equality(left: Run, right: Run, *, is_negated: bool) -> Run:
    """Return comparison of any two values."""

    def run(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        spend(frame, comparison_cost(a, b))
        return equal(a, b) is not is_negated

    return run


# -- calls of functions


def direct(overload: Overload, runs: list[Run]) -> Run:
    """Return a call whose overload is known."""
    impl, charge = overload.impl, overload.charge
    if charge is None and len(runs) == 1:
        (only,) = runs

        def unary(frame: Frame) -> Any:
            try:
                return impl(only(frame))
            except (TypeError, AttributeError) as error:
                raise _mismatch(overload, [only(frame)]) from error

        return unary

    def call(frame: Frame) -> Any:
        args = [run(frame) for run in runs]
        try:
            if charge is not None:
                frame[0] -= charge(*args)
                if frame[0] < 0:
                    raise CostExceeded(is_total=False)
            return impl(*args)
        except (TypeError, AttributeError) as error:
            raise _mismatch(overload, args) from error

    return call


def _mismatch(overload: Overload, args: list[Any]) -> EvaluationError:
    """Return a value differs from its declared type when it is null, and then no overload fits."""
    return _unmatched(overload.function, args)


def dispatched(node: Call, runs: list[Run]) -> Run:
    """Return a call whose overload depends on the values."""
    choices = [
        ([(i, test) for i, arg in enumerate(o.args) if (test := matcher(arg)) is not None], o)
        for o in node.overloads
    ]
    name = node.function

    def run(frame: Frame) -> Any:
        args = [each(frame) for each in runs]
        for tests, overload in choices:
            if all(test(args[i]) for i, test in tests):
                if overload.charge is not None:
                    spend(frame, overload.charge(*args))
                return overload.impl(*args)
        raise _unmatched(name, args)

    return run


_NUMBERS = frozenset((t.K_INT, t.K_UINT, t.K_DOUBLE))
_TIMES = frozenset((t.K_TIMESTAMP, t.K_DURATION))
_TEXTS = frozenset((t.K_STRING, t.K_BYTES))
_ORDERED = _NUMBERS | _TIMES | _TEXTS | {t.K_BOOL}
# Functions that are an ability of their first operand, and who has it.
_ABILITIES: dict[str, frozenset[str]] = {
    "_+_": _NUMBERS | _TIMES | _TEXTS | {t.K_LIST},
    "_-_": _NUMBERS | _TIMES,
    "_*_": _NUMBERS,
    "_/_": _NUMBERS,
    "_%_": frozenset((t.K_INT, t.K_UINT)),
    "-_": frozenset((t.K_INT, t.K_DOUBLE)),
    "_<_": _ORDERED,
    "_<=_": _ORDERED,
    "_>_": _ORDERED,
    "_>=_": _ORDERED,
    "size": frozenset(),
    "matches": frozenset((t.K_STRING,)),
}
_NAMELESS = frozenset(("contains", "startsWith", "endsWith", "!_", "@in", "_[?_]"))


def _unmatched(function: str, args: list[Any]) -> EvaluationError:
    """Return the error of a call that no overload fits, as brief as cel-go's."""
    able = _ABILITIES.get(function)
    if able is not None and type_of(args[0]).kind not in able:
        return NoSuchOverload(function)
    if able is not None or function in _NAMELESS:
        return NoSuchOverload()
    return no_such_overload(function, *args)


# -- operations that are worth a closure of their own


def _binary(operation: Callable[[Any, Any], Any]) -> Callable[[Run, Run], Run]:
    def build(left: Run, right: Run) -> Run:
        def run(frame: Frame) -> Any:
            try:
                return operation(left(frame), right(frame))
            except TypeError:
                raise NoSuchOverload() from None

        return run

    return build


def _unary(operation: Callable[[Any], Any]) -> Callable[[Run], Run]:
    def build(operand: Run) -> Run:
        def run(frame: Frame) -> Any:
            try:
                return operation(operand(frame))
            except TypeError:
                raise NoSuchOverload() from None

        return run

    return build


INLINED: dict[str, Callable[..., Run]] = {
    "add_int64": _binary(add_int),
    "subtract_int64": _binary(subtract_int),
    "multiply_int64": _binary(multiply_int),
    "divide_int64": _binary(divide_int),
    "modulo_int64": _binary(modulo_int),
    "less_int64": _binary(operator.lt),
    "less_equals_int64": _binary(operator.le),
    "greater_int64": _binary(operator.gt),
    "greater_equals_int64": _binary(operator.ge),
    "logical_not": _unary(operator.not_),
    **dict.fromkeys(
        ("string_size", "size_string", "list_size", "size_list", "map_size", "size_map"),
        _unary(len),
    ),
}
"""Closures of the most frequent overloads."""
