# SPDX-License-Identifier: Apache-2.0
"""Tokens to a syntax tree.

A recursive descent over the CEL grammar, with precedence climbing for binary
operators so that nesting costs few stack frames. The first syntax error ends
the parse; its text follows the ANTLR parser of cel-go.

Nothing here or later recurses deeper than the tree, and the tree may not be
deeper than MAX_DEPTH: hostile expressions are refused before they can overflow
the interpreter's stack.
"""

import sys

from rdd.cel import macros
from rdd.cel import types as t
from rdd.cel.ast import (
    Call,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Node,
    ObjectField,
    ObjectLiteral,
    Select,
    qualified_name,
)
from rdd.cel.errors import CompileError, Issue
from rdd.cel.escaping import RESERVED
from rdd.cel.lexer import Token, tokenize, unquote
from rdd.cel.values import MAX_INT, MAX_UINT, Uint

MAX_DEPTH = 250
"""Nesting of an expression, as in cel-go."""
_DEEP = 60
"""Up to this depth all passes over a tree fit into the interpreter's default of 1000 frames."""
_FRAMES = 1000 + 14 * MAX_DEPTH
"""Enough for the deepest tree: parsing takes up to five frames for a level, a nested macro up to
twelve in the checker."""

MAX_CODE_POINTS = 100_000

_BINARY = {
    "||": (1, "_||_"),
    "&&": (2, "_&&_"),
    "<": (3, "_<_"), "<=": (3, "_<=_"), ">": (3, "_>_"), ">=": (3, "_>=_"),
    "==": (3, "_==_"), "!=": (3, "_!=_"), "in": (3, "@in"),
    "+": (4, "_+_"), "-": (4, "_-_"),
    "*": (5, "_*_"), "/": (5, "_/_"), "%": (5, "_%_"),
}  # fmt: skip

_EXPRESSION_START = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def _allow_frames() -> None:
    """Let the interpreter recurse as deep as the deepest tree needs.

    The limit stays: programs of the tree run later, in any thread. Frames of Python functions
    are on the heap, so that a higher limit costs no stack.
    """
    if sys.getrecursionlimit() < _FRAMES:
        sys.setrecursionlimit(_FRAMES)


class _SyntaxError(Exception):
    def __init__(self, pos: int, message: str) -> None:
        self.issue = Issue(pos, message)


