# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v2 in protobuf, read back field by field."""

import struct
from typing import Any

import pytest

from rdd.base import protowire
from rdd.schema.openapi.protobuf import encode

DOCUMENT, PATHS, DEFINITIONS, SCHEMA = "Document", 8, 9, "Schema"


def fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number."""
    found: dict[int, list[Any]] = {}
    at, end = 0, len(data)
    while at < end:
        number, wire, at = protowire.read_tag(data, at, end, "M")
        value: Any
        if wire == protowire.VARINT:
            value, at = protowire.read_varint(data, at, end)
        elif wire == protowire.FIXED64:
            (value,) = struct.unpack_from("<d", data, at)
            at += 8
        else:
            start, at = protowire.read_span(data, at, end)
            value = data[start:at]
        found.setdefault(number, []).append(value)
    return found


def schema(value: dict[str, Any]) -> dict[int, list[Any]]:
    """The message of a definition."""
    (definitions,) = fields(encode({"definitions": {"x": value}}))[DEFINITIONS]
    (named,) = fields(definitions)[1]
    entry = fields(named)
    assert entry[1] == [b"x"]
    return fields(entry[2][0])


@pytest.mark.parametrize(
    ("member", "value", "number", "expected"),
    [
        pytest.param("$ref", "#/definitions/y", 1, [b"#/definitions/y"], id="reference"),
        pytest.param("format", "int64", 2, [b"int64"], id="format"),
        pytest.param("description", "Größe", 4, ["Größe".encode()], id="description"),
        pytest.param("maximum", 2.5, 7, [2.5], id="maximum"),
        pytest.param("minimum", -3, 9, [-3.0], id="minimum"),
        pytest.param("exclusiveMinimum", True, 10, [1], id="boolean"),
        pytest.param("exclusiveMinimum", False, 10, None, id="false is left out"),
        pytest.param("maxLength", 300, 11, [300], id="integer"),
        pytest.param("required", ["a", "b"], 19, [b"a", b"b"], id="strings"),
        pytest.param("nullable", True, 31, None, id="unknown to version 2"),
    ],
)
def test_members_of_a_schema(
    member: str, value: Any, number: int, expected: list[Any] | None
) -> None:
    assert schema({member: value}).get(number) == expected


def test_values_of_any_type_are_yaml_text() -> None:
    found = schema({"default": {"a": 1}, "enum": ["x", 2], "x-kubernetes-list-type": "set"})
    assert fields(found[5][0]) == {2: [b'{"a":1}\n']}
    assert [fields(item) for item in found[20]] == [{2: [b'"x"\n']}, {2: [b"2\n"]}]
    extension = fields(found[31][0])
    assert extension[1] == [b"x-kubernetes-list-type"]
    assert fields(extension[2][0]) == {2: [b'"set"\n']}


def test_nested_schemas() -> None:
    found = schema(
        {
            "type": "object",
            "properties": {"p": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": False,
        }
    )
    assert fields(found[22][0]) == {1: [b"object"]}
    assert fields(found[21][0]) == {2: [0]}
    (named,) = fields(found[25][0])[1]
    inner = fields(fields(named)[2][0])
    (item,) = fields(inner[23][0])[1]
    assert fields(fields(item)[22][0]) == {1: [b"string"]}
    free = schema({"additionalProperties": {"type": "string"}})
    assert 1 in fields(free[21][0])


def test_operations_and_parameters() -> None:
    reference = {"$ref": "#/definitions/y"}
    operation = {
        "operationId": "doIt",
        "parameters": [
            {"in": "body", "name": "body", "required": True, "schema": reference},
            {"in": "query", "name": "q", "type": "string", "uniqueItems": True},
            {"in": "path", "name": "p", "type": "string", "required": True},
        ],
        "responses": {"200": {"description": "OK", "schema": reference}},
        "x-kubernetes-action": "patch",
    }
    document = fields(encode({"swagger": "2.0", "paths": {"/it": {"patch": operation}}}))
    assert document[1] == [b"2.0"]
    (named,) = fields(document[PATHS][0])[2]
    item = fields(fields(named)[2][0])
    found = fields(item[8][0])
    assert found[5] == [b"doIt"]
    body, query, path = (fields(fields(p)[1][0]) for p in found[8])
    assert fields(body[1][0])[2] == [b"body"]
    assert fields(fields(query[2][0])[3][0])[20] == [1]
    assert fields(fields(path[2][0])[4][0])[4] == [b"p"]
    (response,) = fields(found[9][0])[1]
    assert fields(response)[1] == [b"200"]
    assert fields(found[13][0])[1] == [b"x-kubernetes-action"]


def test_security() -> None:
    document = fields(
        encode(
            {
                "security": [{"Token": []}],
                "securityDefinitions": {"Token": {"type": "apiKey", "in": "header"}},
            }
        )
    )
    assert fields(fields(document[12][0])[1][0])[1] == [b"Token"]
    (named,) = fields(document[13][0])[1]
    assert fields(fields(fields(named)[2][0])[2][0])[1] == [b"apiKey"]
