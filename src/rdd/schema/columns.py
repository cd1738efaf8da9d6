# SPDX-License-Identifier: Apache-2.0
"""Printer columns of a custom resource: what `kubectl get` shows of it.

The columns a version declares are compiled once; a row of the Table form then
costs one path evaluation per column. Without declared columns there are Name
and Age. A path that does not parse ends the list of columns there, as in
Kubernetes, which accepts such definitions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rdd.api.jsonpath import JsonPath, JsonPathError
from rdd.base import goformat, govalue

Age = Callable[[str], str | None]
"""Turns a timestamp into an age (5m); None if it is not a timestamp."""

_NAME = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. "
    "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
    "updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_CREATED = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. "
    "It is not guaranteed to be set in happens-before order across separate operations. Clients "
    "may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the "
    "system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_DEFAULT: tuple[Mapping[str, Any], ...] = (
    {
        "name": "Age",
        "type": "date",
        "description": _CREATED,
        "jsonPath": ".metadata.creationTimestamp",
    },
)


class Columns:
    """The columns of one version: `definitions` for the Table, `cells` for each row."""

    __slots__ = ("_cells", "definitions")

    def __init__(self, declared: Sequence[Mapping[str, Any]]) -> None:
        """`declared` is additionalPrinterColumns of the version."""
        self.definitions: list[dict[str, Any]] = [_definition("Name", "string", "name", _NAME, 0)]
        self._cells: list[tuple[str, JsonPath]] = []
        for column in declared or _DEFAULT:
            try:
                path = JsonPath(column["jsonPath"])
            except JsonPathError:
                break
            text = column.get("description") or (
                f"Custom resource definition column (in JSONPath format): {path.text}"
            )
            kind, form = column["type"], column.get("format") or ""
            self.definitions.append(
                _definition(column["name"], kind, form, text, column.get("priority") or 0)
            )
            self._cells.append((kind, path))

    def cells(self, obj: Mapping[str, Any], *, age: Age) -> list[Any]:
        """Return the cells of an object, one per definition."""
        name = (obj.get("metadata") or {}).get("name", "")
        return [name, *(cell(kind, path.first(obj), age=age) for kind, path in self._cells)]


def _definition(name: str, kind: str, form: str, text: str, priority: int) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "format": form,
        "description": text,
        "priority": priority,
    }


def cell(kind: str, value: Any, *, age: Age) -> Any:
    """Return a value as a cell of a column type; None if it does not fit the type."""
    if value is None:
        return None
    cls = type(value)
    if kind == "string":
        return govalue.json_text(value) if cls is dict or cls is list else goformat.plain(value)
    if kind == "integer":
        return int(value) if cls is int or cls is float else None
    if kind == "number":
        return value if cls is int or cls is float else None
    if kind == "boolean":
        return value if cls is bool else None
    if kind == "date" and cls is str:
        shown = age(value)
        return "<invalid>" if shown is None else shown
    return None
