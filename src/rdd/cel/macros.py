# SPDX-License-Identifier: Apache-2.0
"""Macros: calls that are replaced by other expressions while parsing.

The expansions are those of cel-go (standard macros, the two-variable
comprehensions, `optMap`, `optFlatMap` and `sortBy`), because Kubernetes' cost
estimates and type errors are statements about the expanded expressions.
"""

from collections.abc import Callable

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
    OptMap,
    Select,
)


class MacroError(Exception):
    """A macro was used with arguments it cannot take."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


def expand(pos: int, function: str, target: Node | None, args: list[Node]) -> Node | None:
    """Return what a call stands for, or None when it is no macro. Raises MacroError."""
    if target is None:
        return _has(pos, args[0]) if function == "has" and len(args) == 1 else None
    macro = _RECEIVER_MACROS.get((function, len(args)))
    return None if macro is None else macro(pos, target, args)


def _has(pos: int, arg: Node) -> Node:
    if isinstance(arg, Select) and not arg.test_only:
        return Select(pos, arg.operand, arg.field_name, test_only=True)
    raise MacroError(arg.pos, "invalid argument to has() macro")


def _variable(arg: Node, message: str = "argument must be a simple name") -> str:
    if not isinstance(arg, Ident):
        raise MacroError(arg.pos, message)
    if arg.name == ACCUMULATOR:
        raise MacroError(arg.pos, "iteration variable overwrites accumulator variable")
    return arg.name


class _Fold:
    """The recurring pieces of one expansion, all at the position of the call."""

    def __init__(self, pos: int, target: Node, variables: tuple[str, str]) -> None:
        self._pos = pos
        self._target = target
        self._variables = variables

    def accumulator(self) -> Node:
        return Ident(self._pos, ACCUMULATOR)

    def true(self, value: bool = True) -> Node:
        return Literal(self._pos, value, t.BOOL)

    def number(self, value: int) -> Node:
        return Literal(self._pos, value, t.INT)

    def call(self, function: str, *args: Node) -> Node:
        return Call(self._pos, function, list(args))

    def make(
        self,
        shape: str,
        init: Node,
        condition: Node,
        step: Node,
        parts: tuple[Node, ...],
        *,
        result: Node | None = None,
    ) -> Node:
        return Comprehension(
            self._pos,
            self._target,
            self._variables[0],
            self._variables[1],
            ACCUMULATOR,
            init,
            condition,
            step,
            result or self.accumulator(),
            shape,
            parts,
        )


def _split(
    pos: int, target: Node, args: list[Node], count: int, message: str = ""
) -> tuple[_Fold, list[Node]]:
    """Take `count` iteration variables from the arguments."""
    names = [_variable(arg, message) if message else _variable(arg) for arg in args[:count]]
    if count == 2 and names[0] == names[1]:
        raise MacroError(args[1].pos, "duplicate variable name: " + names[1])
    fold = _Fold(pos, target, (names[0], names[1] if count == 2 else ""))
    return fold, args[count:]


def _all(count: int) -> Callable[[int, Node, list[Node]], Node]:
    def macro(pos: int, target: Node, args: list[Node]) -> Node:
        fold, (predicate,) = _split(pos, target, args, count)
        return fold.make(
            "all",
            fold.true(),
            fold.call("@not_strictly_false", fold.accumulator()),
            fold.call("_&&_", fold.accumulator(), predicate),
            (predicate,),
        )

    return macro


def _exists(count: int) -> Callable[[int, Node, list[Node]], Node]:
    def macro(pos: int, target: Node, args: list[Node]) -> Node:
        fold, (predicate,) = _split(pos, target, args, count)
        return fold.make(
            "exists",
            fold.true(False),
            fold.call("@not_strictly_false", fold.call("!_", fold.accumulator())),
            fold.call("_||_", fold.accumulator(), predicate),
            (predicate,),
        )

    return macro


def _exists_one(count: int) -> Callable[[int, Node, list[Node]], Node]:
    def macro(pos: int, target: Node, args: list[Node]) -> Node:
        fold, (predicate,) = _split(pos, target, args, count)
        return fold.make(
            "exists_one",
            fold.number(0),
            fold.true(),
            fold.call(
                "_?_:_",
                predicate,
                fold.call("_+_", fold.accumulator(), fold.number(1)),
                fold.accumulator(),
            ),
            (predicate,),
            result=fold.call("_==_", fold.accumulator(), fold.number(1)),
        )

    return macro


_NOT_AN_IDENTIFIER = "argument is not an identifier"


def _map(count: int) -> Callable[[int, Node, list[Node]], Node]:
    """Return `map` and `transformList`: an optional filter, then the new element."""

    def macro(pos: int, target: Node, args: list[Node]) -> Node:
        message = _NOT_AN_IDENTIFIER if count == 1 else ""
        fold, rest = _split(pos, target, args, count, message)
        step = fold.call("_+_", fold.accumulator(), ListLiteral(pos, [rest[-1]]))
        if len(rest) == 2:
            step = fold.call("_?_:_", rest[0], step, fold.accumulator())
        return fold.make("map", ListLiteral(pos, []), fold.true(), step, tuple(rest))

    return macro


def _filter(pos: int, target: Node, args: list[Node]) -> Node:
    fold, (predicate,) = _split(pos, target, args, 1, _NOT_AN_IDENTIFIER)
    element = Ident(pos, args[0].name)  # type: ignore[attr-defined]
    step = fold.call("_+_", fold.accumulator(), ListLiteral(pos, [element]))
    step = fold.call("_?_:_", predicate, step, fold.accumulator())
    return fold.make("filter", ListLiteral(pos, []), fold.true(), step, (predicate,))


def _transform_map(pos: int, target: Node, args: list[Node]) -> Node:
    fold, rest = _split(pos, target, args, 2)
    key = Ident(pos, args[0].name)  # type: ignore[attr-defined]
    step = fold.call("cel.@mapInsert", fold.accumulator(), key, rest[-1])
    if len(rest) == 2:
        step = fold.call("_?_:_", rest[0], step, fold.accumulator())
    return fold.make("transform_map", MapLiteral(pos, []), fold.true(), step, tuple(rest))


def _transform_map_entry(pos: int, target: Node, args: list[Node]) -> Node:
    fold, rest = _split(pos, target, args, 2)
    step = fold.call("cel.@mapInsert", fold.accumulator(), rest[-1])
    if len(rest) == 2:
        step = fold.call("_?_:_", rest[0], step, fold.accumulator())
    return fold.make("transform_map_entry", MapLiteral(pos, []), fold.true(), step, tuple(rest))


def _bind(pos: int, variable: str, value: Node, result: Node) -> Node:
    """Return a local variable, as a comprehension over nothing."""
    return Comprehension(
        pos,
        ListLiteral(pos, []),
        "#unused",
        "",
        variable,
        value,
        Literal(pos, False, t.BOOL),
        Ident(pos, variable),
        result,
        "bind",
        (),
    )


def _opt_map(name: str, is_flat: bool) -> Callable[[int, Node, list[Node]], Node]:
    def macro(pos: int, target: Node, args: list[Node]) -> Node:
        variable = _variable(args[0], f"{name}() variable name must be a simple identifier")
        bound = _bind(pos, variable, Call(pos, "value", [], target), args[1])
        some = bound if is_flat else Call(pos, "optional.of", [bound])
        # The target occurs twice. Passes over the tree record visited nodes, and
        # the compiler evaluates it once; else chained calls would cost exponential time.
        expanded = Call(
            pos,
            "_?_:_",
            [Call(pos, "hasValue", [], target), some, Call(pos, "optional.none", [])],
        )
        expanded.opt_map = OptMap(target, variable, args[1], is_flat)
        return expanded

    return macro


def _sort_by(pos: int, target: Node, args: list[Node]) -> Node:
    name = "@__sortBy_input__"
    if isinstance(target, Literal | MapLiteral):
        raise MacroError(
            target.pos,
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression",
        )
    keys = _map(1)(pos, Ident(pos, name), args)
    sort = Call(pos, "@sortByAssociatedKeys", [keys], Ident(pos, name))
    return _bind(pos, name, target, sort)


_RECEIVER_MACROS: dict[tuple[str, int], Callable[[int, Node, list[Node]], Node]] = {
    ("all", 2): _all(1),
    ("all", 3): _all(2),
    ("exists", 2): _exists(1),
    ("exists", 3): _exists(2),
    ("exists_one", 2): _exists_one(1),
    ("exists_one", 3): _exists_one(2),
    ("existsOne", 3): _exists_one(2),
    ("map", 2): _map(1),
    ("map", 3): _map(1),
    ("filter", 2): _filter,
    ("transformList", 3): _map(2),
    ("transformList", 4): _map(2),
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("optMap", 2): _opt_map("optMap", False),
    ("optFlatMap", 2): _opt_map("optFlatMap", True),
    ("sortBy", 2): _sort_by,
}
