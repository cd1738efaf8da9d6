# SPDX-License-Identifier: Apache-2.0
"""Decoding of built-in kinds: what Go's decode into a struct and encode again does.

Kubernetes reads a body into a Go struct and works with what arrived there:
types are checked, unknown members are dropped, absent members get their zero
value, and printing leaves out what is empty. `decode_typed` has the same effect
on plain dicts. Each shape (see rdd.schema.builtin.notation) is compiled once,
when first used, into nested functions; a function is given a JSON value and
returns the decoded one.

This pass only notices that there are unknown members or that a value does not
fit. Which error Kubernetes reports follows from the order of the document, which
a second walk finds out (rdd.schema.builtin.godecode); both are rare.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from rdd.api import timestamps
from rdd.api.errors import BadRequest
from rdd.base import gotext
from rdd.base.goformat import json_kind
from rdd.schema.builtin import notation, scalars
from rdd.schema.builtin.notation import Field, Struct, Type
from rdd.schema.builtin.scalars import Decode, Malformed, Mismatch

if TYPE_CHECKING:
    from rdd.schema.builtin import godecode

Zero = Callable[[], Any]


class DecodeError(BadRequest):
    """A body that does not fit its kind. `cause` is the message without the kind."""

    def __init__(self, message: str, *, cause: str) -> None:
        super().__init__(message)
        self.cause = cause


class Shape:
    """A kind ready for decoding; made by `shape`."""

    __slots__ = ("_decode", "struct")

    def __init__(self, struct: Struct) -> None:
        self.struct = struct
        self._decode: Decode | None = None

    def decode(self, value: Any, strange: list[None]) -> Any:
        """Decode a value; something is added to `strange` for each struct with unknown members."""
        if self._decode is None:
            self._decode = _struct(self.struct.name)
        return self._decode(value, strange)


@cache
def shape(definition: str) -> Shape:
    """Return the shape of a definition name, e.g. io.k8s.api.core.v1.ConfigMap.

    KeyError if unknown.
    """
    return Shape(notation.struct(definition))


def decode_typed(shape: Shape, obj: Any, *, unknown: list[str]) -> dict[str, Any]:
    """Return the object as its kind prints it.

    Checked, without unknown and empty members, in order.

    The paths of dropped members are appended to `unknown`. Raises DecodeError.
    The result may share parts with `obj`, which MUST NOT be used any more.
    """
    struct = shape.struct
    strange: list[None] = []
    try:
        out: dict[str, Any] = shape.decode({} if obj is None else obj, strange)
        if strange:
            unknown += _examine(shape, obj).unknown
    except (Mismatch, Malformed) as error:
        cause = _examine(shape, obj).error or str(error)
    except RecursionError:
        cause = "json: exceeded max depth"
    else:
        if struct.kind:
            out = {"kind": struct.kind, "apiVersion": struct.api_version, **_without_type(out)}
        return out
    raise decode_error(shape, cause) from None


def decode_error(shape: Shape, cause: str) -> DecodeError:
    """Return the error of a body that does not fit its kind."""
    name, version = shape.struct.go_name, gotext.quote(shape.struct.version)
    return DecodeError(
        f"{name} in version {version} cannot be handled as a {name}: {cause}", cause=cause
    )


def _examine(shape: Shape, value: Any) -> "godecode.Examined":
    from rdd.schema.builtin import godecode

    return godecode.examine(shape.struct.name, value)


def decode_embedded(shape: Shape, value: Any) -> dict[str, Any]:
    """Decode a part of an object, such as metadata, ignoring unknown members.

    Raises DecodeError whose message is the bare cause.
    """
    try:
        out: dict[str, Any] = shape.decode({} if value is None else value, [])
        return out
    except (Mismatch, Malformed) as error:
        cause = _examine(shape, value).error or str(error)
        raise DecodeError(cause, cause=cause) from None
    except RecursionError:
        cause = "json: exceeded max depth"
        raise DecodeError(cause, cause=cause) from None


def _without_type(out: dict[str, Any]) -> dict[str, Any]:
    out.pop("kind", None)
    out.pop("apiVersion", None)
    return out


def _any(value: Any, strange: list[None]) -> Any:
    return value


def _schema_or_bool(value: Any, strange: list[None]) -> Any:
    if value.__class__ is dict:
        return _struct(_JSON_SCHEMA)(value, [])
    if value is True or value is False:
        return value
    raise Malformed("boolean or JSON schema expected")


def _schema_or_array(value: Any, strange: list[None]) -> Any:
    if value.__class__ is dict:
        return _struct(_JSON_SCHEMA)(value, [])
    if value.__class__ is list:
        decode = _struct(_JSON_SCHEMA)
        return [decode({} if v is None else v, []) for v in value]
    return ()  # as in Go: neither a schema nor schemas, but not absent


def _schema_or_strings(value: Any, strange: list[None]) -> Any:
    if value.__class__ is dict:
        return _struct(_JSON_SCHEMA)(value, [])
    if value.__class__ is list:
        text = scalars.string("string")
        return [text(v, strange) if v is not None else "" for v in value]
    return {}


_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"

SPECIAL: dict[str, Decode] = {
    "Time": scalars.time(timestamps.normalise),
    "MicroTime": scalars.time(timestamps.normalise_micro),
    "Quantity": scalars.quantity,
    "JSON": _any,
    "Raw": _any,
    "FieldsV1": _any,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrArray": _schema_or_array,
    "JSONSchemaPropsOrStringArray": _schema_or_strings,
}


# ------------------------------------------------------------- lists, maps, structs


@cache
def _decoder(type_: Type) -> Decode:
    form, go = type_.form, type_.go
    if form == "struct":
        return _struct(type_.struct)
    if form in SPECIAL:
        return SPECIAL[form]
    if form == "list" and type_.item is not None:
        return _list(go, type_.item)
    if form == "map" and type_.item is not None:
        return _map(go, type_.item)
    if form == "bytes":
        return scalars.octets(go)
    if form == "bool":
        return scalars.boolean(go)
    if form == "float64":
        return scalars.number(go)
    if form in ("int32", "int64"):
        return scalars.integer(go, int(form[3:]))
    return scalars.string(go)


def _list(go: str, item: Type) -> Decode:
    if item.form == "string" and not item.pointer:
        return _string_list(go, item.go)
    decode_item: Decode | None = None
    zero = _zero(item)

    def decode(value: Any, strange: list[None]) -> list[Any]:
        nonlocal decode_item
        if value.__class__ is not list:
            raise Mismatch(json_kind(value), go)
        if decode_item is None:
            decode_item = _decoder(item)
        return [zero() if v is None else decode_item(v, strange) for v in value]

    return decode


def _string_list(go: str, item_go: str) -> Decode:
    def decode(value: Any, strange: list[None]) -> list[str]:
        if value.__class__ is not list:
            raise Mismatch(json_kind(value), go)
        for text in value:
            if text.__class__ is not str:
                break
        else:
            return value
        out = []
        for text in value:
            if text is None:
                text = ""
            elif text.__class__ is not str:
                raise Mismatch(json_kind(text), item_go)
            out.append(text)
        return out

    return decode


def _map(go: str, item: Type) -> Decode:
    decode_item: Decode | None = None
    zero = _zero(item)
    is_text = item.form == "string"

    def decode(value: Any, strange: list[None]) -> dict[str, Any]:
        nonlocal decode_item
        if value.__class__ is not dict:
            raise Mismatch(json_kind(value), go)
        if is_text:
            for text in value.values():
                if text.__class__ is not str:
                    break
            else:
                # Go prints maps sorted.
                return value if len(value) < 2 else dict(sorted(value.items()))
        if decode_item is None:
            decode_item = _decoder(item)
        out = {k: zero() if v is None else decode_item(v, strange) for k, v in value.items()}
        return out if len(out) < 2 else dict(sorted(out.items()))

    return decode


# How a member is printed: left out if empty, left out if absent, always there.
_IF_SET, _IF_GIVEN, _ALWAYS, _NULL_IF_EMPTY = range(4)


def _mode(field: Field) -> int:
    type_ = field.type
    if type_.form == "struct" and not type_.pointer:
        return _ALWAYS
    if type_.form in ("Time", "MicroTime") and not type_.pointer:
        return _IF_GIVEN if field.zero else _ALWAYS
    if field.keep:
        return _NULL_IF_EMPTY if type_.form in ("list", "map", "bytes") else _ALWAYS
    return _IF_GIVEN if type_.pointer else _IF_SET


def _zero(type_: Type) -> Zero:
    if type_.pointer or type_.form in ("list", "map", "Time", "MicroTime", "JSON", "Raw"):
        return _none
    if type_.form == "struct":
        return lambda: _struct(type_.struct)({}, [])
    value = {"bool": False, "int32": 0, "int64": 0, "float64": 0, "Quantity": "0"}.get(
        type_.form, ""
    )
    return lambda: value


def _none() -> None:
    return None


_Row = tuple[str, Decode, int, Zero | None]


@cache
def _struct(name: str) -> Decode:
    declared = notation.struct(name)
    go_type = declared.go_type
    rows: list[_Row] | None = None
    names = frozenset(f.name for f in declared.fields)

    def compile_rows() -> list[_Row]:
        # Late, because JSONSchemaProps contains itself.
        compiled = []
        for field in declared.fields:
            mode = _mode(field)
            zero = _zero(field.type) if mode in (_ALWAYS, _NULL_IF_EMPTY) else None
            compiled.append((field.name, _decoder(field.type), mode, zero))
        return compiled

    def decode(value: Any, strange: list[None]) -> dict[str, Any]:
        nonlocal rows
        if value.__class__ is not dict:
            raise Mismatch(json_kind(value), go_type)
        if rows is None:
            rows = compile_rows()
        out: dict[str, Any] = {}
        seen = 0
        get = value.get
        for member, decode_member, mode, zero in rows:
            given = get(member)
            if given is None:
                if zero is not None:
                    out[member] = zero()
                continue
            seen += 1
            decoded = decode_member(given, strange)
            if decoded or mode == _ALWAYS:
                out[member] = decoded
            elif mode == _IF_GIVEN:
                if decoded is not None:
                    out[member] = decoded
            elif mode == _NULL_IF_EMPTY:
                out[member] = None
        if seen != len(value) and not names.issuperset(value):
            strange.append(None)
        return out

    return decode
