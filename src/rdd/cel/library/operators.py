# SPDX-License-Identifier: Apache-2.0
"""Operators: arithmetic, comparison, logic, membership, indexing, `size` and `type`.

The compiler inlines the common cases of known types; what is declared here is
what remains for values whose type is known only when they are there. Integers
have 64 bits and report overflow.
"""

import math
from collections.abc import Callable
from typing import Any

from rdd.cel import types as t
from rdd.cel.errors import EvaluationError, NoSuchOverload
from rdd.cel.functions import TRAVERSAL, Library
from rdd.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NUMERIC,
    Duration,
    MapList,
    SetList,
    Timestamp,
    Uint,
    contains,
    equal,
    size_of,
    type_of,
)

LIBRARY = Library()
_A, _B = t.param("A"), t.param("B")
_LIST, _MAP = t.list_of(_A), t.map_of(_A, _B)


def checked_int(value: int) -> int:
    """Return a result of integer arithmetic.

    Raises EvaluationError when it has more than 64 bits.
    """
    if MIN_INT <= value <= MAX_INT:
        return value
    raise EvaluationError("integer overflow")


def checked_uint(value: int) -> Uint:
    """Return a result of unsigned arithmetic. Raises EvaluationError when out of range."""
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def add_int(left: int, right: int) -> int:
    """left + right."""
    return checked_int(left + right)


def subtract_int(left: int, right: int) -> int:
    """left - right."""
    return checked_int(left - right)


def multiply_int(left: int, right: int) -> int:
    """left * right."""
    return checked_int(left * right)


def divide_int(left: int, right: int) -> int:
    """left / right, towards zero."""
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def modulo_int(left: int, right: int) -> int:
    """left % right, with the sign of the left side."""
    if right == 0:
        raise EvaluationError("modulus by zero")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def negate_int(value: int) -> int:
    """-value."""
    return checked_int(-value)


def _divide_uint(left: int, right: int) -> Uint:
    if right == 0:
        raise EvaluationError("division by zero")
    return Uint(int(left) // int(right))


def _modulo_uint(left: int, right: int) -> Uint:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return Uint(int(left) % int(right))


def divide_double(left: float, right: float) -> float:
    """left / right as IEEE 754 has it: a division by zero is infinite, or not a number."""
    if right == 0.0:
        if left == 0.0 or left != left:
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def add_lists(left: list[Any], right: list[Any]) -> list[Any]:
    """left + right; sets and map lists add in their own way."""
    if isinstance(left, SetList | MapList):
        return left.plus(right)
    return [*left, *right]


def list_addition_cost(left: list[Any], right: list[Any]) -> int:
    """1 in Kubernetes; copying a long list takes time here, so length counts a little."""
    return 1 + ((len(left) + len(right)) >> 3)


def _concatenation_cost(left: Any, right: Any) -> int:
    return math.ceil((len(left) + len(right)) * TRAVERSAL)


_DOUBLE_OPS: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: float(a) + b,
    "subtract": lambda a, b: float(a) - b,
    "multiply": lambda a, b: float(a) * b,
    "divide": divide_double,
}


