# SPDX-License-Identifier: Apache-2.0
"""Validation of the schema of a CustomResourceDefinition version.

The order is that of Kubernetes: the schema is structural, its defaults are valid, each level uses
only supported members in allowed combinations, its CEL rules compile. The size is limited first,
because every later traversal of the schema (and every object of the kind) depends on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rdd.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from rdd.schema.crd.defaults import default_errors
from rdd.schema.crd.dump import SCHEMA_MEMBERS, items_value, schema_value
from rdd.schema.crd.structural import Schema, all_schemas, children, structural_errors, unreadable
from rdd.schema.formats import string_check
from rdd.schema.node import compile_node

CheckRules = Callable[[Schema, str, frozenset[int] | None], list[FieldError]]
"""Returns the errors of the CEL rules of a schema.

The arguments are schema, field path and the identities of the levels that have errors at or below
them: the rules of these are not compiled. None: no rule is, the schema is not structural.
"""

MAX_DEPTH = 100
"""The maximum nesting of a schema. Schemas of large operators have about 30 levels."""
MAX_SCHEMAS = 50_000
"""The maximum number of nested schemas. Schemas of large operators have about 10,000."""

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META = frozenset(("metadata", "kind", "apiVersion"))
_AT_ROOT_WITH_STATUS = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum",
    "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems",
    "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
    "XPreserveUnknownFields", "XValidations",
)  # fmt: skip


def schema_errors(
    schema: Schema, *, field: str, has_status: bool, check_rules: CheckRules | None = None
) -> list[FieldError]:
    """Return the errors of a version's schema; `has_status`: it has a status subresource."""
    errors = limit_errors(schema, field=field)
    if errors:
        return errors
    if has_status:
        errors += _status_errors(schema, field)
    if schema.get("nullable"):
        errors.append(forbidden(f"{field}.nullable", "nullable cannot be true at the root"))
    why_unreadable = unreadable(schema)
    run_rules = False
    if not why_unreadable:
        found = structural_errors(schema, field=field)
        found = found or default_errors(compile_node(schema), field=field)
        run_rules = not found
        errors += found
    faulty: set[int] = set()
    _walk(schema, field, errors, _Context(), faulty, is_root=True)
    if check_rules is not None:
        errors += check_rules(schema, field, frozenset(faulty) if run_rules else None)
    if not errors and why_unreadable:
        errors.append(invalid(field, "", why_unreadable))
    return errors


def limit_errors(schema: Schema, *, field: str) -> list[FieldError]:
    """Return the errors of a schema that is too deep or too large. Not recursive."""
    level: list[Any] = [schema]
    count = depth = 0
    while level:
        depth += 1
        count += len(level)
        if depth > MAX_DEPTH:
            return [forbidden(field, f"must not be nested deeper than {MAX_DEPTH} levels")]
        if count > MAX_SCHEMAS:
            return [forbidden(field, f"must not contain more than {MAX_SCHEMAS} schemas")]
        level = [sub for s in level if isinstance(s, Mapping) for sub in children(s)]
    return []


def unrecognized_formats(schema: Schema) -> list[str]:
    """Return the string formats that Kubernetes does not validate, without duplicates."""
    found = (
        sub["format"]
        for sub in all_schemas(schema)
        if sub.get("type") == "string" and sub.get("format") and not string_check(sub["format"])
    )
    return list(dict.fromkeys(found))


def _status_errors(schema: Schema, field: str) -> list[FieldError]:
    for go_name, member in SCHEMA_MEMBERS:
        value = schema.get(member)
        if value is None or value is False or value == "":
            continue
        if go_name == "Type" and value != "object":
            detail = (
                'only "object" is allowed as the type at the root of the schema '
                "if the status subresource is enabled"
            )
            return [invalid(f"{field}.type", value, detail)]
        if go_name not in _AT_ROOT_WITH_STATUS:
            detail = (
                f"only [{' '.join(_AT_ROOT_WITH_STATUS)}] fields are allowed at the root of the "
                "schema if the status subresource is enabled"
            )
            return [invalid(field, schema_value(schema), detail)]
    return []


