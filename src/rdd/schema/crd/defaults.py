# SPDX-License-Identifier: Apache-2.0
"""Validation of the defaults in a schema: they must be valid and free of unknown members.

A default is written into objects without further validation, so an invalid default would produce
objects that cannot be stored.
"""

from typing import Any

from rdd.api.fielderrors import FieldError, invalid
from rdd.schema.embedded import embedded_errors
from rdd.schema.node import MISSING, Node
from rdd.schema.prune import is_pruned
from rdd.schema.valuecheck import value_errors

_META = ("metadata", "apiVersion", "kind")


def default_errors(node: Node, *, field: str) -> list[FieldError]:
    """Return the errors of all defaults of a schema; `node` is its root."""
    errors: list[FieldError] = []
    if node.has_defaults:
        _visit(node, field, errors, is_resource=True, inside_meta=False)
    return errors


def _visit(
    node: Node, field: str, errors: list[FieldError], *, is_resource: bool, inside_meta: bool
) -> None:
    if not node.has_defaults:
        return
    inside_meta = inside_meta and not is_resource
    default = node.default
    if default is not MISSING and default is not None:
        errors.extend(_errors(node, default, f"{field}.default", inside_meta=inside_meta))
    # Kubernetes applies defaults below additionalProperties but does not validate them here.
    if node.items is not None:
        _visit(
            node.items,
            f"{field}.items",
            errors,
            is_resource=node.items.embedded,
            inside_meta=inside_meta,
        )
    for name, sub in node.properties.items():
        _visit(
            sub,
            f"{field}.properties[{name}]",
            errors,
            is_resource=sub.embedded,
            inside_meta=inside_meta or (is_resource and name in _META),
        )


def _errors(node: Node, default: Any, field: str, *, inside_meta: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not inside_meta and not is_pruned(node, default, is_resource=node.embedded):
        errors.append(invalid(field, default, "must not have unknown fields"))
    found = [] if inside_meta else embedded_errors(node, default, field=field)
    return errors + (found or value_errors(node.source, default, base=field))
