# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v2 documents in protobuf.

kubectl does not read /openapi/v2 as JSON: it requests the protobuf form of the
gnostic project (openapi.v2.Document), to validate manifests that hold a List
and, before 1.27, to validate and explain everything. The messages mirror the
JSON, so each is a table of member names, field numbers and kinds; what has no
field (there are vocabularies beyond version 2) is left out, as gnostic does.
Values of any type travel as YAML text, and JSON is YAML.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from rdd.base.protowire import FIXED64, VARINT, encode_bytes, encode_tag, encode_varint

Encode = Callable[[Any], bytes]
Member = tuple[int, Callable[[int, Any], bytes]]
"""Field number, and what writes the field."""


def encode(document: Mapping[str, Any]) -> bytes:
    """Return an OpenAPI v2 document as an openapi.v2.Document message."""
    return _message(_DOCUMENT, document, extensions=16)


# -- the wire


def _string(number: int, value: str) -> bytes:
    return encode_bytes(number, value.encode()) if value else b""


def _strings(number: int, values: Iterable[str]) -> bytes:
    return b"".join(encode_bytes(number, v.encode()) for v in values)


def _bool(number: int, value: bool) -> bytes:
    return encode_tag(number, VARINT) + b"\x01" if value else b""


def _integer(number: int, value: int) -> bytes:
    return encode_tag(number, VARINT) + encode_varint(int(value)) if value else b""


def _double(number: int, value: float) -> bytes:
    return encode_tag(number, FIXED64) + struct.pack("<d", value) if value else b""


def _any(value: Any) -> bytes:
    return _string(2, orjson.dumps(value).decode() + "\n")


def _message(members: Mapping[str, Member], value: Mapping[str, Any], *, extensions: int) -> bytes:
    """Return a message, its vendor extensions (x-…) in the field of that number."""
    pieces = []
    for name, item in value.items():
        member = members.get(name)
        if member is not None:
            number, write = member
            pieces.append(write(number, item))
        elif name.startswith("x-"):
            pieces.append(encode_bytes(extensions, _named(name, _any(item))))
    return b"".join(pieces)


def _named(name: str, data: bytes) -> bytes:
    """Return the entry of a map: protobuf's own maps have no order, so gnostic has its own."""
    return _string(1, name) + encode_bytes(2, data)


# -- kinds of fields


def _one(encoded: Encode) -> Callable[[int, Any], bytes]:
    return lambda number, value: encode_bytes(number, encoded(value))


def _many(encoded: Encode) -> Callable[[int, Any], bytes]:
    return lambda number, values: b"".join(encode_bytes(number, encoded(v)) for v in values)


def _map(encoded: Encode, *, inner: int = 1) -> Callable[[int, Any], bytes]:
    """Return a message that is nothing but a map."""
    return lambda number, value: encode_bytes(
        number, b"".join(encode_bytes(inner, _named(k, encoded(v))) for k, v in value.items())
    )


# -- messages


def _schema(value: Mapping[str, Any]) -> bytes:
    return _message(_SCHEMA, value, extensions=31)


def _additional_properties(value: Any) -> bytes:
    if isinstance(value, bool):
        return encode_tag(2, VARINT) + (b"\x01" if value else b"\x00")
    return encode_bytes(1, _schema(value))


def _type(value: Any) -> bytes:
    return _strings(1, [value] if isinstance(value, str) else value)


def _parameters_item(value: Mapping[str, Any]) -> bytes:
    if "$ref" in value:
        return encode_bytes(2, _string(1, value["$ref"]))
    place = value["in"]
    if place == "body":
        return encode_bytes(1, encode_bytes(1, _message(_BODY, value, extensions=6)))
    number, members = _PLACES[place]
    kind = _message(members, value, extensions=23 if place in ("query", "formData") else 22)
    return encode_bytes(1, encode_bytes(2, encode_bytes(number, kind)))


def _response_value(value: Mapping[str, Any]) -> bytes:
    return encode_bytes(1, _message(_RESPONSE, value, extensions=5))


def _operation(value: Mapping[str, Any]) -> bytes:
    return _message(_OPERATION, value, extensions=13)


def _path_item(value: Mapping[str, Any]) -> bytes:
    return _message(_PATH_ITEM, value, extensions=10)


def _security_requirement(value: Mapping[str, list[str]]) -> bytes:
    return b"".join(encode_bytes(1, _named(k, _strings(1, v))) for k, v in value.items())


def _security_definition(value: Mapping[str, Any]) -> bytes:
    return encode_bytes(2, _message(_API_KEY, value, extensions=5))


_INFO: dict[str, Member] = {"title": (1, _string), "version": (2, _string)}

_DOCUMENT: dict[str, Member] = {
    "swagger": (1, _string),
    "info": (2, _one(lambda v: _message(_INFO, v, extensions=7))),
    "paths": (8, _map(_path_item, inner=2)),
    "definitions": (9, _map(_schema)),
    "security": (12, _many(_security_requirement)),
    "securityDefinitions": (13, _map(_security_definition)),
}

_API_KEY: dict[str, Member] = {
    "type": (1, _string),
    "name": (2, _string),
    "in": (3, _string),
    "description": (4, _string),
}

_PATH_ITEM: dict[str, Member] = {
    "get": (2, _one(_operation)),
    "put": (3, _one(_operation)),
    "post": (4, _one(_operation)),
    "delete": (5, _one(_operation)),
    "options": (6, _one(_operation)),
    "head": (7, _one(_operation)),
    "patch": (8, _one(_operation)),
    "parameters": (9, _many(_parameters_item)),
}

_OPERATION: dict[str, Member] = {
    "tags": (1, _strings),
    "summary": (2, _string),
    "description": (3, _string),
    "operationId": (5, _string),
    "produces": (6, _strings),
    "consumes": (7, _strings),
    "parameters": (8, _many(_parameters_item)),
    "responses": (9, _map(_response_value)),
    "schemes": (10, _strings),
    "deprecated": (11, _bool),
}

_RESPONSE: dict[str, Member] = {
    "description": (1, _string),
    "schema": (2, _one(lambda v: encode_bytes(1, _schema(v)))),
}

_BODY: dict[str, Member] = {
    "description": (1, _string),
    "name": (2, _string),
    "in": (3, _string),
    "required": (4, _bool),
    "schema": (5, _one(_schema)),
}

_PARAMETER: dict[str, Member] = {
    "required": (1, _bool),
    "in": (2, _string),
    "description": (3, _string),
    "name": (4, _string),
}
_HEADER = _PARAMETER | {"type": (5, _string), "format": (6, _string), "uniqueItems": (19, _bool)}
_QUERY = _PARAMETER | {"type": (6, _string), "format": (7, _string), "uniqueItems": (20, _bool)}
_PLACES = {
    "header": (1, _HEADER),
    "formData": (2, _QUERY),
    "query": (3, _QUERY),
    "path": (4, _HEADER),
}

_SCHEMA: dict[str, Member] = {
    "$ref": (1, _string),
    "format": (2, _string),
    "title": (3, _string),
    "description": (4, _string),
    "default": (5, _one(_any)),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _bool),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _bool),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _string),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _bool),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _strings),
    "enum": (20, _many(_any)),
    "additionalProperties": (21, _one(_additional_properties)),
    "type": (22, _one(_type)),
    "items": (23, _one(lambda v: encode_bytes(1, _schema(v)))),
    "allOf": (24, _many(_schema)),
    "properties": (25, _map(_schema)),
    "example": (30, _one(_any)),
}
