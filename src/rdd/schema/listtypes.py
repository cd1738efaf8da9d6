# SPDX-License-Identifier: Apache-2.0
"""Uniqueness in lists that are sets or maps (x-kubernetes-list-type).

Server-side apply addresses items of such lists by value or by key, so an item
that occurs twice would have no address. Kubernetes checks this apart from
value validation, and is not an error on update if the stored object already
had the problem.
"""

from typing import Any

from rdd.api.fielderrors import FieldError
from rdd.base import govalue
from rdd.schema.node import Node


def has_list_types(node: Node) -> bool:
    """Return whether a schema has a set or a list map anywhere."""
    seen: set[int] = set()

    def found(at: Node | None) -> bool:
        if at is None or id(at) in seen:
            return False
        seen.add(id(at))
        if at.list_type in ("set", "map"):
            return True
        return any(map(found, (*at.properties.values(), at.additional, at.items)))

    return found(node)


def list_type_errors(node: Node, value: Any, *, field: str = "") -> list[FieldError]:
    """Return items that occur twice in a set, or whose keys occur twice in a list map."""
    errors: list[FieldError] = []
    _visit(node, value, field, errors)
    return errors


def _visit(node: Node, value: Any, field: str, errors: list[FieldError]) -> None:
    if type(value) is dict:
        for key, item in value.items():
            if type(item) is not dict and type(item) is not list:
                continue
            child = node.properties.get(key)
            if child is not None:
                _visit(child, item, f"{field}.{key}" if field else key, errors)
            elif node.additional is not None:
                _visit(node.additional, item, f"{field}[{key}]", errors)
    elif type(value) is list:
        if node.list_type == "set":
            for position in _repeated(value):
                errors.append(FieldError("Duplicate", f"{field}[{position}]", value[position]))
        elif node.list_type == "map":
            _list_map(node, value, field, errors)
        if node.items is not None:
            for position, item in enumerate(value):
                _visit(node.items, item, f"{field}[{position}]", errors)


def _list_map(node: Node, value: list[Any], field: str, errors: list[FieldError]) -> None:
    for position, item in enumerate(value):
        if item is not None and type(item) is not dict:
            detail = "must be an object for an array of list-type map"
            errors.append(FieldError("Invalid", f"{field}[{position}]", item, detail))
            return
    keys = [
        {name: item[name] for name in node.list_map_keys if name in item} if item else {}
        for item in value
    ]
    for position in _repeated(keys):
        errors.append(FieldError("Duplicate", f"{field}[{position}]", keys[position]))


def _repeated(values: list[Any]) -> list[int]:
    """Return positions at which a value occurs for the second time (not the third)."""
    if len(values) <= 1:
        return []
    counts: dict[Any, int] = {}
    found: list[int] = []
    for position, value in enumerate(values):
        cls = type(value)
        key = (cls, govalue.json_text(value)) if cls is dict or cls is list else (cls, value)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == 2:
            found.append(position)
    return found
