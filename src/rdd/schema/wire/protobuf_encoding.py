# SPDX-License-Identifier: Apache-2.0
"""Responses of built-in kinds in protobuf, which client-go prefers for them.

The counterpart of `rdd.schema.wire.protobuf`: an object becomes the message that Go's
generated code writes, in the order of the field numbers. Members that are no pointers are
written even if they are empty; lists, maps and pointers only if they are set. Each struct
is compiled once, when an object of it is written.

A watch event is a message in a frame of its own (the length in four bytes, then the
message) around an object with its envelope.

This module is imported when a client first accepts protobuf, not before.
"""

import base64
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import orjson

from rdd.api import names, timestamps
from rdd.base.protowire import (
    FIXED64,
    VARINT,
    encode_bytes,
    encode_tag,
    encode_varint,
)
from rdd.schema.builtin import field_numbers, notation
from rdd.schema.builtin.notation import Type

_PREFIX = b"k8s\x00"
_WRAPPED = ("v1.ExtraValue", "v1.Verbs")  # lists that are messages, because maps hold no lists
_PARTIAL = ("PartialObjectMetadata", "PartialObjectMetadataList")
_OBJECT_META = notation.short_name("meta", "ObjectMeta")
_LIST_META = notation.short_name("meta", "ListMeta")
_SCHEMA = notation.short_name("apiextensions", "JSONSchemaProps")

Content = Callable[[Any], bytes]
"""Returns the content of a length-delimited value."""
Write = Callable[[Any], bytes]
"""Returns the whole field of a value that may be None, with its tag; empty for no field."""


def encode(obj: dict[str, Any]) -> bytes | None:
    """Return an object in its envelope; None if its kind has no message."""
    kind, api_version = obj.get("kind", ""), obj.get("apiVersion") or "v1"
    if kind in _PARTIAL and api_version.startswith(f"{names.META_GROUP}/"):
        raw = _partial(obj)
    elif definition := _definitions().get((kind, api_version)):
        raw = _message(definition)(obj)
    elif kind.endswith("List") and (item := _definitions().get((kind[:-4], api_version))):
        raw = _list(obj, _message(item))
    else:
        return None
    type_meta = encode_bytes(1, api_version.encode()) + encode_bytes(2, kind.encode())
    envelope = encode_bytes(1, type_meta) + encode_bytes(2, raw)
    # The encoding and the type of the content, which are empty.
    return _PREFIX + envelope + encode_bytes(3, b"") + encode_bytes(4, b"")


def watch_frame(type_: str, obj: dict[str, Any]) -> bytes:
    """Return the frame of a watch event; the kind MUST have a message."""
    inner = encode(obj)
    assert inner is not None, obj.get("kind")
    event = encode_bytes(1, type_.encode()) + encode_bytes(2, encode_bytes(1, inner))
    return len(event).to_bytes(4, "big") + event


@cache
def _definitions() -> dict[tuple[str, str], str]:
    """Return the definitions that have numbers, by kind and apiVersion."""
    found = {}
    for name in field_numbers.table():
        declared = notation.struct(name)
        if declared.kind:
            found[declared.kind, declared.api_version] = name
    return found


def _list(obj: dict[str, Any], item: Content) -> bytes:
    meta = encode_bytes(1, _message(_LIST_META)(obj.get("metadata") or {}))
    return meta + b"".join(encode_bytes(2, item(i)) for i in obj.get("items") or ())


def _partial(obj: dict[str, Any]) -> bytes:
    if "items" in obj:
        return _list(obj, _partial)
    return encode_bytes(1, _message(_OBJECT_META)(obj.get("metadata") or {}))


# ----------------------------------------------------------------------- messages


@cache
def _message(definition: str) -> Content:
    """Return the function that writes a struct."""
    declared = notation.struct(definition)
    types = {member.name: member.type for member in declared.fields}
    tree: dict[int, Any] = {}
    for name, path in field_numbers.table()[definition].items():
        inside = tree
        for step in path[:-1]:
            inside = inside.setdefault(step, {})
        inside[path[-1]] = (name, types[name])
    rows: list[tuple[str, Write]] | None = None

    def write(value: dict[str, Any]) -> bytes:
        nonlocal rows
        if rows is None:  # Late, because JSONSchemaProps contains itself.
            rows = _rows(tree)
        get = value.get
        return b"".join([w(get(name)) if name else w(value) for name, w in rows])

    return write


