# SPDX-License-Identifier: Apache-2.0
"""What calls cost at worst: one rule per function or overload that is not simply 1.

A rule gets what is known about sizes and the call, and gives the cost of the call
without its arguments and, where it is known, the size of the result. Rules
answer None where the general price applies. They are looked up in three tables,
in cel-go's order: those of the lists extension, Kubernetes' own, the standard.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from rdd.cel import types as t
from rdd.cel.ast import Call, Literal, Node
from rdd.cel.estimates import LIST_COST, MAX, OBJECT_COST, ONE, Estimate, cap, fixed
from rdd.cel.functions import REGEX, TRAVERSAL


class Result(NamedTuple):
    """The cost of a call, and the size of its result if that is known."""

    cost: Estimate
    size: Estimate | None = None


class Sizes(Protocol):
    """Known sizes of the values of expressions."""

    def size(self, node: Node) -> Estimate:
        """Return the size of a value; without any bound if nothing is known."""

    def known_size(self, node: Node) -> Estimate | None:
        """Return the size of a value, None if nothing is known."""

    def item_size(self, node: Node) -> Estimate:
        """Return the size of the items of a list."""

    def join_entries(self, node: Node, left: Node, right: Node) -> None:
        """Note that the items of a value are those of two others."""


Rule = Callable[[Sizes, Call, str], Result | None]


def _traverse(sizes: Sizes, node: Node) -> Estimate:
    """Return a pass over a value."""
    return sizes.size(node).scaled(TRAVERSAL)


def _over_list(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    """isSorted, sum, min, max, indexOf, lastIndexOf."""
    if node.target is None:
        return None
    size = sizes.size(node.target)
    if not node.target.type.params:
        return Result(size.scaled(TRAVERSAL))
    cost = ONE
    element = node.target.type.params[0]
    if element.kind in (t.K_STRING, t.K_BYTES):
        cost = cost.plus(sizes.item_size(node.target).scaled(TRAVERSAL))
    return Result(size.times(cost))


def _parse_argument(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    """url: a pass over the text, which is as long as the result."""
    size = sizes.size(node.args[0])
    return Result(size.scaled(TRAVERSAL), size)


def _parse_text(sizes: Sizes, node: Call, overload: str) -> Result | None:
    """ip, quantity and their like: a pass over the text."""
    if overload == "cidr_ip":
        return None
    return Result(sizes.size(node.args[0]).scaled(TRAVERSAL))


def _parse_twice(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    return Result(sizes.size(node.args[0]).scaled(2 * TRAVERSAL))


def _copy_target(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    if node.target is None:
        return None
    size = sizes.size(node.target)
    return Result(size.scaled(TRAVERSAL), size)


def _replace(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    assert node.target is not None
    size = sizes.size(node.target)
    old, new = (sizes.size(arg) for arg in node.args[:2])
    if old.min == 0:
        most, kept_most = cap(size.max + 1), size.max
    elif new.max <= old.min:
        most, kept_most = 0, size.max
    else:
        most, kept_most = math.ceil(float(size.max) / float(old.min)), 0
    if old.max == 0:
        least, kept_least = cap(size.min + 1), size.min
    elif old.max <= new.min:
        least, kept_least = 0, size.min
    else:
        least, kept_least = math.ceil(float(size.min) / float(old.max)), 0
    result = Estimate(least, most).times(new).plus(Estimate(kept_least, kept_most))
    return Result(size.scaled(2 * TRAVERSAL), result)


def _split(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    assert node.target is not None
    size = sizes.size(node.target)
    most = size.max
    if len(node.args) > 1:
        limit = node.args[1]
        if isinstance(limit, Literal) and type(limit.value) is int:
            most = limit.value % (1 << 64)
    return Result(size.scaled(2 * TRAVERSAL), Estimate(0, most))


def _join(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    assert node.target is not None
    count = sizes.size(node.target)
    size = count.times(sizes.item_size(node.target))
    if node.args:
        separators = Estimate(max(0, count.min - 1), max(0, count.max - 1))
        size = size.plus(sizes.size(node.args[0]).times(separators))
    return Result(size.scaled(TRAVERSAL), size)


def _regex(sizes: Sizes, text: Node, pattern: Node) -> Estimate:
    cost = sizes.size(text).plus(ONE).scaled(TRAVERSAL)
    return cost.times(sizes.size(pattern).scaled(REGEX))


def _find(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    assert node.target is not None
    most = sizes.size(node.target).max
    return Result(_regex(sizes, node.target, node.args[0]), Estimate(0, most))


def _contains_address(sizes: Sizes, node: Call, overload: str) -> Result | None:
    size = Estimate(4, 16)
    cost = size.plus(size).scaled(TRAVERSAL)
    if node.function == "containsCIDR":
        cost = cost.plus(size.scaled(TRAVERSAL)).plus(ONE)
    if overload.endswith("_string"):
        cost = cost.plus(_traverse(sizes, node.args[0]))
    return Result(cost)


def _validate(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    return Result(_traverse(sizes, node.args[0]).scaled(128 * REGEX))


def _selector(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    size = sizes.size(node.args[0])
    requirements = size.scaled(0.5).scaled(LIST_COST + OBJECT_COST)
    return Result(fixed(LIST_COST).plus(size.scaled(TRAVERSAL)).plus(requirements))


def _kubernetes_equality(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    left, right = node.args[0].type, node.args[1].type
    if not t.same(left, right) or left.name not in _CONSTANT_TIME_EQUALITY:
        return None
    if left.name == t.FORMAT.name:
        return Result(Estimate(1, 64).scaled(TRAVERSAL))
    if left.name == t.URL.name:
        size = sizes.known_size(node.args[1])
        return Result(Estimate(1, size.max if size else 1).scaled(TRAVERSAL))
    return Result(ONE)


def _argument_traversal(sizes: Sizes, node: Call, overload: str) -> Result | None:
    size = sizes.size(node.args[0])
    cost = size.scaled(TRAVERSAL)
    if overload == "string_to_bytes":
        return Result(cost, Estimate(size.min, cap(size.max * 4)))
    if overload == "bytes_to_string":
        return Result(cost, Estimate(size.min // 4, size.max))
    if overload == "strings_quote":
        return Result(cost, Estimate(cap(size.min + 2), cap(size.max * 2 + 2)))
    return Result(cost)


def _format(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    assert node.target is not None
    return Result(_traverse(sizes, node.target))


def _in_list(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    return Result(sizes.size(node.args[1]))


def _matches(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    if node.target is None:
        return None  # the global form is not priced by cel-go
    return Result(_regex(sizes, node.target, node.args[0]))


def _contains(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    assert node.target is not None
    return Result(_traverse(sizes, node.target).times(_traverse(sizes, node.args[0])))


def _concatenate(sizes: Sizes, node: Call, overload: str) -> Result | None:
    left, right = node.args
    size = sizes.size(left).plus(sizes.size(right))
    sizes.join_entries(node, left, right)
    return Result(ONE if overload == "add_list" else size.scaled(TRAVERSAL), size)


def _compare(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    left, right = (sizes.size(arg) for arg in node.args)
    most = min(left.max, right.max)
    return Result(Estimate(1 if most > 0 else 0, most).scaled(TRAVERSAL))


def _sets(sizes: Sizes, node: Call, overload: str) -> Result | None:
    left, right = (sizes.size(arg) for arg in node.args)
    cost = left.times(right)
    if "equivalent" in overload:
        cost = cost.scaled(2)
    return Result(cost.plus(ONE))


def _list_slice(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    assert node.target is not None
    size = sizes.size(node.target)
    start, end = _literal(node.args[0], 0), _literal(node.args[1], size.max)
    return _allocating(1, fixed((end - start) % (1 << 64)))


def _list_copy(sizes: Sizes, node: Call, overload: str) -> Result | None:
    assert node.target is not None
    depth = _literal(node.args[0], MAX) if overload == "list_flatten_int" else 1
    return _allocating(float(depth), sizes.size(node.target))


def _list_range(sizes: Sizes, node: Call, _overload: str) -> Result | None:
    return _allocating(1, fixed(_literal(node.args[0], MAX)))


def _list_sort(sizes: Sizes, node: Call, overload: str) -> Result | None:
    keys = node.args[0] if overload.endswith("AssociatedKeys") else node.target
    assert keys is not None
    size = sizes.size(keys)
    is_text = overload.startswith(("list_string_", "list_bytes_"))
    return _allocating(2.1 if is_text else 2.0, size.times(size))


def _allocating(factor: float, size: Estimate) -> Result:
    return Result(size.scaled(factor).plus(fixed(1 + LIST_COST)), size)


def _literal(node: Node, otherwise: int) -> int:
    """Return the value of a non-negative integer literal."""
    if isinstance(node, Literal) and type(node.value) is int and node.value >= 0:
        return node.value
    return otherwise


def _constant(cost: int) -> Rule:
    return lambda _sizes, _node, _overload: Result(fixed(cost))


_CONSTANT_TIME_EQUALITY = frozenset(
    kind.name
    for kind in (
        t.IP, t.CIDR, t.QUANTITY, t.SEMVER, t.AUTHORIZER, t.PATH_CHECK, t.GROUP_CHECK,
        t.RESOURCE_CHECK, t.DECISION, t.FORMAT, t.URL,
    )
)  # fmt: skip


# Overloads of the lists extension, which brings its own estimates.
LIST_RULES: dict[str, Rule] = {
    "list_slice": _list_slice,
    "list_flatten": _list_copy,
    "list_flatten_int": _list_copy,
    "list_reverse": _list_copy,
    "lists_range": _list_range,
    "list_distinct": _list_sort,
    **{
        f"list_{kind.name}_{name}": _list_sort
        for kind in (
            t.INT, t.UINT, t.DOUBLE, t.BOOL, t.DURATION, t.TIMESTAMP, t.STRING, t.BYTES,
        )
        for name in ("sort", "sortByAssociatedKeys")
    },
}  # fmt: skip

# Functions that Kubernetes prices itself. `isURL` is absent: the general price applies.
KUBERNETES_RULES: dict[str, Rule] = {
    "check": _constant(350_000),
    "fieldSelector": _selector,
    "labelSelector": _selector,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _over_list),
    "url": _parse_argument,
    **dict.fromkeys(
        ("ip", "isIP", "cidr", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"),
        _parse_text,
    ),
    "ip.isCanonical": _parse_twice,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _copy_target),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "containsIP": _contains_address,
    "containsCIDR": _contains_address,
    "validate": _validate,
    "_==_": _kubernetes_equality,
}

_ORDERINGS = ("less", "less_equals", "greater", "greater_equals")
STANDARD_RULES: dict[str, Rule] = {
    "string_format": _format,
    **dict.fromkeys(
        (
            "string_to_bytes", "bytes_to_string", "strings_quote", "starts_with_string",
            "ends_with_string",
        ),
        _argument_traversal,
    ),
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _concatenate),
    **dict.fromkeys(
        ("equals", "not_equals", *(f"{o}_{k}" for o in _ORDERINGS for k in ("string", "bytes"))),
        _compare,
    ),
    **dict.fromkeys(
        ("list_sets_contains_list", "list_sets_equivalent_list", "list_sets_intersects_list"),
        _sets,
    ),
}  # fmt: skip
