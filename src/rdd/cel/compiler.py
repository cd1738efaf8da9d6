# SPDX-License-Identifier: Apache-2.0
"""A checked tree to Python closures.

Each expression becomes a function of a frame: a list whose first item is what is
left of the cost limit and whose other items are variables. Types are known by
now, so operations on them become the matching Python operation; only what is
`dyn` looks at its values when it runs.

Costs of fixed size are summed up at compile time and taken once per block: at
the start, per iteration of a loop, and per operand that may not be evaluated at
all. Costs that depend on values are taken by the call itself, before it works.
"""

from collections.abc import Callable
from typing import Any

from rdd.cel import closures, loops
from rdd.cel import types as t
from rdd.cel.ast import (
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
from rdd.cel.closures import Frame, Run
from rdd.cel.errors import CostExceeded, EvaluationError, NoSuchOverload, ProgramError
from rdd.cel.estimates import LIST_COST, MAP_COST, OBJECT_COST
from rdd.cel.library.operators import index, shown_key
from rdd.cel.library.optionals import optional_index, optional_select
from rdd.cel.readers import reader
from rdd.cel.values import NONE, ObjectValue, Optional, no_such_overload

_CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint")
)
_UNLIMITED = 1 << 62


class Compiler:
    """Compiles one tree; `inputs` then maps variables to slots."""

    def __init__(self) -> None:
        self.frame_size = 1
        self.inputs: dict[str, int] = {}
        self._scopes: list[tuple[str, int]] = []  # local variables, innermost last
        self._fixed: dict[int, int] = {}
        self._shared: dict[int, Run] = {}
        self._constants: set[int] = set()  # conversions of constants, by id

    def compile(self, tree: Node) -> Run:
        """Return the function of a whole expression."""
        return self.block(tree)

    def block(self, node: Node) -> Run:
        """Return the function of an expression that is evaluated as a unit, with its fixed cost."""
        run, cost = self.run(node), self.fixed_cost(node)
        if cost == 0:
            return run

        def charged(frame: Frame) -> Any:
            frame[0] -= cost
            if frame[0] < 0:
                raise CostExceeded(is_total=False)
            return run(frame)

        return charged

    def run(self, node: Node) -> Run:
        """Return the function of an expression, without its fixed cost."""
        known = self._shared.get(id(node))
        if known is None:
            known = self._shared[id(node)] = self._run(node)
        return known

    def _run(self, node: Node) -> Run:
        if isinstance(node, Literal):
            return closures.constant(node.value)
        if isinstance(node, Ident | Select):
            return self._converted(self._raw(node), node.type)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, ObjectLiteral):
            return self._object(node)
        assert isinstance(node, Comprehension)
        return self._comprehension(node)

    # -- variables and fields

    def bind(self, name: str) -> int:
        """Open a local variable; returns its slot."""
        slot = self.frame_size
        self.frame_size += 1
        self._scopes.append((name, slot))
        return slot

    def unbind(self) -> None:
        """Close the innermost local variable."""
        self._scopes.pop()

    def _slot(self, name: str) -> int:
        for local, slot in reversed(self._scopes):
            if local == name:
                return slot
        if name not in self.inputs:
            self.inputs[name] = self.frame_size
            self.frame_size += 1
        return self.inputs[name]

    @staticmethod
    def _converted(run: Run, declared: t.Type) -> Run:
        convert = reader(declared)
        if convert is None:
            return run
        return lambda frame: convert(run(frame))

    def _raw(self, node: Node) -> Run:
        """Return the function of an operand that is only inspected and stays unconverted."""
        if isinstance(node, Ident):
            if node.constant is not None:
                return closures.constant(node.constant)
            return closures.variable(self._slot(node.name))
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call) and node.function == "_[_]":
            return self._index(node)
        return self.run(node)

    def _select(self, node: Select) -> Run:
        if is_variable(node):
            return closures.variable(self._slot(node.key))
        constant = constant_type(node)
        if constant is not None:
            return closures.constant(constant)
        operand_type = node.operand.type
        if t.is_optional(operand_type):
            return self._select_optional(node)
        if node.test_only:
            return closures.presence(self._raw(node.operand), node.key)
        steps: list[tuple[str, str]] = []
        inner: Node = node
        while isinstance(inner, Select) and closures.is_plain(inner):
            steps.append((inner.key, inner.field_name))
            inner = inner.operand
        steps.reverse()
        if isinstance(inner, Ident) and inner.constant is None:
            return closures.variable_chain(self._slot(inner.name), steps)
        return closures.chain(self._raw(inner), steps)

    def _select_optional(self, node: Select) -> Run:
        operand, key = self.run(node.operand), node.key
        if node.test_only:
            return lambda frame: optional_select(operand(frame), key) is not NONE
        return closures.optional_field(operand, key, reader(closures.inner_type(node.type)))

    # -- literals

    def _list(self, node: ListLiteral) -> Run:
        items = [self.run(element) for element in node.elements]
        if not node.optional:
            if all(isinstance(element, Literal) for element in node.elements):
                return closures.constant([item([0]) for item in items])
            return lambda frame: [item(frame) for item in items]
        optional = node.optional

        def build(frame: Frame) -> list[Any]:
            result = []
            for i, item in enumerate(items):
                value = item(frame)
                if i not in optional:
                    result.append(value)
                elif value is not NONE:
                    result.append(closures.some(value))
            return result

        return build

    def _map(self, node: MapLiteral) -> Run:
        entries = [(self.run(e.key), self.run(e.value), e.optional) for e in node.entries]

        def build(frame: Frame) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for key_run, value_run, is_optional in entries:
                key, value = key_run(frame), value_run(frame)
                if is_optional:
                    if value is NONE:
                        continue
                    value = closures.some(value)
                if type(key) is float or isinstance(key, list | dict) or key is None:
                    raise EvaluationError("unsupported key type")
                if key in result:
                    raise EvaluationError(f"Failed with repeated key {shown_key(key)}")
                result[key] = value
            return result

        return build

    def _object(self, node: ObjectLiteral) -> Run:
        fields = [(f.name, self.run(f.value), f.optional) for f in node.fields]
        name = node.name

        def build(frame: Frame) -> ObjectValue:
            result = ObjectValue(name)
            for key, run, is_optional in fields:
                value = run(frame)
                if is_optional:
                    if value is NONE:
                        continue
                    value = closures.some(value)
                result[key] = value
            return result

        return build

    # -- calls

    def _call(self, node: Call) -> Run:
        if node.opt_map is not None:
            return self._opt_map(node)
        special = _SPECIAL_CALLS.get(node.function)
        if special is not None:
            return special(self, node)
        run = self._plain_call(node)
        if node.function in _CONVERSIONS and node.target is None and len(node.args) == 1:
            self._convert_constant(node, run)
        return run

    def _convert_constant(self, node: Call, run: Run) -> None:
        """Evaluate the conversion of a constant, because cel-go rejects one that fails."""
        operand = node.args[0]
        if not isinstance(operand, Literal) and id(operand) not in self._constants:
            return
        try:
            run([_UNLIMITED])
        except EvaluationError as error:
            raise ProgramError(str(error)) from None
        self._constants.add(id(node))

    def _plain_call(self, node: Call) -> Run:
        operands = node.operands
        runs = [self.run(operand) for operand in operands]
        if len(node.overloads) == 1 and not any(o.type.is_dynamic for o in operands):
            inlined = closures.INLINED.get(node.overloads[0].id)
            if inlined is not None:
                return inlined(*runs)
            return closures.direct(node.overloads[0], runs)
        return closures.dispatched(node, runs)

    def _optional_select(self, node: Call) -> Run:
        key = node.args[1]
        assert isinstance(key, Literal)
        return closures.optional_field(
            self._raw(node.args[0]), key.value, reader(closures.inner_type(node.type))
        )

    def _index(self, node: Call) -> Run:
        container, key = node.args
        items, keys = self._raw(container), self.run(key)
        if t.is_optional(container.type):
            return lambda frame: optional_index(items(frame), keys(frame))
        if not container.type.is_dynamic:
            return lambda frame: index(items(frame), keys(frame))

        def dynamic(frame: Frame) -> Any:
            value = items(frame)
            if isinstance(value, Optional):
                return optional_index(value, keys(frame))
            return index(value, keys(frame))

        return dynamic

    def _converted_index(self, node: Call) -> Run:
        return self._converted(self._index(node), node.type)

    def _optional_index(self, node: Call) -> Run:
        return closures.dispatched(node, [self.run(arg) for arg in node.args])

    def _and(self, node: Call) -> Run:
        return closures.all_true(self._operands(node))

    def _or(self, node: Call) -> Run:
        return closures.any_true(self._operands(node))

    def _operands(self, node: Call) -> list[Run]:
        """Return the operands of a chain of one logical operator, all but the first as blocks."""
        flat: list[Node] = []
        pending: list[Node] = [node]
        while pending:
            current = pending.pop()
            if isinstance(current, Call) and current.function == node.function:
                pending.extend(reversed(current.args))
            else:
                flat.append(current)
        return [self.run(flat[0]), *map(self.block, flat[1:])]

    def _ternary(self, node: Call) -> Run:
        condition = self.run(node.args[0])
        chosen, otherwise = self.block(node.args[1]), self.block(node.args[2])

        def run(frame: Frame) -> Any:
            value = condition(frame)
            if value is True:
                return chosen(frame)
            if value is False:
                return otherwise(frame)
            raise NoSuchOverload()

        return run

    def _or_value(self, node: Call) -> Run:
        if node.target is None:
            return closures.dispatched(node, [self.run(arg) for arg in node.args])
        target, otherwise = self.run(node.target), self.block(node.args[0])
        unwrap = node.function == "orValue"
        name = node.function

        def run(frame: Frame) -> Any:
            value = target(frame)
            if value is NONE:
                return otherwise(frame)
            if not isinstance(value, Optional):
                raise no_such_overload(name, value)
            return value.value if unwrap else value

        return run

    def _opt_map(self, node: Call) -> Run:
        macro = node.opt_map
        assert macro is not None
        target = self.run(macro.target)
        slot = self.bind(macro.variable)
        body = self.block(macro.body)
        self.unbind()
        is_flat = macro.is_flat

        def run(frame: Frame) -> Any:
            value = target(frame)
            if value is NONE:
                return NONE
            if not isinstance(value, Optional):
                raise no_such_overload("hasValue", value)
            frame[slot] = value.value
            result = body(frame)
            return result if is_flat else Optional(result)

        return run

    def _equality(self, node: Call) -> Run:
        left, right = node.args
        is_negated = node.function == "_!=_"
        kind = left.type.kind
        if kind == right.type.kind and kind in closures.PLAIN_EQUALITY:
            runs = self.run(left), self.run(right)
            if kind in (t.K_STRING, t.K_BYTES) and not closures.has_literal(node):
                return closures.charged_equality(*runs, is_negated=is_negated)
            return closures.plain_equality(left, right, *runs, is_negated=is_negated)
        # Lists are left out: computed ones may be sets, which their type does not show.
        is_object = kind is t.K_OBJECT and t.same(left.type, right.type)
        if is_object and closures.is_comparable_natively(left.type):
            runs = self.run(left), self.run(right)
            return closures.charged_equality(*runs, is_negated=is_negated)
        runs = self._comparable(left), self._comparable(right)
        return closures.general_equality(*runs, is_negated=is_negated)

    def _comparable(self, node: Node) -> Run:
        """Return an operand of `==`, deeply converted if its type needs conversion."""
        run = self.run(node)
        deep = reader(node.type, deep=True)
        return run if deep is None else lambda frame: deep(run(frame))

    # -- comprehensions

    def _comprehension(self, node: Comprehension) -> Run:
        if node.shape == "bind":
            value = self.run(node.accu_init)
            slot = self.bind(node.accu_var)
            result = self.run(node.result)
            self.unbind()
            return loops.bind(slot, value, result)
        items = self._raw(node.iter_range)
        first = self.bind(node.iter_var)
        second = self.bind(node.iter_var2) if node.iter_var2 else 0
        parts = [(self.run(part), self.fixed_cost(part)) for part in node.parts]
        self.unbind()
        if second:
            self.unbind()
        convert = loops.element_reader(node.iter_range.type, is_double=bool(second))
        return loops.SHAPES[node.shape](items, loops.Source(first, second, convert), parts)

    # -- fixed costs

    def fixed_cost(self, node: Node) -> int:
        """Return the cost of an expression as far as it does not depend on values or branches."""
        known = self._fixed.get(id(node))
        if known is None:
            known = self._fixed[id(node)] = self._fixed_cost(node)
        return known

    def _fixed_cost(self, node: Node) -> int:
        if isinstance(node, Literal):
            return 0
        if isinstance(node, Ident):
            return 1
        if isinstance(node, Select):
            if is_variable(node) or constant_type(node) is not None:
                return 1
            return self.fixed_cost(node.operand) + (0 if node.test_only else 1)
        if isinstance(node, ListLiteral):
            return LIST_COST + sum(map(self.fixed_cost, node.elements))
        if isinstance(node, MapLiteral):
            return MAP_COST + sum(
                self.fixed_cost(e.key) + self.fixed_cost(e.value) for e in node.entries
            )
        if isinstance(node, ObjectLiteral):
            return OBJECT_COST + sum(map(self.fixed_cost, node.values))
        if isinstance(node, Comprehension):
            parts = (node.iter_range, node.accu_init, node.result)
            return sum(map(self.fixed_cost, parts))
        assert isinstance(node, Call)
        return self._fixed_call_cost(node)

    def _fixed_call_cost(self, node: Call) -> int:
        function = node.function
        if node.opt_map is not None:
            return self.fixed_cost(node.opt_map.target) + 2
        if function in ("_&&_", "_||_", "_?_:_"):
            return self.fixed_cost(node.args[0])
        if function in ("orValue", "or") and node.target is not None:
            return self.fixed_cost(node.target) + 1
        total = sum(map(self.fixed_cost, node.operands))
        if function in ("_==_", "_!=_"):
            return total + closures.equality_cost(node)
        return total + (0 if any(o.charge for o in node.overloads) else 1)


_SPECIAL_CALLS: dict[str, Callable[[Compiler, Call], Run]] = {
    "_&&_": Compiler._and,
    "_||_": Compiler._or,
    "_?_:_": Compiler._ternary,
    "_==_": Compiler._equality,
    "_!=_": Compiler._equality,
    "_[_]": Compiler._converted_index,
    "_[?_]": Compiler._optional_index,
    "_?._": Compiler._optional_select,
    "orValue": Compiler._or_value,
    "or": Compiler._or_value,
}
