# SPDX-License-Identifier: Apache-2.0
"""Tables of the server in kubectl's layout.

The server renders columns and cells. The layout is the client's: which columns a
plain or wide table shows, columns for the namespace and for labels, and the kind
before the name if several types are shown together.
"""

from typing import Any, NamedTuple

from rdd.api.types import Object
from rdd.kubectl.printers.tabwriter import TabWriter

ACCEPT = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


class TableOptions(NamedTuple):
    """Layout of tables."""

    is_wide: bool = False
    no_headers: bool = False
    with_namespace: bool = False
    show_labels: bool = False
    label_columns: tuple[str, ...] = ()
    kind: str = ""  # prefix of names: `configmap`
    with_event: bool = False


class TablePrinter:
    """Prints tables of one resource, with one header."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._writer = TabWriter(keeps_widths=True)
        self._columns: list[Object] = []
        self._has_header = False

    def show(self, table: Object, *, event: str = "") -> str:
        """Return the text of a table, or of an object that the server did not render."""
        table = as_table(table)
        # Only the first table of a watch has column definitions.
        self._columns = table.get("columnDefinitions") or self._columns
        shown = [
            index
            for index, column in enumerate(self._columns)
            if self._options.is_wide or not column.get("priority")
        ]
        rows = table.get("rows") or []
        if rows and not self._has_header:
            self._has_header = True
            if not self._options.no_headers:
                self._writer.line(*self._header(shown))
        for row in rows:
            self._writer.line(*self._row(row, shown, event))
        return self._writer.flush()

    def _header(self, shown: list[int]) -> list[str]:
        names = [str(self._columns[index]["name"]).upper() for index in shown]
        before = ["EVENT"] * self._options.with_event + ["NAMESPACE"] * self._options.with_namespace
        labels = [label.rpartition("/")[2].upper() for label in self._options.label_columns]
        return before + names + labels + ["LABELS"] * self._options.show_labels

    def _row(self, row: Object, shown: list[int], event: str) -> list[str]:
        options = self._options
        metadata = (row.get("object") or {}).get("metadata") or {}
        cells = row.get("cells") or []
        texts = []
        for index in shown:
            text = _cell(cells[index]) if index < len(cells) else ""
            if options.kind and self._columns[index].get("format") == "name":
                text = f"{options.kind}/{text}"
            texts.append(text)
        before = [event] * options.with_event
        before += [metadata.get("namespace", "")] * options.with_namespace
        labels = metadata.get("labels") or {}
        after = [labels.get(label, "") for label in options.label_columns]
        if options.show_labels:
            after.append(labels_text(labels))
        return before + texts + after


def labels_text(labels: dict[str, str]) -> str:
    """Return labels as one cell: `a=1,b=2`, or `<none>`."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        from rdd.base import goformat

        return goformat.plain(value)
    ends = [at for at in map(value.find, "\f\n\r") if at >= 0]
    text = f"{value[: min(ends)]}..." if ends else value
    return text.replace("\x1b", "^[")  # escape sequences must not reach the terminal


def as_table(obj: Object) -> Object:
    """Return a table unchanged; an object or a list becomes a table of names and ages."""
    if obj.get("kind") == "Table":
        return obj
    items = obj["items"] if isinstance(obj.get("items"), list) else [obj]
    return {
        "kind": "Table",
        "columnDefinitions": [{"name": "Name", "format": "name"}, {"name": "Age"}],
        "rows": [
            {"cells": [item["metadata"]["name"], age(item)], "object": item} for item in items
        ],
    }


def age(obj: Object, field: str = "creationTimestamp") -> str:
    """Return how long ago an object was created."""
    return ago(str((obj.get("metadata") or {}).get(field) or ""))


def ago(timestamp: str) -> str:
    """Return how long ago a timestamp was; `<unknown>` if it is empty."""
    if not timestamp:
        return "<unknown>"
    import time

    from rdd.api import timestamps

    try:
        second, _ = timestamps.parse(timestamp)
    except ValueError:
        return "<invalid>"
    return timestamps.human_duration(time.time() - second)
