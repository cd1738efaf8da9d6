# SPDX-License-Identifier: Apache-2.0
"""A structural schema, compiled once from its OpenAPI form.

Everything that looks at objects by their shape (pruning, defaulting,
validation, strategic merge, server-side apply, CEL types) walks the same
`Node` tree, for built-in kinds and custom resources alike. A node keeps only
what those walks need, in slots, because a daemon holds hundreds of schemas.
"""

from collections.abc import Mapping
from typing import Any

import orjson


class Node:
    """One level of a structural schema.

    `type` is "object", "array", "string", "integer", "number", "boolean" or
    "" (anything). For an object, `properties` are the declared members and
    `additional` the schema of all others (a map); unknown members are kept if
    `preserve_unknown`, otherwise pruned.
    """

    __slots__ = (
        "additional",
        "additional_bool",
        "default",
        "default_size",
        "defaulted",
        "embedded",
        "has_defaults",
        "int_or_string",
        "items",
        "list_map_keys",
        "list_type",
        "map_type",
        "nullable",
        "patch_merge_key",
        "patch_strategy",
        "preserve_unknown",
        "properties",
        "required",
        "source",
        "type",
    )

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source
        """The OpenAPI v3 form this node was compiled from (value validations are read from it)."""
        self.type: str = source.get("type") or ""
        self.properties: dict[str, Node] = {}
        self.additional: Node | None = None
        self.additional_bool: bool = isinstance(source.get("additionalProperties"), bool)
        """additionalProperties is true or false: others are kept, but have no schema."""
        self.items: Node | None = None
        self.required: tuple[str, ...] = tuple(source.get("required") or ())
        self.nullable: bool = bool(source.get("nullable"))
        self.preserve_unknown: bool = bool(source.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded: bool = bool(source.get("x-kubernetes-embedded-resource"))
        self.int_or_string: bool = bool(source.get("x-kubernetes-int-or-string"))
        self.list_type: str = source.get("x-kubernetes-list-type") or "atomic"
        """atomic, set or map: how server-side apply merges this list."""
        self.list_map_keys: tuple[str, ...] = tuple(source.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = source.get("x-kubernetes-map-type") or "granular"
        """granular or atomic: how server-side apply merges this object or map."""
        self.patch_strategy: str = source.get("x-kubernetes-patch-strategy") or ""
        """Of strategic merge patch, comma-separated: merge, replace, retainKeys."""
        self.patch_merge_key: str = source.get("x-kubernetes-patch-merge-key") or ""
        self.default: Any = source.get("default", MISSING)
        self.default_size = len(orjson.dumps(self.default)) if self.default is not MISSING else 0
        """The size of the default as JSON."""
        self.has_defaults: bool = False
        """This node or one below has a default (set by the compiler; lets walks stop early)."""
        self.defaulted: tuple[tuple[str, Node], ...] = ()
        """The members that have a default (null counts as none, as in Kubernetes)."""


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""Marks the absence of a default (None is a possible default)."""


def compile_node(schema: Mapping[str, Any], refs: Mapping[str, Mapping[str, Any]] = {}) -> Node:
    """Compile a schema. `refs` resolves `$ref: "#/…/Name"` by its last segment (built-in kinds).

    Recursive schemas (JSONSchemaProps) are allowed through refs: the same
    name compiled twice on one path yields the same Node.
    """
    return _compile(schema, refs, {})


def _compile(
    schema: Mapping[str, Any], refs: Mapping[str, Mapping[str, Any]], open_: dict[str, Node]
) -> Node:
    ref = schema.get("$ref") or None
    if ref is None and len(schema.get("allOf") or ()) == 1 and schema["allOf"][0].get("$ref"):
        # How OpenAPI v3 attaches a default or description to a reference.
        ref = schema["allOf"][0]["$ref"]
        schema = {
            **refs[ref.rpartition("/")[2]],
            **{k: v for k, v in schema.items() if k != "allOf"},
        }
        return _fill(Node(schema), refs, open_)
    if ref is not None:
        name = ref.rpartition("/")[2]
        if name in open_:
            return open_[name]
        node = open_[name] = Node(refs[name])
        _fill(node, refs, open_)
        return node
    return _fill(Node(schema), refs, open_)


def _fill(node: Node, refs: Mapping[str, Mapping[str, Any]], open_: dict[str, Node]) -> Node:
    schema = node.source
    for name, sub in (schema.get("properties") or {}).items():
        node.properties[name] = _compile(sub, refs, open_)
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        node.additional = _compile(additional, refs, open_)
    elif additional is True:
        node.additional = Node({"x-kubernetes-preserve-unknown-fields": True})
    items = schema.get("items")
    if isinstance(items, Mapping):
        node.items = _compile(items, refs, open_)
    node.defaulted = tuple(
        (name, sub)
        for name, sub in node.properties.items()
        if sub.default is not MISSING and sub.default is not None
    )
    below = [*node.properties.values(), node.additional, node.items]
    node.has_defaults = node.default is not MISSING or any(
        n is not None and n.has_defaults for n in below
    )
    return node
