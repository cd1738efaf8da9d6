# SPDX-License-Identifier: Apache-2.0
"""The conversion of maps to structs, with the errors of Kubernetes' converter.

The result of a strategic merge patch or of an apply is not printed and decoded
again: Kubernetes copies the map into the struct, member by member in the order
of the declaration. That converter is more lenient with numbers than the JSON
decoder, names no place in its errors, and reports unknown members sorted.

`convert` repeats it for values that `rdd.schema.builtin.typed` cannot decode.
"""

from typing import Any

from rdd.base import goformat
from rdd.schema.builtin import notation, scalars, typed
from rdd.schema.builtin.notation import Type
from rdd.schema.builtin.scalars import Malformed, Mismatch

_BITS = {"uint8": 8, "int32": 32, "int64": 64}
_OCTET = Type("uint8", "uint8")
_decode_octets = scalars.octets("[]uint8")


class ConvertError(Exception):
    """A value that cannot be copied into the type of its member."""


def convert(definition: str, value: Any) -> Any:
    """Return a value that `typed` decodes as the converter would; raise ConvertError."""
    return _convert(Type("struct", "", struct=definition), value)


def _convert(type_: Type, value: Any) -> Any:
    if value is None:
        return None
    form = type_.form
    if form in _BITS:
        return _integer(type_, value)
    if form in ("string", "bool", "float64"):
        return _simple(type_, value)
    if form in typed.SPECIAL:
        return _special(type_, value)
    if form == "map" and type_.item is not None:
        if not isinstance(value, dict):
            raise ConvertError(f"cannot restore map from {_kind(value)}")
        return {k: _convert(type_.item, v) for k, v in value.items()}
    if form == "bytes":
        return _octets(value)
    if form == "list" and type_.item is not None:
        if not isinstance(value, list):
            raise ConvertError(f"cannot restore slice from {_kind(value)}")
        return [_convert(type_.item, v) for v in value]
    if not isinstance(value, dict):
        raise ConvertError(f"cannot restore struct from: {_kind(value)}")
    out = dict(value)
    for field in notation.struct(type_.struct).fields:
        if value.get(field.name) is not None:
            out[field.name] = _convert(field.type, value[field.name])
    return out


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "map"
    return "slice" if isinstance(value, list) else goformat.type_name(value)


def _integer(type_: Type, value: Any) -> int:
    is_float = type(value) is float
    if type(value) is int or (is_float and value.is_integer()):
        bits = _BITS[type_.form]
        wrapped = int(value) & (1 << bits) - 1  # as a conversion in Go
        return wrapped - (1 << bits) if wrapped >> bits - 1 else wrapped
    if is_float:
        raise ConvertError(f"cannot convert float64 to {type_.go}")
    raise ConvertError(f"unrecognized type: {type_.form}")


def _simple(type_: Type, value: Any) -> Any:
    name = goformat.type_name(value)
    if name == type_.form or (type_.form == "float64" and name == "int64"):
        return value
    if type_.form == "string" and name == "int64":
        # Go can convert an integer to a string of one character, which JSON does not mean.
        raise ConvertError(f"cannot convert int64 to {type_.go}")
    raise ConvertError(f"unrecognized type: {type_.form}")


def _octets(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return _decode_octets(value, [])
        except Malformed as error:
            raise ConvertError(f"error decoding from json: {error}") from None
    if isinstance(value, list):
        return [_integer(_OCTET, 0 if v is None else v) & 0xFF for v in value]
    raise ConvertError(f"cannot restore slice from {_kind(value)}")


def _special(type_: Type, value: Any) -> Any:
    """Check a value of a type with a JSON decoder of its own."""
    try:
        typed.SPECIAL[type_.form](value, [])
    except (Mismatch, Malformed) as error:
        raise ConvertError(str(error)) from None
    return value
