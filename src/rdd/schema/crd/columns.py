# SPDX-License-Identifier: Apache-2.0
"""Printer columns, selectable fields and subresources of a CustomResourceDefinition.

All of them refer to objects by paths. Columns and the scale subresource accept every path that
starts with a dot; a selectable field must name a declared member, because its values are indexed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rdd.api.fielderrors import FieldError, duplicate, invalid, required, too_many
from rdd.api.jsonpath import lookup, parse_simple
from rdd.schema import fieldpath

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
MAX_SELECTABLE_FIELDS = 8

_INT32_MAX = 2**31 - 1


def columns_errors(columns: Sequence[Mapping[str, Any]], *, field: str) -> list[FieldError]:
    """Return the errors of additionalPrinterColumns."""
    errors: list[FieldError] = []
    for position, column in enumerate(columns):
        errors += _column_errors(column, f"{field}[{position}]")
    return errors


def _column_errors(column: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not column.get("name"):
        errors.append(required(f"{field}.name"))
    kind, form = column.get("type") or "", column.get("format") or ""
    choices = f"must be one of {','.join(COLUMN_TYPES)}"
    if not kind:
        errors.append(required(f"{field}.type", choices))
    elif kind not in COLUMN_TYPES:
        errors.append(invalid(f"{field}.type", kind, choices))
    if form and form not in COLUMN_FORMATS:
        detail = f"must be one of {','.join(COLUMN_FORMATS)}"
        errors.append(invalid(f"{field}.format", form, detail))
    path = column.get("jsonPath") or ""
    if not path:
        errors.append(required(f"{field}.JSONPath"))
    else:
        errors += _path_errors(path, f"{field}.JSONPath")
    return errors


def _path_errors(path: str, field: str) -> list[FieldError]:
    if path.startswith("."):
        return []
    return [invalid(field, path, "must be a simple json path starting with .")]


def selectable_fields_errors(
    fields: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], *, field: str
) -> list[FieldError]:
    """Return the errors of selectableFields with respect to the schema."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, entry in enumerate(fields):
        at = f"{field}[{position}].jsonPath"
        path = entry.get("jsonPath") or ""
        if not path:
            errors.append(required(at))
            continue
        try:
            name, found = fieldpath.resolve(path, schema, allow_brackets=False)
        except fieldpath.FieldPathError as error:
            errors.append(invalid(at, path, f"is an invalid path: {error}"))
            continue
        if name == "metadata" or name.startswith("metadata."):
            errors.append(invalid(at, path, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(at, path, detail))
        if name in seen:
            errors.append(duplicate(at, path))
        seen.add(name)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        errors.append(too_many(field, len(seen), MAX_SELECTABLE_FIELDS))
    return errors


def subresources_errors(subresources: Mapping[str, Any] | None, *, field: str) -> list[FieldError]:
    """Return the errors of subresources: the paths of scale."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for member, roots, detail in (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        (
            "labelSelectorPath",
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
        ),
    ):
        at, path = f"{field}.scale.{member}", scale.get(member) or ""
        if not path:
            if member != "labelSelectorPath":
                errors.append(required(at))
            continue
        found = _path_errors(path, at)
        if not found and not path.startswith(roots):
            found = [invalid(at, path, detail)]
        errors += found
    return errors


def scale_errors(scale: Mapping[str, Any], obj: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of the replica counts and the selector of a scalable object."""
    errors: list[FieldError] = []
    for member in ("specReplicasPath", "statusReplicasPath"):
        path = scale[member]
        count = lookup(obj, parse_simple(path))
        if count is None:
            errors += _parent_errors(path, obj, 0)
            continue
        if type(count) is not int:
            errors.append(invalid(path, 0, _accessor_error(path, count, "int64")))
        elif count < 0:
            errors.append(invalid(path, count, "should be a non-negative integer"))
        elif count > _INT32_MAX:
            detail = f"should be less than or equal to {_INT32_MAX}"
            errors.append(invalid(path, count, detail))
    path = scale.get("labelSelectorPath")
    if path:
        selector = lookup(obj, parse_simple(path))
        if selector is None:
            errors += _parent_errors(path, obj, "")
        elif type(selector) is not str:
            errors.append(invalid(path, "", _accessor_error(path, selector, "string")))
    return errors


def _parent_errors(path: str, obj: Mapping[str, Any], zero: Any) -> list[FieldError]:
    """Return the error of a value above a missing field that is no object."""
    value: Any = obj
    for name in parse_simple(path)[:-1]:
        if name not in value:
            return []
        value = value[name]
        if type(value) is not dict:
            detail = _accessor_error(path, value, "map[string]interface{}")
            return [invalid(path, zero, detail)]
    return []


def _accessor_error(path: str, value: Any, wanted: str) -> str:
    from rdd.base import goformat

    found, kind = goformat.plain(value), goformat.type_name(value)
    return f"{path} accessor error: {found} is of the type {kind}, expected {wanted}"


def selectable_value(value: Any) -> str:
    """Return the text that a field selector compares; empty for a missing field."""
    if value is None:
        return ""
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if type(value) in (str, int) else ""
