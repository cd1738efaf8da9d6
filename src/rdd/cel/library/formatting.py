# SPDX-License-Identifier: Apache-2.0
"""`string.format(list)`: %s %d %f %e %b %o %x %X and %%, with an optional precision.

The argument list is indexed by the clauses in order. `%s` writes any value,
lists and maps included, in the notation of the strings extension.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.functions import TRAVERSAL
from rdd.cel.library import time as times
from rdd.cel.library.conversions import format_double
from rdd.cel.values import Duration, Timestamp, Uint, size_of, type_of

_MAX_PRECISION = 1000
_CLAUSE = re.compile(r"%(?:\.(\d*))?(.?)", re.DOTALL)


def cost(template: str, args: list[Any]) -> int:
    """A pass over the template and over each text that is written."""
    return math.ceil((len(template) + sum(map(size_of, args))) * TRAVERSAL)


def format_string(template: str, args: list[Any]) -> str:
    """The template with its clauses replaced by the arguments."""
    pieces: list[str] = []
    last = used = 0
    for found in _CLAUSE.finditer(template):
        pieces.append(template[last : found.start()])
        last = found.end()
        digits, verb = found.groups()
        if verb == "%" and digits is None:
            pieces.append("%")
            continue
        if used >= len(args):
            raise _failed(f"index {used} out of range")
        pieces.append(_clause(verb, digits, args[used]))
        used += 1
    pieces.append(template[last:])
    if used < len(args):
        raise _failed(
            f"too many arguments supplied to string.format (expected {used}, got {len(args)})"
        )
    return "".join(pieces)


def _failed(detail: str) -> EvaluationError:
    return EvaluationError(f"error during formatting: {detail}")


def _clause(verb: str, digits: str | None, value: Any) -> str:
    writer = _VERBS.get(verb)
    if writer is None:
        raise _failed(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    precision = 6
    if digits is not None:
        if not digits or int(digits[:6]) > _MAX_PRECISION:
            raise _failed("could not parse formatting clause: invalid precision")
        precision = int(digits)
    return writer(value, precision)


def _string(value: Any, _precision: int) -> str:
    return _text(value)


def _text(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind is float:
        if math.isnan(value) or math.isinf(value):
            return {"NaN": "NaN", "+Inf": "Infinity", "-Inf": "-Infinity"}[format_double(value)]
        return format_double(value)
    if isinstance(value, int):
        return str(int(value))
    if kind is bytes:
        return str(value.decode(errors="replace"))
    if kind is Timestamp:
        return times.format_timestamp(value)
    if kind is Duration:
        return times.format_duration(value)
    if kind is t.Type:
        return str(value.name)
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        entries = sorted((_text(key), _text(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in entries) + "}"
    raise _failed(
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        f"types, durations, and timestamps, was given {type_of(value).name}"
    )


def _is_integer(value: Any) -> bool:
    return type(value) is int or type(value) is Uint


def _special(value: Any) -> str | None:
    """The words for infinities, which number clauses take as doubles or as text."""
    if type(value) is float and (math.isnan(value) or math.isinf(value)):
        return {"NaN": "NaN", "+Inf": "Infinity", "-Inf": "-Infinity"}[format_double(value)]
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        return value
    return None


def _decimal(value: Any, _precision: int) -> str:
    if _is_integer(value):
        return str(int(value))
    special = _special(value)
    if special is None:
        raise _failed(
            f"decimal clause can only be used on integers, was given {type_of(value).name}"
        )
    return special


def _number(name: str, form: str) -> Callable[[Any, int], str]:
    def writer(value: Any, precision: int) -> str:
        special = _special(value)
        if special is not None:
            return special
        if type(value) is not float and not _is_integer(value):
            raise _failed(
                f"{name} clause can only be used on doubles, was given {type_of(value).name}"
            )
        return f"{float(value):.{precision}{form}}"

    return writer


def _binary(value: Any, _precision: int) -> str:
    if type(value) is bool:
        return "1" if value else "0"
    if not _is_integer(value):
        raise _failed(
            f"only integers and bools can be formatted as binary, was given {type_of(value).name}"
        )
    return f"{int(value):b}"


def _octal(value: Any, _precision: int) -> str:
    if not _is_integer(value):
        raise _failed(f"octal clause can only be used on integers, was given {type_of(value).name}")
    return f"{int(value):o}"


def _hexadecimal(form: str) -> Callable[[Any, int], str]:
    def writer(value: Any, _precision: int) -> str:
        if _is_integer(value):
            return f"{int(value):{form}}"
        if isinstance(value, str | bytes):
            data = value.encode() if isinstance(value, str) else value
            return data.hex() if form == "x" else data.hex().upper()
        raise _failed(
            "only integers, byte buffers, and strings can be formatted as hex, was given "
            f"{type_of(value).name}"
        )

    return writer


_VERBS: dict[str, Callable[[Any, int], str]] = {
    "s": _string,
    "d": _decimal,
    "f": _number("fixed-point", "f"),
    "e": _number("scientific", "e"),
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal("x"),
    "X": _hexadecimal("X"),
}
