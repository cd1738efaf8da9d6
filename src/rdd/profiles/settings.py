# SPDX-License-Identifier: Apache-2.0
"""Values of the App's settings by path: `kubernetes.enabled`, `proxy.noProxy`.

Maps are descended into; a list is one value. Absent, null, empty and zero are the same value,
because the controllers treat them so: a lock on an empty proxy forbids every proxy.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rdd.api.quantity import Quantity, QuantityError

Path = tuple[str, ...]

MEMORY: Path = ("virtualMachine", "memory")
TYPE: Path = ("virtualMachine", "type")
_AUTO = "auto"
_MAX_SHOWN = 200
_credentials = re.compile(r"(\w://)[^\s/@\"]+@")


def leaves(tree: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value of a tree of settings with its path."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def value_at(tree: Any, path: Path) -> Any:
    """Return a value of a tree; None if it is absent."""
    for name in path:
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(name)
    return tree


def is_given(tree: Any, path: Path) -> bool:
    """Return whether a tree has a value that is not null."""
    return value_at(tree, path) is not None


def put(tree: dict[str, Any], path: Path, value: Any) -> None:
    """Set a value in a tree, in place."""
    for name in path[:-1]:
        inner = tree.get(name)
        tree[name] = tree = dict(inner) if isinstance(inner, Mapping) else {}
    tree[path[-1]] = value


def same(path: Path, a: Any, b: Any) -> bool:
    """Return whether two values of a setting mean the same."""
    return bool(_normal(path, a) == _normal(path, b))


def shown(value: Any) -> str:
    """Return a value for messages, without credentials."""
    if value is None:
        return "unset"
    text = _credentials.sub(r"\g<1>…@", json.dumps(value))
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _normal(path: Path, value: Any) -> Any:
    if not value or (path == TYPE and value == _AUTO):
        return None
    if path == MEMORY:
        try:
            return Quantity.parse(str(value)).value()
        except QuantityError:
            return value
    return _without_empty(value)


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_empty(v) for k, v in value.items() if v not in (None, "", [], {})}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value
