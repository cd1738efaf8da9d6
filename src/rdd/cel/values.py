# SPDX-License-Identifier: Apache-2.0
"""Values of expressions.

JSON values are CEL values as they are: dict, list, str, int, float, bool, None;
nothing is wrapped or copied on the way into an expression. Where CEL has a type
that JSON lacks, a small class stands for it here. Two list classes carry the
meaning of `x-kubernetes-list-type`: a set compares without order and adds as a
union, a map list merges by its keys.

Python's equality is not CEL's (`True == 1`), so everything that is not known to
be two values of one plain type goes through `equal`.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from rdd.cel import types as t
from rdd.cel.errors import CostExceeded, EvaluationError, NoSuchOverload

MIN_INT, MAX_INT = -(1 << 63), (1 << 63) - 1
MAX_UINT = (1 << 64) - 1


class Uint(int):
    """An unsigned integer; compares and hashes like the int of the same value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Uint({int(self)})"


class Timestamp:
    """A point in time, in nanoseconds since 1970 (UTC)."""

    __slots__ = ("ns",)

    # The range of CEL timestamps: years 1 to 9999.
    MIN_NS, MAX_NS = -62135596800 * 10**9, 253402300800 * 10**9 - 1

    def __init__(self, ns: int) -> None:
        if not self.MIN_NS <= ns <= self.MAX_NS:
            raise EvaluationError("timestamp overflow")
        self.ns = ns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.ns == other.ns

    def __hash__(self) -> int:
        return hash((Timestamp, self.ns))

    def __repr__(self) -> str:
        return f"Timestamp({self.ns})"


class Duration:
    """A length of time in nanoseconds."""

    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        if not MIN_INT <= ns <= MAX_INT:
            raise EvaluationError("duration overflow")
        self.ns = ns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.ns == other.ns

    def __hash__(self) -> int:
        return hash((Duration, self.ns))

    def __repr__(self) -> str:
        return f"Duration({self.ns})"


class ObjectValue(dict[str, Any]):
    """An object that an expression constructs: its fields, and the name of its type."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str) -> None:
        super().__init__()
        self.type_name = type_name


class Optional:
    """A value that may be absent; `NONE` is the absent one."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def value(self) -> Any:
        """Return the value. Raises EvaluationError when it is absent."""
        if self is NONE:
            raise EvaluationError("optional.none() dereference")
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional):
            return False
        if self is NONE or other is NONE:
            return self is other
        return equal(self._value, other._value)

    def __hash__(self) -> int:
        return hash(Optional)

    def __repr__(self) -> str:
        return "optional.none()" if self is NONE else f"optional.of({self._value!r})"


NONE = Optional(None)


class SetList(list[Any]):
    """A list of `x-kubernetes-list-type: set`."""

    __slots__ = ()

    def plus(self, other: list[Any]) -> "SetList":
        """Return the union, in the order of first appearance."""
        result = SetList(self)
        result.extend(item for item in other if not contains(self, item))
        return result

    def equals(self, other: list[Any]) -> bool:
        """Return whether both have the same items in any order."""
        return len(self) == len(other) and all(contains(other, item) for item in self)


