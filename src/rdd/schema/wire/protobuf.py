# SPDX-License-Identifier: Apache-2.0
"""Bodies of built-in kinds in protobuf, the format in which kubectl and client-go send them.

Such a body is an envelope (a prefix and runtime.Unknown) around the message of
a kind. `decode` makes of it the same dict that a JSON body would give, which
then goes the same way: the typed decoder drops the same zero values, so
they are kept here. What a message contains is read off the shapes of the kinds
(rdd.schema.builtin) and their field numbers; each struct is compiled once, when
a message of it arrives. Fields without a known number are skipped, as in Go.

This module is imported when the first protobuf body arrives, not before.
"""

import base64
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rdd.api import timestamps
from rdd.api.decode import decode_json
from rdd.api.errors import BadRequest
from rdd.base import gotext, protowire
from rdd.base.protowire import BYTES, FIXED64, VARINT, MalformedProtobuf
from rdd.schema.builtin import field_numbers, notation
from rdd.schema.builtin.notation import Type
from rdd.schema.builtin.typed import DecodeError

MAX_DEPTH = 200
"""Nested messages. Go has no limit but its stack; recursive code here must not meet Python's."""

_PREFIX = b"k8s\x00"
_MIN_SECOND = -62167219200  # of year 0
_MAX_SECOND = 253402300799  # of year 9999
_BAD_BYTE = re.compile("[\udc80-\udcff]")
_WRAPPED = ("v1.ExtraValue", "v1.Verbs")  # lists that are messages, because maps hold no lists

Content = Callable[[bytes, int, int, Any, int], Any]
"""Reads a length-delimited value: buffer, start, stop, the value so far, depth."""


@dataclass(frozen=True, slots=True)
class _Member:
    """How a field is read: by `content` if it is length-delimited, otherwise by `number`."""

    name: str
    """Empty if the members of the field belong to the message around it."""
    wire: int
    content: Content | None = None
    number: Callable[[int], Any] | None = None


@dataclass(slots=True)
class _Message:
    name: str
    members: dict[int, _Member] = field(default_factory=dict)


def decode(body: bytes, *, kind: str = "", api_version: str = "") -> dict[str, Any]:
    """Return the object in a body; `kind` and `api_version` are what is expected there.

    A body of another kind is decoded as what it is; of a kind that has no shape, only kind
    and apiVersion are returned. Raises BadRequest if the body is no envelope, and DecodeError
    if the message in it is malformed.
    """
    envelope = _open(body)
    meta = envelope.get("typeMeta", {})
    version = meta.get("apiVersion", "")
    if version.count("/") > 1:  # no group and version: as if there were none
        version = ""
    found = {"kind": meta.get("kind") or kind, "apiVersion": version or api_version}
    if not found["kind"]:
        raise BadRequest(
            "Object 'Kind' is missing in 'runtime.TypeMeta{APIVersion:"
            f'{gotext.quote(version)}, Kind:""}}\''
        )
    definition = _definition(found["apiVersion"], found["kind"])
    if definition:
        start, stop = envelope.get("raw", (0, 0))
        try:
            _read(_message(definition), body, start, stop, found, 0)
        except MalformedProtobuf as error:
            cause = str(error)
        except BadRequest as error:  # of JSON inside the message
            cause = error.message
        except RecursionError:
            cause = "proto: exceeded max depth"
        else:
            return found
        message = cause
        if kind:
            version = gotext.quote(found["apiVersion"].rpartition("/")[2])
            message = f"{found['kind']} in version {version} cannot be handled as a {kind}: {cause}"
        raise DecodeError(message, cause=cause)
    return found


def _open(body: bytes) -> dict[str, Any]:
    if not body:
        raise BadRequest("empty data")
    if not body.startswith(_PREFIX):
        raise BadRequest(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(str(byte) for byte in _PREFIX)}]"
        )
    if len(body) == len(_PREFIX):
        raise BadRequest("empty body")
    try:
        return _read(_ENVELOPE, body, len(_PREFIX), len(body), {}, 0)
    except MalformedProtobuf as error:
        raise BadRequest(str(error)) from None


@cache
def _by_short_name() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in field_numbers.table():
        found.setdefault(name.rpartition(".")[2], []).append(name)
    return found


def _definition(api_version: str, kind: str) -> str:
    """Return the definition name of a kind; empty if there is none."""
    for name in _by_short_name().get(kind, ()):
        declared = notation.struct(name)
        # Each group has DeleteOptions of its own, which are the same.
        is_shared = kind == "DeleteOptions"
        if declared.kind and (is_shared or declared.api_version == api_version):
            return name
    return ""


# ----------------------------------------------------------------------- messages