def _rows(tree: dict[int, Any]) -> list[tuple[str, Write]]:
    """Return how members are written, in the order of their numbers; "" is an embedded struct."""
    rows: list[tuple[str, Write]] = []
    for number, found in sorted(tree.items()):
        if isinstance(found, dict):
            rows.append(("", _embedded(number, _rows(found))))
        else:
            rows.append((found[0], _field(number, found[1])))
    return rows


def _embedded(number: int, rows: list[tuple[str, Write]]) -> Write:
    def write(value: Any) -> bytes:
        return encode_bytes(
            number, b"".join([w(value.get(name)) if name else w(value) for name, w in rows])
        )

    return write


def _field(number: int, type_: Type) -> Write:
    form = type_.form
    if form in _NUMBERS:
        tag = encode_tag(number, FIXED64 if form == "float64" else VARINT)
        encode_number = _NUMBERS[form]
        zero = b"" if type_.pointer else tag + encode_number(0)
        return lambda value: zero if value is None else tag + encode_number(value)
    if form == "list" and type_.item is not None:
        item = _content(type_.item)
        if type_.go in _WRAPPED:
            items = _items(item)
            return lambda value: b"" if value is None else encode_bytes(number, items(value))
        return lambda value: b"".join(encode_bytes(number, item(v)) for v in value or ())
    if form == "map" and type_.item is not None:
        return _map(number, type_.item)
    content = _content(type_)
    if type_.pointer or form in _OMITTED_IF_NULL:
        return lambda value: b"" if value is None else encode_bytes(number, content(value))
    if form == "struct":  # Its content for None is that of an empty one.
        return lambda value: encode_bytes(number, content(value))
    empty = encode_bytes(number, b"")
    return lambda value: empty if value is None else encode_bytes(number, content(value))


_OMITTED_IF_NULL = frozenset(("bytes", "JSON", "Raw", "FieldsV1"))


def _map(number: int, item: Type) -> Write:
    value_of = _field(2, item)

    def write(value: Any) -> bytes:
        return b"".join(
            encode_bytes(number, encode_bytes(1, key.encode()) + value_of(value[key]))
            for key in sorted(value or ())
        )

    return write


# ------------------------------------------------------------------------- values


def _content(type_: Type) -> Content:
    form = type_.form
    if form == "struct":
        definition = type_.struct
        return lambda value: _message(definition)(value or {})
    if form in _CONTENTS:
        return _CONTENTS[form]
    return _text


def _items(item: Content) -> Content:
    return lambda value: b"".join(encode_bytes(1, item(v)) for v in value or ())


def _text(value: Any) -> bytes:
    return str(value or "").encode("utf-8", "replace")


def _octets(value: Any) -> bytes:
    return base64.b64decode(value)


def _time(value: Any) -> bytes:
    if not value:
        return b""
    second, nanosecond = timestamps.parse(value)
    return (
        encode_tag(1, VARINT)
        + encode_varint(second & _UINT64)
        + encode_tag(2, VARINT)
        + encode_varint(nanosecond)
    )


def _quantity(value: Any) -> bytes:
    return encode_bytes(1, str(value).encode())


def _json(value: Any) -> bytes:
    return encode_bytes(1, orjson.dumps(value))


def _schema(value: Any) -> bytes:
    return _message(_SCHEMA)(value)


def _schema_or_array(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(encode_bytes(2, _schema(v)) for v in value)
    return encode_bytes(1, _schema(value))


def _schema_or_bool(value: Any) -> bytes:
    if isinstance(value, bool):
        return encode_tag(1, VARINT) + encode_varint(int(value))
    return encode_tag(1, VARINT) + encode_varint(1) + encode_bytes(2, _schema(value))


def _schema_or_strings(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(encode_bytes(2, _text(v)) for v in value)
    return encode_bytes(1, _schema(value))


_UINT64 = (1 << 64) - 1


def _integer(value: int) -> bytes:
    return encode_varint(value & _UINT64)


_NUMBERS: dict[str, Callable[[Any], bytes]] = {
    "bool": lambda value: encode_varint(int(value)),
    "int32": _integer,
    "int64": _integer,
    "float64": lambda value: struct.pack("<d", value),
}
_CONTENTS: dict[str, Content] = {
    "bytes": _octets,
    "Time": _time,
    "MicroTime": _time,
    "Quantity": _quantity,
    "JSON": _json,
    "Raw": _json,
    "FieldsV1": _json,
    "JSONSchemaPropsOrArray": _schema_or_array,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrStringArray": _schema_or_strings,
}