def parse(source: str) -> Node:
    """Return the tree of an expression. Raises CompileError."""
    if len(source) > MAX_CODE_POINTS:
        message = (
            f"expression code point size exceeds limit: size: {len(source)}, "
            f"limit {MAX_CODE_POINTS}"
        )
        raise CompileError(source, [Issue(-1, message)])
    tokens, issues = tokenize(source)
    parser = _Parser(tokens)
    try:
        tree = parser.parse()
    except _SyntaxError as error:
        raise CompileError(source, [*issues, error.issue]) from None
    if issues or parser.issues:
        raise CompileError(source, [*issues, *parser.issues])
    return tree


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._nesting = 0
        self.issues: list[Issue] = []  # misused macros: parsing continues

    def parse(self) -> Node:
        tree = self._expression()
        token = self._tokens[self._next]
        if token.kind != "eof":
            is_last = self._tokens[self._next + 1].kind == "eof"
            what = "extraneous" if is_last else "mismatched"
            raise _SyntaxError(
                token.pos, f"Syntax error: {what} input '{token.text}' expecting <EOF>"
            )
        return tree

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _accept(self, kind: str) -> Token | None:
        token = self._tokens[self._next]
        if token.kind != kind:
            return None
        self._next += 1
        return token

    def _expect(self, kind: str) -> Token:
        token = self._tokens[self._next]
        if token.kind != kind:
            shown = "IDENTIFIER" if kind == "ident" else f"'{kind}'"
            missing = token.kind == "eof" and kind not in ("ident", ":")
            raise _SyntaxError(
                token.pos,
                f"Syntax error: missing {shown} at '{token.text}'"
                if missing
                else f"Syntax error: mismatched input '{token.text}' expecting {shown}",
            )
        self._next += 1
        return token

    def _bounded(self, node: Node) -> Node:
        if node.depth > _DEEP:
            _allow_frames()
        if node.depth > MAX_DEPTH:
            raise _SyntaxError(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")
        return node

    def _expression(self) -> Node:
        self._nesting += 1
        if self._nesting > _DEEP:
            _allow_frames()
        if self._nesting > MAX_DEPTH:
            raise _SyntaxError(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")
        condition = self._binary(1)
        question = self._accept("?")
        if question is not None:
            chosen = self._binary(1)
            self._expect(":")
            otherwise = self._expression()
            condition = self._bounded(Call(question.pos, "_?_:_", [condition, chosen, otherwise]))
        self._nesting -= 1
        return condition

    def _binary(self, level: int) -> Node:
        left = self._unary()
        while True:
            token = self._tokens[self._next]
            operator = _BINARY.get(token.kind)
            if operator is None or operator[0] < level:
                return left
            precedence, function = operator
            if precedence <= 2:
                left = self._logical(left, token.kind, precedence, function)
                continue
            self._next += 1
            right = self._binary(precedence + 1)
            left = self._bounded(Call(token.pos, function, [left, right]))

    def _logical(self, first: Node, kind: str, precedence: int, function: str) -> Node:
        """Return a chain of one logical operator, as a balanced tree like in cel-go."""
        terms, positions = [first], []
        while (token := self._accept(kind)) is not None:
            positions.append(token.pos)
            terms.append(self._binary(precedence + 1))

        def balanced(low: int, high: int) -> Node:
            middle = (low + high + 1) // 2
            left = terms[middle] if middle == low else balanced(low, middle - 1)
            right = terms[middle + 1] if middle == high else balanced(middle + 1, high)
            return Call(positions[middle], function, [left, right])

        return self._bounded(balanced(0, len(positions) - 1))

    def _unary(self) -> Node:
        token = self._tokens[self._next]
        if token.kind == "!":
            return self._repeated(token, "!", "!_")
        if token.kind == "-":
            following = self._tokens[self._next + 1].kind
            if following in ("int", "float"):
                self._next += 1
                return self._member(self._number(token.pos, "-"))
            return self._repeated(token, "-", "-_")
        return self._member(self._primary())

    def _repeated(self, token: Token, kind: str, function: str) -> Node:
        count = 0
        while self._accept(kind) is not None:
            count += 1
        operand = self._member(self._primary())
        if count % 2 == 0:
            return operand
        return self._bounded(Call(token.pos, function, [operand]))

    def _member(self, node: Node) -> Node:
        while True:
            token = self._tokens[self._next]
            if token.kind == ".":
                self._next += 1
                node = self._selection(node, token)
            elif token.kind == "[":
                self._next += 1
                function = "_[_]" if self._accept("?") is None else "_[?_]"
                index = self._expression()
                self._expect("]")
                node = Call(token.pos, function, [node, index])
            elif token.kind == "{" and (name := qualified_name(node)) is not None:
                self._next += 1
                node = self._object(name, token)
            else:
                return node
            self._bounded(node)

    def _selection(self, operand: Node, dot: Token) -> Node:
        is_optional = self._accept("?") is not None
        name = self._expect("ident")
        if is_optional:
            return Call(dot.pos, "_?._", [operand, Literal(name.pos, name.text, t.STRING)])
        opening = self._accept("(")
        if opening is None:
            return Select(dot.pos, operand, name.text)
        return self._call(opening.pos, name.text, operand, self._arguments(")")[0])

    def _call(self, pos: int, function: str, target: Node | None, args: list[Node]) -> Node:
        try:
            expanded = macros.expand(pos, function, target, args)
        except macros.MacroError as error:
            self.issues.append(Issue(error.pos, str(error)))
            return Literal(pos, None, t.ERROR)
        return expanded if expanded is not None else Call(pos, function, args, target)

    def _arguments(self, closing: str) -> tuple[list[Node], frozenset[int]]:
        """Return expressions up to a closing token.

        In lists some may be optional and a comma may end.
        """
        items: list[Node] = []
        optional: list[int] = []
        while self._tokens[self._next].kind != closing:
            if closing == "]" and self._accept("?") is not None:
                optional.append(len(items))
            items.append(self._expression())
            if self._accept(",") is None:
                break
            if closing == ")" and self._tokens[self._next].kind == closing:
                self._fail_at_start(self._tokens[self._next])
        self._expect(closing)
        return items, frozenset(optional)

    def _fail_at_start(self, token: Token) -> None:
        raise _SyntaxError(
            token.pos,
            f"Syntax error: mismatched input '{token.text}' expecting {_EXPRESSION_START}",
        )

    def _primary(self) -> Node:
        token = self._take()
        kind = token.kind
        if kind == "ident":
            return self._name(token, token.text)
        if kind == "string":
            return self._string(token)
        if kind in ("int", "uint", "float"):
            self._next -= 1
            return self._number(token.pos, "")
        if kind in ("true", "false"):
            return Literal(token.pos, kind == "true", t.BOOL)
        if kind == "null":
            return Literal(token.pos, None, t.NULL)
        if kind == "(":
            inner = self._expression()
            self._expect(")")
            return inner
        if kind == "[":
            return self._bounded(ListLiteral(token.pos, *self._arguments("]")))
        if kind == "{":
            return self._bounded(MapLiteral(token.pos, self._entries()))
        if kind == ".":
            name = self._expect("ident")
            return self._name(name, name.text)
        self._fail_at_start(token)
        raise AssertionError("unreachable")

    def _name(self, token: Token, name: str) -> Node:
        opening = self._accept("(")
        if opening is not None:
            return self._bounded(self._call(opening.pos, name, None, self._arguments(")")[0]))
        if name in RESERVED:
            self.issues.append(Issue(token.pos, f"reserved identifier: {name}"))
        return Ident(token.pos, name)

    def _entries(self) -> list[MapEntry]:
        entries: list[MapEntry] = []
        while self._tokens[self._next].kind != "}":
            is_optional = self._accept("?") is not None
            key = self._expression()
            colon = self._expect(":")
            entries.append(MapEntry(colon.pos, key, self._expression(), is_optional))
            if self._accept(",") is None:
                break
        self._expect("}")
        return entries

    def _object(self, name: str, opening: Token) -> Node:
        fields: list[ObjectField] = []
        while self._tokens[self._next].kind != "}":
            is_optional = self._accept("?") is not None
            field = self._expect("ident")
            colon = self._expect(":")
            fields.append(ObjectField(colon.pos, field.text, self._expression(), is_optional))
            if self._accept(",") is None:
                break
        self._expect("}")
        return ObjectLiteral(opening.pos, name, fields)

    def _string(self, token: Token) -> Node:
        try:
            value = unquote(token.text)
        except ValueError as error:
            raise _SyntaxError(token.pos, f"Syntax error: {error}") from None
        return Literal(token.pos, value, t.BYTES if isinstance(value, bytes) else t.STRING)

    def _number(self, pos: int, sign: str) -> Node:
        token = self._take()
        if token.kind == "float":
            return Literal(pos, float(sign + token.text), t.DOUBLE)
        text = token.text.rstrip("uU")
        # Past 20 digits no literal is in range; do not convert thousands of digits to find out.
        value = 1 << 64 if len(text) > 20 else int(sign + text, 0 if "x" in text else 10)
        if token.kind == "uint":
            if value > MAX_UINT:
                raise _SyntaxError(pos, "invalid uint literal")
            return Literal(pos, Uint(value), t.UINT)
        if not -MAX_INT - 1 <= value <= MAX_INT:
            raise _SyntaxError(pos, "invalid int literal")
        return Literal(pos, value, t.INT)
