# SPDX-License-Identifier: Apache-2.0
"""JSON values as Go's fmt package prints them in messages of patches and apply.

Kubernetes hands decoded JSON to `%v`, `%#v`, `%T` and encoding/json errors;
clients and scripts see the result, so it is reproduced here. `gotext` has the
forms used in field errors.
"""

from typing import Any

from rdd.base import gotext, govalue

TOO_DEEP = "the object is nested too deeply"


def plain(value: Any) -> str:
    """The value as `%v` prints it: `map[a:1 b:[x y]]`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{plain(value[k])}" for k in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(plain(v) for v in value) + "]"
    return "<nil>" if value is None else govalue.value(value)


def syntax(value: Any) -> str:
    """The value as `%#v` prints it: `map[string]interface {}{"a":1}`."""
    if isinstance(value, dict):
        members = ", ".join(f"{gotext.quote(k)}:{syntax(value[k])}" for k in sorted(value))
        return f"map[string]interface {{}}{{{members}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(syntax(v) for v in value) + "}"
    return "interface {}(nil)" if value is None else govalue.value(value)


def type_name(value: Any) -> str:
    """The Go type a JSON value is decoded to, as `%T` prints it."""
    if isinstance(value, bool):
        return "bool"
    return _TYPES[type(value)]


def json_kind(value: Any) -> str:
    """What encoding/json calls a value it cannot unmarshal: object, array, string, …"""
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
