# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of an expression.

Nodes keep the offset of the token that stands for them in messages: the
operator of an operation, the parenthesis of a call, the dot of a selection. The
checker writes the type of each expression and the chosen overloads into the
tree, because each later pass needs them and a tree is used for one compilation
only.

Macros are expanded while parsing, into the same comprehensions as in cel-go, so
that types and costs come out the same. A comprehension remembers the macro it
came from (`shape` and `parts`), which lets it run as a plain loop.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rdd.cel import types as t

if TYPE_CHECKING:
    from rdd.cel.functions import Overload

ACCUMULATOR = "@result"


@dataclass(slots=True, eq=False)
class Node:
    """Base of all expressions."""

    pos: int
    depth: int = field(init=False, default=1)  # of the tree below, to bound recursion
    type: t.Type = field(init=False, default=t.DYN)


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A constant."""

    value: Any
    literal_type: t.Type


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A name: a variable, or a type used as a value."""

    name: str
    constant: t.Type | None = field(init=False, default=None)  # set by the checker for types


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.field`, or with `test_only` the question of `has(operand.field)`."""

    operand: Node
    field_name: str
    test_only: bool = False
    key: str = field(init=False, default="")  # the key in the data, set by the checker

    def __post_init__(self) -> None:
        self.depth = self.operand.depth + 1
        self.key = self.field_name


@dataclass(frozen=True, slots=True, eq=False)
class OptMap:
    """What `target.optMap(variable, body)` was before its expansion."""

    target: Node
    variable: str
    body: Node
    is_flat: bool


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function, method or operator applied to arguments."""

    function: str
    args: list[Node]
    target: Node | None = None
    overloads: "list[Overload]" = field(init=False, default_factory=list)
    opt_map: OptMap | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        below = [arg.depth for arg in self.args]
        if self.target is not None:
            below.append(self.target.depth)
        self.depth = 1 + max(below, default=0)

    @property
    def operands(self) -> list[Node]:
        """Return target and arguments in one list."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    """`[a, ?b]`; the indices of optional elements are kept apart."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.depth = 1 + max((e.depth for e in self.elements), default=0)


@dataclass(slots=True, eq=False)
class MapEntry:
    """`key: value` or `?key: value` of a map or object."""

    pos: int
    key: Node
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    """`{a: b}`."""

    entries: list[MapEntry]

    def __post_init__(self) -> None:
        below = (max(e.key.depth, e.value.depth) for e in self.entries)
        self.depth = 1 + max(below, default=0)


@dataclass(slots=True, eq=False)
class ObjectField:
    """`name: value` or `?name: value` of an object."""

    pos: int
    name: str
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class ObjectLiteral(Node):
    """`Name{field: value}`; only environments with object types accept it."""

    name: str
    fields: list[ObjectField]

    @property
    def values(self) -> list[Node]:
        """Return the values of all fields."""
        return [f.value for f in self.fields]

    def __post_init__(self) -> None:
        self.depth = 1 + max((f.value.depth for f in self.fields), default=0)


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A fold over a list or map; `iter_var2` makes it one over indices or keys and values."""

    iter_range: Node
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Node
    condition: Node
    step: Node
    result: Node
    shape: str
    parts: tuple[Node, ...]  # what the shape needs: predicate, then transformation

    def __post_init__(self) -> None:
        self.depth = 1 + max(
            node.depth
            for node in (self.iter_range, self.accu_init, self.condition, self.step, self.result)
        )


def qualified_name(node: Node) -> str | None:
    """Return `a.b.c` as text when the expression is nothing but names, else None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.field_name)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))
