# SPDX-License-Identifier: Apache-2.0
"""Schemas of custom resource definitions: structural rules, extensions, defaults, limits."""

from typing import Any

import pytest

from rdd.schema.crd.schema import MAX_DEPTH, MAX_SCHEMAS, schema_errors

TEXT = {"type": "string"}
KEEP = "x-kubernetes-preserve-unknown-fields"
LIST_TYPE = "x-kubernetes-list-type"
KEYS = "x-kubernetes-list-map-keys"
ITEM = {"type": "object", "required": ["k"], "properties": {"k": TEXT}}


def root_errors(schema: dict[str, Any], *, has_status: bool = False) -> list[str]:
    return [str(e) for e in schema_errors(schema, field="S", has_status=has_status)]


def errors(schema: dict[str, Any]) -> list[str]:
    """Return the errors of the schema of a member, without the path to it."""
    found = root_errors({"type": "object", "properties": {"a": schema}})
    return [m.replace("S.properties[a].", "").replace("S.properties[a]", "") for m in found]


@pytest.mark.parametrize(
    ("schema", "messages"),
    [
        pytest.param({"type": "object"}, [], id="plain"),
        pytest.param({}, ["S.type: Required value: must not be empty at the root"], id="empty"),
        pytest.param(TEXT, ['S.type: Invalid value: "string": must be object at the root'],
                     id="not an object"),
        pytest.param({"type": "object", "nullable": True},
                     ["S.nullable: Forbidden: nullable cannot be true at the root"],
                     id="nullable"),
        pytest.param({"type": "object", "additionalProperties": TEXT},
                     ["S.additionalProperties: Forbidden: must not be used at the root"],
                     id="a map"),
        pytest.param({"type": "object", "properties": {"kind": {"type": "integer"}}},
                     ['S.properties[kind].type: Invalid value: "integer": must be string'],
                     id="kind"),
        pytest.param({"type": "object", "properties": {"metadata": TEXT}},
                     ['S.properties[metadata].type: Invalid value: "string": must be object'],
                     id="metadata of another type"),
        pytest.param({"type": "object", "properties": {"metadata": {
            "type": "object", "properties": {"name": {**TEXT, "maxLength": 3}}}}}, [],
            id="names can be restricted"),
        pytest.param({"type": "object", "properties": {"metadata": {
            "type": "object", "properties": {"labels": {"type": "object"}}}}},
            ["S.properties[metadata]: Forbidden: must not specify anything other than name and "
             "generateName, but metadata is implicitly specified"], id="labels cannot"),
        pytest.param({"type": "object", "properties": {"metadata": {
            "type": "object", "properties": {"name": {**TEXT, "default": "x"}}}}},
            ["S.properties[metadata].properties[name].default: Forbidden: "
             "must not be set in top-level metadata"], id="default name"),
        pytest.param({"type": "object", "allOf": [{"properties": {"x": {"items": {}}}}],
                      "properties": {"x": {"type": "object"}}},
                     ["S.properties[x].items: Required value: because it is defined in "
                      "S.allOf[0].properties[x].items"], id="conditions on undeclared items"),
        pytest.param({"type": "object", "not": {"properties": {"x": {"minimum": 1}}}},
                     ["S.properties[x]: Required value: because it is defined in "
                      "S.not.properties[x]"], id="conditions on undeclared members"),
    ],
)  # fmt: skip
def test_the_root_is_a_resource(schema: dict[str, Any], messages: list[str]) -> None:
    assert root_errors(schema) == messages


def test_with_a_status_subresource_the_root_schema_is_minimal() -> None:
    assert root_errors({"type": "object", "description": "d"}, has_status=True) == []
    found = root_errors({"type": "object", "maxProperties": 3}, has_status=True)
    assert len(found) == 1
    assert found[0].startswith('S: Invalid value: {"ID":"","Schema":"","Ref":null,')
    assert '"MaxProperties":3,' in found[0]
    assert found[0].endswith(
        '"XValidations":null}: only [Description Type Format Title Maximum ExclusiveMaximum '
        "Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems "
        "MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
        "XValidations] fields are allowed at the root of the schema if the status subresource is "
        "enabled"
    )
    assert root_errors(TEXT, has_status=True)[0] == (
        'S.type: Invalid value: "string": only "object" is allowed as the type at the root of the '
        "schema if the status subresource is enabled"
    )


