# SPDX-License-Identifier: Apache-2.0
"""The CEL types of schemas.

The value of a rule has a type that is derived from the schema: objects with the declared properties
under their CEL names, lists, maps and scalars. Values without a declared type are not visible. The
type also carries the bounds for the cost estimate; without bounds in the schema, the request size
limit is the bound.

At the root of a resource, and of an embedded one, apiVersion, kind, metadata.name and
metadata.generateName are visible, and no other metadata.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rdd.cel import escape
from rdd.cel import types as t

Schema = Mapping[str, Any]

MAX_REQUEST_BYTES = 3 * 1024 * 1024

_TIME_SIZE = 32  # the longest timestamp or duration, with its quotes
_BOOL, _INT, _DOUBLE = (
    kind.resized(min_size=size) for kind, size in ((t.BOOL, 4), (t.INT, 1), (t.DOUBLE, 1))
)
_KEY = t.STRING.resized(min_size=2)
_STRING: Schema = {"type": "string"}


def declared_type(schema: Schema, *, is_root: bool, name: str = "selfType") -> t.Type | None:
    """Return the type of a schema's values; None if expressions cannot access them."""
    if schema.get("x-kubernetes-int-or-string"):
        length = schema.get("maxLength")
        most = MAX_REQUEST_BYTES - 2 if length is None else max(0, length) * 4
        return t.DYN.resized(max_elements=most, min_size=1)
    if is_root:
        schema = _with_metadata(schema)
    declare = _DECLARE.get(schema.get("type") or "")
    return None if declare is None else declare(schema, name)


def _is_type(schema: Any, kind: str) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == kind


def _with_metadata(schema: Schema) -> Schema:
    properties = schema.get("properties") or {}
    metadata = properties.get("metadata") or {}
    if (
        _is_type(properties.get("kind"), "string")
        and _is_type(properties.get("apiVersion"), "string")
        and _is_type(metadata, "object")
    ):
        declared = metadata.get("properties") or {}
        if _is_type(declared.get("name"), "string") and _is_type(
            declared.get("generateName"), "string"
        ):
            return schema
    visible = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
    return {
        **schema,
        "properties": {**properties, "kind": _STRING, "apiVersion": _STRING, "metadata": visible},
    }


def _is_embedded(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


def _array(schema: Schema, name: str) -> t.Type | None:
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return None
    element = declared_type(items, is_root=_is_embedded(items), name=f"{name}.@idx")
    if element is None:
        return None
    limit = schema.get("maxItems")
    return t.list_of(
        element,
        max_elements=(MAX_REQUEST_BYTES - 2) // (element.min_size + 1)
        if limit is None
        else max(0, limit),
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        keys=schema.get("x-kubernetes-list-map-keys") or (),
    )


def _object(schema: Schema, name: str) -> t.Type | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        value = declared_type(additional, is_root=_is_embedded(additional), name=f"{name}.@elem")
        if value is None:
            return None
        limit = schema.get("maxProperties")
        most = (MAX_REQUEST_BYTES - 2) // (value.min_size + 6) if limit is None else max(0, limit)
        return t.map_of(_KEY, value, max_elements=most)
    required = frozenset(schema.get("required") or ())
    fields: dict[str, t.Type | t.Field] = {}
    min_size = 2
    for key, sub in (schema.get("properties") or {}).items():
        found = declared_type(sub, is_root=_is_embedded(sub), name=f"{name}.{key}")
        if found is None:
            continue
        fields[field_name(key)] = t.Field(key, found)
        if key in required and sub.get("default") is None:
            min_size += len(key) + found.min_size + 4
    return t.object_type(name, fields, min_size=min_size)


def field_name(key: str) -> str:
    """Return the name of a property in its object type.

    A property without a CEL name gets one that no expression can contain: it is invisible, but
    its type is needed, because it may have rules of its own.
    """
    return escape(key) or f"\0{key}"


def _string(schema: Schema, _name: str) -> t.Type:
    form, length = schema.get("format"), schema.get("maxLength")
    if form == "byte":
        most = MAX_REQUEST_BYTES - 2 if length is None else max(0, length)
        return t.BYTES.resized(max_elements=most, min_size=2)
    if form == "duration":
        return t.DURATION.resized(max_elements=_TIME_SIZE, min_size=3)
    if form == "date":
        return t.TIMESTAMP.resized(max_elements=12, min_size=12)
    if form == "date-time":
        return t.TIMESTAMP.resized(max_elements=_TIME_SIZE, min_size=21)
    if length is not None:
        most = max(0, length) * 4  # bytes of a character
    elif schema.get("enum"):
        most = max((len(v.encode()) for v in schema["enum"] if isinstance(v, str)), default=0)
    else:
        most = MAX_REQUEST_BYTES - 2
    return t.STRING.resized(max_elements=most, min_size=2)


_DECLARE: dict[str, Callable[[Schema, str], t.Type | None]] = {
    "array": _array,
    "object": _object,
    "string": _string,
    "boolean": lambda _schema, _name: _BOOL,
    "number": lambda _schema, _name: _DOUBLE,
    "integer": lambda _schema, _name: _INT,
}
