# SPDX-License-Identifier: Apache-2.0
"""Schema constraints beyond the type of a field; combined with `|`."""

from collections.abc import Sequence
from typing import Any

Schema = dict[str, Any]

INT32: Schema = {"format": "int32"}
INT64: Schema = {"format": "int64"}
DATE_TIME: Schema = {"format": "date-time"}
"""A time in RFC 3339 form with seconds, as text on the wire."""

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
    "x-kubernetes-int-or-string": True,
}
"""A number with a suffix, e.g. `4Gi`; read as text (rdd.api.quantity parses it)."""


def rule(expression: str, message: str) -> Schema:
    """Return a CEL rule and its error message."""
    return {"x-kubernetes-validations": [{"rule": expression, "message": message}]}


def immutable(message: str) -> Schema:
    """Return the rule that a value cannot change once it is set."""
    return rule("self == oldSelf", message)


def list_map(key: str) -> Schema:
    """Return the schema of a list whose items are identified by one member.

    Several managers can own parts of it.
    """
    return {"x-kubernetes-list-map-keys": [key], "x-kubernetes-list-type": "map"}


def all_of(*enums: Sequence[str]) -> Schema:
    """Return the schema of a value that must be in each of several enums."""
    return {"allOf": [{"enum": list(enum)} for enum in enums]}


def rules(*rules: tuple[str, str]) -> Schema:
    """Return several CEL rules, each with its error message."""
    found = [{"rule": expression, "message": message} for expression, message in rules]
    return {"x-kubernetes-validations": found}
