# SPDX-License-Identifier: Apache-2.0
"""The paths at which objects are served, and the paths of values inside an object."""

import copy
from collections.abc import Iterator
from typing import Any

from rdd.api.types import Object
from rdd.kinds.kind import Kind

Where = tuple[str | int, ...]


def path_of(kind: type[Kind], name: str = "", subresource: str = "") -> str:
    """Return the path of an object in the namespace `default`, or of the collection."""
    place = "/namespaces/default" if kind.namespaced else ""
    parts = [f"/apis/{kind.api_version}{place}/{kind.plural}", name, subresource]
    return "/".join(part for part in parts if part)


def values_of(schema: Object, value: Any, at: Where = ()) -> Iterator[tuple[Where, Object]]:
    """Yield the path and schema of every value in an object, except metadata."""
    if at:
        yield at, schema
    for name, sub in schema.get("properties", {}).items():
        if name in value and (at or name in ("spec", "status")):
            yield from values_of(sub, value[name], (*at, name))
    if "items" in schema:
        yield from values_of(schema["items"], value[0], (*at, 0))
    if "additionalProperties" in schema:
        key = next(iter(value))
        yield from values_of(schema["additionalProperties"], value[key], (*at, key))


def shown(at: Where) -> str:
    """Return a path as messages show it: `status.ports[0].name`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
    return text.removeprefix(".")


def changed(obj: Object, at: Where, value: Any) -> Object:
    """Return a copy with one value replaced."""
    result = copy.deepcopy(obj)
    inner: Any = result
    for part in at[:-1]:
        inner = inner[part]
    inner[at[-1]] = value
    return result


def without(obj: Object, at: Where) -> Object:
    """Return a copy with one member removed."""
    result = copy.deepcopy(obj)
    inner: Any = result
    for part in at[:-1]:
        inner = inner[part]
    del inner[at[-1]]
    return result
