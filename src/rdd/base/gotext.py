# SPDX-License-Identifier: Apache-2.0
"""Format and parse text as Go's standard library does.

Kubernetes messages quote names with fmt's `%q`; clients and scripts match them.
Flags, variables and log lines follow `strconv.ParseBool`, `time.ParseDuration` and
`strconv.Quote`, because the scripts and the GUI that use them were written for a Go
program. Every call of `rdd` imports this module: values and JSON are in `govalue`.
"""

import re

_SIMPLE = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_TERM = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"  # compiled on use: few calls have one


def quote(text: str) -> str:
    """Return the text as Go's %q prints it: quoted, with only unprintable characters escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quoted(c) for c in text) + '"'


def quote_char(char: str) -> str:
    """Return a character as in syntax errors of encoding/json: `'x'`, `'\\n'`, `'\\u009e'`."""
    if char == "'":
        return "'\\''"
    return "'" + (char if char == '"' else _quoted(char)) + "'"


def _quoted(char: str) -> str:
    if char in _SIMPLE:
        return _SIMPLE[char]
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


def duration_error(text: str) -> str:
    """Return the error of Go's time.ParseDuration, an empty string for a valid duration."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return ""
    invalid = f"time: invalid duration {quote(text)}"
    if not rest:
        return invalid
    while rest:
        number = re.match(r"([0-9]+)(\.[0-9]*)?|\.[0-9]+", rest)
        if number is None:
            return invalid
        rest = rest[number.end() :]
        end = re.search(r"[.0-9]", rest)
        unit = rest[: end.start()] if end else rest
        if not unit:
            return f"time: missing unit in duration {quote(text)}"
        if unit not in _UNIT_S:
            return f"time: unknown unit {quote(unit)} in duration {quote(text)}"
        rest = rest[len(unit) :]
    return ""


_MAX_DURATION_S = 2**63 / 1e9  # Go counts nanoseconds


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `90s`, `1h30m` or `0`. Raises ValueError."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return 0.0
    terms = re.findall(_TERM, body)
    if not terms or "".join(number + unit for number, unit in terms) != body:
        raise ValueError("expected a duration such as 90s, 5m or 1h30m")
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in terms)
    if seconds >= _MAX_DURATION_S:
        raise ValueError("a duration is at most 2562047h")
    return sign * seconds
