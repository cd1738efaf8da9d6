# SPDX-License-Identifier: Apache-2.0
"""What an expression can cost at worst, before it ever runs.

Kubernetes refuses rules whose worst case is too expensive, so the estimate is
part of the API: this follows cel-go's estimator and Kubernetes' additions to it
step by step, including where they are coarse. A size is known for what is
written in the expression and for what the schema bounds (maxItems, maxLength,
maxProperties, or what fits into a request); what is computed, such as
`string(x)`, mostly has no bound, and then the estimate is as good as infinite.

The prices of calls are in `cost_rules`.
"""

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
from rdd.cel.cost_rules import KUBERNETES_RULES, LIST_RULES, STANDARD_RULES, Result
from rdd.cel.estimates import (
    LIST_COST,
    MAP_COST,
    MAX,
    OBJECT_COST,
    ONE,
    UNKNOWN,
    ZERO,
    Estimate,
    fixed,
)


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


def estimate(tree: Node, root: t.Type | None) -> Estimate:
    """Return the cost of a checked expression; `root` is the type all variables' paths begin at.

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
        """Return the cost of an expression."""
        known = self._costs.get(id(node))
        if known is None:
            known = self._costs[id(node)] = self._cost(node)
        return known

    def _cost(self, node: Node) -> Estimate:
        if isinstance(node, Literal):
            return ZERO
        if isinstance(node, Ident):
            local = self._local(node.name)
            self._paths[id(node)] = local.path if local is not None else (node.name,)
            return ONE
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

    def known_size(self, node: Node) -> Estimate | None:
        """Return the size of a value as far as it is known."""
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        if isinstance(node, Literal):
            is_text = isinstance(node.value, str | bytes)
            return fixed(len(node.value)) if is_text else ONE
        if isinstance(node, ListLiteral):
            return fixed(len(node.elements))
        if isinstance(node, MapLiteral):
            return fixed(len(node.entries))
        declared = self._declared_size(self._path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(node.type):
            return ONE
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.size
        return None

    def size(self, node: Node) -> Estimate:
        """Return the size of a value; without any bound if nothing is known."""
        return self.known_size(node) or UNKNOWN

    def _declared_size(self, path: tuple[str, ...]) -> Estimate | None:
        """Return the size the schema gives a path, which begins with a variable."""
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
            return ONE
        total = self.cost(node.operand)
        if node.test_only:
            return total  # Kubernetes charges nothing for has()
        if node.operand.type.kind in (t.K_MAP, t.K_OBJECT, t.K_PARAM):
            total = total.plus(ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field_name)
        return total

    def _list(self, node: ListLiteral) -> Estimate:
        total = fixed(LIST_COST)
        size = Estimate(0 if not node.elements else MAX, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            size = size.union(self.size(element))
        self._entries[id(node)] = _Entries(t.K_LIST, ONE, size)
        return total

    def _map(self, node: MapLiteral) -> Estimate:
        total = fixed(MAP_COST)
        low = 0 if not node.entries else MAX
        keys, values = Estimate(low, 0), Estimate(low, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self.size(entry.key))
            values = values.union(self.size(entry.value))
        self._entries[id(node)] = _Entries(t.K_MAP, keys, values)
        return total

    def _bind(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        init = node.accu_init
        self._push(
            node.accu_var, _Local(self._path(init), self.known_size(init), self._entry_sizes(init))
        )
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        self._copy_sizes(node, node.result)
        return total

    def _copy_sizes(self, target: Node, source: Node) -> None:
        size, entries = self.known_size(source), self._entry_sizes(source)
        if size is not None:
            self._sizes[id(target)] = size
        if entries is not None:
            self._entries[id(target)] = entries

    def _comprehension(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        init = node.accu_init
        self._push(
            node.accu_var, _Local(self._path(init), self.known_size(init), self._entry_sizes(init))
        )
        self._push_iteration(node)
        loop = self.cost(node.condition).plus(self.cost(node.step))
        self._locals[node.iter_var].pop()
        if node.iter_var2:
            self._locals[node.iter_var2].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        count = self.size(node.iter_range)
        total = total.plus(count.times(loop))
        if isinstance(init, Literal):
            self._sizes[id(node)] = ONE
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
            total = ONE.plus(self.cost(node.args[0]))
            self._copy_sizes(node, node.args[0])
            return total
        args = [self.cost(arg) for arg in node.args]
        target = ZERO if node.target is None else self.cost(node.target)
        if node.function == "_?._":
            return ONE.plus(_sum(args))
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
                size = self.known_size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return target.plus(total) if node.overloads else ZERO

    def _overload(self, node: Call, overload: str, args: list[Estimate]) -> Result:
        """Return the cost of one overload of a call, arguments included."""
        for rules in (LIST_RULES, KUBERNETES_RULES, STANDARD_RULES):
            key = overload if rules is not KUBERNETES_RULES else node.function
            rule = rules.get(key)
            result = rule(self, node, overload) if rule is not None else None
            if result is not None:
                return Result(result.cost.plus(_sum(args)), result.size)
        if overload in ("logical_and", "logical_or"):
            return Result(Estimate(args[0].min, args[0].plus(args[1]).max))
        if overload == "conditional":
            return self._conditional(node, args)
        return Result(ONE.plus(_sum(args)))

    def item_size(self, node: Node) -> Estimate:
        """Return the size of the items of a list, as its schema declares it."""
        path = self._path(node)
        if not path or path[0] == ACCUMULATOR:
            return UNKNOWN
        return self._declared_size((*path, "@items")) or UNKNOWN

    def join_entries(self, node: Node, left: Node, right: Node) -> None:
        """Note that the items of a value are those of two others."""
        entries, others = self._entry_sizes(left), self._entry_sizes(right)
        if entries is not None and others is not None:
            self._entries[id(node)] = entries.union(others)

    def _conditional(self, node: Call, args: list[Estimate]) -> Result:
        first, second = node.args[1], node.args[2]
        self.join_entries(node, first, second)
        size = self.size(first).union(self.size(second))
        return Result(args[0].plus(args[1].union(args[2])), size)


def _sum(estimates: list[Estimate]) -> Estimate:
    total = ZERO
    for item in estimates:
        total = total.plus(item)
    return total


_SCALARS = frozenset((t.K_BOOL, t.K_DOUBLE, t.K_DURATION, t.K_INT, t.K_TIMESTAMP, t.K_UINT))


def _is_scalar(candidate: t.Type) -> bool:
    if t.is_optional(candidate):
        return _is_scalar(candidate.params[0])
    return candidate.kind in _SCALARS
