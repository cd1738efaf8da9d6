# SPDX-License-Identifier: Apache-2.0
"""`sets.contains`, `sets.equivalent`, `sets.intersects`: lists compared without order."""

from typing import Any

from rdd.cel import types as t
from rdd.cel.functions import Library
from rdd.cel.values import contains

LIBRARY = Library()


def _contains(items: list[Any], part: list[Any]) -> bool:
    return all(contains(items, item) for item in part)


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(contains(right, item) for item in left)


def _cost(left: list[Any], right: list[Any]) -> int:
    return 1 + len(left) * len(right)


def _declare() -> None:
    both = (t.list_of(t.param("T")),) * 2
    for name, impl, cost in (
        ("contains", _contains, _cost),
        ("equivalent", _equivalent, lambda a, b: 2 * _cost(a, b)),
        ("intersects", _intersects, _cost),
    ):
        LIBRARY.function(f"sets.{name}", f"list_sets_{name}_list", both, t.BOOL, impl, charge=cost)


_declare()
