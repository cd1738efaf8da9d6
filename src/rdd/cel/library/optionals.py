# SPDX-License-Identifier: Apache-2.0
"""Optional values: `optional.of`, `hasValue`, `value`, `[?…]`, …

`or` and `orValue` evaluate their argument only when it is needed; the compiler
does that, what is declared here is their meaning for two values.
"""

from typing import Any

from rdd.cel import types as t
from rdd.cel.errors import NoSuchOverload
from rdd.cel.functions import Library
from rdd.cel.library.operators import index
from rdd.cel.values import NONE, Duration, Optional

LIBRARY = Library()
_V, _K = t.param("V"), t.param("K")
_OPTIONAL = t.optional_of(_V)
_LIST, _MAP = t.list_of(_V), t.map_of(_K, _V)


def is_zero(value: Any) -> bool:
    """Return whether a value is the empty one of its type."""
    if isinstance(value, Duration):
        return value.ns == 0
    return value is None or (
        isinstance(value, bool | int | float | str | bytes | list | dict) and not value
    )


def _of_non_zero(value: Any) -> Optional:
    return NONE if is_zero(value) else Optional(value)


def optional_index(container: Any, key: Any) -> Optional:
    """container[?key]: the element if it is there."""
    if isinstance(container, Optional):
        if container is NONE:
            return NONE
        container = container.value
    if isinstance(container, dict):
        try:
            return Optional(container[key]) if key in container else NONE
        except TypeError:
            return NONE
    if not isinstance(container, list):
        raise NoSuchOverload()
    if type(key) is int and not 0 <= key < len(container):
        return NONE
    return Optional(index(container, key))


def optional_select(operand: Any, key: str) -> Optional:
    """operand.?key: the field if it is there; of an absent operand, nothing."""
    if isinstance(operand, Optional):
        if operand is NONE:
            return NONE
        operand = operand.value
    if isinstance(operand, dict):
        return Optional(operand[key]) if key in operand else NONE
    return NONE


def _first(items: list[Any]) -> Optional:
    return Optional(items[0]) if items else NONE


def _last(items: list[Any]) -> Optional:
    return Optional(items[-1]) if items else NONE


def _unwrap(items: list[Optional]) -> list[Any]:
    return [item.value for item in items if item is not NONE]


def _declare() -> None:
    function, method = LIBRARY.function, LIBRARY.method
    function("optional.of", "optional_of", (_V,), _OPTIONAL, Optional)
    function("optional.ofNonZeroValue", "optional_ofNonZeroValue", (_V,), _OPTIONAL, _of_non_zero)
    function("optional.none", "optional_none", (), _OPTIONAL, lambda: NONE)
    function("optional.unwrap", "optional_unwrap", (t.list_of(_OPTIONAL),), _LIST, _unwrap)
    method("unwrapOpt", "optional_unwrapOpt", (t.list_of(_OPTIONAL),), _LIST, _unwrap)
    method("value", "optional_value", (_OPTIONAL,), _V, lambda o: o.value)
    method("hasValue", "optional_hasValue", (_OPTIONAL,), t.BOOL, lambda o: o is not NONE)
    method(
        "or",
        "optional_or_optional",
        (_OPTIONAL, _OPTIONAL),
        _OPTIONAL,
        lambda a, b: b if a is NONE else a,
    )
    method(
        "orValue", "optional_orValue_value", (_OPTIONAL, _V), _V,
        lambda a, b: b if a is NONE else a.value,
    )  # fmt: skip
    method("first", "list_first", (_LIST,), _OPTIONAL, _first)
    method("last", "list_last", (_LIST,), _OPTIONAL, _last)
    for name, container, key in (("list", _LIST, t.INT), ("map", _MAP, _K)):
        function("_[?_]", f"{name}_optindex_optional", (container, key), _OPTIONAL, optional_index)
        wrapped = (t.optional_of(container), key)
        function("_[?_]", f"optional_{name}_optindex_optional", wrapped, _OPTIONAL, optional_index)
        function("_[_]", f"optional_{name}_index", wrapped, _OPTIONAL, optional_index)


_declare()
