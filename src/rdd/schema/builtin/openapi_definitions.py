# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v3 definitions of the built-in kinds.

They have the form in which Kubernetes publishes them: a reference that carries
a default or a description is wrapped in allOf, values that are always printed
have their zero value as default, kinds name their group, version and kind.
"""

from typing import Any

from rdd.schema.builtin import notation
from rdd.schema.builtin.notation import Field, Struct, Type

REF = "#/components/schemas/"

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_JSON = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

# Types that are definitions of their own although they have no members.
_NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "Time": (
        _META + "Time",
        {"type": "string", "format": "date-time", "description": "A time to the second."},
    ),
    "MicroTime": (
        _META + "MicroTime",
        {"type": "string", "format": "date-time", "description": "A time to the microsecond."},
    ),
    "Quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {
            "oneOf": [{"type": "string"}, {"type": "number"}],
            "description": "A number with an optional unit, such as 500m or 2Gi.",
        },
    ),
    "FieldsV1": (
        _META + "FieldsV1",
        {"type": "object", "description": "A set of fields as a tree of their paths."},
    ),
    "Raw": (
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        {"type": "object", "description": "An object of any kind."},
    ),
    "Patch": (
        _META + "Patch",
        {"type": "object", "description": "The body of a PATCH request."},
    ),
    "JSON": (_JSON + "JSON", {"description": "Any JSON value."}),
    "JSONSchemaPropsOrArray": (
        _JSON + "JSONSchemaPropsOrArray",
        {"description": "A schema or a list of schemas."},
    ),
    "JSONSchemaPropsOrBool": (
        _JSON + "JSONSchemaPropsOrBool",
        {"description": "A schema or a bool."},
    ),
    "JSONSchemaPropsOrStringArray": (
        _JSON + "JSONSchemaPropsOrStringArray",
        {"description": "A schema or a list of texts."},
    ),
}
_BY_NAME = dict(_NAMED.values())

_PLAIN: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}
# Options and watch events are kinds of every group; clients look them up there.
_EVERYWHERE = frozenset({"DeleteOptions", "WatchEvent"})


def definition(name: str, *, ref: str = REF, groups: tuple[tuple[str, str], ...] = ()) -> Any:
    """Return the OpenAPI definition of a name. KeyError if unknown.

    `groups` are the group versions for which DeleteOptions and WatchEvent are
    kinds, too; `ref` is the prefix of references.
    """
    if name in _BY_NAME:
        return dict(_BY_NAME[name])
    return _struct(notation.struct(name), ref, groups)


def references(schema: Any) -> set[str]:
    """Return the names of the definitions a schema refers to."""
    found: set[str] = set()
    _collect(schema, found)
    return found


def closure(names: list[str], *, ref: str = REF, groups: Any = ()) -> dict[str, Any]:
    """Return the definitions of the names and of everything they refer to, by name in order."""
    done: dict[str, Any] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in done:
            done[name] = definition(name, ref=ref, groups=groups)
            todo += references(done[name])
    return dict(sorted(done.items()))


def _collect(schema: Any, found: set[str]) -> None:
    if isinstance(schema, dict):
        ref = schema.get("$ref")
        if isinstance(ref, str):
            found.add(ref.rpartition("/")[2])
        for value in schema.values():
            _collect(value, found)
    elif isinstance(schema, list):
        for value in schema:
            _collect(value, found)


def _struct(declared: Struct, ref: str, groups: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "object"}
    if declared.description:
        out["description"] = declared.description
    properties = {f.name: _member(f, ref) for f in declared.fields}
    if properties:
        out["properties"] = dict(sorted(properties.items()))
    required = [f.name for f in declared.fields if f.required]
    if required:
        out["required"] = required
    if declared.atomic:
        out["x-kubernetes-map-type"] = "atomic"
    kinds = [(declared.group, declared.version)] if declared.kind else []
    if declared.go_name in _EVERYWHERE:
        kinds = sorted({("", "v1"), *groups})
    if kinds:
        out["x-kubernetes-group-version-kind"] = [
            {"group": group, "kind": declared.go_name, "version": version}
            for group, version in kinds
        ]
    return out


def _member(field: Field, ref: str) -> dict[str, Any]:
    type_ = field.type
    schema = _type(type_, ref)
    extra: dict[str, Any] = {}
    if field.description:
        extra["description"] = field.description
    if type_.form == "struct" and not type_.pointer:
        extra["default"] = {}
    elif field.keep and not type_.pointer and type_.form in _ZEROS:
        extra["default"] = _ZEROS[type_.form]
    if field.enum and type_.form == "list":
        schema["items"]["enum"] = list(field.enum)
    elif field.enum:
        extra["enum"] = list(field.enum)
    if field.list_map_key:
        extra["x-kubernetes-list-map-keys"] = [field.list_map_key]
    if field.list_type:
        extra["x-kubernetes-list-type"] = field.list_type
    if field.patch_merge_key:
        extra["x-kubernetes-patch-merge-key"] = field.patch_merge_key
    if field.patch_strategy:
        extra["x-kubernetes-patch-strategy"] = field.patch_strategy
    if "$ref" in schema and extra:
        return {"allOf": [schema], **extra}
    return {**schema, **extra}


def _type(type_: Type, ref: str) -> dict[str, Any]:
    if type_.form == "struct":
        return {"$ref": ref + type_.struct}
    if type_.form in _NAMED:
        return {"$ref": ref + _NAMED[type_.form][0]}
    if type_.form == "list" and type_.item is not None:
        return {"type": "array", "items": _item(type_.item, ref)}
    if type_.form == "map" and type_.item is not None:
        return {"type": "object", "additionalProperties": _item(type_.item, ref)}
    return dict(_PLAIN[type_.form])


def _item(type_: Type, ref: str) -> dict[str, Any]:
    schema = _type(type_, ref)
    if type_.form == "struct":
        return {"allOf": [schema], "default": {}}
    if type_.form in _ZEROS:
        return {**schema, "default": _ZEROS[type_.form]}
    return schema
