# SPDX-License-Identifier: Apache-2.0
"""The shape of a record: its fields, derived from their annotations.

The YAML parser, the JSON decoder and the serializer use the same description, so a field of
the model is declared once. `to_data` returns the plain values under the keys of the file,
without defaults; `from_data` is its inverse and does not validate its input.
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rdd.vm.template.model import KEYS, PortRange, Size

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FieldShape:
    """One field: its attribute, its key in the file, its kind and its default."""

    name: str
    key: str
    kind: str
    """`text`, `bool`, `int`, `size`, `range`, `any`, `record`, `records`, `texts`, `map`."""
    record: type[Any] | None
    """The class of `record` and `records`."""
    default: Any


_shapes: dict[type[Any], tuple[FieldShape, ...]] = {}


def shape_of(record: type[Any]) -> tuple[FieldShape, ...]:
    """Return the fields of a record in the order of the file."""
    found = _shapes.get(record)
    if found is None:
        hints = get_type_hints(record)
        found = tuple(_field(item, hints[item.name]) for item in fields(record))
        _shapes[record] = found  # depends on the class only
    return found


def _field(item: Any, hint: Any) -> FieldShape:
    default = item.default if item.default is not MISSING else item.default_factory()
    kind, record = _kind(hint)
    return FieldShape(item.name, _key(item.name), kind, record, default)


def _key(name: str) -> str:
    if name in KEYS:
        return KEYS[name]
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


_SIMPLE: dict[Any, str] = {str: "text", bool: "bool", int: "int", Size: "size", Any: "any"}


def _kind(hint: Any) -> tuple[str, type[Any] | None]:
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (option for option in get_args(hint) if option is not type(None))
    if hint in _SIMPLE:
        return _SIMPLE[hint], None
    if hint == PortRange:
        return "range", None
    if is_dataclass(hint):
        return "record", hint  # type: ignore[return-value] # an annotation is a class
    if get_origin(hint) is tuple:
        element = get_args(hint)[0]
        return ("texts", None) if element is str else ("records", element)
    return ("any", None) if get_args(hint)[1] is Any else ("map", None)


def to_data(record: Any) -> dict[str, Any]:
    """Return the plain values of a record under the keys of the file, without defaults."""
    data: dict[str, Any] = {}
    for item in shape_of(type(record)):
        value = getattr(record, item.name)
        if value != item.default:
            data[item.key] = _plain(value)
    return data


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_data(value)
    if isinstance(value, tuple):
        return [_plain(element) for element in value]
    return dict(value) if isinstance(value, Mapping) else value


def from_data(record: type[R], data: Mapping[str, Any]) -> R:
    """Return the record for the output of `to_data`."""
    values: dict[str, Any] = {}
    for item in shape_of(record):
        if item.key not in data:
            continue
        value = data[item.key]
        if item.record is not None:
            kind = item.record
            value = (
                from_data(kind, value)
                if item.kind == "record"
                else tuple(from_data(kind, element) for element in value)
            )
        elif item.kind in ("texts", "range"):
            value = tuple(value)
        values[item.name] = value
    return record(**values)
