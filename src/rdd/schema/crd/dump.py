# SPDX-License-Identifier: Apache-2.0
"""Parts of a CustomResourceDefinition as Kubernetes prints them in error messages.

A rejected value that is a struct is printed as the JSON of Kubernetes' internal type, with Go's
member names and with unset members. The tables below define those types, in the order of their
members.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rdd.base import govalue

Dump = Callable[[Any], Any]


def version_list(versions: Sequence[Mapping[str, Any]] | None) -> govalue.Verbatim:
    """Return spec.versions as a rejected value; None is a missing list."""
    if versions is None:
        return _verbatim(None)
    return _verbatim([_struct(_VERSION, version) for version in versions])


def schema_value(schema: Mapping[str, Any]) -> govalue.Verbatim:
    """Return a schema as a rejected value."""
    return _verbatim(_schema(schema))


def items_value(items: Any) -> govalue.Verbatim:
    """Return the items of a schema as a rejected value."""
    return _verbatim(_items(items))


def _verbatim(value: Any) -> govalue.Verbatim:
    return govalue.Verbatim(govalue.json_text(value, sort_keys=False))


def _struct(
    table: Sequence[tuple[str, str, Any, Dump | None]], value: Mapping[str, Any]
) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for go_name, member, zero, dump in table:
        found = value.get(member)
        if found is None:
            shown[go_name] = zero
        else:
            shown[go_name] = found if dump is None else dump(found)
    return shown


def _json(value: Any) -> Any:
    """Return a free-form JSON value; Go sorts the keys of maps."""
    if isinstance(value, Mapping):
        return {key: _json(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_json(item) for item in value]
    return value


def _schema(value: Mapping[str, Any]) -> dict[str, Any]:
    return _struct(_SCHEMA, value)


def _schemas(value: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [_schema(item) for item in value]


def _schema_map(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _schema(value[key]) for key in sorted(value)}


def _schema_or_bool(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"Allows": value, "Schema": None}
    return {"Allows": True, "Schema": _schema(value)}


def _items(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"Schema": None, "JSONSchemas": _schemas(value)}
    schema = _schema(value) if isinstance(value, Mapping) else None
    return {"Schema": schema, "JSONSchemas": None}


def _dependencies(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: {"Schema": None, "Property": item}
        if isinstance(item := value[key], list)
        else {"Schema": _schema(item), "Property": None}
        for key in sorted(value)
    }


def _rules(value: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [_struct(_RULE, rule) for rule in value]


def _docs(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"Description": value.get("description", ""), "URL": value.get("url", "")}


_RULE: list[tuple[str, str, Any, Dump | None]] = [
    ("Rule", "rule", "", None), ("Message", "message", "", None),
    ("MessageExpression", "messageExpression", "", None), ("Reason", "reason", None, None),
    ("FieldPath", "fieldPath", "", None), ("OptionalOldSelf", "optionalOldSelf", None, None),
]  # fmt: skip
_SCHEMA: list[tuple[str, str, Any, Dump | None]] = [
    ("ID", "id", "", None), ("Schema", "$schema", "", None), ("Ref", "$ref", None, None),
    ("Description", "description", "", None), ("Type", "type", "", None),
    ("Nullable", "nullable", False, None), ("Format", "format", "", None),
    ("Title", "title", "", None), ("Default", "default", None, _json),
    ("Maximum", "maximum", None, None), ("ExclusiveMaximum", "exclusiveMaximum", False, None),
    ("Minimum", "minimum", None, None), ("ExclusiveMinimum", "exclusiveMinimum", False, None),
    ("MaxLength", "maxLength", None, None), ("MinLength", "minLength", None, None),
    ("Pattern", "pattern", "", None), ("MaxItems", "maxItems", None, None),
    ("MinItems", "minItems", None, None), ("UniqueItems", "uniqueItems", False, None),
    ("MultipleOf", "multipleOf", None, None), ("Enum", "enum", None, _json),
    ("MaxProperties", "maxProperties", None, None), ("MinProperties", "minProperties", None, None),
    ("Required", "required", None, None), ("Items", "items", None, _items),
    ("AllOf", "allOf", None, _schemas), ("OneOf", "oneOf", None, _schemas),
    ("AnyOf", "anyOf", None, _schemas), ("Not", "not", None, _schema),
    ("Properties", "properties", None, _schema_map),
    ("AdditionalProperties", "additionalProperties", None, _schema_or_bool),
    ("PatternProperties", "patternProperties", None, _schema_map),
    ("Dependencies", "dependencies", None, _dependencies),
    ("AdditionalItems", "additionalItems", None, _schema_or_bool),
    ("Definitions", "definitions", None, _schema_map),
    ("ExternalDocs", "externalDocs", None, _docs), ("Example", "example", None, _json),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", None, None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False, None),
    ("XIntOrString", "x-kubernetes-int-or-string", False, None),
    ("XListMapKeys", "x-kubernetes-list-map-keys", None, None),
    ("XListType", "x-kubernetes-list-type", None, None),
    ("XMapType", "x-kubernetes-map-type", None, None),
    ("XValidations", "x-kubernetes-validations", None, _rules),
]  # fmt: skip
SCHEMA_MEMBERS: tuple[tuple[str, str], ...] = tuple((go, member) for go, member, _, _ in _SCHEMA)
"""The Go name and JSON name of each member of a schema, in Go's order."""
_SCALE: list[tuple[str, str, Any, Dump | None]] = [
    ("SpecReplicasPath", "specReplicasPath", "", None),
    ("StatusReplicasPath", "statusReplicasPath", "", None),
    ("LabelSelectorPath", "labelSelectorPath", None, None),
]
_SUBRESOURCES: list[tuple[str, str, Any, Dump | None]] = [
    ("Status", "status", None, lambda _: {}),
    ("Scale", "scale", None, lambda v: _struct(_SCALE, v)),
]
_COLUMN: list[tuple[str, str, Any, Dump | None]] = [
    ("Name", "name", "", None), ("Type", "type", "", None), ("Format", "format", "", None),
    ("Description", "description", "", None), ("Priority", "priority", 0, None),
    ("JSONPath", "jsonPath", "", None),
]  # fmt: skip
_VERSION: list[tuple[str, str, Any, Dump | None]] = [
    ("Name", "name", "", None), ("Served", "served", False, None),
    ("Storage", "storage", False, None), ("Deprecated", "deprecated", False, None),
    ("DeprecationWarning", "deprecationWarning", None, None),
    ("Schema", "schema", None, lambda v: {
        "OpenAPIV3Schema": _schema(v["openAPIV3Schema"]) if v.get("openAPIV3Schema") else None}),
    ("Subresources", "subresources", None, lambda v: _struct(_SUBRESOURCES, v)),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", None,
     lambda v: [_struct(_COLUMN, c) for c in v]),
    ("SelectableFields", "selectableFields", None,
     lambda v: [{"JSONPath": f.get("jsonPath", "")} for f in v]),
]  # fmt: skip
