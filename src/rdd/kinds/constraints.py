# SPDX-License-Identifier: Apache-2.0
"""What a schema says beyond the type of a field; combined with `|`."""

from collections.abc import Sequence
from typing import Any

Schema = dict[str, Any]

INT32: Schema = {"format": "int32"}
INT64: Schema = {"format": "int64"}
DATE_TIME: Schema = {"format": "date-time"}
"""RFC 3339, to the second, as the text on the wire."""

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
    "x-kubernetes-int-or-string": True,
}
"""A number with a suffix, e.g. `4Gi`; read as text (rdd.api.quantity calculates with it)."""


def rule(expression: str, message: str) -> Schema:
    """A CEL rule and what is said when it is broken."""
    return {"x-kubernetes-validations": [{"rule": expression, "message": message}]}


def immutable(message: str) -> Schema:
    """The value cannot change as long as there is one."""
    return rule("self == oldSelf", message)


def list_map(key: str) -> Schema:
    """A list whose items are told apart by one member; several managers can own parts of it."""
    return {"x-kubernetes-list-map-keys": [key], "x-kubernetes-list-type": "map"}


def all_of(*enums: Sequence[str]) -> Schema:
    """The value must be in each of several enums."""
    return {"allOf": [{"enum": list(enum)} for enum in enums]}
