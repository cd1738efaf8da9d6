# SPDX-License-Identifier: Apache-2.0
r"""The JSONPath dialect of kubectl and of printer columns.

    .spec.running                      a member
    .metadata.annotations['a\.b']      a member with a dot in its name
    .status.conditions[0], [-1], [1:3] items of a list
    .spec.ports[*].name, .spec.*       all items, all members
    ..name                             at any depth
    [?(@.type=="Ready")].status        items that fit a condition
    [0,2]                              several selections, one after the other

A path is parsed into steps, each a function from the values so far to the
values it selects; evaluating a path is calling them in turn. Whatever does not
fit (a member of a text, an index out of range) ends the evaluation with
JsonPathError, like in Kubernetes; a missing member just selects nothing.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from rdd.base import goformat

Step = Callable[[list[Any]], list[Any]]


class JsonPathError(ValueError):
    """A path that cannot be parsed, or does not fit the data."""


class JsonPath:
    """A parsed path; `find` selects values from data."""

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        """`text` is the path without the surrounding braces."""
        self.text = text
        self._steps = _Parser(f"{{{text}}}").action()

    def find(self, data: Any) -> list[Any]:
        """Return the selected values."""
        values = [data]
        for step in self._steps:
            values = step(values)
        return values

    def first(self, data: Any) -> Any:
        """Return the first selected value; None if there is none or the path does not fit."""
        try:
            found = self.find(data)
        except JsonPathError:
            return None
        return found[0] if found else None


def parse_simple(path: str) -> tuple[str, ...]:
    """Return the member names of a path that is only members: `.spec.a` → (spec, a)."""
    return tuple(path.removeprefix(".").split("."))


def lookup(data: Any, members: tuple[str, ...]) -> Any:
    """Return the value at a simple path; None if a member is missing."""
    for name in members:
        if type(data) is not dict:
            return None
        data = data.get(name)
    return data


_SLICE = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def action(self) -> list[Step]:
        """Return the steps inside one pair of braces."""
        self.at += 1
        steps: list[Step] = []
        recursive_last = False
        while True:
            rest = self.text[self.at :]
            if rest.startswith("}"):
                self.at += 1
                if self.at < len(self.text):
                    raise JsonPathError("unexpected text after action")
                return steps
            if rest.startswith("[?("):
                steps.append(self._filter())
            elif rest.startswith(".."):
                if recursive_last:
                    raise JsonPathError("invalid multiple recursive descent")
                self.at += 2
                steps.append(_recursive)
                recursive_last = True
                following = self.text[self.at : self.at + 1]
                if following == "_" or following.isalnum():
                    steps.append(self._member())
                    recursive_last = False
                continue
            elif not rest or rest[0] in "\r\n":
                raise JsonPathError("unclosed action")
            elif rest[0] in " @$":
                self.at += 1
                continue
            elif rest[0] == "[":
                steps.extend(self._array())
            elif rest[0] in "\"'":
                steps.append(_constant(self._quoted(rest[0])))
            elif rest[0] == ".":
                self.at += 1
                steps.append(self._member())
            elif rest[0] in "+-" or rest[0].isdigit():
                steps.append(_constant(self._number()))
            elif rest[0] == "_" or rest[0].isalpha():
                steps.append(self._identifier())
            else:
                char = rest[0]
                raise JsonPathError(f"unrecognized character in action: U+{ord(char):04X} '{char}'")
            recursive_last = False

    def _member(self) -> Step:
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\\":
                self.at += 1
            elif char in _TERMINATORS:
                break
            self.at += 1
        name = self.text[start : self.at]
        return _wildcard if name == "*" else _member(name.replace("\\", ""))

    def _identifier(self) -> Step:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _TERMINATORS:
            self.at += 1
        word = self.text[start : self.at]
        if word in ("true", "false"):
            return _constant(word == "true")

        def fail(values: list[Any]) -> list[Any]:
            raise JsonPathError(f"unrecognized identifier {word}")

        return fail

    def _number(self) -> float:
        start = self.at
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] in "0123456789.":
            self.at += 1
        word = self.text[start : self.at]
        try:
            return float(word) if "." in word else int(word)
        except ValueError:
            raise JsonPathError(f"cannot parse number {word}") from None

    def _quoted(self, quote: str) -> str:
        start = self.at
        while True:
            self.at += 1
            char = self.text[self.at : self.at + 1]
            if char in ("", "\n"):
                raise JsonPathError("unterminated quoted string")
            if char == quote and self.text[self.at - 1] != "\\":
                break
        self.at += 1
        inner = self.text[start + 1 : self.at - 1]
        return re.sub(r"\\(.)", _unescaped, inner)

    def _array(self) -> list[Step]:
        end = self.text.find("]", self.at)
        inner = self.text[self.at + 1 : end] if end >= 0 else "\n"
        if "\n" in inner:
            raise JsonPathError("unterminated array")
        self.at = end + 1
        if inner == "*":
            return [_slice(None, None, None)]
        parts = inner.split(",")
        if len(parts) > 1:
            return [_union([_Parser(f"{{[{part.strip(' ')}]}}").action() for part in parts])]
        if len(inner) > 1 and inner[0] == inner[-1] == "'" and "'" not in inner[1:-1]:
            return _Parser(f"{{.{inner[1:-1]}}}").action()
        match = _SLICE.fullmatch(inner)
        if match is None:
            raise JsonPathError(f"invalid array index {inner}")
        start, stop, width = match.groups()
        first = _integer(start) if start else None
        if stop is None:
            # A lone index selects one item, and one that is not there is an error.
            return [_slice(first or 0, None, None, is_single=True)]
        return [_slice(first, _integer(stop[1:]), _integer((width or ":")[1:]))]

    def _filter(self) -> Step:
        start = self.at = self.at + 3
        quote = ""
        closed = False
        while True:
            char = self.text[self.at : self.at + 1]
            if char in ("", "\n"):
                raise JsonPathError("unterminated filter")
            if char in "\"'":
                if not quote:
                    quote = char
                elif char == quote and self.text[self.at - 1] != "\\":
                    closed = True
            elif char == ")" and bool(quote) == closed:
                break
            self.at += 1
        inner = self.text[start : self.at]
        self.at += 1
        if self.text[self.at : self.at + 1] != "]":
            raise JsonPathError("unclosed array expect ]")
        self.at += 1
        match = _COMPARISON.fullmatch(inner)
        if match is None:
            return _exists(_Parser(f"{{{inner}}}").action())
        left, operator, right = match.groups()
        return _compare(_Parser(f"{{{left}}}").action(), operator, _Parser(f"{{{right}}}").action())


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])


def _integer(text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:  # also with more digits than Python converts
        raise JsonPathError(f"array index {text[:100]} is not a number") from None


def _constant(value: Any) -> Step:
    return lambda values: [value] * max(1, len(values))


def _member(name: str) -> Step:
    def step(values: list[Any]) -> list[Any]:
        return [v[name] for v in values if type(v) is dict and name in v]

    return step


def _children(value: Any) -> Iterator[Any]:
    if type(value) is dict:
        # Go's maps have no order; sorted keys make the answer stable.
        return (value[key] for key in sorted(value))
    return iter(value if type(value) is list else ())


def _wildcard(values: list[Any]) -> list[Any]:
    return [child for value in values for child in _children(value)]


def _recursive(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        children = list(_children(value))
        if children:
            found.append(value)
            found.extend(_recursive(children))
    return found


def _slice(
    start: int | None, stop: int | None, width: int | None, *, is_single: bool = False
) -> Step:
    def step(values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            if type(value) is not list:
                raise JsonPathError(f"{goformat.type_name(value)} is not array or slice")
            size = len(value)
            low = start or 0
            low = low + size if low < 0 else low
            high = low + 1 if is_single else size if stop is None else stop
            high = high + size if high < 0 else high
            if low != high:
                for index in (low, high - 1):
                    if not 0 <= index < size:
                        raise JsonPathError(
                            f"array index out of bounds: index {index}, length {size}"
                        )
            found.extend(value[low : high : width or 1] if (width or 1) > 0 else ())
        return found

    return step


def _union(parts: list[list[Step]]) -> Step:
    def step(values: list[Any]) -> list[Any]:
        return [found for steps in parts for found in _run(steps, values)]

    return step


def _run(steps: list[Step], values: list[Any]) -> list[Any]:
    for step in steps:
        values = step(values)
    return values


def _filtered(values: list[Any], keep: Callable[[Any], bool]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if type(value) is not list:
            raise JsonPathError(
                f"{goformat.plain(value)} is not array or slice and cannot be filtered"
            )
        found.extend(item for item in value if keep(item))
    return found


def _exists(steps: list[Step]) -> Step:
    def keep(item: Any) -> bool:
        try:
            return bool(_run(steps, [item]))
        except JsonPathError:
            return False

    return lambda values: _filtered(values, keep)


def _compare(left: list[Step], operator: str, right: list[Step]) -> Step:
    if operator not in ("==", "!=", "<", "<=", ">", ">="):

        def fail(values: list[Any]) -> list[Any]:
            raise JsonPathError(f"unrecognized filter operator {operator}")

        return fail

    def keep(item: Any) -> bool:
        lefts, rights = _run(left, [item]), _run(right, [item])
        if not lefts:
            return False  # a missing member fits no condition
        if len(lefts) != 1 or len(rights) != 1:
            raise JsonPathError("can only compare one element at a time")
        return _holds(lefts[0], operator, rights[0])

    return lambda values: _filtered(values, keep)


def _holds(left: Any, operator: str, right: Any) -> bool:
    kinds = {type(left), type(right)}
    if kinds <= {int, float}:
        pass
    elif len(kinds) > 1 or not kinds <= {str, bool}:
        raise JsonPathError("incompatible types for comparison")
    if operator in ("==", "!="):
        return bool((left == right) == (operator == "=="))
    if bool in kinds:
        raise JsonPathError("invalid type for comparison")
    if operator in ("<", "<="):
        return bool(left < right or (operator == "<=" and left == right))
    return bool(left > right or (operator == ">=" and left == right))
