# SPDX-License-Identifier: Apache-2.0
"""Generates the CustomResourceDefinition of a kind.

The result is complete: it contains the defaults of the server (singular name, list kind, conversion
strategy), so an installed definition is up to date exactly if its spec equals this one. Every call
generates it again, in less than a millisecond; nothing is generated at import.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from rdd.api import names
from rdd.api.types import Object
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Field, Struct

_ANNOTATIONS = {"controller-gen.kubebuilder.io/version": "v0.19.0"}
_TYPES = {bool: "boolean", int: "integer", str: "string", Sequence: "array", Mapping: "object"}
_TYPE_META: Object = {
    "apiVersion": {
        "description": "Group and version of the representation of the object.",
        "type": "string",
    },
    "kind": {"description": "The kind of the object, in CamelCase.", "type": "string"},
}


def definition_of(kind: type[Kind]) -> Object:
    """Return the CustomResourceDefinition of a kind."""
    shown = kind.presentation
    shown_names: Object = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
    }
    if shown.short_names:
        shown_names["shortNames"] = list(shown.short_names)
    if shown.categories:
        shown_names["categories"] = list(shown.categories)
    return {
        "apiVersion": f"{names.EXTENSIONS_GROUP}/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": kind.crd_name,
            "annotations": {**_ANNOTATIONS, **shown.annotations},
        },
        "spec": {
            "group": kind.group,
            "names": shown_names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(kind)],
            "conversion": {"strategy": "None"},
        },
    }


def schema_of(struct: type[Struct]) -> Object:
    """Return the structural schema of a Struct; a Kind also has apiVersion, kind and metadata."""
    properties: Object = {}
    schema: Object = {"description": _description(struct), "type": "object"}
    if issubclass(struct, Kind):
        properties.update(deepcopy(_TYPE_META))
        schema.update(deepcopy(dict(struct.presentation.schema)))
    properties.update((f.wire_name, _field_schema(f)) for f in struct.fields.values())
    if issubclass(struct, Kind):
        properties["metadata"] = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required := sorted(f.wire_name for f in struct.fields.values() if f.required):
        schema["required"] = required
    return schema


def _version(kind: type[Kind]) -> Object:
    version: Object = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema_of(kind)},
    }
    if "status" in kind.fields:
        version["subresources"] = {"status": {}}
    if kind.presentation.columns:
        version["additionalPrinterColumns"] = [
            {
                "name": name,
                "type": type_,
                "jsonPath": path,
                **({"format": form} if form else {}),
                **({"priority": 1} if is_wide else {}),
            }
            for name, type_, path, form, is_wide in kind.presentation.columns
        ]
    if kind.presentation.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.presentation.selectable]
    return version


def _field_schema(field: Field) -> Object:
    schema = _type_schema(field.type)
    if field.type is Sequence:
        schema["items"] = _type_schema(field.item)
    elif field.type is Mapping:
        schema["additionalProperties"] = _type_schema(field.item)
    if field.enum and "allOf" not in field.schema:
        schema["enum"] = list(field.enum)
    if field.default is not UNSET:
        schema["default"] = deepcopy(field.default)
    schema.update(deepcopy(dict(field.schema)))
    if "x-kubernetes-int-or-string" in schema:
        del schema["type"]
    return {**schema, "description": field.doc}


def _type_schema(type_: Any) -> Object:
    return {"type": _TYPES[type_]} if type_ in _TYPES else schema_of(type_)


def _description(struct: type[Struct]) -> str:
    return " ".join((struct.__doc__ or "").split())