def _declare_arithmetic() -> None:
    ints = {
        "add": add_int,
        "subtract": subtract_int,
        "multiply": multiply_int,
        "divide": divide_int,
        "modulo": modulo_int,
    }
    uints: dict[str, Callable[[int, int], Uint]] = {
        "add": lambda a, b: checked_uint(int(a) + int(b)),
        "subtract": lambda a, b: checked_uint(int(a) - int(b)),
        "multiply": lambda a, b: checked_uint(int(a) * int(b)),
        "divide": _divide_uint,
        "modulo": _modulo_uint,
    }
    signs = {"add": "_+_", "subtract": "_-_", "multiply": "_*_", "divide": "_/_", "modulo": "_%_"}
    for name, function in signs.items():
        LIBRARY.function(function, f"{name}_int64", (t.INT, t.INT), t.INT, ints[name])
        LIBRARY.function(function, f"{name}_uint64", (t.UINT, t.UINT), t.UINT, uints[name])
        if name != "modulo":
            args = (t.DOUBLE, t.DOUBLE)
            LIBRARY.function(function, f"{name}_double", args, t.DOUBLE, _DOUBLE_OPS[name])
    LIBRARY.function("-_", "negate_int64", (t.INT,), t.INT, negate_int)
    LIBRARY.function("-_", "negate_double", (t.DOUBLE,), t.DOUBLE, lambda v: -float(v))
    for kind in (t.STRING, t.BYTES):
        LIBRARY.function(
            "_+_",
            f"add_{kind.name}",
            (kind, kind),
            kind,
            lambda a, b: a + b,
            charge=_concatenation_cost,
        )
    LIBRARY.function("_+_", "add_list", (_LIST, _LIST), _LIST, add_lists, charge=list_addition_cost)


