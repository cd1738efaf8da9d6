# SPDX-License-Identifier: Apache-2.0
"""Defaulting of custom resources.

Two things happen in one walk, in the order Kubernetes has them: a null on a
member that is not nullable is removed, or replaced if the member has a
default; then members that are missing get their default, whose own members
are defaulted in turn. A default is copied each time, so that no two objects
(and no object and the schema) ever share a container.

A list of a hundred thousand empty objects may ask for as many copies of a large default, so
the walk stops as soon as the copies are larger than the object may be.
"""

import sys
from typing import Any

from rdd.schema.node import MISSING, Node


class DefaultsTooLarge(ValueError):
    """The defaults of an object exceed the limit; the object is defaulted in part."""


def apply_defaults(node: Node, obj: Any, *, max_bytes: int = sys.maxsize) -> None:
    """Fill in defaults and remove nulls that mean nothing, in place.

    Raises DefaultsTooLarge if the JSON of the defaults is longer than `max_bytes`.
    """
    _value(node, obj, _Room(max_bytes))


class _Room:
    """What is left for defaults."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


def _value(node: Node, obj: Any, room: _Room) -> None:
    cls = type(obj)
    if cls is dict:
        _object(node, obj, room)
    elif cls is list and node.items is not None:
        _list(node.items, obj, room)


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    cls = type(value)
    if cls is dict:
        return {key: copied(item) for key, item in value.items()}
    if cls is list:
        return [copied(item) for item in value]
    return value


def _object(node: Node, obj: dict[str, Any], room: _Room) -> None:
    properties = node.properties
    additional = None if node.additional_bool else node.additional
    nulls: list[tuple[str, Node]] | None = None
    for key, value in obj.items():
        cls = type(value)
        if cls is dict:
            child = properties.get(key, additional)
            if child is not None:
                _object(child, value, room)
        elif cls is list:
            child = properties.get(key, additional)
            if child is not None and child.items is not None:
                _list(child.items, value, room)
        elif value is None:
            child = properties.get(key, additional)
            if child is not None and not child.nullable:
                if nulls is None:
                    nulls = []
                nulls.append((key, child))
    if nulls is not None:
        for key, child in nulls:
            if child.default is MISSING or child.default is None:
                del obj[key]
            else:
                _fill(obj, key, child, room)
    for key, child in node.defaulted:
        if key not in obj:
            _fill(obj, key, child, room)


def _fill(obj: dict[str, Any], key: str, child: Node, room: _Room) -> None:
    value = obj[key] = _default(child, room)
    _value(child, value, room)


def _default(node: Node, room: _Room) -> Any:
    room.left -= node.default_size
    if room.left < 0:
        raise DefaultsTooLarge
    return copied(node.default)


def _list(item: Node, values: list[Any], room: _Room) -> None:
    for position, value in enumerate(values):
        cls = type(value)
        if cls is dict:
            _object(item, value, room)
        elif cls is list:
            if item.items is not None:
                _list(item.items, value, room)
        elif (
            value is None
            and not item.nullable
            and item.default is not MISSING
            and item.default is not None
        ):
            values[position] = _default(item, room)
            _value(item, values[position], room)
