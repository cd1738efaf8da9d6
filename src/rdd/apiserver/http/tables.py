# SPDX-License-Identifier: Apache-2.0
"""The Table representation of objects, which `kubectl get` prints.

The server computes columns and cells, so that kubectl can print kinds it does
not support. A resource has columns, and its strategy returns the cells of an
object (for custom resources from additionalPrinterColumns, see
rdd.schema.crd.columns).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from rdd.api import names, timestamps
from rdd.api.types import Object
from rdd.apiserver.kinds.strategy import Strategy, TableColumn

UNKNOWN = "<unknown>"
"""The age of an object without a timestamp."""


class Printable(Protocol):
    """A resource whose objects have a Table representation."""

    @property
    def columns(self) -> tuple[TableColumn, ...]: ...

    @property
    def strategy(self) -> Strategy: ...


def age(timestamp: str | None, *, now: float) -> str:
    """Return the time since a timestamp: `5s`, `3m20s`, `5h`, `3d4h`; `<unknown>` for none."""
    if not timestamp:
        return UNKNOWN
    try:
        second, nanosecond = timestamps.parse(timestamp)
    except ValueError:
        return "<invalid>"
    return timestamps.human_duration(now - second - nanosecond / 1e9)


@lru_cache(maxsize=512)
def column_definitions(columns: tuple[TableColumn, ...]) -> list[dict[str, Any]]:
    """Return the columnDefinitions of a Table. The result is shared and MUST NOT be changed."""
    return [
        {
            "name": c.name,
            "type": c.type,
            "format": c.format,
            "description": c.description,
            "priority": c.priority,
        }
        for c in columns
    ]


def table(
    resource: Printable,
    objects: Sequence[Object],
    *,
    now: float,
    include_object: str = "Metadata",
    version: str = "v1",
    revision: str = "",
    continue_: str = "",
    remaining: int = 0,
) -> dict[str, Any]:
    """Return the Table of some objects.

    `include_object` selects what a row contains besides the cells: None, Metadata
    or Object; `version` is that of meta.k8s.io.
    """
    meta: dict[str, Any] = {}
    if revision:
        meta["resourceVersion"] = revision
    if continue_:
        meta["continue"] = continue_
    if remaining:
        meta["remainingItemCount"] = remaining
    cells = resource.strategy.cells
    return {
        "kind": "Table",
        "apiVersion": f"{names.META_GROUP}/{version}",
        "metadata": meta,
        "columnDefinitions": column_definitions(resource.columns),
        "rows": [
            {"cells": cells(obj, now=now), "object": _row_object(obj, include_object, version)}
            for obj in objects
        ],
    }


def bookmark(resource: Printable, meta: dict[str, Any], *, version: str = "v1") -> dict[str, Any]:
    """Return the Table of a bookmark event: one row of an object that has only metadata."""
    shown = table(
        resource,
        [{"metadata": meta}],
        now=0,
        version=version,
        revision=str(meta.get("resourceVersion") or ""),
    )
    shown["columnDefinitions"] = None
    return shown


def _row_object(obj: Object, include_object: str, version: str) -> Object | None:
    if include_object == "None":
        return None
    if include_object == "Object":
        return obj
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{names.META_GROUP}/{version}",
        "metadata": obj.get("metadata") or {},
    }
