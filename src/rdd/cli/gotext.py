# SPDX-License-Identifier: Apache-2.0
"""Text forms that scripts know from Go programs: quoted strings, booleans, durations.

rdd's log lines, flags and variables follow Go's conventions (`strconv.Quote`,
`strconv.ParseBool`, `time.ParseDuration`), because the scripts and the GUI that
read and write them were made for a Go program. The API's own `rdd.api.gotext`
renders messages of Kubernetes; it loads a JSON library, which `rdd` calls avoid,
and knows no undecodable bytes, which arguments and file names may contain.
"""

import re

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_TERM = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"  # compiled on use: few calls have one


def quote(text: str) -> str:
    """Return `text` between double quotes as `strconv.Quote` writes it."""
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte of a file name or argument
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_bool(text: str) -> bool:
    """Return the boolean that `text` spells. Raises ValueError for any other text."""
    try:
        return _BOOLEANS[text]
    except KeyError:
        raise ValueError('expected boolean; use "true" or "false"') from None


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `90s`, `1h30m` or `0`. Raises ValueError."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return 0.0
    terms = re.findall(_TERM, body)
    if not terms or "".join(number + unit for number, unit in terms) != body:
        raise ValueError("expected a duration such as 90s, 5m or 1h30m")
    return sign * sum(float(number) * _UNIT_S[unit] for number, unit in terms)
