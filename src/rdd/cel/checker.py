# SPDX-License-Identifier: Apache-2.0
"""Types of expressions.

The checker walks the tree once, writes the type of each expression into it and
resolves each call to the overloads that fit. Generic functions are matched by
unification (`substitution.py`). All problems are collected; their texts and
places are those of cel-go.

An expression without type errors is then validated: what is written down in it must be valid, and
literals of lists and maps must be homogeneous, as Kubernetes demands; only the arguments of
`format` may be of different types.
"""

from collections.abc import Callable, Mapping

from rdd.cel import types as t
from rdd.cel.ast import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    ObjectField,
    ObjectLiteral,
    Select,
    qualified_name,
)
from rdd.cel.errors import EvaluationError, Issue
from rdd.cel.functions import Overload
from rdd.cel.library import formatting, regex, time
from rdd.cel.substitution import Substitution, is_less_specific

_TYPE_NAMES = {
    kind.name: kind
    for kind in (
        t.BOOL, t.INT, t.UINT, t.DOUBLE, t.STRING, t.BYTES, t.NULL, t.LIST, t.MAP, t.TYPE,
        t.TIMESTAMP, t.DURATION, t.optional_of(t.DYN), t.QUANTITY, t.URL, t.FORMAT, t.SEMVER,
        t.IP, t.CIDR, t.DYN,
    )
}  # fmt: skip

# What a literal argument must be for these functions, checked when the rule is written.
_LITERAL_CHECKS = ("matches", "timestamp", "duration")
_LOGICAL = ("_&&_", "_||_")


