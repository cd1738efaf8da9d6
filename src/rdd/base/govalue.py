# SPDX-License-Identifier: Apache-2.0
"""Format values as Go does in messages: `%v` and json.Marshal.

Kubernetes shows the invalid value in most validation errors, and clients match the text. Only
failures are formatted: this is no hot path.
"""

import math
from typing import Any

import orjson

from rdd.base import gotext

# json.Marshal escapes its output for HTML and JavaScript.
_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class Verbatim(str):
    """An invalid value in its final form, e.g. the JSON of a struct in field order."""

    __slots__ = ()


def number(value: float) -> str:
    """Return a number as encoding/json prints it."""
    if isinstance(value, int):
        return str(value)
    magnitude = abs(value)
    if value == 0 or 1e-6 <= magnitude < 1e21:
        return _positional(value)
    text = _exponential(value)
    # json shortens e-09 to e-9, but leaves two digits elsewhere
    return text.replace("e-0", "e-") if "e-0" in text else text


def plain(value: float) -> str:
    """Return a number as %v prints it: with an exponent below 1e-4 and from 1e6 (floats)."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return _positional(value)
    return _exponential(value)


def _positional(value: float) -> str:
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if value == int(value):
        return str(int(value)) if abs(value) < 2**53 else _from_digits(repr(value))
    return _from_digits(repr(value))


def _from_digits(text: str) -> str:
    """Return the shortest digits of a float without an exponent, padded with zeros as in Go."""
    if "e" not in text:
        return text.removesuffix(".0")
    from decimal import Decimal

    return format(Decimal(text), "f").removesuffix(".0")


def _exponential(value: float) -> str:
    mantissa, _, exponent = repr(value).partition("e")
    power = int(exponent or 0)
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-")
    if not exponent:
        # repr switches to exponents at other magnitudes than Go
        whole, _, fraction = digits.partition(".")
        significant = (whole + fraction).lstrip("0")
        leading = len(whole + fraction) - len(significant)
        power = len(whole) - 1 - leading
        significant = significant.rstrip("0") or "0"
        digits = significant[0] + ("." + significant[1:] if len(significant) > 1 else "")
    digits = digits.removesuffix(".0")
    return f"{sign}{digits}e{'-' if power < 0 else '+'}{abs(power):02d}"


def json_text(value: Any, *, sort_keys: bool = True) -> str:
    """Return compact JSON as json.Marshal writes it, with sorted keys.

    `sort_keys=False` keeps the order of the dict, which is the field order of a struct.
    """
    if isinstance(value, dict):
        items = sorted(value.items()) if sort_keys else value.items()
        members = (
            f"{json_text(k, sort_keys=sort_keys)}:{json_text(v, sort_keys=sort_keys)}"
            for k, v in items
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(json_text(v, sort_keys=sort_keys) for v in value) + "]"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return orjson.dumps(value).decode().translate(_HTML)


def value(item: Any) -> str:
    """Return a value as in a field error of Kubernetes: text quoted, others as %v or JSON."""
    if isinstance(item, str):
        return str(item) if isinstance(item, Verbatim) else gotext.quote(item)
    if item is None:
        return "null"
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int | float):
        # Go reads an integer that does not fit an int64 as a float64.
        return plain(item if -(2**63) <= item < 2**63 else float(item))
    return json_text(item)
