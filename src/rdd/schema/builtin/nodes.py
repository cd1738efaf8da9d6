# SPDX-License-Identifier: Apache-2.0
"""Schema nodes of built-in kinds, for patches and server-side apply.

Nodes are shared: ObjectMeta exists once, however many kinds have it. They carry
no defaults (the strategies set those) and no value validations.
"""

from typing import Any

from rdd.schema.builtin import notation
from rdd.schema.builtin.notation import Field, Type
from rdd.schema.node import Node

_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Quantity": {
        "type": "string",
        "format": "int-or-string",
        "x-kubernetes-int-or-string": True,
    },
    "Raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


def node(definition: str) -> Node:
    """Return the node of a definition name. KeyError if unknown."""
    return _struct(definition)


_structs: dict[str, Node] = {}


def _struct(name: str) -> Node:
    if name in _structs:
        return _structs[name]
    declared = notation.struct(name)
    source: dict[str, Any] = {"type": "object", "title": declared.go_name}
    required = [f.name for f in declared.fields if f.required]
    if required:
        source["required"] = required
    if declared.atomic:
        source["x-kubernetes-map-type"] = "atomic"
    made = _structs[name] = Node(source)
    for field in declared.fields:
        made.properties[field.name] = _member(field)
    return made


def _member(field: Field) -> Node:
    marks: dict[str, Any] = {}
    if field.list_type:
        marks["x-kubernetes-list-type"] = field.list_type
    if field.list_map_key:
        marks["x-kubernetes-list-map-keys"] = [field.list_map_key]
    if field.patch_strategy:
        marks["x-kubernetes-patch-strategy"] = field.patch_strategy
    if field.patch_merge_key:
        marks["x-kubernetes-patch-merge-key"] = field.patch_merge_key
    if field.keep and field.type.form == "string" and not field.type.pointer:
        return _PRINTED_STRING
    return _type(field.type, marks)


# Apply uses the default as the key of a list item that omits it.
_PRINTED_STRING = Node({"type": "string", "default": ""})


_plain: dict[str, Node] = {}


def _type(type_: Type, marks: dict[str, Any]) -> Node:
    if type_.form == "struct":
        return _struct(type_.struct)
    if type_.form == "list" and type_.item is not None:
        made = Node({"type": "array", **marks})
        made.items = _type(type_.item, {})
        return made
    if type_.form == "map" and type_.item is not None:
        made = Node({"type": "object", **marks})
        made.additional = _type(type_.item, {})
        return made
    if type_.form not in _plain:
        _plain[type_.form] = Node(_SCALARS.get(type_.form, _ANYTHING))
    return _plain[type_.form]