class Checker:
    """One check of one expression against variables and functions."""

    def __init__(
        self,
        variables: Mapping[str, t.Type],
        functions: Mapping[str, tuple[Overload, ...]],
        object_types: Callable[[str], t.Type | None] = lambda _: None,
    ) -> None:
        self._object_types = object_types
        self._variables = variables
        self._functions = functions
        self._scopes: list[dict[str, t.Type]] = []
        self._types: dict[int, t.Type] = {}  # by identity of the node
        self._nodes: list[Node] = []
        self._substitution = Substitution()
        self._inside_format = 0
        self._aggregates: list[ListLiteral | MapLiteral] = []
        """Literals that must be homogeneous."""
        self.issues: list[Issue] = []
        self.referenced: set[str] = set()
        """Names of the variables the expression reads."""

    def check(self, tree: Node) -> None:
        """Check an expression and write the types into it."""
        self._check(tree)
        for node in self._nodes:
            node.type = self._substitution.apply(self._types[id(node)], final=True)
        if not self.issues:
            self._validate()

    def _report(self, node: Node, message: str) -> None:
        self.issues.append(Issue(node.pos, message))

    def _check(self, node: Node) -> t.Type:
        known = self._types.get(id(node))
        if known is not None:
            return known  # a part of the tree that a macro uses twice
        if isinstance(node, Select):
            found = self._select(node)
        elif isinstance(node, Call):
            found = self._call(node)
        elif isinstance(node, Ident):
            found = self._ident(node)
        elif isinstance(node, Literal):
            found = node.literal_type
        elif isinstance(node, Comprehension):
            found = self._comprehension(node)
        elif isinstance(node, ListLiteral):
            found = self._list(node)
        elif isinstance(node, MapLiteral):
            found = self._map(node)
        else:
            assert isinstance(node, ObjectLiteral)
            found = self._object(node)
        self._types[id(node)] = found
        self._nodes.append(node)
        return found

    def _lookup(self, name: str) -> t.Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        found = self._variables.get(name)
        if found is not None:
            self.referenced.add(name)
        return found

    def _ident(self, node: Ident) -> t.Type:
        found = self._lookup(node.name)
        if found is not None:
            return found
        constant = _TYPE_NAMES.get(node.name)
        if constant is not None:
            node.constant = constant
            return t.type_of_type(constant)
        self._report(node, f"undeclared reference to '{node.name}' (in container '')")
        return t.ERROR

    def _select(self, node: Select) -> t.Type:
        name = None if node.test_only else qualified_name(node)
        if name is not None:
            root = name.partition(".")[0]
            if not any(root in scope for scope in self._scopes):
                found = self._variables.get(name)
                if found is not None:
                    self.referenced.add(name)
                    node.key = name
                    node.operand = _VARIABLE
                    return found
                constant = _TYPE_NAMES.get(name)
                if constant is not None:
                    node.key = name
                    node.operand = _CONSTANT
                    return t.type_of_type(constant)
        operand = self._substitution.apply(self._check(node.operand))
        is_optional = t.is_optional(operand)
        if is_optional:
            operand = operand.params[0]
        result = self._field(node, operand, node.field_name)
        if node.test_only:
            return t.BOOL
        return t.optional_of(result) if is_optional and not t.is_optional(result) else result

    def _field(self, node: Node, operand: t.Type, name: str) -> t.Type:
        """Return the type of a field, with the key of the data noted for selections."""
        kind = operand.kind
        if kind is t.K_MAP:
            return operand.params[1]
        if kind is t.K_OBJECT:
            field = operand.fields.get(name)
            if field is None:
                self._report(node, f"undefined field '{name}'")
                return t.ERROR
            if isinstance(node, Select):
                node.key = field.key
            elif isinstance(node, Call) and isinstance(node.args[1], Literal):
                node.args[1].value = field.key
            return field.type
        if kind is t.K_PARAM:
            self._substitution.assign(operand, t.DYN)
            return t.DYN
        if not operand.is_dynamic:
            self._report(node, f"type '{operand}' does not support field selection")
            return t.ERROR
        return t.DYN

    def _call(self, node: Call) -> t.Type:
        if node.function == "_?._":
            return self._optional_select(node)
        if node.target is not None:
            qualifier = qualified_name(node.target)
            if qualifier is not None:
                name = f"{qualifier}.{node.function}"
                root = qualifier.partition(".")[0]
                shadowed = any(root in scope for scope in self._scopes)
                if name in self._functions and not shadowed:
                    node.function, node.target = name, None
        is_format = node.function == "format" and node.target is not None
        self._inside_format += is_format
        arg_types = [self._check(arg) for arg in node.args]
        target = None if node.target is None else self._check(node.target)
        self._inside_format -= is_format
        overloads = self._functions.get(node.function)
        if overloads is None:
            return self._undeclared(node)
        if target is not None:
            arg_types = [target, *arg_types]
        return self._resolve(node, overloads, arg_types)

    def _undeclared(self, node: Call) -> t.Type:
        self._report(node, f"undeclared reference to '{node.function}' (in container '')")
        return t.ERROR

    def _resolve(
        self, node: Call, overloads: tuple[Overload, ...], arg_types: list[t.Type]
    ) -> t.Type:
        if node.function in _LOGICAL:
            return self._logical(node, overloads, arg_types)
        is_member = node.target is not None
        result: t.Type | None = None
        for overload in overloads:
            if overload.is_member != is_member or len(overload.args) != len(arg_types):
                continue
            args, returned = self._instance(overload)
            if not self._substitution.assign_all(arg_types, args):
                continue
            node.overloads.append(overload)
            returned = self._substitution.apply(returned)
            if result is None:
                result = returned
            elif not result.is_dynamic and not t.same(returned, result):
                result = t.DYN
        if result is not None:
            return result
        shown = [str(self._substitution.apply(arg, final=True)) for arg in arg_types]
        receiver = f"{shown.pop(0)}." if is_member else ""
        signature = f"{receiver}({', '.join(shown)})"
        self._report(
            node, f"found no matching overload for '{node.function}' applied to '{signature}'"
        )
        return t.ERROR

    def _logical(
        self, node: Call, overloads: tuple[Overload, ...], arg_types: list[t.Type]
    ) -> t.Type:
        result = t.BOOL
        for arg, found in zip(node.args, arg_types, strict=True):
            if not self._substitution.assign(found, t.BOOL):
                actual = self._substitution.apply(found, final=True)
                self._report(arg, f"expected type 'bool' but found '{actual}'")
                result = t.ERROR
        node.overloads += overloads
        return result

    def _instance(self, overload: Overload) -> tuple[list[t.Type], t.Type]:
        """Return the signature with type parameters of its own."""
        if not overload.is_generic:
            return list(overload.args), overload.result
        names: dict[str, t.Type] = {}
        args = [self._renamed(arg, names) for arg in overload.args]
        return args, self._renamed(overload.result, names)

    def _renamed(self, candidate: t.Type, names: dict[str, t.Type]) -> t.Type:
        if candidate.kind is t.K_PARAM:
            if candidate.name not in names:
                names[candidate.name] = self._substitution.fresh()
            return names[candidate.name]
        if not t.has_params(candidate):
            return candidate
        params = tuple(self._renamed(p, names) for p in candidate.params)
        return t.Type(candidate.kind, candidate.name, params)

    def _validate(self) -> None:
        for node in self._nodes:
            if isinstance(node, Call) and node.overloads:
                self._check_literals(node)
        for aggregate in self._aggregates:
            if isinstance(aggregate, ListLiteral):
                self._check_elements(aggregate)
            else:
                self._check_entries(aggregate)

    def _check_elements(self, node: ListLiteral) -> None:
        first: t.Type | None = None
        for i, item in enumerate(node.elements):
            found = item.type.params[0] if i in node.optional else item.type
            first = first or found
            if str(found) != str(first):
                self._report(item, f"expected type '{first}' but found '{found}'")
                return

    def _check_entries(self, node: MapLiteral) -> None:
        first: tuple[t.Type, t.Type] | None = None
        for entry in node.entries:
            value = entry.value.type.params[0] if entry.optional else entry.value.type
            first = first or (entry.key.type, value)
            for part, found, wanted in (
                (entry.key, entry.key.type, first[0]),
                (entry.value, value, first[1]),
            ):
                if str(found) != str(wanted):
                    self._report(part, f"expected type '{wanted}' but found '{found}'")

    def _check_literals(self, node: Call) -> None:
        """Refuse patterns, timestamps, durations and templates that are written down and wrong."""
        if node.function == "format":
            self._check_format(node)
        if node.function not in _LITERAL_CHECKS:
            return
        # The first argument also of `matches(text, pattern)`, as in cel-go.
        arg = node.args[0] if node.args else None
        if not isinstance(arg, Literal) or not isinstance(arg.value, str):
            return
        if not _is_valid_literal(node.function, arg.value):
            self._report(arg, f"invalid {node.function} argument")

    def _check_format(self, node: Call) -> None:
        args = node.args[0] if len(node.args) == 1 else None
        if not isinstance(node.target, Literal) or not isinstance(args, ListLiteral):
            return
        found = [self._substitution.apply(self._check(arg), final=True) for arg in args.elements]
        problem = formatting.problem(str(node.target.value), found)
        if problem is not None:
            position, message = problem
            self._report(node if position is None else args.elements[position], message)

    def _optional_select(self, node: Call) -> t.Type:
        operand = self._substitution.apply(self._check(node.args[0]))
        name = node.args[1]
        assert isinstance(name, Literal)
        self._check(name)
        if t.is_optional(operand):
            operand = operand.params[0]
        result = self._field(node, operand, name.value)
        return result if t.is_optional(result) else t.optional_of(result)

    def _list(self, node: ListLiteral) -> t.Type:
        element: t.Type | None = None
        for i, item in enumerate(node.elements):
            found = self._check(item)
            if i in node.optional:
                found = self._unwrapped(item, found)
            element = self._joined(element, found)
        if not self._inside_format:
            self._aggregates.append(node)
        return t.list_of(element if element is not None else self._substitution.fresh())

    def _map(self, node: MapLiteral) -> t.Type:
        key: t.Type | None = None
        value: t.Type | None = None
        for entry in node.entries:
            key = self._joined(key, self._check(entry.key))
            found = self._check(entry.value)
            if entry.optional:
                found = self._unwrapped(entry.value, found)
            value = self._joined(value, found)
        if not self._inside_format:
            self._aggregates.append(node)
        if key is None or value is None:
            return t.map_of(self._substitution.fresh(), self._substitution.fresh())
        return t.map_of(key, value)

    def _unwrapped(self, node: Node, found: t.Type) -> t.Type:
        found = self._substitution.apply(found)
        if t.is_optional(found):
            return found.params[0]
        if not found.is_dynamic:
            self._report(node, f"expected type 'optional_type({found})' but found '{found}'")
        return found

    def _joined(self, previous: t.Type | None, current: t.Type) -> t.Type:
        if previous is None:
            return current
        if self._substitution.assign(previous, current):
            return previous if is_less_specific(previous, current) else current
        return t.DYN

    def _object(self, node: ObjectLiteral) -> t.Type:
        found = self._object_types(node.name)
        for field in node.fields:
            value = self._check(field.value)
            if field.optional:
                value = self._unwrapped(field.value, value)
            if found is not None:
                self._check_object_field(found, field, value)
        if found is None:
            self._report(node, f"undeclared reference to '{node.name}' (in container '')")
            return t.ERROR
        return found

    def _check_object_field(self, found: t.Type, field: ObjectField, value: t.Type) -> None:
        declared = found.fields.get(field.name)
        if declared is None:
            self.issues.append(Issue(field.pos, f"undefined field '{field.name}'"))
        elif not self._substitution.assign(declared.type, value):
            actual = self._substitution.apply(value, final=True)
            text = f"expected type of field '{field.name}' is '{declared.type}' but provided type "
            self.issues.append(Issue(field.pos, f"{text}is '{actual}'"))

    def _comprehension(self, node: Comprehension) -> t.Type:
        range_type = self._substitution.apply(self._check(node.iter_range))
        accu = self._check(node.accu_init)
        first, second = self._iteration_types(node, range_type)
        self._scopes.append({node.accu_var: accu})
        scope = {node.iter_var: first}
        if node.iter_var2:
            scope[node.iter_var2] = second
        self._scopes.append(scope)
        self._expect(node.condition, t.BOOL)
        self._expect(node.step, accu)
        self._scopes.pop()
        result = self._check(node.result)
        self._scopes.pop()
        return self._substitution.apply(result)

    def _iteration_types(self, node: Comprehension, range_type: t.Type) -> tuple[t.Type, t.Type]:
        """Return the types of the iteration variables."""
        kind = range_type.kind
        if kind is t.K_LIST:
            element = range_type.params[0]
            return (t.INT, element) if node.iter_var2 else (element, element)
        if kind is t.K_MAP:
            return range_type.params[0], range_type.params[1]
        if kind is t.K_PARAM:
            self._substitution.assign(range_type, t.DYN)
        elif not range_type.is_dynamic:
            self._report(
                node.iter_range,
                f"expression of type '{range_type}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
            return t.ERROR, t.ERROR
        return t.DYN, t.DYN

    def _expect(self, node: Node, expected: t.Type) -> None:
        found = self._check(node)
        if not self._substitution.assign(expected, found):
            expected = self._substitution.apply(expected, final=True)
            actual = self._substitution.apply(found, final=True)
            self._report(node, f"expected type '{expected}' but found '{actual}'")


def _is_valid_literal(function: str, text: str) -> bool:
    try:
        if function == "matches":
            regex.compile_pattern(text)
        elif function == "timestamp":
            time.parse_timestamp(text)
        else:
            time.parse_duration(text)
    except (EvaluationError, ValueError):
        return False
    return True


# Operands of selections that turned out to be names: of a variable, or of a type.
_VARIABLE = Ident(0, "")
_CONSTANT = Ident(0, "")


def is_variable(node: Select) -> bool:
    """Return whether a selection is the qualified name of a variable, kept in its `key`."""
    return node.operand is _VARIABLE


def constant_type(node: Select) -> t.Type | None:
    """Return the type a selection names, as `google.protobuf.Timestamp` does."""
    return _TYPE_NAMES[node.key] if node.operand is _CONSTANT else None
