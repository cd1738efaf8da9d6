# SPDX-License-Identifier: Apache-2.0
"""Renders the reference of all kinds and fields in Markdown: the second half of docs/kinds.md."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rdd.api.types import Object
from rdd.kinds.catalog import ALL, BY_CONTROLLER
from rdd.kinds.conditions import Condition
from rdd.kinds.crd import schema_of
from rdd.kinds.kind import Kind

MARKER = "<!-- Below this line: python -m rdd.kinds reference docs/kinds.md -->"
"""Everything below it is generated."""

_LIMITS = {
    "minimum": "at least {}",
    "minLength": "at least {} character",
    "maxLength": "at most {} characters",
    # The expressions are unreadable in a table; the descriptions explain the allowed values.
    "pattern": "matches a pattern",
}
_CONDITION = "see [Condition](#condition)"


def update(page: str) -> str:
    """Return a page with the part below the marker regenerated."""
    head, marker, _ = page.partition(MARKER)
    return f"{head}{marker or MARKER}\n\n{render()}"


def render() -> str:
    """Render every kind with its names and its fields."""
    parts = [_kind_section(kind) for kind in ALL]
    return "\n".join([*parts, _condition_section()])


def _kind_section(kind: type[Kind]) -> str:
    schema = schema_of(kind)
    facts = [*_facts(kind), *(f"Rule: {text}" for text in _rules(schema))]
    lines = [f"## {kind.kind}", "", schema["description"], "", *(f"- {fact}" for fact in facts), ""]
    own = [(name, sub) for name, sub in _members(schema) if name in ("spec", "status")]
    rows = [row for name, sub in own for row in _rows(name, sub, schema)]
    return "\n".join(lines + (_table(rows) if rows else []))


def _facts(kind: type[Kind]) -> Iterator[str]:
    shown = kind.presentation
    scope = "namespaced" if kind.namespaced else "cluster-scoped"
    yield f"`{kind.crd_name}`, `{kind.api_version}`, {scope}"
    owner = next(name for name, kinds in BY_CONTROLLER.items() if kind in kinds)
    yield f"Installed by the controller `{owner}`"
    if shown.short_names:
        yield f"Short names: {_listed(shown.short_names)}"
    if shown.categories:
        yield f"Categories: {_listed(shown.categories)}"
    if shown.columns:
        texts = (
            f"{c.name} (`{c.json_path}`{', with `-o wide`' if c.is_wide else ''})"
            for c in shown.columns
        )
        yield f"Columns: {', '.join(texts)}"
    if shown.selectable:
        yield f"Selectable fields: {_listed([path[1:] for path in shown.selectable])}"
    if "status" not in kind.fields:
        yield "No status subresource"


def _condition_section() -> str:
    schema = schema_of(Condition)
    rows = [row for name, sub in _members(schema) for row in _rows(name, sub, schema)]
    return "\n".join(["## Condition", "", schema["description"], "", *_table(rows)])


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    head = ["| Field | Type | Constraints | Description |", "|---|---|---|---|"]
    cells = (tuple(cell.replace("|", "\\|") for cell in row) for row in rows)
    return [*head, *(f"| {' | '.join(row)} |" for row in cells), ""]


def _rows(path: str, schema: Object, parent: Object) -> Iterator[tuple[str, ...]]:
    name = path.rpartition(".")[2].removesuffix("[]")
    items = schema.get("items") or {}
    is_condition = "lastTransitionTime" in (items.get("properties") or {})
    constraints = list(_constraints(schema))
    if name in parent.get("required", ()):
        constraints.insert(0, "required")
    if is_condition:
        constraints.append(_CONDITION)
    yield (f"`{path}`", _type(schema), ", ".join(constraints), schema["description"])
    if not is_condition:
        inner, prefix = (items, f"{path}[]") if items else (schema, path)
        for member, sub in _members(inner):
            yield from _rows(f"{prefix}.{member}", sub, inner)


def _members(schema: Object) -> Iterator[tuple[str, Object]]:
    yield from (schema.get("properties") or {}).items()


def _type(schema: Mapping[str, Any]) -> str:
    if "x-kubernetes-int-or-string" in schema:
        return "quantity"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}s"
    if "additionalProperties" in schema:
        return f"map of {_type(schema['additionalProperties'])}s"
    form = schema.get("format")
    return f"{schema['type']} ({form})" if form else str(schema["type"])


def _constraints(schema: Mapping[str, Any]) -> Iterator[str]:
    for enum in (schema.get("enum"), *(part["enum"] for part in schema.get("allOf", ()))):
        if enum:
            yield f"one of {_listed(enum)}"
    if "default" in schema:
        yield f"default `{json.dumps(schema['default'])}`"
    if "x-kubernetes-int-or-string" not in schema:
        yield from (_LIMITS[k].format(v) for k, v in schema.items() if k in _LIMITS)
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        yield f"one item per `{key}`"
    yield from _rules(schema)


def _rules(schema: Mapping[str, Any]) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield f"`{rule['rule']}` (“{rule['message']}”)"


def _listed(values: Any) -> str:
    return ", ".join(f"`{value}`" for value in values)
