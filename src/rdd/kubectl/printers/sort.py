# SPDX-License-Identifier: Apache-2.0
"""`--sort-by`: sort objects by one of their fields.

Numbers are compared as numbers, texts in natural order (`a2` before `a10`); objects
without the field come first.
"""

import re
from typing import Any

from rdd.api.jsonpath import JsonPath, JsonPathError
from rdd.api.types import Object
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.printers.templates import relaxed

_RUNS = re.compile(r"(\d+)")


def sort_objects(objects: list[Object], path: str) -> list[Object]:
    """Sort objects by the field at a path. Raises KubectlError if none has it."""
    keys = _keys(objects, path)
    return [obj for _, obj in sorted(zip(keys, objects, strict=True), key=lambda pair: pair[0])]


def sort_rows(rows: list[Object], path: str) -> list[Object]:
    """Sort the rows of a table by a field of their objects."""
    keys = _keys([row.get("object") or {} for row in rows], path)
    return [row for _, row in sorted(zip(keys, rows, strict=True), key=lambda pair: pair[0])]


def _keys(objects: list[Object], path: str) -> list[tuple[Any, ...]]:
    try:
        parsed = JsonPath(relaxed(path)[1:-1])
        values = [parsed.find(obj) for obj in objects]
    except JsonPathError as error:
        raise KubectlError(f"error parsing jsonpath {path}, {error}") from None
    if objects and not any(values):
        raise KubectlError(
            f'couldn\'t find any field with path "{relaxed(path)}" in the list of objects'
        )
    return [_key(found[0]) if found else (0,) for found in values]


def _key(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool | int | float):
        return (1, value)
    if isinstance(value, str):
        parts = _RUNS.split(value)
        return (2, *((int(p), "") if p.isdecimal() else (-1, p) for p in parts))
    return (3, str(value))