def _read(
    message: _Message, buffer: bytes, at: int, end: int, out: dict[str, Any], depth: int
) -> dict[str, Any]:
    """Read the fields of a message into `out`. Fields that come again are merged, as in Go."""
    if depth > MAX_DEPTH:
        raise MalformedProtobuf("proto: exceeded max depth")
    members = message.members
    while at < end:
        key = buffer[at]
        member = members.get(key >> 3) if key < 0x80 else None
        if member is not None and member.wire == key & 7:
            at += 1  # nearly always: a known field whose number is small
        else:
            number, wire, at = protowire.read_tag(buffer, at, end, message.name)
            member = members.get(number)
            if member is None:
                at = protowire.skip(buffer, at, end, wire)
                continue
            if member.wire != wire:
                name = _go_name(member.name)
                raise MalformedProtobuf(f"proto: wrong wireType = {wire} for field {name}")
        if member.content is not None:
            start, at = protowire.read_span(buffer, at, end)
            if member.name:
                old = out.get(member.name)
                out[member.name] = member.content(buffer, start, at, old, depth)
            else:
                member.content(buffer, start, at, out, depth)
        elif member.number is not None:
            read = protowire.read_varint if member.wire == VARINT else protowire.read_fixed64
            value, at = read(buffer, at, end)
            out[member.name] = member.number(value)
    return out


@cache
def _message(definition: str) -> _Message:
    """Return the message of a struct."""
    declared = notation.struct(definition)
    types = {member.name: member.type for member in declared.fields}
    numbers = field_numbers.table()[definition]
    found = _Message(declared.go_name)
    for name, path in numbers.items():
        inside = found
        for step in path[:-1]:
            inside = _embedded(inside, step)
        inside.members[path[-1]] = _member(name, types[name])
    return found


def _embedded(outer: _Message, number: int) -> _Message:
    """Return the message behind a field whose members belong to the message around it."""
    known = outer.members.get(number)
    if known is None:
        inner = _Message(outer.name)
        outer.members[number] = known = _Member("", BYTES, _Embedded(inner))
    assert isinstance(known.content, _Embedded)
    return known.content.message


@dataclass(frozen=True, slots=True)
class _Embedded:
    message: _Message

    def __call__(self, buffer: bytes, start: int, stop: int, out: Any, depth: int) -> Any:
        return _read(self.message, buffer, start, stop, out, depth + 1)


_GO_NAMES = {
    "": "RuleWithOperations", "uid": "UID", "id": "ID", "url": "URL", "apiVersion": "APIVersion",
    "apiVersions": "APIVersions", "apiGroup": "APIGroup", "apiGroups": "APIGroups",
    "caBundle": "CABundle", "jsonPath": "JSONPath", "metadata": "ObjectMeta", "$schema": "Schema",
    "$ref": "Ref",
}  # fmt: skip


def _go_name(name: str) -> str:
    """Return the name of a member in Go."""
    if name.startswith("x-kubernetes-"):
        return "X" + name[13:].title().replace("-", "")
    return _GO_NAMES.get(name) or name[0].upper() + name[1:]


# ------------------------------------------------------------------------- values


def _member(name: str, type_: Type) -> _Member:
    number = _NUMBERS.get(type_.form)
    if number is not None:
        return _Member(name, FIXED64 if type_.form == "float64" else VARINT, number=number)
    return _Member(name, BYTES, _content(type_))


def _content(type_: Type) -> Content:
    if type_.form == "struct":
        return _struct(type_.struct)
    if type_.form == "list" and type_.item is not None:
        if type_.go in _WRAPPED:
            return _wrapped(_list(_content(type_.item)))
        return _list(_content(type_.item))
    if type_.form == "map" and type_.item is not None:
        return _map(type_.item)
    return _CONTENTS[type_.form]


