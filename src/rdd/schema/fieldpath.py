# SPDX-License-Identifier: Apache-2.0
"""Paths that must name a declared member of a schema.

selectableFields of a version and the fieldPath of a CEL rule point into the
schema with a restricted JSONPath: members (`.spec.a`) and, where allowed,
quoted members (`['a.b']`). Unlike printer columns they are checked against the
schema when the definition is created.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any


class FieldPathError(ValueError):
    """A path that does not name a member; the text is Kubernetes' reason."""


_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_NOT_A_FIELD = "does not refer to a valid field"
_ENDED = "unexpected end of JSON path"


def resolve(
    path: str, schema: Mapping[str, Any], *, allow_brackets: bool = True
) -> tuple[str, Mapping[str, Any]]:
    """Return the field (`spec.a[key]`) and the schema that a path names.

    FieldPathError if it does not.
    """
    field = ""
    tokens = _tokens(path)
    for token in tokens:
        if token == ".":
            name = next(tokens, None)
            if name is None:
                raise FieldPathError(_ENDED)
            field, schema = _step(field, schema, name)
        elif token == "[":
            if not allow_brackets:
                raise FieldPathError("array notation is not allowed")
            literal = next(tokens, None)
            if literal is None:
                raise FieldPathError(_ENDED)
            if len(literal) < 2 or literal[0] != "'" or literal[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {literal}")
            field, schema = _step(field, schema, _unquoted(literal[1:-1]))
            bracket = next(tokens, None)
            if bracket is None:
                raise FieldPathError(_ENDED)
            if bracket != "]":
                raise FieldPathError(f"expected ] but got {bracket}")
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
    return field, schema


def _tokens(path: str) -> Iterator[str]:
    return (match[0] for match in _TOKEN.finditer(path))


def _step(field: str, schema: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    properties = schema.get("properties")
    additional = schema.get("additionalProperties")
    if properties:
        if name not in properties:
            raise FieldPathError(_NOT_A_FIELD)
        return f"{field}.{name}" if field else name, properties[name]
    if isinstance(additional, Mapping):
        return f"{field}[{name}]", additional
    raise FieldPathError(_NOT_A_FIELD)


_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
            "'": "'", "\\": "\\"}  # fmt: skip


def _unquoted(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", replaced, text)
