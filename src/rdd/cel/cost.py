# SPDX-License-Identifier: Apache-2.0
"""What an expression can cost at worst, before it ever runs.

Kubernetes refuses rules whose worst case is too expensive, so the estimate is
part of the API: this follows cel-go's estimator and Kubernetes' additions to it
step by step, including where they are coarse. A size is known for what is
written in the expression and for what the schema bounds (maxItems, maxLength,
maxProperties, or what fits into a request); what is computed, such as
`string(x)`, mostly has no bound, and then the estimate is as good as infinite.

Estimates are ranges; numbers saturate at 2⁶⁴-1 like the unsigned integers they
are in Kubernetes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from rdd.cel import types as t
from rdd.cel.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    ObjectLiteral,
    Select,
)
from rdd.cel.checker import constant_type, is_variable
from rdd.cel.functions import REGEX, TRAVERSAL

MAX = (1 << 64) - 1
LIST_COST, MAP_COST, OBJECT_COST = 10, 30, 40


class Estimate(NamedTuple):
    """A range of costs or sizes."""

    min: int
    max: int

    def plus(self, other: "Estimate") -> "Estimate":
        """Both added."""
        return Estimate(_cap(self.min + other.min), _cap(self.max + other.max))

    def times(self, other: "Estimate") -> "Estimate":
        """Both multiplied."""
        return Estimate(_cap(self.min * other.min), _cap(self.max * other.max))

    def scaled(self, factor: float) -> "Estimate":
        """Multiplied by a factor, rounded up."""
        return Estimate(_scale(self.min, factor), _scale(self.max, factor))

    def union(self, other: "Estimate") -> "Estimate":
        """The range that holds both."""
        return Estimate(min(self.min, other.min), max(self.max, other.max))


CostEstimate = Estimate


def _cap(value: int) -> int:
    return value if value < MAX else MAX


def _scale(value: int, factor: float) -> int:
    scaled = float(value) * factor
    return MAX if scaled >= 18446744073709551616.0 else math.ceil(scaled)


def fixed(value: int) -> Estimate:
    """A range of one value."""
    return Estimate(value, value)


_ZERO, _ONE, _UNKNOWN = fixed(0), fixed(1), Estimate(0, MAX)


class _Entries(NamedTuple):
    """Sizes of the keys and values of a container."""

    kind: str
    key: Estimate
    value: Estimate

    def union(self, other: "_Entries") -> "_Entries":
        return _Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(NamedTuple):
    path: tuple[str, ...]
    size: Estimate | None
    entries: _Entries | None


class _Result(NamedTuple):
    cost: Estimate
    size: Estimate | None = None


def estimate(tree: Node, root: t.Type | None) -> Estimate:
    """The cost of a checked expression; `root` is the type all variables' paths begin at.

    Kubernetes looks up sizes of `self` and `oldSelf` in the same type. Without a
    type nothing has a bound but what the expression itself shows.
    """
    return _Estimator(root).cost(tree)


class _Estimator:
    def __init__(self, root: t.Type | None) -> None:
        self._root = root
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Estimate] = {}
        self._entries: dict[int, _Entries] = {}
        self._costs: dict[int, Estimate] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Estimate:
        known = self._costs.get(id(node))
        if known is None:
            known = self._costs[id(node)] = self._cost(node)
        return known

    def _cost(self, node: Node) -> Estimate:
        if isinstance(node, Literal):
            return _ZERO
        if isinstance(node, Ident):
            local = self._local(node.name)
            self._paths[id(node)] = local.path if local is not None else (node.name,)
            return _ONE
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._bind(node) if node.shape == "bind" else self._comprehension(node)
        assert isinstance(node, ObjectLiteral)
        total = fixed(OBJECT_COST)
        for value in node.values:
            total = total.plus(self.cost(value))
        return total

    # -- names, paths and sizes

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _path(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.path
        return self._paths.get(id(node), ())

    def _size(self, node: Node) -> Estimate | None:
        """The size of a value as far as it is known."""
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        if isinstance(node, Literal):
            is_text = isinstance(node.value, str | bytes)
            return fixed(len(node.value)) if is_text else _ONE
        if isinstance(node, ListLiteral):
            return fixed(len(node.elements))
        if isinstance(node, MapLiteral):
            return fixed(len(node.entries))
        declared = self._declared_size(self._path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(node.type):
            return _ONE
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.size
        return None

    def _size_or_unknown(self, node: Node) -> Estimate:
        return self._size(node) or _UNKNOWN

    def _declared_size(self, path: tuple[str, ...]) -> Estimate | None:
        """The size the schema gives a path, which begins with a variable."""
        if not path or self._root is None:
            return None
        current = self._root
        for name in path[1:]:
            if name in ("@items", "@values"):
                if current.kind not in (t.K_LIST, t.K_MAP):
                    return None
                current = current.params[-1]
            elif name == "@keys":
                if current.kind is not t.K_MAP:
                    return None
                current = current.params[0]
            else:
                field = current.fields.get(name)
                if field is None:
                    return None
                current = field.type
        return Estimate(0, current.max_elements)

    def _entry_sizes(self, node: Node) -> _Entries | None:
        known = self._entries.get(id(node))
        if known is None and isinstance(node, Ident):
            local = self._local(node.name)
            return local.entries if local is not None else None
        return known

    # -- expressions

    def _select(self, node: Select) -> Estimate:
        if is_variable(node) or constant_type(node) is not None:
            self._paths[id(node)] = (node.key,)
            return _ONE
        total = self.cost(node.operand)
        if node.test_only:
            return total  # Kubernetes charges nothing for has()
        if node.operand.type.kind in (t.K_MAP, t.K_OBJECT, t.K_PARAM):
            total = total.plus(_ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field_name)
        return total

    def _list(self, node: ListLiteral) -> Estimate:
        total = fixed(LIST_COST)
        size = Estimate(0 if not node.elements else MAX, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            size = size.union(self._size_or_unknown(element))
        self._entries[id(node)] = _Entries(t.K_LIST, _ONE, size)
        return total

    def _map(self, node: MapLiteral) -> Estimate:
        total = fixed(MAP_COST)
        low = 0 if not node.entries else MAX
        keys, values = Estimate(low, 0), Estimate(low, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._size_or_unknown(entry.key))
            values = values.union(self._size_or_unknown(entry.value))
        self._entries[id(node)] = _Entries(t.K_MAP, keys, values)
        return total

    def _bind(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        init = node.accu_init
        self._push(
            node.accu_var, _Local(self._path(init), self._size(init), self._entry_sizes(init))
        )
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        self._copy_sizes(node, node.result)
        return total

    def _copy_sizes(self, target: Node, source: Node) -> None:
        size, entries = self._size(source), self._entry_sizes(source)
        if size is not None:
            self._sizes[id(target)] = size
        if entries is not None:
            self._entries[id(target)] = entries

    def _comprehension(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        init = node.accu_init
        self._push(
            node.accu_var, _Local(self._path(init), self._size(init), self._entry_sizes(init))
        )
        self._push_iteration(node)
        loop = self.cost(node.condition).plus(self.cost(node.step))
        self._locals[node.iter_var].pop()
        if node.iter_var2:
            self._locals[node.iter_var2].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        count = self._size_or_unknown(node.iter_range)
        total = total.plus(count.times(loop))
        if isinstance(init, Literal):
            self._sizes[id(node)] = _ONE
        elif isinstance(init, ListLiteral | MapLiteral):
            self._sizes[id(node)] = count
            entries = self._entry_sizes(node.step)
            if entries is not None:
                self._entries[id(node)] = entries
        return total

    def _push_iteration(self, node: Comprehension) -> None:
        entries = self._entry_sizes(node.iter_range)
        path = self._path(node.iter_range)
        kind = entries.kind if entries is not None else node.iter_range.type.kind
        is_list = kind == t.K_LIST
        key_size = entries.key if entries is not None else None
        value_size = entries.value if entries is not None else None
        if node.iter_var2:
            step = "@indices" if is_list else "@keys"
            self._push(node.iter_var, _Local((*path, step), key_size, None))
            step = "@items" if is_list else "@values"
            self._push(node.iter_var2, _Local((*path, step), value_size, None))
        else:
            step = "@items" if is_list else "@keys"
            size = value_size if is_list else key_size
            self._push(node.iter_var, _Local((*path, step), size, None))

    # -- calls

    def _call(self, node: Call) -> Estimate:
        if node.function == "dyn":
            total = _ONE.plus(self.cost(node.args[0]))
            self._copy_sizes(node, node.args[0])
            return total
        args = [self.cost(arg) for arg in node.args]
        target = _ZERO if node.target is None else self.cost(node.target)
        if node.function == "_?._":
            return _ONE.plus(_sum(args))
        total = Estimate(MAX, 0)
        size: Estimate | None = None
        for overload in node.overloads:
            result = self._overload(node, overload.id, args)
            total = total.union(result.cost)
            if result.size is not None:
                size = result.size if size is None else size.union(result.size)
            if overload.id in ("index_list", "index_map"):
                entries = self._entry_sizes(node.args[0])
                size = entries.value if entries is not None else None
                step = "@items" if overload.id == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.args[0]), step)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return target.plus(total) if node.overloads else _ZERO

    def _overload(self, node: Call, overload: str, args: list[Estimate]) -> _Result:
        """The cost of one overload of a call, arguments included."""
        for rules in (_LIST_RULES, _KUBERNETES_RULES, _STANDARD_RULES):
            key = overload if rules is not _KUBERNETES_RULES else node.function
            rule = rules.get(key)
            result = rule(self, node, overload) if rule is not None else None
            if result is not None:
                return _Result(result.cost.plus(_sum(args)), result.size)
        if overload in ("logical_and", "logical_or"):
            return _Result(Estimate(args[0].min, args[0].plus(args[1]).max))
        if overload == "conditional":
            return self._conditional(node, args)
        return _Result(_ONE.plus(_sum(args)))

    def _conditional(self, node: Call, args: list[Estimate]) -> _Result:
        first, second = node.args[1], node.args[2]
        left, right = self._entry_sizes(first), self._entry_sizes(second)
        if left is not None and right is not None:
            self._entries[id(node)] = left.union(right)
        size = self._size_or_unknown(first).union(self._size_or_unknown(second))
        return _Result(args[0].plus(args[1].union(args[2])), size)

    # The rules below answer None where the general one applies.

    def traverse(self, node: Node) -> Estimate:
        """A pass over a value."""
        return self._size_or_unknown(node).scaled(TRAVERSAL)

    def _over_list(self, node: Call, _overload: str) -> _Result | None:
        """isSorted, sum, min, max, indexOf, lastIndexOf."""
        if node.target is None:
            return None
        size = self._kubernetes_size(node.target)
        if not node.target.type.params:
            return _Result(size.scaled(TRAVERSAL))
        cost = _ONE
        element = node.target.type.params[0]
        if element.kind in (t.K_STRING, t.K_BYTES):
            path = self._known_path(node.target)
            items = self._declared_size((*path, "@items")) if path else None
            cost = cost.plus((items or _UNKNOWN).scaled(TRAVERSAL))
        return _Result(size.times(cost))

    def _known_path(self, node: Node) -> tuple[str, ...]:
        path = self._path(node)
        return () if path and path[0] == ACCUMULATOR else path

    def _kubernetes_size(self, node: Node) -> Estimate:
        return self._size_or_unknown(node)

    def _parse_argument(self, node: Call, _overload: str) -> _Result | None:
        """url: a pass over the text, which is as long as the result."""
        size = self._size_or_unknown(node.args[0])
        return _Result(size.scaled(TRAVERSAL), size)

    def _copy_target(self, node: Call, _overload: str) -> _Result | None:
        if node.target is None:
            return None
        size = self._size_or_unknown(node.target)
        return _Result(size.scaled(TRAVERSAL), size)

    def _replace(self, node: Call, _overload: str) -> _Result | None:
        assert node.target is not None
        size = self._size_or_unknown(node.target)
        old, new = (self._size_or_unknown(arg) for arg in node.args[:2])
        if old.min == 0:
            most, kept_most = _cap(size.max + 1), size.max
        elif new.max <= old.min:
            most, kept_most = 0, size.max
        else:
            most, kept_most = math.ceil(float(size.max) / float(old.min)), 0
        if old.max == 0:
            least, kept_least = _cap(size.min + 1), size.min
        elif old.max <= new.min:
            least, kept_least = 0, size.min
        else:
            least, kept_least = math.ceil(float(size.min) / float(old.max)), 0
        result = Estimate(least, most).times(new).plus(Estimate(kept_least, kept_most))
        return _Result(size.scaled(2 * TRAVERSAL), result)

    def _split(self, node: Call, _overload: str) -> _Result | None:
        assert node.target is not None
        size = self._size_or_unknown(node.target)
        most = size.max
        if len(node.args) > 1:
            limit = node.args[1]
            if isinstance(limit, Literal) and type(limit.value) is int:
                most = limit.value % (1 << 64)
        return _Result(size.scaled(2 * TRAVERSAL), Estimate(0, most))

    def _join(self, node: Call, _overload: str) -> _Result | None:
        assert node.target is not None
        count = self._size_or_unknown(node.target)
        path = self._known_path(node.target)
        items = (self._declared_size((*path, "@items")) if path else None) or _UNKNOWN
        size = count.times(items)
        if node.args:
            separators = Estimate(max(0, count.min - 1), max(0, count.max - 1))
            size = size.plus(self._size_or_unknown(node.args[0]).times(separators))
        return _Result(size.scaled(TRAVERSAL), size)

    def _regex(self, text: Node, pattern: Node) -> Estimate:
        cost = self._size_or_unknown(text).plus(_ONE).scaled(TRAVERSAL)
        return cost.times(self._size_or_unknown(pattern).scaled(REGEX))

    def _find(self, node: Call, _overload: str) -> _Result | None:
        assert node.target is not None
        most = self._size_or_unknown(node.target).max
        return _Result(self._regex(node.target, node.args[0]), Estimate(0, most))

    def _contains_address(self, node: Call, overload: str) -> _Result | None:
        size = Estimate(4, 16)
        cost = size.plus(size).scaled(TRAVERSAL)
        if node.function == "containsCIDR":
            cost = cost.plus(size.scaled(TRAVERSAL)).plus(_ONE)
        if overload.endswith("_string"):
            cost = cost.plus(self.traverse(node.args[0]))
        return _Result(cost)

    def _validate(self, node: Call, _overload: str) -> _Result | None:
        return _Result(self.traverse(node.args[0]).scaled(128 * REGEX))

    def _selector(self, node: Call, _overload: str) -> _Result | None:
        size = self._size_or_unknown(node.args[0])
        requirements = size.scaled(0.5).scaled(LIST_COST + OBJECT_COST)
        return _Result(fixed(LIST_COST).plus(size.scaled(TRAVERSAL)).plus(requirements))

    def _kubernetes_equality(self, node: Call, _overload: str) -> _Result | None:
        left, right = node.args[0].type, node.args[1].type
        if not t.same(left, right) or left.name not in _CONSTANT_TIME_EQUALITY:
            return None
        if left.name == t.FORMAT.name:
            return _Result(Estimate(1, 64).scaled(TRAVERSAL))
        if left.name == t.URL.name:
            size = self._size(node.args[1])
            return _Result(Estimate(1, size.max if size else 1).scaled(TRAVERSAL))
        return _Result(_ONE)

    def _argument_traversal(self, node: Call, overload: str) -> _Result | None:
        size = self._size_or_unknown(node.args[0])
        cost = size.scaled(TRAVERSAL)
        if overload == "string_to_bytes":
            return _Result(cost, Estimate(size.min, _cap(size.max * 4)))
        if overload == "bytes_to_string":
            return _Result(cost, Estimate(size.min // 4, size.max))
        if overload == "strings_quote":
            return _Result(cost, Estimate(_cap(size.min + 2), _cap(size.max * 2 + 2)))
        return _Result(cost)

    def _format(self, node: Call, _overload: str) -> _Result | None:
        assert node.target is not None
        return _Result(self.traverse(node.target))

    def _in_list(self, node: Call, _overload: str) -> _Result | None:
        return _Result(self._size_or_unknown(node.args[1]))

    def _matches(self, node: Call, _overload: str) -> _Result | None:
        if node.target is None:
            return None  # the global form is not priced by cel-go
        return _Result(self._regex(node.target, node.args[0]))

    def _contains(self, node: Call, _overload: str) -> _Result | None:
        assert node.target is not None
        return _Result(self.traverse(node.target).times(self.traverse(node.args[0])))

    def _concatenate(self, node: Call, overload: str) -> _Result | None:
        left, right = node.args
        size = self._size_or_unknown(left).plus(self._size_or_unknown(right))
        entries, others = self._entry_sizes(left), self._entry_sizes(right)
        if entries is not None and others is not None:
            self._entries[id(node)] = entries.union(others)
        return _Result(_ONE if overload == "add_list" else size.scaled(TRAVERSAL), size)

    def _compare(self, node: Call, _overload: str) -> _Result | None:
        left, right = (self._size_or_unknown(arg) for arg in node.args)
        most = min(left.max, right.max)
        return _Result(Estimate(1 if most > 0 else 0, most).scaled(TRAVERSAL))

    def _sets(self, node: Call, overload: str) -> _Result | None:
        left, right = (self._size_or_unknown(arg) for arg in node.args)
        cost = left.times(right)
        if "equivalent" in overload:
            cost = cost.scaled(2)
        return _Result(cost.plus(_ONE))

    def _list_slice(self, node: Call, _overload: str) -> _Result | None:
        assert node.target is not None
        size = self._size_or_unknown(node.target)
        start, end = _literal(node.args[0], 0), _literal(node.args[1], size.max)
        return _allocating(1, fixed((end - start) % (1 << 64)))

    def _list_copy(self, node: Call, overload: str) -> _Result | None:
        assert node.target is not None
        depth = _literal(node.args[0], MAX) if overload == "list_flatten_int" else 1
        return _allocating(float(depth), self._size_or_unknown(node.target))

    def _list_range(self, node: Call, _overload: str) -> _Result | None:
        return _allocating(1, fixed(_literal(node.args[0], MAX)))

    def _list_sort(self, node: Call, overload: str) -> _Result | None:
        keys = node.args[0] if overload.endswith("AssociatedKeys") else node.target
        assert keys is not None
        size = self._size_or_unknown(keys)
        is_text = overload.startswith(("list_string_", "list_bytes_"))
        return _allocating(2.1 if is_text else 2.0, size.times(size))


def _allocating(factor: float, size: Estimate) -> _Result:
    return _Result(size.scaled(factor).plus(fixed(1 + LIST_COST)), size)


def _literal(node: Node, otherwise: int) -> int:
    """The value of a non-negative integer literal."""
    if isinstance(node, Literal) and type(node.value) is int and node.value >= 0:
        return node.value
    return otherwise


def _sum(estimates: list[Estimate]) -> Estimate:
    total = _ZERO
    for item in estimates:
        total = total.plus(item)
    return total


_SCALARS = frozenset((t.K_BOOL, t.K_DOUBLE, t.K_DURATION, t.K_INT, t.K_TIMESTAMP, t.K_UINT))


def _is_scalar(candidate: t.Type) -> bool:
    if t.is_optional(candidate):
        return _is_scalar(candidate.params[0])
    return candidate.kind in _SCALARS


def _constant(cost: int) -> "_Rule":
    return lambda _estimator, _node, _overload: _Result(fixed(cost))


_CONSTANT_TIME_EQUALITY = frozenset(
    kind.name
    for kind in (
        t.IP, t.CIDR, t.QUANTITY, t.SEMVER, t.AUTHORIZER, t.PATH_CHECK, t.GROUP_CHECK,
        t.RESOURCE_CHECK, t.DECISION, t.FORMAT, t.URL,
    )
)  # fmt: skip

_Rule = Callable[[_Estimator, Call, str], _Result | None]

# Overloads of the lists extension, which brings its own estimates.
_LIST_RULES: dict[str, _Rule] = {
    "list_slice": _Estimator._list_slice,
    "list_flatten": _Estimator._list_copy,
    "list_flatten_int": _Estimator._list_copy,
    "list_reverse": _Estimator._list_copy,
    "lists_range": _Estimator._list_range,
    "list_distinct": _Estimator._list_sort,
    **{
        f"list_{kind.name}_{name}": _Estimator._list_sort
        for kind in (
            t.INT, t.UINT, t.DOUBLE, t.BOOL, t.DURATION, t.TIMESTAMP, t.STRING, t.BYTES,
        )
        for name in ("sort", "sortByAssociatedKeys")
    },
}  # fmt: skip

# Functions that Kubernetes prices itself. `isIP('x')` and its like are absent: there the price
# is meant for a receiver that these functions do not have, so that the general one applies.
_KUBERNETES_RULES: dict[str, _Rule] = {
    "check": _constant(350_000),
    "fieldSelector": _Estimator._selector,
    "labelSelector": _Estimator._selector,
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _Estimator._over_list
    ),
    "url": _Estimator._parse_argument,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _Estimator._copy_target),
    "replace": _Estimator._replace,
    "split": _Estimator._split,
    "join": _Estimator._join,
    "find": _Estimator._find,
    "findAll": _Estimator._find,
    "containsIP": _Estimator._contains_address,
    "containsCIDR": _Estimator._contains_address,
    "validate": _Estimator._validate,
    "_==_": _Estimator._kubernetes_equality,
}

_ORDERINGS = ("less", "less_equals", "greater", "greater_equals")
_STANDARD_RULES: dict[str, _Rule] = {
    "string_format": _Estimator._format,
    **dict.fromkeys(
        (
            "string_to_bytes", "bytes_to_string", "strings_quote", "starts_with_string",
            "ends_with_string",
        ),
        _Estimator._argument_traversal,
    ),
    "in_list": _Estimator._in_list,
    "matches_string": _Estimator._matches,
    "contains_string": _Estimator._contains,
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _Estimator._concatenate),
    **dict.fromkeys(
        ("equals", "not_equals", *(f"{o}_{k}" for o in _ORDERINGS for k in ("string", "bytes"))),
        _Estimator._compare,
    ),
    **dict.fromkeys(
        ("list_sets_contains_list", "list_sets_equivalent_list", "list_sets_intersects_list"),
        _Estimator._sets,
    ),
}  # fmt: skip
