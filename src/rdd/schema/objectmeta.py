# SPDX-License-Identifier: Apache-2.0
"""Embedded resources: apiVersion, kind and metadata inside a custom resource.

A member with x-kubernetes-embedded-resource holds a whole object of some other
kind (a template, say). Its kind is not known here, but every kind has a type
and an ObjectMeta, and those are held to the rules of all objects.
"""

from typing import Any

from rdd.api import names
from rdd.api.fielderrors import FieldError, invalid, required
from rdd.schema.node import Node, compile_node

_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_NUMBER = {"type": "integer"}
_FLAG = {"type": "boolean"}

OBJECT_META: Node = compile_node({
    "type": "object",
    "properties": {
        "name": _TEXT, "generateName": _TEXT, "namespace": _TEXT, "selfLink": _TEXT, "uid": _TEXT,
        "resourceVersion": _TEXT, "generation": _NUMBER, "creationTimestamp": _TEXT,
        "deletionTimestamp": _TEXT, "deletionGracePeriodSeconds": _NUMBER, "labels": _TEXTS,
        "annotations": _TEXTS, "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": {"type": "object", "properties": {
            "apiVersion": _TEXT, "kind": _TEXT, "name": _TEXT, "uid": _TEXT, "controller": _FLAG,
            "blockOwnerDeletion": _FLAG}}},
        "managedFields": {"type": "array", "items": {"type": "object", "properties": {
            "manager": _TEXT, "operation": _TEXT, "apiVersion": _TEXT, "time": _TEXT,
            "fieldsType": _TEXT, "subresource": _TEXT,
            "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}},
    },
})  # fmt: skip
"""The shape of metadata, as far as pruning and type checks need it."""

_ANNOTATIONS_MAX = 256 * 1024


def has_embedded(node: Node) -> bool:
    """Whether a schema has an embedded resource below its root."""
    seen: set[int] = set()

    def found(at: Node | None) -> bool:
        if at is None or id(at) in seen:
            return False
        seen.add(id(at))
        return at.embedded or any(
            map(found, (*at.properties.values(), at.additional, at.items))
        )

    return found(node)


def embedded_errors(node: Node, value: Any, *, field: str = "") -> list[FieldError]:
    """What is wrong with type and metadata of the resources embedded in a value."""
    errors: list[FieldError] = []
    _visit(node, value, field, errors)
    return errors


def _visit(node: Node | None, value: Any, field: str, errors: list[FieldError]) -> None:
    if node is None:
        return
    if type(value) is dict:
        if node.embedded:
            errors.extend(resource_errors(value, field=field))
        for key, item in value.items():
            if type(item) is not dict and type(item) is not list:
                continue
            child = node.properties.get(key)
            if child is not None:
                _visit(child, item, f"{field}.{key}" if field else key, errors)
            elif not node.additional_bool:
                _visit(node.additional, item, f"{field}[{key}]", errors)
    elif type(value) is list:
        for position, item in enumerate(value):
            _visit(node.items, item, f"{field}[{position}]", errors)


def resource_errors(obj: dict[str, Any], *, field: str) -> list[FieldError]:
    """Errors of apiVersion, kind and metadata of one embedded resource."""
    prefix = f"{field}." if field else ""
    errors: list[FieldError] = []
    version = obj.get("apiVersion")
    if "apiVersion" not in obj or version == "":
        errors.append(required(f"{prefix}apiVersion"))
    elif type(version) is not str:
        errors.append(invalid(f"{prefix}apiVersion", version, "must be a string"))
    elif version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(f"{prefix}apiVersion", version, detail))
    kind = obj.get("kind")
    if "kind" not in obj or kind == "":
        errors.append(required(f"{prefix}kind"))
    elif type(kind) is not str:
        errors.append(invalid(f"{prefix}kind", kind, "must be a string"))
    else:
        errors.extend(kind_errors(kind, field=f"{prefix}kind"))
    if "metadata" in obj:
        errors.extend(_metadata_errors(obj["metadata"], f"{prefix}metadata"))
    return errors


def kind_errors(kind: str, *, field: str) -> list[FieldError]:
    """Errors of a kind's name: a DNS label in any case."""
    found = names.dns1035_label_errors(kind.lower())
    if not found:
        return []
    detail = f"may have mixed case, but should otherwise match: {','.join(found)}"
    return [invalid(field, kind, detail)]


_GO_KINDS = {str: "string", bool: "bool", int: "number", float: "number", list: "array",
             dict: "object"}  # fmt: skip
_GO_TYPES = {"string": "string", "integer": "int64", "boolean": "bool"}
_PYTHON_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def _type_error(node: Node, value: Any, name: str) -> str:
    """Go's message if a metadata member has the wrong type."""
    if value is None:
        return ""
    if type(value) is not _PYTHON_TYPES[node.type]:
        wanted = _GO_TYPES.get(node.type, "[]string")
        if node.additional is not None:
            wanted = "map[string]string"
        found = _GO_KINDS.get(type(value), "value")
        return f"json: cannot unmarshal {found} into Go struct field {name} of type {wanted}"
    if type(value) is dict and node.additional is not None:
        checks = (_type_error(node.additional, item, name) for item in value.values())
        return next(filter(None, checks), "")
    if type(value) is list and node.items is not None and node.items.type == "string":
        checks = (_type_error(node.items, item, name) for item in value)
        return next(filter(None, checks), "")
    return ""


def _metadata_errors(meta: Any, field: str) -> list[FieldError]:
    if meta is None:
        return []
    if type(meta) is not dict:
        found = _GO_KINDS.get(type(meta), "value")
        detail = f"json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
        return [invalid(field, meta, detail)]
    for key, node in OBJECT_META.properties.items():
        problem = _type_error(node, meta.get(key), f"ObjectMeta.{key}")
        if problem:
            return [invalid(field, meta, problem)]
    errors: list[FieldError] = []
    for key in ("generateName", "name"):
        text = meta.get(key) or ""
        for detail in names.path_segment_name_errors(text, is_prefix=key == "generateName"):
            errors.append(invalid(f"{field}.{key}", text, detail))
    namespace = meta.get("namespace") or ""
    if namespace:
        for detail in names.dns1123_label_errors(namespace):
            errors.append(invalid(f"{field}.namespace", namespace, detail))
    for key, text in (meta.get("labels") or {}).items():
        for detail in names.qualified_name_errors(key):
            errors.append(invalid(f"{field}.labels", key, detail))
        for detail in names.label_value_errors(text or ""):
            errors.append(invalid(f"{field}.labels", text, detail))
    annotations = meta.get("annotations") or {}
    for key in annotations:
        for detail in names.qualified_name_errors(key.lower()):
            errors.append(invalid(f"{field}.annotations", key, detail))
    size = sum(len(k.encode()) + len((v or "").encode()) for k, v in annotations.items())
    if size > _ANNOTATIONS_MAX:
        detail = f"may not be more than {_ANNOTATIONS_MAX} bytes"
        errors.append(FieldError("TooLong", f"{field}.annotations", detail=detail))
    for text in meta.get("finalizers") or ():
        for detail in names.qualified_name_errors(text or ""):
            errors.append(invalid(f"{field}.finalizers", text, detail))
    return errors
