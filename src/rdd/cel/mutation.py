# SPDX-License-Identifier: Apache-2.0
"""The types and functions of mutations: `Object{…}`, `JSONPatch{…}`, `jsonpatch.escapeKey`.

An apply configuration is written as nested objects whose type names repeat the path of the field:
`Object{spec: Object.spec{replicas: 3}}`. As in Kubernetes their fields are dynamic; the names
are compared with the paths when the value is used (`type_problem`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rdd.base.gotext import quote
from rdd.cel import types as t
from rdd.cel.functions import Overload, double_traversal
from rdd.cel.values import ObjectValue

_ROOT = "Object"


class _AnyField(Mapping[str, t.Field]):
    """Fields of every name and any type."""

    def __getitem__(self, name: str) -> t.Field:
        return t.Field(name, t.DYN)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _dynamic(name: str) -> t.Type:
    return t.Type(t.K_OBJECT, name, fields=_AnyField(), min_size=2)


OBJECT = _dynamic(_ROOT)
"""The type of an apply configuration."""
JSON_PATCH = t.object_type(
    "JSONPatch", {"op": t.STRING, "path": t.STRING, "from": t.STRING, "value": t.DYN}
)
JSON_PATCHES = t.list_of(JSON_PATCH)
"""The type of a JSON patch."""


def object_type(name: str) -> t.Type | None:
    """Return the type that an expression constructs by a name."""
    if name == JSON_PATCH.name:
        return JSON_PATCH
    return _dynamic(name) if name == _ROOT or name.startswith(f"{_ROOT}.") else None


def type_problem(value: Any, expected: str = _ROOT) -> str:
    """Return why the type names in a value do not match the paths of its fields."""
    if isinstance(value, ObjectValue) and value.type_name != expected:
        return (
            f"unexpected type name {quote(value.type_name)}, expected {quote(expected)}, "
            "which matches field name path from root Object type"
        )
    if isinstance(value, ObjectValue):
        members = [(below, f"{expected}.{name}") for name, below in value.items()]
    elif isinstance(value, dict):
        members = [(below, expected) for below in value.values()]
    elif isinstance(value, list):
        members = [(below, expected) for below in value]
    else:
        return ""
    return next((why for below, path in members if (why := type_problem(below, path))), "")


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


FUNCTIONS = {
    "jsonpatch.escapeKey": (
        Overload(
            "string_jsonpatch_escapeKey_string",
            "jsonpatch.escapeKey",
            (t.STRING,),
            t.STRING,
            _escape_key,
            charge=double_traversal,
        ),
    )
}
