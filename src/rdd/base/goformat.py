# SPDX-License-Identifier: Apache-2.0
"""Format JSON values as Go's fmt package does in messages of patches and apply.

Kubernetes formats decoded JSON with `%v`, `%#v`, `%T` and in encoding/json errors; clients and
scripts see the result, so this module reproduces it. `gotext` has the forms of field errors.
"""

from typing import Any

from rdd.base import gotext, govalue

TOO_DEEP = "the object is nested too deeply"


def plain(value: Any) -> str:
    """Return the value as `%v` prints it: `map[a:1 b:[x y]]`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{plain(value[k])}" for k in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(plain(v) for v in value) + "]"
    return "<nil>" if value is None else govalue.value(value)


def as_text(value: Any) -> str:
    """Return the value as `%s` prints it, which marks everything but text: `%!s(int64=1)`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{as_text(value[k])}" for k in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(as_text(v) for v in value) + "]"
    if value is None:
        return "%!s(<nil>)"
    return f"%!s({type_name(value)}={govalue.value(value)})"


def syntax(value: Any) -> str:
    """Return the value as `%#v` prints it: `map[string]interface {}{"a":1}`."""
    if isinstance(value, dict):
        members = ", ".join(f"{gotext.quote(k)}:{syntax(value[k])}" for k in sorted(value))
        return f"map[string]interface {{}}{{{members}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(syntax(v) for v in value) + "}"
    return "interface {}(nil)" if value is None else govalue.value(value)


def type_name(value: Any) -> str:
    """Return the Go type of a decoded JSON value, as `%T` prints it."""
    if isinstance(value, bool):
        return "bool"
    return _TYPES[type(value)]


def json_kind(value: Any) -> str:
    """Return the name that encoding/json has for the type of a value: object, array, string, …"""
    if isinstance(value, bool):
        return "bool"
    return _KINDS[type(value)]


_TYPES: dict[type, str] = {
    str: "string",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
    type(None): "%!s(<nil>)",
}
_KINDS: dict[type, str] = {
    str: "string",
    int: "number",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}