@dataclass(frozen=True, slots=True)
class _Context:
    """The constraints that the position in a schema implies."""

    no_defaults: str = ""
    """The reason why defaults are not allowed."""
    in_metadata: bool = False


def _walk(
    schema: Any,
    field: str,
    errors: list[FieldError],
    context: _Context,
    faulty: set[int],
    *,
    is_root: bool = False,
) -> None:
    """Append the errors of a level and those below; add the levels that have any to `faulty`."""
    if not isinstance(schema, Mapping):
        return
    before = len(errors)
    _members(schema, field, errors, context)
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if additional is not None:
        if properties and additional is not True:
            detail = "additionalProperties and properties are mutual exclusive"
            errors.append(forbidden(f"{field}.additionalProperties", detail))
        inner = context
        if context.in_metadata:
            inner = replace(
                context, no_defaults="inside additionalProperties applying to object metadata"
            )
        _walk(additional, f"{field}.additionalProperties", errors, inner, faulty)
    is_resource = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    for name, sub in properties.items():
        inner = context
        if is_resource and name in _META:
            reason = f"in top-level {name}" if is_root else context.no_defaults
            inner = _Context(no_defaults=reason, in_metadata=True)
        _walk(sub, f"{field}.properties[{name}]", errors, inner, faulty)
    _walk(schema.get("not"), f"{field}.not", errors, context, faulty)
    for junctor in ("allOf", "oneOf", "anyOf"):
        for position, sub in enumerate(schema.get(junctor) or ()):
            _walk(sub, f"{field}.{junctor}[{position}]", errors, context, faulty)
    for name, sub in (schema.get("definitions") or {}).items():
        _walk(sub, f"{field}.definitions[{name}]", errors, context, faulty)
    items = schema.get("items")
    if isinstance(items, list):
        for position, sub in enumerate(items):
            _walk(sub, f"{field}.items[{position}]", errors, context, faulty)
    else:
        _walk(items, f"{field}.items", errors, context, faulty)
    for name, sub in (schema.get("dependencies") or {}).items():
        _walk(sub, f"{field}.dependencies[{name}]", errors, context, faulty)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        at = f"{field}.x-kubernetes-preserve-unknown-fields"
        errors.append(invalid(at, False, "must be true or undefined"))
    _map_type(schema, field, errors)
    _list_type(schema, field, errors)
    if len(errors) > before:
        faulty.add(id(schema))


_UNSUPPORTED_BEFORE_TYPE = ("additionalItems", "patternProperties", "definitions", "dependencies")


def _members(schema: Schema, field: str, errors: list[FieldError], context: _Context) -> None:
    """Return the errors of members that are unsupported, or unsupported at this position."""
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        errors.append(not_supported(f"{field}.type", kind, _TYPES))
    if schema.get("default") is not None and context.no_defaults:
        errors.append(forbidden(f"{field}.default", f"must not be set {context.no_defaults}"))
    if schema.get("id"):
        errors.append(forbidden(f"{field}.id", "id is not supported"))
    for member in _UNSUPPORTED_BEFORE_TYPE:
        # Of these two, an empty value counts as well.
        by_presence = member in ("additionalItems", "dependencies")
        if schema.get(member) or (by_presence and schema.get(member) is not None):
            errors.append(forbidden(f"{field}.{member}", f"{member} is not supported"))
    if schema.get("$ref") is not None:
        errors.append(forbidden(f"{field}.$ref", "$ref is not supported"))
    if kind == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        errors.append(forbidden(f"{field}.type", detail))
    if isinstance(schema.get("items"), list) and schema["items"]:
        detail = "items must be a schema object and not an array"
        errors.append(forbidden(f"{field}.items", detail))
    if context.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        detail = "must not be used inside of resource meta"
        errors.append(forbidden(f"{field}.x-kubernetes-embedded-resource", detail))
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{field}.uniqueItems", detail))