def _declare_time_arithmetic() -> None:
    when, span = t.TIMESTAMP, t.DURATION

    def later(a: Timestamp, b: Duration) -> Timestamp:
        return Timestamp(a.ns + b.ns)

    def between(a: Timestamp, b: Timestamp) -> Duration:
        return Duration(a.ns - b.ns)

    LIBRARY.function("_+_", "add_timestamp_duration", (when, span), when, later)
    LIBRARY.function("_+_", "add_duration_timestamp", (span, when), when, lambda a, b: later(b, a))
    LIBRARY.function(
        "_+_", "add_duration_duration", (span, span), span, lambda a, b: Duration(a.ns + b.ns)
    )
    LIBRARY.function("_-_", "subtract_timestamp_timestamp", (when, when), span, between)
    LIBRARY.function(
        "_-_", "subtract_timestamp_duration", (when, span), when,
        lambda a, b: Timestamp(a.ns - b.ns),
    )  # fmt: skip
    LIBRARY.function(
        "_-_", "subtract_duration_duration", (span, span), span, lambda a, b: Duration(a.ns - b.ns)
    )


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1 for two values of types that have an order. Raises EvaluationError otherwise."""
    left_type, right_type = type(left), type(right)
    if left_type in NUMERIC:
        if right_type not in NUMERIC:
            raise NoSuchOverload()
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
    elif left_type is not right_type:
        raise NoSuchOverload()
    elif left_type is Timestamp or left_type is Duration:
        left, right = left.ns, right.ns
    elif left_type not in (str, bytes, bool):
        raise NoSuchOverload()
    return -1 if left < right else int(left > right)


ORDERED = (
    t.BOOL, t.INT, t.UINT, t.DOUBLE, t.STRING, t.BYTES, t.TIMESTAMP, t.DURATION,
)  # fmt: skip
_ORDER_NAMES = {
    "bool": "bool", "int": "int64", "uint": "uint64", "double": "double", "string": "string",
    "bytes": "bytes", t.K_TIMESTAMP: "timestamp", t.K_DURATION: "duration",
}  # fmt: skip
COMPARISONS: dict[str, tuple[str, Callable[[int], bool]]] = {
    "_<_": ("less", lambda c: c < 0),
    "_<=_": ("less_equals", lambda c: c <= 0),
    "_>_": ("greater", lambda c: c > 0),
    "_>=_": ("greater_equals", lambda c: c >= 0),
}


def comparison_cost(left: Any, right: Any) -> int:
    """Return the cost of comparing: a pass over the shorter side, 1 for numbers."""
    return math.ceil(min(size_of(left), size_of(right)) * TRAVERSAL)


def _declare_comparisons() -> None:
    numbers = (t.INT, t.UINT, t.DOUBLE)
    for function, (name, test) in COMPARISONS.items():
        impl = _comparison(test)
        for kind in ORDERED:
            is_text = kind in (t.STRING, t.BYTES)
            LIBRARY.function(
                function,
                f"{name}_{_ORDER_NAMES[kind.kind]}",
                (kind, kind),
                t.BOOL,
                impl,
                charge=comparison_cost if is_text else None,
            )
        for left in numbers:
            for right in numbers:
                if left is not right:
                    names = f"{_ORDER_NAMES[left.kind]}_{_ORDER_NAMES[right.kind]}"
                    LIBRARY.function(function, f"{name}_{names}", (left, right), t.BOOL, impl)


def _comparison(test: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: test(compare(left, right))


def index(container: Any, key: Any) -> Any:
    """container[key] of a list or map."""
    if isinstance(container, dict):
        try:
            return container[key]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {shown_key(key)}") from None
    if not isinstance(container, list):
        raise EvaluationError(f"no such key: {shown_key(key)}")
    position = key
    if type(key) is float and key.is_integer():
        position = int(key)
    elif type(key) not in (int, Uint):
        raise EvaluationError(f"unsupported index type '{type_of(key).name}' in list")
    if 0 <= position < len(container):
        return container[position]
    raise EvaluationError(f"index out of bounds: {shown_key(key)}")


def shown_key(key: Any) -> str:
    """Return a key as errors show it."""
    if key is True or key is False:
        return "true" if key else "false"
    return str(int(key)) if isinstance(key, Uint) else str(key)


def is_in(item: Any, container: Any) -> bool:
    """item in container."""
    if isinstance(container, dict):
        try:
            return item in container
        except TypeError:
            return False
    if isinstance(container, list):
        return contains(container, item)
    raise NoSuchOverload()


def _map_insert(target: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in target:
        raise EvaluationError(f"insert failed: key {shown_key(key)} already exists")
    return {**target, key: value}


def _negated(value: bool) -> bool:
    return not value


def _declare_rest() -> None:
    same = (_A, _A)
    LIBRARY.function("_==_", "equals", same, t.BOOL, equal, charge=comparison_cost)
    LIBRARY.function(
        "_!=_", "not_equals", same, t.BOOL, lambda a, b: not equal(a, b), charge=comparison_cost
    )
    LIBRARY.function("!_", "logical_not", (t.BOOL,), t.BOOL, _negated)
    LIBRARY.function("@not_strictly_false", "not_strictly_false", (t.BOOL,), t.BOOL, bool)
    LIBRARY.function("_&&_", "logical_and", (t.BOOL, t.BOOL), t.BOOL, bool)
    LIBRARY.function("_||_", "logical_or", (t.BOOL, t.BOOL), t.BOOL, bool)
    LIBRARY.function("_?_:_", "conditional", (t.BOOL, _A, _A), _A, bool)
    LIBRARY.function("_[_]", "index_list", (_LIST, t.INT), _A, index)
    LIBRARY.function("_[_]", "index_map", (_MAP, _A), _B, index)
    LIBRARY.function("@in", "in_list", (_A, _LIST), t.BOOL, is_in, charge=lambda _, c: len(c))
    LIBRARY.function("@in", "in_map", (_A, _MAP), t.BOOL, is_in)
    LIBRARY.function("type", "type", (_A,), t.type_of_type(_A), type_of)
    sizes = (("string", t.STRING), ("bytes", t.BYTES), ("list", _LIST), ("map", _MAP))
    for name, kind in sizes:
        LIBRARY.function("size", f"size_{name}", (kind,), t.INT, len)
        LIBRARY.method("size", f"{name}_size", (kind,), t.INT, len)
    LIBRARY.function(
        "cel.@mapInsert", "@mapInsert_map_key_value", (_MAP, _A, _B), _MAP, _map_insert
    )
    LIBRARY.function("cel.@mapInsert", "@mapInsert_map_map", (_MAP, _MAP), _MAP, lambda a, b: a | b)


_declare_arithmetic()
_declare_time_arithmetic()
_declare_comparisons()
_declare_rest()
