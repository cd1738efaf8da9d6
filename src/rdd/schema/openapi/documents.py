# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents of the API: what `kubectl explain`, apply and generators read.

There is one v3 document per group and version, and one v2 document of
everything. Both are put together from the same two things: the kinds
(`OpenApiKind`: names, verbs, subresources) and definitions by name, in v3 form.
Definitions of custom resources come from `crd_definitions`; those of built-in
kinds are given. A document holds only the definitions its paths reach.

OpenAPI v2 has no nullable and no anyOf, and old kubectl stumbles over more:
`crd_definitions(…, v2=True)` leaves out what Kubernetes leaves out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rdd.schema.openapi.paths import (
    CUSTOM_PATCH_TYPES,
    META,
    V2_PREFIX,
    V3_PREFIX,
    path_items_v2,
    path_items_v3,
)
from rdd.schema.openapi.paths import OpenApiKind as OpenApiKind

Schema = Mapping[str, Any]


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the definition of a custom resource.

    Com.example.v1.Widget for example.com/v1 Widget.
    """
    return ".".join([*reversed(group.split(".")), version, kind])


def openapi_v3_document(
    kinds: Iterable[OpenApiKind],
    definitions: Mapping[str, Schema],
    *,
    others: Mapping[str, Any] | None = None,
    title: str = "Kubernetes",
    version: str = "unversioned",
) -> dict[str, Any]:
    """Return the v3 document of some kinds (usually of one group and version).

    `others` are path items that belong to no kind.
    """
    paths: dict[str, Any] = dict(others or {})
    for kind in kinds:
        paths.update(path_items_v3(kind))
    return {
        "openapi": "3.0.0",
        "info": {"title": title, "version": version},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": _reached(paths, definitions, V3_PREFIX),
            "securitySchemes": {"BearerToken": _BEARER},
        },
    }


def openapi_v2_document(
    kinds: Iterable[OpenApiKind],
    definitions: Mapping[str, Schema],
    *,
    others: Mapping[str, Any] | None = None,
    title: str = "Kubernetes",
    version: str = "unversioned",
) -> dict[str, Any]:
    """Return the v2 document of some kinds; definitions are given in v3 form.

    `others` are path items that belong to no kind.
    """
    paths: dict[str, Any] = dict(others or {})
    for kind in kinds:
        paths.update(path_items_v2(kind))
    return {
        "swagger": "2.0",
        "info": {"title": title, "version": version},
        "paths": dict(sorted(paths.items())),
        "definitions": {name: to_v2(schema) for name, schema in sorted(definitions.items())},
        "securityDefinitions": {"BearerToken": _BEARER},
        "security": [{"BearerToken": []}],
    }


_BEARER = {
    "description": "Bearer Token authentication",
    "in": "header",
    "name": "authorization",
    "type": "apiKey",
}


def _references(value: Any, prefix: str, found: set[str]) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Mapping):
            reference = item.get("$ref")
            if isinstance(reference, str) and reference.startswith(prefix):
                found.add(reference.removeprefix(prefix))
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _reached(paths: Any, definitions: Mapping[str, Schema], prefix: str) -> dict[str, Any]:
    reached: dict[str, Any] = {}
    names: set[str] = set()
    _references(paths, prefix, names)
    while names:
        name = names.pop()
        if name in reached or name not in definitions:
            continue
        reached[name] = definitions[name]
        _references(definitions[name], prefix, names)
    return dict(sorted(reached.items()))


def to_v2(schema: Any) -> Any:
    """Return a v3 definition in v2 form."""
    if not isinstance(schema, Mapping):
        return schema
    shown = {k: v for k, v in schema.items() if k != "nullable"}
    whole = shown.get("allOf") or [{}]
    if len(whole) == 1 and "$ref" in whole[0]:
        # v2 allows a description beside a reference, v3 needs the detour
        del shown["allOf"]
        shown.pop("default", None)
        shown["$ref"] = whole[0]["$ref"]
    if "$ref" in shown:
        shown["$ref"] = shown["$ref"].replace(V3_PREFIX, V2_PREFIX)
    if shown.pop("oneOf", None):
        shown["type"] = "string"
    if "properties" in shown:
        shown["properties"] = {name: to_v2(sub) for name, sub in shown["properties"].items()}
    for member in ("items", "additionalProperties"):
        if member in shown:
            shown[member] = to_v2(shown[member])
    return shown


def crd_kind(spec: Mapping[str, Any], version: Mapping[str, Any]) -> OpenApiKind:
    """Return a version of a custom resource definition as a kind."""
    group, names = spec["group"], spec["names"]
    declared = version.get("subresources") or {}
    own = definition_name(group, version["name"], names["kind"])
    verbs = ("get", "patch", "update")
    subresources = [
        (name, own if name == "status" else "io.k8s.api.autoscaling.v1.Scale", verbs)
        for name in ("status", "scale")
        if declared.get(name) is not None
    ]
    return OpenApiKind(
        group=group,
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        definition=own,
        list_definition=definition_name(group, version["name"], names["listKind"]),
        subresources=tuple(subresources),
        patch_types=CUSTOM_PATCH_TYPES,
    )


def crd_definitions(
    spec: Mapping[str, Any], version: Mapping[str, Any], *, v2: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the definitions of a version: its objects and its lists.

    With `v2` the schema is reduced to what v2 can express, but references are
    still in v3 form; `openapi_v2_document` converts them.
    """
    kind = crd_kind(spec, version)
    names = spec["names"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    listed = {
        "description": f"{names['listKind']} is a list of {kind.kind}",
        "required": ["items"],
        "type": "object",
        "properties": {
            **_TYPE_META,
            "items": {
                "description": f"List of {kind.plural}. {_MORE}api-conventions.md",
                "type": "array",
                "items": {"$ref": V3_PREFIX + kind.definition},
            },
            "metadata": _reference("ListMeta", f"Standard list metadata. {_TYPES}"),
        },
        **_group_version_kind(kind, names["listKind"]),
    }
    return {
        kind.definition: _published(schema, version, kind, v2=v2),
        kind.list_definition: listed,
    }


def _published(
    schema: Schema | None, version: Mapping[str, Any], kind: OpenApiKind, *, v2: bool
) -> dict[str, Any]:
    if schema is None or (v2 and schema.get("x-kubernetes-preserve-unknown-fields")):
        # Declaring any member would make kubectl refuse all others.
        shown: dict[str, Any] = {"type": "object"}
    else:
        shown = _schema(schema, v2=v2)
        shown["properties"] = {
            **(shown.get("properties") or {}),
            **_TYPE_META,
            "metadata": _reference("ObjectMeta", f"Standard object's metadata. {_METADATA}"),
        }
    fields = version.get("selectableFields")
    if fields:
        paths = [{"fieldPath": f["jsonPath"].removeprefix(".")} for f in fields]
        shown["x-kubernetes-selectable-fields"] = paths
    return {**shown, **_group_version_kind(kind, kind.kind)}


_NOT_PUBLISHED = frozenset(("externalDocs", "example"))
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")


def _schema(schema: Schema, *, v2: bool) -> dict[str, Any]:
    """Return a level of a schema as it is published, with the levels below."""
    shown = {k: v for k, v in schema.items() if k not in _NOT_PUBLISHED}
    if shown.get("x-kubernetes-int-or-string") and not v2:
        _spell_out(shown)
    if v2:
        _reduce(shown)
    properties = shown.get("properties")
    if properties:
        shown["properties"] = {name: _schema(sub, v2=v2) for name, sub in properties.items()}
    for member in ("items", "additionalProperties"):
        if isinstance(shown.get(member), Mapping):
            shown[member] = _schema(shown[member], v2=v2)
    preserving = shown.get("x-kubernetes-preserve-unknown-fields")
    if shown.get("x-kubernetes-embedded-resource") and not (v2 and preserving):
        shown["properties"] = {
            **(shown.get("properties") or {}),
            "apiVersion": _text(f"apiVersion defines the versioned schema of this representation "
                                f"of an object. {_RESOURCES}"),
            "kind": _text(f"kind is a string value representing the type of this object. "
                          f"In CamelCase. {_TYPES}"),
            "metadata": _reference("ObjectMeta", f"Standard object's metadata. {_METADATA}"),
        }  # fmt: skip
        given = list(shown.get("required") or ())
        shown["required"] = given + [m for m in ("kind", "apiVersion") if m not in given]
    return shown


def _spell_out(shown: dict[str, Any]) -> None:
    """Express "integer or string" in standard OpenAPI."""
    pair = [{"type": "integer"}, {"type": "string"}]
    any_of, all_of = shown.get("anyOf"), shown.get("allOf") or []
    if any_of == pair or (all_of and all_of[0].get("anyOf") == pair):
        return
    if any_of:
        shown["allOf"] = [{"anyOf": pair}, *all_of]
    else:
        shown["anyOf"] = pair


def _reduce(shown: dict[str, Any]) -> None:
    """Remove from one level what v2 cannot express."""
    for member in _JUNCTORS:
        shown.pop(member, None)
    nullable = [n for n, s in (shown.get("properties") or {}).items() if s.get("nullable")]
    others = shown.get("additionalProperties")
    if shown.get("required"):
        left = [name for name in shown["required"] if name not in nullable]
        if isinstance(others, Mapping) and others.get("nullable"):
            left = []
        if left:
            shown["required"] = left
        else:
            del shown["required"]
    preserving = shown.get("x-kubernetes-preserve-unknown-fields")
    if shown.pop("nullable", False):
        shown.pop("type", None)
        shown.pop("items", None)
        shown.pop("properties", None)
    if preserving:
        shown.pop("items", None)
        shown.pop("properties", None)
    kind = shown.get("type")
    if (kind == "array" and "items" not in shown) or (kind == "object" and preserving):
        del shown["type"]


_MORE = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/"
_RESOURCES = f"{_MORE}api-conventions.md#resources"
_TYPES = f"{_MORE}api-conventions.md#types-kinds"
_METADATA = f"{_MORE}api-conventions.md#metadata"


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_TYPE_META: dict[str, Any] = {
    "apiVersion": _text(
        "APIVersion defines the versioned schema of this representation of an object. Servers "
        "should convert recognized schemas to the latest internal value, and may reject "
        f"unrecognized values. {_RESOURCES}"
    ),
    "kind": _text(
        "Kind is a string value representing the REST resource this object represents. Servers may "
        "infer this from the endpoint the client submits requests to. Cannot be updated. "
        f"In CamelCase. {_TYPES}"
    ),
}


def _reference(name: str, description: str) -> dict[str, Any]:
    return {"description": description, "allOf": [{"$ref": f"{V3_PREFIX}{META}.{name}"}]}


def _group_version_kind(kind: OpenApiKind, name: str) -> dict[str, Any]:
    entry = {"group": kind.group, "kind": name, "version": kind.version}
    return {"x-kubernetes-group-version-kind": [entry]}