@pytest.mark.parametrize(
    ("schema", "messages"),
    [
        pytest.param({}, ["type: Required value: must not be empty for specified object fields"],
                     id="no type"),
        pytest.param({"type": "array"}, ["items: Required value: must be specified"], id="items"),
        pytest.param({"type": "array", "items": {}}, [
            "items.type: Required value: must not be empty for specified array items",
        ], id="untyped items"),
        pytest.param({"type": "array", "items": [TEXT]}, [
            "items: Forbidden: items must be a schema object and not an array"], id="tuple"),
        pytest.param({"type": "nonsense"}, [
            'type: Unsupported value: "nonsense": supported values: "array", "boolean", '
            '"integer", "number", "object", "string"'], id="unknown type"),
        pytest.param({"type": "null"}, [
            'type: Unsupported value: "null": supported values: "array", "boolean", "integer", '
            '"number", "object", "string"',
            "type: Forbidden: type cannot be set to null, use nullable as an alternative",
        ], id="type null"),
        pytest.param({"$ref": "#/x"}, ["$ref: Forbidden: $ref is not supported"], id="ref"),
        pytest.param({**TEXT, "id": "x"}, ["id: Forbidden: id is not supported"], id="id"),
        pytest.param({**TEXT, "$schema": "x"}, [
            "S: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"], id="$schema"),
        pytest.param({**TEXT, "definitions": {"x": TEXT}}, [
            "definitions: Forbidden: definitions is not supported"], id="definitions"),
        pytest.param({"type": "object", "patternProperties": {"x": TEXT}}, [
            "patternProperties: Forbidden: patternProperties is not supported"], id="patterns"),
        pytest.param({"type": "object", "dependencies": {}}, [
            "dependencies: Forbidden: dependencies is not supported"], id="empty-dependencies"),
        pytest.param({"type": "object", "dependencies": {"x": ["y"]}}, [
            "dependencies: Forbidden: dependencies is not supported"], id="dependencies"),
        pytest.param({"type": "array", "items": TEXT, "additionalItems": False}, [
            "additionalItems: Forbidden: additionalItems is not supported"], id="more items"),
        pytest.param({"type": "array", "items": TEXT, "uniqueItems": True}, [
            "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
            "complexity becomes quadratic"], id="uniqueItems"),
        pytest.param({"type": "object", "properties": {"x": TEXT}, "additionalProperties": TEXT}, [
            "additionalProperties: Forbidden: additionalProperties and properties are mutual "
            "exclusive"], id="map and members"),
        pytest.param({"type": "object", "additionalProperties": False}, [], id="closed map"),
        pytest.param({**TEXT, "pattern": "("}, [
            'pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: '
            "error parsing regexp: missing closing ): `(`"], id="pattern"),
        pytest.param({"oneOf": [TEXT, {"type": "integer"}]}, [
            "oneOf[0].type: Forbidden: must be empty to be structural",
            "oneOf[1].type: Forbidden: must be empty to be structural",
            "type: Required value: must not be empty for specified object fields",
        ], id="types in oneOf"),
        pytest.param({**TEXT, "anyOf": [{
            "description": "d", "title": "t", "nullable": True, "default": 1,
            "additionalProperties": True, KEEP: True, "x-kubernetes-embedded-resource": True,
            "x-kubernetes-int-or-string": True, KEYS: ["a"], LIST_TYPE: "map",
            "x-kubernetes-map-type": "atomic"}]}, [
            "anyOf[0].additionalProperties: Forbidden: must be undefined to be structural",
            "anyOf[0].default: Forbidden: must be undefined to be structural",
            "anyOf[0].description: Forbidden: must be empty to be structural",
            "anyOf[0].nullable: Forbidden: must be false to be structural",
            "anyOf[0].title: Forbidden: must be empty to be structural",
            "anyOf[0].x-kubernetes-embedded-resource: Forbidden: must be false to be structural",
            "anyOf[0].x-kubernetes-int-or-string: Forbidden: must be false to be structural",
            "anyOf[0].x-kubernetes-list-map-keys: Forbidden: must be empty to be structural",
            "anyOf[0].x-kubernetes-list-type: Forbidden: must be undefined to be structural",
            "anyOf[0].x-kubernetes-map-type: Forbidden: must be undefined to be structural",
            "anyOf[0].x-kubernetes-preserve-unknown-fields: Forbidden: "
            "must be false to be structural",
            "anyOf[0].type: Required value: must be object if x-kubernetes-map-type is specified",
            "anyOf[0].type: Required value: must be array if x-kubernetes-list-type is specified",
            "anyOf[0].items: Required value: must have a schema if x-kubernetes-list-type is map",
        ], id="unsupported members of conditions"),
        pytest.param({"type": "object", "properties": {"x": {"type": "integer"}},
                      "allOf": [{"properties": {"x": {"minimum": 1}}}],
                      "not": {"required": ["y"]}}, [], id="conditions on declared members"),
        pytest.param({"type": "object", "oneOf": [{"properties": {"metadata": {}}}],
                      "properties": {"metadata": {"type": "object"}}}, [
            "oneOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
        ], id="conditions on metadata"),
        pytest.param({"x-kubernetes-int-or-string": True,
                      "anyOf": [{"type": "integer"}, {"type": "string"}]}, [],
                     id="int or string, spelled out"),
        pytest.param({"x-kubernetes-int-or-string": True, "allOf": [
            {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "x"}]}, [],
            id="int or string, spelled out in allOf"),
        pytest.param({"x-kubernetes-int-or-string": True, KEEP: True}, [
            "x-kubernetes-preserve-unknown-fields: Invalid value: true: "
            "must be false if x-kubernetes-int-or-string is true"], id="int or string or more"),
        pytest.param({**TEXT, KEEP: False}, [
            "x-kubernetes-preserve-unknown-fields: Invalid value: false: "
            "must be true or undefined"], id="preserve false"),
        pytest.param({"type": "object", "x-kubernetes-embedded-resource": True}, [
            "properties: Required value: must not be empty if x-kubernetes-embedded-resource is "
            "true without x-kubernetes-preserve-unknown-fields"], id="embedded without members"),
        pytest.param({**TEXT, "x-kubernetes-embedded-resource": True, KEEP: True}, [
            'type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is '
            "true"], id="embedded text"),
        pytest.param({**TEXT, "x-kubernetes-map-type": "atomic"}, [
            'type: Invalid value: "string": must be object if x-kubernetes-map-type is specified',
        ], id="map type of a text"),
        pytest.param({"type": "object", "x-kubernetes-map-type": "odd"}, [
            'x-kubernetes-map-type: Unsupported value: "odd": supported values: "atomic", '
            '"granular"'], id="map type"),
        pytest.param({"type": "array", "items": TEXT, LIST_TYPE: "odd"}, [
            'x-kubernetes-list-type: Unsupported value: "odd": supported values: "atomic", '
            '"set", "map"'], id="list type"),
        pytest.param({"type": "array", "items": TEXT, LIST_TYPE: "set"}, [], id="set"),
        pytest.param({"type": "array", "items": {"type": "object"}, LIST_TYPE: "set"}, [
            "items.x-kubernetes-map-type: Invalid value: null: "
            "must be atomic as item of a list with x-kubernetes-list-type=set"], id="set of maps"),
        pytest.param({"type": "array", LIST_TYPE: "set", "items": {
            "type": "array", "items": TEXT, LIST_TYPE: "set"}}, [
            'items.x-kubernetes-list-type: Invalid value: "set": '
            "must be atomic as item of a list with x-kubernetes-list-type=set"], id="set of sets"),
        pytest.param({"type": "array", "items": {**TEXT, "nullable": True}, LIST_TYPE: "set"}, [
            "items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ], id="set of nulls"),
        pytest.param({"type": "array", "items": ITEM, LIST_TYPE: "map", KEYS: ["k"]}, [],
                     id="list map"),
        pytest.param({"type": "array", "items": ITEM, KEYS: ["k"]}, [
            "x-kubernetes-list-type: Required value: "
            "must be map if x-kubernetes-list-map-keys is non-empty"], id="keys without map"),
        pytest.param({"type": "array", "items": ITEM, LIST_TYPE: "atomic", KEYS: ["k"]}, [
            'x-kubernetes-list-type: Invalid value: "atomic": '
            "must be map if x-kubernetes-list-map-keys is non-empty"], id="keys of no map"),
        pytest.param({"type": "array", "items": ITEM, LIST_TYPE: "map", KEYS: ["z", "k", "k"]}, [
            'x-kubernetes-list-map-keys: Invalid value: ["z","k","k"]: '
            "entries must all be names of item properties",
            'x-kubernetes-list-map-keys: Invalid value: ["z","k","k"]: '
            "must not contain duplicate entries"], id="bad keys"),
        pytest.param({"type": "array", LIST_TYPE: "map", KEYS: ["k", "o"], "items": {
            "type": "object", "properties": {
                "k": {**TEXT, "nullable": True, "default": "x"}, "o": {"type": "object"}}}}, [
            'items.properties[o].type: Invalid value: "object": '
            "must be a scalar type if parent array's x-kubernetes-list-type is map",
            "items.properties[k].nullable: Forbidden: "
            "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            "items.properties[o].default: Required value: this property is in "
            "x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ], id="keys that identify nothing"),
    ],
)  # fmt: skip
def test_levels_of_a_schema_are_checked(schema: dict[str, Any], messages: list[str]) -> None:
    found = errors(schema)
    assert sorted(found) == sorted(messages)


@pytest.mark.parametrize(
    ("schema", "messages"),
    [
        pytest.param({"type": "object", "default": {"b": "x"}, "properties": {"b": TEXT}}, [],
                     id="good"),
        pytest.param({"type": "integer", "default": "x"}, [
            'default: Invalid value: "string":  in body must be of type integer: "string"',
        ], id="type"),
        pytest.param({"type": "integer", "default": 5, "maximum": 3}, [
            "default: Invalid value: 5:  in body should be less than or equal to 3"], id="value"),
        pytest.param({**TEXT, "enum": ["x"], "default": "y"}, [
            'default: Unsupported value: "y": supported values: "x"'], id="enum"),
        pytest.param({"type": "object", "default": {"c": 1}, "properties": {"b": TEXT}}, [
            'default: Invalid value: {"c":1}: must not have unknown fields'], id="unknown"),
        pytest.param({"type": "object", "default": {}, "required": ["b"],
                      "properties": {"b": TEXT}}, ["default.b: Required value"], id="required"),
        pytest.param({"type": "object", "default": {"b": 1}, "properties": {"b": TEXT}}, [
            'default.b: Invalid value: "integer": b in body must be of type string: "integer"',
        ], id="a member"),
        pytest.param({"type": "array", "items": {**TEXT, "default": 1}}, [
            'items.default: Invalid value: "integer":  in body must be of type string: "integer"',
        ], id="of items"),
        pytest.param({"type": "object", "x-kubernetes-embedded-resource": True, KEEP: True,
                      "default": {"kind": "A"}},
                     ["default.apiVersion: Required value"], id="an embedded resource"),
        pytest.param({"type": "string", "default": None}, [], id="null is no default"),
    ],
)  # fmt: skip
def test_defaults_must_be_valid(schema: dict[str, Any], messages: list[str]) -> None:
    assert errors(schema) == messages


def test_a_schema_that_is_too_deep_is_rejected() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(100_000):
        schema = {"type": "object", "properties": {"a": schema}}
    message = f"S: Forbidden: must not be nested deeper than {MAX_DEPTH} levels"
    assert root_errors(schema) == [message]


def test_a_schema_that_grows_exponentially_is_rejected() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(60):
        # shared in memory, doubled when serialised
        schema = {"type": "object", "properties": {"a": schema, "b": schema}}
    message = f"S: Forbidden: must not contain more than {MAX_SCHEMAS} schemas"
    assert root_errors(schema) == [message]


def test_a_schema_at_the_limit_of_depth_works() -> None:
    schema: dict[str, Any] = {"type": "string", "default": 1}
    for _ in range(MAX_DEPTH - 1):
        schema = {"type": "object", "properties": {"a": schema}}
    assert len(root_errors(schema)) == 1
