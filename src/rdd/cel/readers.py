# SPDX-License-Identifier: Apache-2.0
"""JSON to CEL where the two differ.

Expressions use data unconverted. What differs is converted when it is read:
a number that the schema calls a double but JSON wrote as an integer, texts that
are timestamps, durations or bytes, and lists that are sets or maps. A reader is
a function for one declared type; types that need none have none, so that the
common case costs nothing.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.library.time import parse_duration, parse_timestamp
from rdd.cel.values import MapList, SetList

Reader = Callable[[Any], Any]


def _double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _bytes(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(f"Invalid byte formatted string {value}: {error}") from None


def _timestamp(value: Any) -> Any:
    if type(value) is not str:
        return value
    is_date = len(value) == 10
    try:
        return parse_timestamp(f"{value}T00:00:00Z" if is_date else value.upper())
    except EvaluationError as error:
        kind = "date" if is_date else "date-time"
        raise EvaluationError(f"Invalid {kind} formatted string {value}: {error}") from None


def _duration(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return parse_duration(value)
    except EvaluationError as error:
        raise EvaluationError(f"Invalid duration {value}: {error}") from None


_SCALARS: dict[str, Reader] = {
    t.K_DOUBLE: _double,
    t.K_BYTES: _bytes,
    t.K_TIMESTAMP: _timestamp,
    t.K_DURATION: _duration,
}


def reader(declared: t.Type, *, deep: bool = False) -> Reader | None:
    """Return the conversion of values of a type, or None when there is nothing to convert.

    Fields of objects are converted when they are selected, so objects themselves
    are left alone unless `deep`, which comparing whole objects needs.
    """
    kind = declared.kind
    if kind is t.K_LIST:
        return _list_reader(declared, reader(declared.params[0], deep=deep))
    if kind is t.K_MAP:
        value = reader(declared.params[1], deep=deep)
        return None if value is None else _map_reader(value)
    if kind is t.K_OBJECT:
        return _object_reader(declared) if deep else None
    return _SCALARS.get(kind)


def _list_reader(declared: t.Type, element: Reader | None) -> Reader | None:
    def plain(value: Any) -> Any:
        if isinstance(value, list) and element is not None:
            return [element(item) for item in value]
        return value

    if declared.list_type == "set":
        return lambda value: SetList(plain(value)) if type(value) is list else value
    if declared.list_type == "map":
        keys = declared.list_keys
        return lambda value: MapList(plain(value), keys) if type(value) is list else value
    return None if element is None else plain


def _map_reader(element: Reader) -> Reader:
    return lambda value: (
        {key: element(item) for key, item in value.items()} if isinstance(value, dict) else value
    )


def _object_reader(declared: t.Type) -> Reader | None:
    readers = {
        field.key: found
        for field in declared.fields.values()
        if (found := reader(field.type, deep=True)) is not None
    }
    if not readers:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: readers[k](v) if k in readers else v for k, v in value.items()}

    return convert