def _wrong_type(schema: Schema, wanted: str, member: str, field: str) -> list[FieldError]:
    kind = schema.get("type") or ""
    if kind == wanted:
        return []
    detail, at = f"must be {wanted} if {member} is specified", f"{field}.type"
    return [invalid(at, kind, detail) if kind else required(at, detail)]


def _map_type(schema: Schema, field: str, errors: list[FieldError]) -> None:
    member = "x-kubernetes-map-type"
    kind = schema.get(member)
    if kind is None:
        return
    errors += _wrong_type(schema, "object", member, field)
    if kind not in ("atomic", "granular"):
        errors.append(not_supported(f"{field}.{member}", kind, ("atomic", "granular")))


def _list_type(schema: Schema, field: str, errors: list[FieldError]) -> None:
    member = "x-kubernetes-list-type"
    kind, keys = schema.get(member), schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    if kind is not None:
        found = _wrong_type(schema, "array", member, field)
        if not found and kind == "set" and isinstance(items, Mapping):
            found = _set_errors(items, f"{field}.items")
        errors += found
        if kind not in ("atomic", "set", "map"):
            errors.append(not_supported(f"{field}.{member}", kind, ("atomic", "set", "map")))
    if keys and kind != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        at = f"{field}.{member}"
        errors.append(required(at, detail) if kind is None else invalid(at, kind, detail))
    if kind == "map":
        _list_map(keys, items, field, errors)
    if kind in ("set", "map") and isinstance(items, Mapping):
        _item_errors(kind, keys, items, f"{field}.items", errors)


def _set_errors(items: Schema, field: str) -> list[FieldError]:
    """Return the errors of set items; they are compared as a whole, so they must be atomic."""
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    kind, list_type = items.get("type"), items.get("x-kubernetes-list-type")
    if kind == "array" and list_type not in (None, "atomic"):
        return [invalid(f"{field}.x-kubernetes-list-type", list_type, detail)]
    if kind == "object" and items.get("x-kubernetes-map-type") != "atomic":
        # Kubernetes shows the list type here.
        return [invalid(f"{field}.x-kubernetes-map-type", list_type, detail)]
    return []


def _list_map(keys: list[str], items: Any, field: str, errors: list[FieldError]) -> None:
    at = f"{field}.x-kubernetes-list-map-keys"
    if not keys:
        errors.append(required(at, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        detail = "must have a schema if x-kubernetes-list-type is map"
        errors.append(required(f"{field}.items", detail))
    elif not isinstance(items, Mapping):
        detail = "must only have a single schema if x-kubernetes-list-type is map"
        errors.append(invalid(f"{field}.items", items_value(items), detail))
    elif items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        errors.append(invalid(f"{field}.items.type", items.get("type") or "", detail))
    else:
        seen: set[str] = set()
        for name in keys:
            sub = (items.get("properties") or {}).get(name)
            if sub is None:
                errors.append(invalid(at, keys, "entries must all be names of item properties"))
            elif sub.get("type") in ("array", "object"):
                detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                where = f"{field}.items.properties[{name}].type"
                errors.append(invalid(where, items["type"], detail))
            if name in seen:
                errors.append(invalid(at, keys, "must not contain duplicate entries"))
            seen.add(name)


def _item_errors(
    kind: str, keys: list[str], items: Schema, field: str, errors: list[FieldError]
) -> None:
    """Return the errors of items of sets and maps; they and their keys must not be nullable."""
    if items.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        errors.append(forbidden(f"{field}.nullable", detail))
    if kind != "map":
        return
    for name in keys:
        sub = (items.get("properties") or {}).get(name)
        if sub is None:
            continue
        at = f"{field}.properties[{name}]"
        if name not in (items.get("required") or ()) and sub.get("default") is None:
            detail = (
                "this property is in x-kubernetes-list-map-keys, "
                "so it must have a default or be a required property"
            )
            errors.append(required(f"{at}.default", detail))
        if sub.get("nullable"):
            detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            errors.append(forbidden(f"{at}.nullable", detail))