class MapList(list[Any]):
    """A list of `x-kubernetes-list-type: map`: items are entries, found by their key fields."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def _entries(self, items: list[Any]) -> dict[tuple[Any, ...], Any]:
        return {tuple(item.get(k) for k in self.keys): item for item in items}

    def plus(self, other: list[Any]) -> "MapList":
        """Return entries of this list, those of the other replacing what has the same key."""
        entries = self._entries(self)
        entries.update(self._entries(other))
        return MapList(list(entries.values()), self.keys)

    def equals(self, other: list[Any]) -> bool:
        """Return whether both have equal entries for the same keys."""
        if len(self) != len(other):
            return False
        entries = self._entries(other)
        missing = object()
        return all(
            equal(item, entries.get(key, missing)) for key, item in self._entries(self).items()
        )


class _Steps(threading.local):
    """The elements of nested values that the running evaluation may still visit."""

    left = 1 << 62


steps = _Steps()


def visit(count: int) -> None:
    """Count the elements of a container before a function visits them.

    Costs depend on the length of a value alone, as in cel-go, but `[[v, v], [v, v]]` with a `v` of
    the same form, 40 levels deep, has a trillion elements. Raises CostExceeded.
    """
    steps.left -= count
    if steps.left < 0:
        raise CostExceeded(is_total=False)


_PLAIN = frozenset((str, int, bool, float, bytes, type(None), Uint))
NUMERIC = frozenset((int, float, Uint))


def equal(left: Any, right: Any) -> bool:
    """Return CEL equality of any two values: numbers across types, otherwise only within a type."""
    left_type, right_type = type(left), type(right)
    if left_type is right_type and left_type in _PLAIN:
        return bool(left == right)
    if left_type in NUMERIC:
        return right_type in NUMERIC and bool(left == right)
    if isinstance(left, list):
        if not isinstance(right, list):
            return False
        visit(len(left))
        if left_type is not list:
            return bool(left.equals(right))  # type: ignore[attr-defined]
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        visit(len(left))
        missing = object()
        return all(equal(value, right.get(key, missing)) for key, value in left.items())
    return left_type is right_type and bool(left == right)


def contains(items: list[Any], item: Any) -> bool:
    """Return whether a list has an equal item."""
    # Strings equal only strings, so the search of the interpreter gives the same answer.
    if type(item) is str:
        return item in items
    return any(equal(item, other) for other in items)


# The type of a value as `type()` gives it, by its class. Libraries add theirs.
TYPES: dict[type, t.Type] = {
    bool: t.BOOL,
    int: t.INT,
    Uint: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
    list: t.LIST,
    SetList: t.LIST,
    MapList: t.LIST,
    dict: t.MAP,
    Timestamp: t.TIMESTAMP,
    Duration: t.DURATION,
    Optional: t.optional_of(t.DYN),
    t.Type: t.TYPE,
}


def type_of(value: Any) -> t.Type:
    """Return the CEL type of a value."""
    found = TYPES.get(type(value))
    if found is None:
        found = t.MAP if isinstance(value, Mapping) else t.DYN
    return found


def size_of(value: Any) -> int:
    """Return the size that costs are computed from: length where a value has one, else 1."""
    return len(value) if isinstance(value, str | list | dict | bytes) else 1


def no_such_overload(function: str, *args: Any) -> EvaluationError:
    """Return the error of a function that has no version for the types of its arguments."""
    return NoSuchOverload(f"{function}({', '.join(type_of(a).name for a in args)})")


_MATCHERS: dict[str, Callable[[Any], bool]] = {
    t.K_BOOL: lambda v: type(v) is bool,
    t.K_INT: lambda v: type(v) is int,
    t.K_UINT: lambda v: type(v) is Uint,
    t.K_DOUBLE: lambda v: type(v) is float,
    t.K_STRING: lambda v: type(v) is str,
    t.K_BYTES: lambda v: type(v) is bytes,
    t.K_NULL: lambda v: v is None,
    t.K_LIST: lambda v: isinstance(v, list),
    t.K_MAP: lambda v: isinstance(v, dict),
    t.K_TIMESTAMP: lambda v: type(v) is Timestamp,
    t.K_DURATION: lambda v: type(v) is Duration,
    t.K_TYPE: lambda v: isinstance(v, t.Type),
}


def matcher(declared: t.Type) -> Callable[[Any], bool] | None:
    """Return a test whether a value has a declared type; None when any value has."""
    if declared.kind in (t.K_DYN, t.K_PARAM, t.K_ERROR):
        return None
    found = _MATCHERS.get(declared.kind)
    if found is not None:
        return found
    name = declared.name
    return lambda value: type_of(value).name == name
