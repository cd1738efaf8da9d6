# SPDX-License-Identifier: Apache-2.0
"""Functions of lists: the Kubernetes library and version 3 of the lists extension."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.functions import TRAVERSAL, Library
from rdd.cel.library.operators import ORDERED, checked_int, checked_uint, compare
from rdd.cel.values import Duration, contains, equal, type_of, visit

LIBRARY = Library()
_T = t.param("T")
_LIST = t.list_of(_T)

# In the order of cel-go: the first overload decides what an empty list contains.
_KINDS = (t.INT, t.UINT, t.DOUBLE, t.BOOL, t.DURATION, t.TIMESTAMP, t.STRING, t.BYTES)

_CALL_COST, _LIST_COST = 1, 10
_MAX_RANGE = 10_000_000


def traversal_cost(value: Any, *_: Any) -> int:
    """Return the cost of looking at everything in a value."""
    total = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str | bytes):
            total += int(len(item) * TRAVERSAL)
        elif isinstance(item, list):
            visit(len(item))
            pending.extend(item)
        elif isinstance(item, dict):
            visit(len(item))
            pending.extend(item)
            pending.extend(item.values())
        else:
            total += 1
    return total


def _is_sorted(items: list[Any]) -> bool:
    return all(compare(items[i], items[i + 1]) <= 0 for i in range(len(items) - 1))


def _smallest(items: list[Any]) -> Any:
    if not items:
        raise EvaluationError("min called on empty list")
    return functools.reduce(lambda a, b: b if compare(b, a) < 0 else a, items)


def _largest(items: list[Any]) -> Any:
    if not items:
        raise EvaluationError("max called on empty list")
    return functools.reduce(lambda a, b: b if compare(b, a) > 0 else a, items)


_SUMS: dict[str, Callable[[Iterable[Any]], Any]] = {
    t.K_INT: lambda items: checked_int(sum(items)),
    t.K_UINT: lambda items: checked_uint(sum(int(item) for item in items)),
    t.K_DOUBLE: lambda items: float(sum(items)),
    t.K_DURATION: lambda items: Duration(sum(item.ns for item in items)),
}


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((i for i, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    positions = range(len(items) - 1, -1, -1)
    return next((i for i in positions if equal(items[i], wanted)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(items) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    result: list[Any] = items
    for _ in range(depth):
        if not any(isinstance(item, list) for item in result):
            break
        result = [
            inner for item in result for inner in (item if isinstance(item, list) else (item,))
        ]
    return result


def _flatten_cost(items: list[Any], depth: int = 1) -> int:
    return _allocation_cost(len(items) * max(1, min(depth, 1000)) + traversal_cost(items))


def _range(count: int) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _MAX_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({_MAX_RANGE})")
    return list(range(count))


def _sort(items: list[Any]) -> list[Any]:
    return _sort_by_keys(items, items)


def _sort_by_keys(items: list[Any], keys: list[Any]) -> list[Any]:
    if len(items) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys "
            f"list, but got {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    first = type_of(keys[0])
    if first not in ORDERED:
        raise EvaluationError("list elements must be comparable")
    if any(type_of(key) != first for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = functools.cmp_to_key(compare)
    return [items[i] for i in sorted(range(len(items)), key=lambda i: order(keys[i]))]


def _distinct(items: list[Any]) -> list[Any]:
    result: list[Any] = []
    for item in items:
        if not contains(result, item):
            result.append(item)
    return result


def _allocation_cost(size: int) -> int:
    return size + _CALL_COST + _LIST_COST


def _self_comparison_cost(items: list[Any], *_: Any) -> int:
    factor = 2.1 if items and isinstance(items[0], str | bytes) else 2.0
    return _allocation_cost(int(len(items) ** 2 * factor))


def _declare_kubernetes() -> None:
    method, cost = LIBRARY.method, traversal_cost
    for kind in _KINDS:
        name, items = str(kind), t.list_of(kind)
        method("isSorted", f"list_{name}_is_sorted_bool", (items,), t.BOOL, _is_sorted, charge=cost)
        method("min", f"list_{name}_min_{name}", (items,), kind, _smallest, charge=cost)
        method("max", f"list_{name}_max_{name}", (items,), kind, _largest, charge=cost)
        if kind.kind in _SUMS:
            total = _SUMS[kind.kind]
            method("sum", f"list_{name}_sum_{name}", (items,), kind, total, charge=cost)
    method("indexOf", "list_a_index_of_int", (_LIST, _T), t.INT, _index_of, charge=cost)
    method(
        "lastIndexOf", "list_a_last_index_of_int", (_LIST, _T), t.INT, _last_index_of, charge=cost
    )


def _declare_extension() -> None:
    method = LIBRARY.method
    method(
        "slice", "list_slice", (_LIST, t.INT, t.INT), _LIST, _slice,
        charge=lambda items, start, end: _allocation_cost(max(0, min(end, len(items)) - start)),
    )  # fmt: skip
    method("flatten", "list_flatten", (t.list_of(_LIST),), _LIST, _flatten, charge=_flatten_cost)
    method("flatten", "list_flatten_int", (t.LIST, t.INT), t.LIST, _flatten, charge=_flatten_cost)
    for kind in _KINDS:
        items = t.list_of(kind)
        method(
            "sort", f"list_{kind.name}_sort", (items,), items, _sort, charge=_self_comparison_cost
        )
        method(
            "@sortByAssociatedKeys",
            f"list_{kind.name}_sortByAssociatedKeys",
            (_LIST, items),
            _LIST,
            _sort_by_keys,
            charge=lambda _, keys: _self_comparison_cost(keys),
        )
    method(
        "reverse", "list_reverse", (_LIST,), _LIST, lambda items: items[::-1],
        charge=lambda items: _allocation_cost(len(items)),
    )  # fmt: skip
    method("distinct", "list_distinct", (_LIST,), _LIST, _distinct, charge=_self_comparison_cost)
    LIBRARY.function(
        "lists.range", "lists_range", (t.INT,), t.list_of(t.INT), _range,
        charge=lambda count: _allocation_cost(min(max(0, count), _MAX_RANGE)),
    )  # fmt: skip


_declare_kubernetes()
_declare_extension()
