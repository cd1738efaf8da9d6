# SPDX-License-Identifier: Apache-2.0
"""`string.format(list)`: %s %d %f %e %b %o %x %X and %%, with an optional precision.

Kubernetes enables version 2 of the strings extension, whose number clauses speak
American English: `%f` groups thousands (`1,234.500000`), and `%e` writes
`1.052033 × 10⁰³`, always with six digits. Inside lists and maps `%s` writes
values as literals of the language.

A template that is written down next to its arguments is checked when the
expression is compiled (`problem`), any other when it runs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rdd.base.gotext import quote
from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.functions import TRAVERSAL
from rdd.cel.library import time as times
from rdd.cel.library.conversions import format_double
from rdd.cel.values import Duration, Timestamp, size_of, type_of, visit

_DIGITS = 6  # after the point, unless a precision is given
_MAX_PRECISION = 1000
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class _Piece(NamedTuple):
    """Text before a clause, and the clause: its verb ("" at the end) and precision."""

    text: str
    verb: str = ""
    precision: int = _DIGITS


def cost(template: str, args: list[Any]) -> int:
    """Return a pass over the template and over each text that is written."""
    return math.ceil((len(template) + sum(map(size_of, args))) * TRAVERSAL)


def format_string(template: str, args: list[Any]) -> str:
    """Return the template with its clauses replaced by the arguments."""
    written: list[str] = []
    used = 0
    for piece in _pieces(template, len(args)):
        written.append(piece.text)
        if piece.verb:
            _, write = _CLAUSES[piece.verb]
            written.append(write(args[used], piece.precision))
            used += 1
    return "".join(written)


def problem(template: str, arg_types: Sequence[t.Type]) -> tuple[int | None, str] | None:
    """Return what is wrong with a template and its arguments.

    Which argument if it is one, and why.
    """
    used = 0
    try:
        for piece in _pieces(template, len(arg_types)):
            if not piece.verb:
                continue
            kinds, _ = _CLAUSES[piece.verb]
            found = arg_types[used]
            if not found.is_dynamic and found.kind not in kinds:
                return used, str(_misused(piece.verb, found))
            used += 1
    except EvaluationError as error:
        return None, str(error)
    if len(arg_types) > used:
        return None, (
            f"too many arguments supplied to string.format (expected {used}, got {len(arg_types)})"
        )
    return None


def _pieces(template: str, count: int) -> Iterator[_Piece]:
    """Yield the parts of a template for a number of arguments. Raises EvaluationError."""
    text: list[str] = []
    at = used = 0
    while (sign := template.find("%", at)) >= 0:
        text.append(template[at:sign])
        if template.startswith("%%", sign):
            text.append("%")
            at = sign + 2
            continue
        if used >= count:
            raise EvaluationError(f"index {used} out of range")
        if sign + 1 == len(template):
            raise EvaluationError("unexpected end of string")
        precision, at = _precision(template, sign + 1)
        verb = template[at]
        if verb not in _CLAUSES:
            raise _unparsed(f'unrecognized formatting clause "{verb}"')
        yield _Piece("".join(text), verb, precision)
        text.clear()
        at += 1
        used += 1
    yield _Piece("".join((*text, template[at:])))


def _precision(template: str, at: int) -> tuple[int, int]:
    """Return the precision at a place, and where the verb is."""
    if template[at] != ".":
        return _DIGITS, at
    end = at + 1
    while end < len(template) and "0" <= template[end] <= "9":
        end += 1
    if end == len(template):
        raise _unparsed("error while parsing precision: could not find end of precision specifier")
    digits = template[at + 1 : end]
    if not digits:
        reason = f"strconv.Atoi: parsing {quote(digits)}: invalid syntax"
        raise _unparsed(
            f"error while parsing precision: error while converting precision to integer: {reason}"
        )
    if len(digits) > 4 or int(digits) > _MAX_PRECISION:
        raise _unparsed(f"precision {digits} exceeds maximum allowed precision {_MAX_PRECISION}")
    return int(digits), end


def _unparsed(detail: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {detail}")


_PURPOSES = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "o": "octal clause can only be used on integers",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
}


def _misused(verb: str, found: t.Type) -> EvaluationError:
    purpose = _PURPOSES[verb.lower()]
    return EvaluationError(f"error during formatting: {purpose}, was given {found.name}")


# -- %s


def _string(value: Any, _precision: int = 0) -> str:
    if isinstance(value, list):
        visit(len(value))
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, dict):
        visit(len(value))
        entries = sorted((_key(key), _literal(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}:{item}" for key, item in entries) + "}"
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if kind is bytes:
        return str(value.decode(errors="replace"))
    if kind is Timestamp:
        return times.format_timestamp(value)
    if kind is Duration:
        return times.format_duration(value)
    if kind is t.Type:
        return str(value.name)
    if value is None:
        return "null"
    if isinstance(value, str | int):
        return str(value) if kind is str else str(int(value))
    raise _misused("s", type_of(value))


def _key(key: Any) -> str:
    return quote(key) if type(key) is str else _string(key)


def _literal(value: Any) -> str:
    """Return a value in a list or map, as it would be written in an expression."""
    kind = type(value)
    if kind is str:
        visit(len(value))
        return quote(value)
    if kind is bytes:
        visit(len(value))
        return "b" + quote(value.decode(errors="replace"))
    if kind is float:
        if math.isnan(value) or math.isinf(value):
            return quote(format_double(value))
        return f"{value:.{_DIGITS}f}"
    if kind is Timestamp:
        return f'timestamp("{times.format_timestamp(value)}")'
    if kind is Duration:
        return f'duration("{times.format_duration(value)}")'
    return _string(value)


# -- numbers


def _as_double(verb: str, value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise _misused(verb, type_of(value))


def _special(value: float) -> str | None:
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return None


def _fixed(value: Any, precision: int) -> str:
    number = _as_double("f", value)
    return _special(number) or f"{number:,.{precision}f}"


def _scientific(value: Any, precision: int) -> str:
    number = _as_double("e", value)
    # The extension passes the precision on as a width.
    mantissa, _, exponent = f"{number:.{_DIGITS}e}".partition("e")
    power = exponent.removeprefix("+").translate(_SUPERSCRIPT)
    text = _special(number) or f"{mantissa}\u202f×\u202f10{power}"
    return text.rjust(precision)


def _integer(verb: str, form: str) -> Callable[[Any, int], str]:
    def write(value: Any, _precision: int) -> str:
        if type(value) is bool and verb == "b":
            return "1" if value else "0"
        if isinstance(value, int) and type(value) is not bool:
            return format(int(value), form)
        if isinstance(value, str | bytes) and verb in "xX":
            data = value.encode() if isinstance(value, str) else value
            return data.hex() if verb == "x" else data.hex().upper()
        raise _misused(verb, type_of(value))

    return write


_INTEGERS = frozenset((t.K_INT, t.K_UINT))
_DOUBLES = frozenset((t.K_DOUBLE, t.K_STRING))  # text for NaN and the infinities
_HEX = _INTEGERS | {t.K_STRING, t.K_BYTES}
_WRITABLE = _INTEGERS | {
    t.K_LIST, t.K_MAP, t.K_DOUBLE, t.K_BOOL, t.K_STRING, t.K_TIMESTAMP, t.K_BYTES, t.K_DURATION,
    t.K_TYPE, t.K_NULL,
}  # fmt: skip
_CLAUSES: dict[str, tuple[frozenset[str], Callable[[Any, int], str]]] = {
    "s": (_WRITABLE, _string),
    "d": (_INTEGERS, _integer("d", "d")),
    "f": (_DOUBLES, _fixed),
    "e": (_DOUBLES, _scientific),
    "b": (_INTEGERS | {t.K_BOOL}, _integer("b", "b")),
    "o": (_INTEGERS, _integer("o", "o")),
    "x": (_HEX, _integer("x", "x")),
    "X": (_HEX, _integer("X", "X")),
}
