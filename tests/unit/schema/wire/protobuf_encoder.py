# SPDX-License-Identifier: Apache-2.0
"""Protobuf as Kubernetes' Go clients write it, for tests of the decoder.

Shares nothing with the decoder but the shapes and the field numbers. What is no
pointer, list or map is written even when it is empty, as the encoders generated
for Kubernetes' types do.
"""

import base64
import json
import struct
from typing import Any

from rdd.api import timestamps
from rdd.schema.builtin import field_numbers, notation
from rdd.schema.builtin.notation import Type

SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def envelope(message: bytes, kind: str, api_version: str = "v1") -> bytes:
    """The body that carries a message."""
    meta = delimited(1, api_version.encode()) + delimited(2, kind.encode())
    return (
        b"k8s\0"
        + delimited(1, meta)
        + delimited(2, message)
        + delimited(3, b"")
        + delimited(4, b"")
    )


def body(definition: str, obj: dict[str, Any]) -> bytes:
    """The body that carries an object of a kind."""
    declared = notation.struct(definition)
    return envelope(message(definition, obj), declared.kind, declared.api_version)


def message(definition: str, obj: dict[str, Any]) -> bytes:
    """The message of a struct."""
    types = {member.name: member.type for member in notation.struct(definition).fields}
    fields: dict[tuple[int, ...], bytes] = {}
    for name, path in field_numbers.table()[definition].items():
        value, type_ = obj.get(name), types[name]
        if value is None:
            if type_.pointer or type_.form in ("list", "map", "bytes"):
                continue
            value = zero(type_)
        fields[path] = value_field(path[-1], type_, value)
    return nest(fields)


def nest(fields: dict[tuple[int, ...], bytes]) -> bytes:
    """Fields in the order of their numbers; those with longer paths in embedded messages."""
    out = b""
    for number in sorted({path[0] for path in fields}):
        inner = {path[1:]: raw for path, raw in fields.items() if path[0] == number}
        out += inner[()] if () in inner else delimited(number, nest(inner))
    return out


def zero(type_: Type) -> Any:
    empty = {"struct": {}, "bool": False, "int32": 0, "int64": 0, "float64": 0.0, "Quantity": "0"}
    return empty.get(type_.form, "")


def value_field(number: int, type_: Type, value: Any) -> bytes:
    if type_.form == "bool" or type_.form.startswith("int"):
        return integer(number, int(value))
    if type_.form == "float64":
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if type_.form == "list" and type_.go not in ("v1.ExtraValue", "v1.Verbs"):
        assert type_.item is not None
        return b"".join(value_field(number, type_.item, item) for item in value)
    if type_.form == "map":
        assert type_.item is not None
        entries = b""
        for key, item in value.items():
            entry = delimited(1, key.encode()) + value_field(2, type_.item, item)
            entries += delimited(number, entry)
        return entries
    return delimited(number, content(type_, value))


def content(type_: Type, value: Any) -> bytes:
    form = type_.form
    if form == "struct":
        return message(type_.struct, value)
    if form == "list":
        return b"".join(delimited(1, item.encode()) for item in value)
    if form == "string":
        return str(value).encode()
    if form == "bytes":
        return base64.b64decode(value)
    if form in ("Time", "MicroTime"):
        if not value:
            return b""
        parse = timestamps.parse if form == "Time" else timestamps.parse_micro
        second, nano = parse(value)
        return integer(1, second) + integer(2, nano)
    if form == "Quantity":
        return delimited(1, value.encode())
    if form == "JSONSchemaPropsOrBool":
        if isinstance(value, bool):
            return integer(1, value)
        return integer(1, True) + delimited(2, message(SCHEMA, value))
    if form in ("JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray"):
        if isinstance(value, dict):
            return delimited(1, message(SCHEMA, value))
        return b"".join(
            delimited(2, v.encode() if isinstance(v, str) else message(SCHEMA, v)) for v in value
        )
    assert form in ("JSON", "Raw", "FieldsV1"), form
    return delimited(1, json.dumps(value).encode())
