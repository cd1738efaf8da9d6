# SPDX-License-Identifier: Apache-2.0
"""The errors of Go's JSON decoder for a document that a kind cannot hold.

`rdd.schema.builtin.typed` decodes values and only notices that something is
wrong. What Kubernetes answers depends on the text: a decoder in Go walks it
once, in document order, also through members that a later duplicate replaces.

    - The first value of a wrong type is remembered and decoding goes on;
      numbers are shown as they were written.
    - A type with a decoder of its own (times, quantities, schemas that may be
      booleans) ends it at once, so its error precedes the remembered one.
    - Unknown and duplicate members are collected in the same walk. Nothing
      below an unknown member is looked at.

`examine` repeats that walk. It runs only for documents with an error, an
unknown or a duplicate member, so it may be slow.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rdd.api.decode import Pairs, RawNumber
from rdd.base import gotext
from rdd.base.goformat import json_kind
from rdd.schema.builtin import notation, scalars, typed
from rdd.schema.builtin.notation import Field, Type
from rdd.schema.builtin.scalars import Malformed, Mismatch

_MAX_STRICT_ERRORS = 100  # Kubernetes stops reporting there.
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_OWN_DECODER = frozenset(
    (
        *("Time", "MicroTime", "Quantity"),
        *("JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray"),
    )
)
_ANYTHING = frozenset(("JSON", "Raw", "FieldsV1"))
_KEPT_BY_NULL = frozenset(("string", "bool", "int32", "int64", "float64", "struct"))


@dataclass(slots=True)
class Examined:
    """What Go's decoder makes of a document."""

    error: str = ""
    """The message of the decoder; empty if the document can be decoded."""
    strict: list[str] = field(default_factory=list)
    """Errors about duplicate and unknown members, which strict decoding reports."""
    unknown: list[str] = field(default_factory=list)
    """The paths of unknown members."""
    value: Any = None
    """The document without duplicates, which Go merges; undefined after an error."""


def examine(definition: str, document: Any) -> Examined:
    """Return what Go's decoder makes of a document of a definition.

    `document` is made by `rdd.api.decode.parse_document`, or a plain JSON value.
    """
    walk = _Walk()
    kind = Type("struct", notation.struct(definition).go_type, struct=definition)
    out = Examined()
    try:
        out.value = walk.value(kind, document, _Place(), "")
        out.error = walk.saved
    except (Mismatch, Malformed) as error:
        out.error = str(error)
    out.strict = [f"{what} field {gotext.quote(path)}" for what, path in walk.strict]
    out.unknown = [path for what, path in walk.strict if what == "unknown"]
    return out


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value is, as the decoder's errors name it."""

    struct: str = ""
    fields: tuple[str, ...] = ()