def _struct(definition: str) -> Content:
    # Found late, because JSONSchemaProps contains itself.
    def content(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> Any:
        out = {} if old is None else old
        return _read(_message(definition), buffer, start, stop, out, depth + 1)

    return content


def _list(item: Content) -> Content:
    def content(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> list[Any]:
        out: list[Any] = [] if old is None else old
        out.append(item(buffer, start, stop, None, depth))
        return out

    return content


def _wrapped(items: Content) -> Content:
    message = _Message("Items", {1: _Member("items", BYTES, items)})

    def content(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> Any:
        so_far = {"items": [] if old is None else old}
        return _read(message, buffer, start, stop, so_far, depth + 1)["items"]

    return content


def _map(item: Type) -> Content:
    entry = _Message("Entry", {1: _Member("key", BYTES, _text), 2: _member("value", item)})
    zero = {"struct": dict, "list": list}.get(item.form)
    nothing = {"Quantity": "0", "string": "", "bytes": ""}.get(item.form)

    def content(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {} if old is None else old
        found = _read(entry, buffer, start, stop, {}, depth + 1)
        missing = nothing if zero is None else zero()
        out[found.get("key", "")] = found.get("value", missing)
        return out

    return content


def _text(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> str:
    raw = buffer[start:stop]
    try:
        return raw.decode()
    except UnicodeDecodeError:  # Go keeps such bytes and prints each as U+FFFD
        return _BAD_BYTE.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


def _octets(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> str:
    return base64.b64encode(buffer[start:stop]).decode()


def _bounds(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> tuple[int, int]:
    return start, stop


def _time(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> str | None:
    found = _read(_TIMESTAMP, buffer, start, stop, {}, depth + 1)
    # The zero time is an empty message. JSON has whole seconds, so Go drops the rest here, too.
    return timestamps.text(_in_range(found.get("seconds", 0))) if start < stop else None


def _micro_time(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> str | None:
    found = _read(_TIMESTAMP, buffer, start, stop, {}, depth + 1)
    if start == stop:
        return None
    micros = math.trunc(found.get("nanos", 0) / 1000)
    second, micros = divmod(found.get("seconds", 0) * 1_000_000 + micros, 1_000_000)
    return timestamps.micro_text(_in_range(second), micros)


def _in_range(second: int) -> int:
    if not _MIN_SECOND <= second <= _MAX_SECOND:
        raise MalformedProtobuf("Time.MarshalJSON: year outside of range [0,9999]")
    return second


def _quantity(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> str:
    text: str = _read(_QUANTITY, buffer, start, stop, {}, depth + 1).get("string", "0")
    return text


def _json(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> Any:
    start, stop = _read(_RAW, buffer, start, stop, {}, depth + 1).get("raw", (0, 0))
    return decode_json(buffer[start:stop]) if start < stop else None


def _double(bits: int) -> float:
    (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise MalformedProtobuf(f"json: unsupported value: {name}")
    # As if it had been JSON, where whole numbers have no point.
    return int(value) if value.is_integer() and abs(value) < 1 << 63 else float(value)


_NUMBERS: dict[str, Callable[[int], Any]] = {
    "bool": bool,
    "int32": lambda value: protowire.signed(value, 32),
    "int64": lambda value: protowire.signed(value, 64),
    "float64": _double,
}

_TYPE_META = _Message(
    "TypeMeta", {1: _Member("apiVersion", BYTES, _text), 2: _Member("kind", BYTES, _text)}
)


def _type_meta(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> Any:
    return _read(_TYPE_META, buffer, start, stop, {} if old is None else old, depth + 1)


_ENVELOPE = _Message(
    "Unknown",
    {
        1: _Member("typeMeta", BYTES, _type_meta),
        2: _Member("raw", BYTES, _bounds),
        3: _Member("contentEncoding", BYTES, _text),
        4: _Member("contentType", BYTES, _text),
    },
)
_TIMESTAMP = _Message(
    "Timestamp",
    {
        1: _Member("seconds", VARINT, number=_NUMBERS["int64"]),
        2: _Member("nanos", VARINT, number=_NUMBERS["int32"]),
    },
)
_QUANTITY = _Message("Quantity", {1: _Member("string", BYTES, _text)})
_RAW = _Message("JSON", {1: _Member("raw", BYTES, _bounds)})


# ------------------------------------------------- schemas that may be something else

_schema = _struct(notation.short_name("apiextensions", "JSONSchemaProps"))
_OR_ARRAY = _Message(
    "JSONSchemaPropsOrArray",
    {1: _Member("schema", BYTES, _schema), 2: _Member("jSONSchemas", BYTES, _list(_schema))},
)
_OR_BOOL = _Message(
    "JSONSchemaPropsOrBool",
    {1: _Member("allows", VARINT, number=bool), 2: _Member("schema", BYTES, _schema)},
)
_OR_STRINGS = _Message(
    "JSONSchemaPropsOrStringArray",
    {1: _Member("schema", BYTES, _schema), 2: _Member("property", BYTES, _list(_text))},
)


def _schema_or_array(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> Any:
    found = _read(_OR_ARRAY, buffer, start, stop, {}, depth + 1)
    return found.get("jSONSchemas") or found.get("schema")


def _schema_or_bool(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> Any:
    found = _read(_OR_BOOL, buffer, start, stop, {}, depth + 1)
    return found.get("schema", found.get("allows", False))


def _schema_or_strings(buffer: bytes, start: int, stop: int, old: Any, depth: int) -> Any:
    found = _read(_OR_STRINGS, buffer, start, stop, {}, depth + 1)
    return found.get("property") or found.get("schema")


_CONTENTS: dict[str, Content] = {
    "string": _text,
    "bytes": _octets,
    "Time": _time,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "JSON": _json,
    "Raw": _json,
    "FieldsV1": _json,
    "JSONSchemaPropsOrArray": _schema_or_array,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrStringArray": _schema_or_strings,
}
