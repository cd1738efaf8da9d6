# SPDX-License-Identifier: Apache-2.0
"""Structs in validation errors, as Kubernetes prints its internal types.

Validation works on internal types, whose Go structs have no JSON names: a struct
in a message has the names of Go's members and prints them all, also empty ones.
"""

from collections.abc import Sequence
from typing import Any

from rdd.base import govalue
from rdd.schema.builtin import notation
from rdd.schema.builtin.notation import Type

_GO_NAMES = {"uid": "UID", "apiVersion": "APIVersion", "apiGroup": "APIGroup"}
_ZERO = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}


def internal(definition: str, value: Any) -> govalue.Verbatim:
    """Return a value of a definition as JSON of its internal type."""
    printed = _printed(Type("struct", "", struct=definition), value)
    return govalue.Verbatim(govalue.json_text(printed, sort_keys=False))


def internal_list(definition: str, values: Sequence[Any]) -> govalue.Verbatim:
    """Return a list of values of a definition as JSON of its internal type."""
    item = Type("struct", "", struct=definition)
    printed = [_printed(item, value) for value in values]
    return govalue.Verbatim(govalue.json_text(printed, sort_keys=False))


def _printed(type_: Type, value: Any) -> Any:
    if type_.form == "struct":
        if value is None and type_.pointer:
            return None
        given = value or {}
        return {
            _GO_NAMES.get(f.name, f.name[0].upper() + f.name[1:]): _printed(
                f.type, given.get(f.name)
            )
            for f in notation.struct(type_.struct).fields
        }
    if value is None:
        return None if type_.pointer else _ZERO.get(type_.form)
    if type_.form == "list" and type_.item is not None:
        return [_printed(type_.item, item) for item in value]
    return value