class _Walk:
    def __init__(self) -> None:
        self.saved = ""
        self.strict: dict[tuple[str, str], None] = {}

    def value(self, type_: Type, node: Any, place: _Place, path: str) -> Any:
        form = type_.form
        if node is None or form in _ANYTHING:
            return plain(node)
        if form in _OWN_DECODER:
            return _decode_own(type_, node, place)
        if isinstance(node, Pairs | dict):
            if form == "struct":
                return self._struct(type_, node, place, path)
            if form == "map" and type_.item is not None:
                return self._map(type_.item, node, place, path)
            return self._mismatch("object", type_.go, place)
        if isinstance(node, list):
            if form == "list" and type_.item is not None:
                return [
                    self.value(type_.item, child, place, f"{path}[{i}]")
                    for i, child in enumerate(node)
                ]
            if form != "bytes":
                return self._mismatch("array", type_.go, place)
        return self._scalar(type_, node, place)

    def _struct(self, type_: Type, node: Any, place: _Place, path: str) -> dict[str, Any]:
        struct = notation.struct(type_.struct)
        fields = _fields(type_.struct)
        out: dict[str, Any] = {}
        seen = set()
        for name, child in members(node):
            at = f"{path}.{name}" if path else name
            known = fields.get(name)
            if known is None:
                self._report("unknown", at)
                continue
            if name in seen:
                self._report("duplicate", at)
            inner = _Place(struct.go_name, (*place.fields, *known.embedded, name))
            value = self.value(known.type, child, inner, at)
            out[name] = _merged(known.type, out[name], value) if name in seen else value
            seen.add(name)
        return out

    def _map(self, item: Type, node: Any, place: _Place, path: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, child in members(node):
            at = f"{path}.{name}" if path else name
            if name in out:
                self._report("duplicate", at)
            out[name] = self.value(item, child, place, at)
        return out

    def _scalar(self, type_: Type, node: Any, place: _Place) -> Any:
        """Return a scalar; remember the first error."""
        value = plain(node)
        if isinstance(node, RawNumber) and type_.form in ("int32", "int64"):
            bits = int(type_.form[3:])
            if not node.is_integer(bits):
                return self._mismatch(f"number {node}", type_.go, place)
            return value
        try:
            return _scalar_decoder(type_.form, type_.go)(value, [])
        except Mismatch as error:
            return self._mismatch(error.value, error.go_type, place)
        except Malformed as error:  # base64; unlike own decoders it does not end the decoding
            self.saved = self.saved or str(error)
            return None

    def _mismatch(self, value: str, go_type: str, place: _Place) -> None:
        if not self.saved:
            self.saved = str(_located(Mismatch(value, go_type), place))

    def _report(self, what: str, path: str) -> None:
        if len(self.strict) < _MAX_STRICT_ERRORS:
            self.strict[what, path] = None


def members(node: Any) -> Iterable[tuple[str, Any]]:
    """Return the members of an object in the order of the text."""
    return node if isinstance(node, Pairs) else node.items()


def plain(node: Any) -> Any:
    """Return the JSON value of a document: without duplicates, with numbers as values."""
    if isinstance(node, RawNumber):
        return node.value()
    if isinstance(node, Pairs | dict):
        return {name: plain(child) for name, child in members(node)}
    if isinstance(node, list):
        return [plain(child) for child in node]
    return node


def _located(error: Mismatch, place: _Place) -> Mismatch:
    # An error of a decoder in a decoder keeps the path it has.
    error.struct, error.path = place.struct, [*place.fields, *error.path]
    return error


def _decode_own(type_: Type, node: Any, place: _Place) -> Any:
    """Decode a value of a type with a decoder of its own, which has no strict mode."""
    form = type_.form
    # Quantities are read from the text of a number.
    value = str(node) if form == "Quantity" and isinstance(node, RawNumber) else plain(node)
    if form.startswith("JSONSchemaProps"):
        for part in node if form == "JSONSchemaPropsOrArray" and type(node) is list else [node]:
            if isinstance(part, Pairs | dict):
                _examine_nested(part, place)
    try:
        return typed.SPECIAL[form](value, [])
    except Mismatch as error:
        raise _located(error, place) from None


def _examine_nested(node: Any, place: _Place) -> None:
    walk = _Walk()
    walk.value(Type("struct", "v1.JSONSchemaProps", struct=_SCHEMA), node, place, "")
    if walk.saved:
        raise Malformed(walk.saved)


def _merged(type_: Type, old: Any, new: Any) -> Any:
    """Return what a duplicate makes of a value that was decoded already."""
    if new is None:
        # Null empties pointers, maps and lists, and leaves everything else as it is.
        return old if type_.form in _KEPT_BY_NULL and not type_.pointer else None
    if isinstance(old, dict) and isinstance(new, dict):
        if type_.form == "map":
            return {**old, **new}
        if type_.form == "struct":
            fields = _fields(type_.struct)
            out = dict(old)
            for name, value in new.items():
                out[name] = _merged(fields[name].type, old[name], value) if name in old else value
            return out
    if type_.form == "list" and type_.item is not None and isinstance(old, list):
        item = type_.item
        return [_merged(item, old[i], v) if i < len(old) else v for i, v in enumerate(new)]
    return new


@cache
def _fields(definition: str) -> dict[str, Field]:
    return {f.name: f for f in notation.struct(definition).fields}


@cache
def _scalar_decoder(form: str, go: str) -> scalars.Decode:
    if form == "bytes":
        return scalars.octets(go)
    if form == "bool":
        return scalars.boolean(go)
    if form == "float64":
        return scalars.number(go)
    if form in ("int32", "int64"):
        return scalars.integer(go, int(form[3:]))
    if form in ("struct", "list", "map"):
        return _never(go)
    return scalars.string(go)


def _never(go: str) -> scalars.Decode:
    def decode(value: Any, strange: list[None]) -> Any:
        raise Mismatch(json_kind(value), go)

    return decode
