# SPDX-License-Identifier: Apache-2.0
"""Functions of strings: the standard ones and version 2 of the strings extension.

Positions count code points, like the strings of Python. `format` is a language
of its own and lives in `rdd.cel.library.formatting`.
"""

import math
from collections.abc import Callable

from rdd.cel import types as t
from rdd.cel.errors import EvaluationError, NoSuchOverload
from rdd.cel.functions import TRAVERSAL, Library, double_traversal, traversal
from rdd.cel.library import formatting

LIBRARY = Library()
_S, _I, _B = t.STRING, t.INT, t.BOOL

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER = {lower: lower - 32 for lower in range(ord("a"), ord("z") + 1)}
# What Go's unicode.IsSpace accepts; str.strip() without arguments also strips separators 1C-1F.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def _out_of_range(position: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {position}")


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0 or (start > len(text) and part):
        raise _out_of_range(start)
    if not part:
        return start
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not 0 <= start < len(text) and part:
        raise _out_of_range(start)
    if not part:
        return start
    return text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise _out_of_range(start)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, end):
        if not 0 <= position <= len(text):
            raise _out_of_range(position)
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, -1 if limit < 0 else limit)


def _replace_cost(text: str, old: str, new: str, limit: int = -1) -> int:
    """As in Kubernetes, plus what the result is longer: replacing must not outgrow the budget."""
    count = text.count(old) if limit < 0 else min(limit, len(text) + 1)
    grown = max(0, count * (len(new) - len(old)))
    return math.ceil(len(text) * 2 * TRAVERSAL) + math.ceil(grown * TRAVERSAL)


def _join(items: list[str], separator: str = "") -> str:
    if not all(type(item) is str for item in items):
        raise NoSuchOverload()
    return separator.join(items)


def _join_cost(items: list[str], separator: str = "") -> int:
    length = sum(len(i) for i in items if type(i) is str) + len(separator) * len(items)
    return math.ceil(length * 2 * TRAVERSAL)


def _contains_cost(text: str, part: str) -> int:
    return math.ceil(len(text) * TRAVERSAL) * math.ceil(len(part) * TRAVERSAL)


_QUOTES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _quote(text: str) -> str:
    return '"' + "".join(_QUOTES.get(char, char) for char in text) + '"'


def _declare() -> None:
    method = LIBRARY.method
    method("contains", "contains_string", (_S, _S), _B, lambda s, p: p in s, charge=_contains_cost)
    method("startsWith", "starts_with_string", (_S, _S), _B, str.startswith, charge=traversal)
    method("endsWith", "ends_with_string", (_S, _S), _B, str.endswith, charge=traversal)
    method("charAt", "string_char_at_int", (_S, _I), _S, _char_at)
    cost: Callable[..., int] = traversal
    method("indexOf", "string_index_of_string", (_S, _S), _I, _index_of, charge=cost)
    method("indexOf", "string_index_of_string_int", (_S, _S, _I), _I, _index_of, charge=cost)
    name = "lastIndexOf"
    method(name, "string_last_index_of_string", (_S, _S), _I, _last_index_of, charge=cost)
    method(name, "string_last_index_of_string_int", (_S, _S, _I), _I, _last_index_of, charge=cost)
    method(
        "lowerAscii", "string_lower_ascii", (_S,), _S, lambda s: s.translate(_LOWER), charge=cost
    )
    method(
        "upperAscii", "string_upper_ascii", (_S,), _S, lambda s: s.translate(_UPPER), charge=cost
    )
    method("substring", "string_substring_int", (_S, _I), _S, _substring, charge=cost)
    method("substring", "string_substring_int_int", (_S, _I, _I), _S, _substring, charge=cost)
    method("trim", "string_trim", (_S,), _S, lambda s: s.strip(_SPACE), charge=cost)
    cost = _replace_cost
    method("replace", "string_replace_string_string", (_S, _S, _S), _S, _replace, charge=cost)
    method(
        "replace", "string_replace_string_string_int", (_S, _S, _S, _I), _S, _replace, charge=cost
    )
    words = t.list_of(_S)
    cost = double_traversal
    method("split", "string_split_string", (_S, _S), words, _split, charge=cost)
    method("split", "string_split_string_int", (_S, _S, _I), words, _split, charge=cost)
    method("join", "list_join", (words,), _S, _join, charge=_join_cost)
    method("join", "list_join_string", (words, _S), _S, _join, charge=_join_cost)
    method(
        "format", "string_format", (_S, t.list_of(t.DYN)), _S, formatting.format_string,
        charge=formatting.cost,
    )  # fmt: skip
    LIBRARY.function("strings.quote", "strings_quote", (_S,), _S, _quote, charge=traversal)


_declare()
