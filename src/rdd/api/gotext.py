# SPDX-License-Identifier: Apache-2.0
"""Texts in the form Go's standard library gives them.

Kubernetes messages are made with fmt's verbs; clients and scripts match them,
so values are rendered here exactly as `%q`, `%v` and encoding/json would.
"""

import math
from typing import Any

import orjson

_SIMPLE = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quote(text: str) -> str:
    """The text as Go's %q prints it: quoted, with only what is not printable escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quoted(c) for c in text) + '"'


def _quoted(char: str) -> str:
    if char in _SIMPLE:
        return _SIMPLE[char]
    if char.isprintable() and not 0xD800 <= ord(char) <= 0xDFFF:
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """A float as encoding/json prints it, which is also close to %v."""
    if isinstance(value, int):
        return str(value)
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    magnitude = abs(value)
    if 1e-6 <= magnitude < 1e21:
        if value == int(value):
            return str(int(value))
        return _positional(repr(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        mantissa, _, exponent = f"{value:e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
    mantissa = mantissa.removesuffix(".0")
    power = int(exponent)
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _positional(text: str) -> str:
    if "e" not in text:
        return text
    from decimal import Decimal

    return format(Decimal(text), "f")


def json_text(value: Any) -> str:
    """Compact JSON of any value, keys sorted as Go sorts maps."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def value(item: Any) -> str:
    """A value as Kubernetes shows it in a field error: text quoted, the rest as %v or JSON."""
    if isinstance(item, str):
        return quote(item)
    if item is None:
        return "null"
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int | float):
        return number(item)
    return json_text(item)
