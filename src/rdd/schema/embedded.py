# SPDX-License-Identifier: Apache-2.0
"""Embedded resources: apiVersion, kind and metadata inside a custom resource.

A member with x-kubernetes-embedded-resource holds a whole object of some other
kind (a template, say). Its kind is unknown here, but every kind has a type
and an ObjectMeta, and those are held to the rules of all objects.
"""

from typing import Any

from rdd.api import name_validation
from rdd.api.fielderrors import FieldError, child, index, invalid, key, required
from rdd.api.metadata import validate_object_meta
from rdd.api.objectmeta import MetadataError, decode_object_meta
from rdd.schema.node import Node


def has_embedded(node: Node) -> bool:
    """Return whether a schema has an embedded resource."""
    seen: set[int] = set()

    def found(at: Node | None) -> bool:
        if at is None or id(at) in seen:
            return False
        seen.add(id(at))
        return at.embedded or any(map(found, (*at.properties.values(), at.additional, at.items)))

    return found(node)


def coercion_error(node: Node, value: Any, *, field: str = "") -> FieldError | None:
    """Return the first type error of apiVersion, kind or metadata of an embedded resource.

    Kubernetes reads these members as typed ones, so their errors are those of decoding.
    """
    if type(value) is dict:
        for name, item in value.items():
            sub = node.properties.get(name)
            if node.embedded and name in ("apiVersion", "kind") and type(item) is not str:
                if item is not None or sub is None or sub.nullable:
                    return invalid(child(field, name), item, "must be a string")
            elif node.embedded and name == "metadata":
                at = child(field, name)
                try:
                    decode_object_meta(item, path=at)
                except MetadataError as error:
                    return invalid(at, item, str(error))
            if type(item) is not dict and type(item) is not list:
                continue
            at = child(field, name)
            if sub is None and not node.additional_bool:
                sub, at = node.additional, key(field, name)
            found = coercion_error(sub, item, field=at) if sub is not None else None
            if found is not None:
                return found
    elif type(value) is list and node.items is not None:
        for position, item in enumerate(value):
            found = coercion_error(node.items, item, field=index(field, position))
            if found is not None:
                return found
    return None


def embedded_errors(node: Node, value: Any, *, field: str = "") -> list[FieldError]:
    """Return what is wrong with type and metadata of the resources embedded in a value."""
    errors: list[FieldError] = []
    _visit(node, value, field, errors)
    return errors


def _visit(node: Node | None, value: Any, field: str, errors: list[FieldError]) -> None:
    if node is None:
        return
    if type(value) is dict:
        if node.embedded:
            errors.extend(resource_errors(value, field=field))
        for name, item in value.items():
            if type(item) is not dict and type(item) is not list:
                continue
            sub = node.properties.get(name)
            if sub is not None:
                _visit(sub, item, child(field, name), errors)
            elif not node.additional_bool:
                _visit(node.additional, item, key(field, name), errors)
    elif type(value) is list:
        for position, item in enumerate(value):
            _visit(node.items, item, index(field, position), errors)


def resource_errors(obj: dict[str, Any], *, field: str) -> list[FieldError]:
    """Return errors of apiVersion, kind and metadata of one embedded resource."""
    errors: list[FieldError] = []
    at = child(field, "apiVersion")
    version = obj.get("apiVersion")
    if "apiVersion" not in obj:
        errors.append(required(at))
    elif version == "":
        errors.append(invalid(at, version, "must not be empty"))
    elif type(version) is not str:
        errors.append(invalid(at, version, "must be a string"))
    elif version.count("/") > 1:
        errors.append(invalid(at, version, f"unexpected GroupVersion string: {version}"))
    at = child(field, "kind")
    kind = obj.get("kind")
    if "kind" not in obj:
        errors.append(required(at))
    elif kind == "":
        errors.append(invalid(at, kind, "must not be empty"))
    elif type(kind) is not str:
        errors.append(invalid(at, kind, "must be a string"))
    else:
        errors.extend(kind_errors(kind, field=at))
    if "metadata" in obj:
        errors.extend(_metadata_errors(obj["metadata"], child(field, "metadata")))
    return errors


def kind_errors(kind: str, *, field: str) -> list[FieldError]:
    """Return errors of the name of a kind: a DNS label, but in any case."""
    found = name_validation.dns1035_label_errors(kind.lower())
    if not found:
        return []
    detail = f"may have mixed case, but should otherwise match: {','.join(found)}"
    return [invalid(field, kind, detail)]


def _metadata_errors(value: Any, field: str) -> list[FieldError]:
    try:
        meta, _ = decode_object_meta(value, path=field)
    except MetadataError as error:
        return [invalid(field, value, str(error))]
    # A template may leave its name open; whether there is a namespace is not known either.
    meta = {**meta, "name": meta.get("name") or "fakename"}
    return validate_object_meta(
        meta,
        namespaced=bool(meta.get("namespace")),
        name_errors=name_validation.path_segment_name_errors,
        path=field,
    )
