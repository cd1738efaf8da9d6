# SPDX-License-Identifier: Apache-2.0
"""Where things are: the paths objects are served at, and the fields of an object."""

import copy
from collections.abc import Iterator
from typing import Any

from rdd.api.types import Object
from rdd.kinds.kind import Kind

Where = tuple[str | int, ...]


def path_of(kind: type[Kind], name: str = "", subresource: str = "") -> str:
    """The path of an object in the namespace `default`, or of all of them."""
    place = "/namespaces/default" if kind.namespaced else ""
    parts = [f"/apis/{kind.api_version}{place}/{kind.plural}", name, subresource]
    return "/".join(part for part in parts if part)


def places(schema: Object, value: Any, at: Where = ()) -> Iterator[tuple[Where, Object]]:
    """Every value in an object, except metadata, with its schema."""
    if at:
        yield at, schema
    for name, sub in schema.get("properties", {}).items():
        if name in value and (at or name in ("spec", "status")):
            yield from places(sub, value[name], (*at, name))
    if "items" in schema:
        yield from places(schema["items"], value[0], (*at, 0))
    if "additionalProperties" in schema:
        key = next(iter(value))
        yield from places(schema["additionalProperties"], value[key], (*at, key))


def shown(at: Where) -> str:
    """A place as messages show it: `status.ports[0].name`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
    return text.removeprefix(".")


def changed(obj: Object, at: Where, value: Any) -> Object:
    """A copy with one value replaced."""
    result = copy.deepcopy(obj)
    inner: Any = result
    for part in at[:-1]:
        inner = inner[part]
    inner[at[-1]] = value
    return result


def without(obj: Object, at: Where) -> Object:
    """A copy with one member removed."""
    result = copy.deepcopy(obj)
    inner: Any = result
    for part in at[:-1]:
        inner = inner[part]
    del inner[at[-1]]
    return result
