# SPDX-License-Identifier: Apache-2.0
"""Conversions between types: `int()`, `uint()`, `double()`, `string()`, `bytes()`, `bool()`, …

Texts are read and written the way Go's strconv does, errors included, because
those errors reach the user.
"""

import math
import re
from decimal import Decimal
from typing import Any

from rdd.cel import types as t
from rdd.cel.errors import EvaluationError, conversion_error
from rdd.cel.functions import Library, traversal
from rdd.cel.library import time as times
from rdd.cel.values import MAX_INT, MAX_UINT, MIN_INT, Duration, Timestamp, Uint

LIBRARY = Library()

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_DECIMAL = re.compile(
    r"[+-]?(?:(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|inf(?:inity)?|nan)\Z",
    re.IGNORECASE,
)
_POSITIONAL_DIGITS = 6  # Go writes shortest doubles with an exponent from here on
_MAX_DIGITS = 400  # no number that fits any type is longer


def int_from_string(text: str) -> int:
    """Return a decimal integer."""
    if not _INTEGER.match(text):
        raise conversion_error("int")
    value = int(text) if len(text) < _MAX_DIGITS else MAX_INT + 1
    if not MIN_INT <= value <= MAX_INT:
        raise conversion_error("int")
    return value


def int_from_double(value: float) -> int:
    """Return a double without its fraction."""
    # The bounds themselves are not exact as doubles, so they are refused like in cel-go.
    if math.isnan(value) or not -9223372036854775808.0 < value < 9223372036854775808.0:
        raise EvaluationError("integer overflow")
    return int(value)


def _int_from_uint(value: Uint) -> int:
    if value > MAX_INT:
        raise EvaluationError("integer overflow")
    return int(value)


def _uint_from_string(text: str) -> Uint:
    if not text.isascii() or not text.isdigit():
        raise conversion_error("uint")
    value = int(text) if len(text) < _MAX_DIGITS else MAX_UINT + 1
    if value > MAX_UINT:
        raise conversion_error("uint")
    return Uint(value)


def _uint_from_double(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 18446744073709551616.0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def _uint_from_int(value: int) -> Uint:
    if value < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def _double_from_string(text: str) -> float:
    if not _DECIMAL.match(text):
        raise conversion_error("double")
    return float(text)


_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _bool_from_string(text: str) -> bool:
    if text not in _BOOLS:
        raise conversion_error("bool")
    return _BOOLS[text]


def format_double(value: float) -> str:
    """Return the shortest text of a double, in the form of Go's %g."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    text = "".join(map(str, digits))
    power = len(text) + int(exponent) - 1
    minus = "-" if sign else ""
    if -5 < power < _POSITIONAL_DIGITS:
        if power < 0:
            return f"{minus}0.{'0' * (-power - 1)}{text}"
        whole = text[: power + 1].ljust(power + 1, "0")
        fraction = text[power + 1 :]
        return f"{minus}{whole}.{fraction}" if fraction else minus + whole
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{minus}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def to_string(value: Any) -> str:
    """Return the text of a value that has one."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if kind is Timestamp:
        return times.format_timestamp(value)
    if kind is Duration:
        return times.format_duration(value)
    if kind is bytes:
        return _string_from_bytes(value)
    return str(int(value))


def _string_from_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _same(value: Any) -> Any:
    return value


def _declare() -> None:
    declare = LIBRARY.function
    declare("int", "int64_to_int64", (t.INT,), t.INT, _same)
    declare("int", "uint64_to_int64", (t.UINT,), t.INT, _int_from_uint)
    declare("int", "double_to_int64", (t.DOUBLE,), t.INT, int_from_double)
    declare("int", "string_to_int64", (t.STRING,), t.INT, int_from_string)
    declare("int", "timestamp_to_int64", (t.TIMESTAMP,), t.INT, lambda v: v.ns // 10**9)
    declare("int", "duration_to_int64", (t.DURATION,), t.INT, lambda v: v.ns)
    declare("uint", "uint64_to_uint64", (t.UINT,), t.UINT, _same)
    declare("uint", "int64_to_uint64", (t.INT,), t.UINT, _uint_from_int)
    declare("uint", "double_to_uint64", (t.DOUBLE,), t.UINT, _uint_from_double)
    declare("uint", "string_to_uint64", (t.STRING,), t.UINT, _uint_from_string)
    declare("double", "double_to_double", (t.DOUBLE,), t.DOUBLE, _same)
    declare("double", "int64_to_double", (t.INT,), t.DOUBLE, float)
    declare("double", "uint64_to_double", (t.UINT,), t.DOUBLE, float)
    declare("double", "string_to_double", (t.STRING,), t.DOUBLE, _double_from_string)
    declare("bool", "bool_to_bool", (t.BOOL,), t.BOOL, _same)
    declare("bool", "string_to_bool", (t.STRING,), t.BOOL, _bool_from_string)
    declare("bytes", "bytes_to_bytes", (t.BYTES,), t.BYTES, _same)
    declare("bytes", "string_to_bytes", (t.STRING,), t.BYTES, str.encode, charge=traversal)
    declare("dyn", "to_dyn", (t.param("A"),), t.DYN, _same)
    names = (
        ("string", t.STRING), ("bool", t.BOOL), ("int64", t.INT), ("uint64", t.UINT),
        ("double", t.DOUBLE), ("timestamp", t.TIMESTAMP), ("duration", t.DURATION),
    )  # fmt: skip
    for name, kind in names:
        declare("string", f"{name}_to_string", (kind,), t.STRING, to_string)
    declare("string", "bytes_to_string", (t.BYTES,), t.STRING, _string_from_bytes, charge=traversal)
    declare("timestamp", "timestamp_to_timestamp", (t.TIMESTAMP,), t.TIMESTAMP, _same)
    declare(
        "timestamp", "int64_to_timestamp", (t.INT,), t.TIMESTAMP,
        lambda seconds: Timestamp(seconds * 10**9),
    )  # fmt: skip
    declare("timestamp", "string_to_timestamp", (t.STRING,), t.TIMESTAMP, times.parse_timestamp)
    declare("duration", "duration_to_duration", (t.DURATION,), t.DURATION, _same)
    declare("duration", "int64_to_duration", (t.INT,), t.DURATION, Duration)
    declare("duration", "string_to_duration", (t.STRING,), t.DURATION, times.parse_duration)


_declare()
