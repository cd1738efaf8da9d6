# SPDX-License-Identifier: Apache-2.0
"""Structural schemas: the precondition of pruning and defaulting.

A structural schema declares all members and their types outside of allOf, anyOf, oneOf and not;
inside of them are only further value validations. So the shape of an object follows from the schema
alone, without evaluating alternatives.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rdd.api.fielderrors import FieldError, forbidden, invalid, required
from rdd.schema.regexps import PatternError, compile_pattern

Schema = Mapping[str, Any]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]

# Members that nested validations must not have, with the word in "must be … to be structural".
_NESTED_FORBIDDEN = (
    ("type", "empty"), ("additionalProperties", "undefined"), ("default", "undefined"),
    ("title", "empty"), ("description", "empty"), ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"), ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"), ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"), ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
)  # fmt: skip
# Members that prevent parsing a schema as a structural one.
_UNSUPPORTED = (
    ("id", "id"), ("$schema", "schema"), ("$ref", "$ref"),
    ("patternProperties", "patternProperties"), ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"), ("definitions", "definitions"),
)  # fmt: skip
_JUNCTORS = ("anyOf", "allOf", "oneOf")


def unreadable(schema: Schema) -> str:
    """Return why a schema cannot be parsed as a structural one; empty if it can."""
    for sub in all_schemas(schema):
        for member, name in _UNSUPPORTED:
            if sub.get(member) or (member == "additionalItems" and member in sub):
                return f"OpenAPIV3Schema '{name}' is not supported"
        if isinstance(sub.get("items"), list) and sub["items"]:
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
        if sub.get("x-kubernetes-preserve-unknown-fields") is False:
            words = "'x-kubernetes-preserve-unknown-fields' must be true or undefined"
            return f"internal error: {words}"
    return ""


def all_schemas(schema: Schema) -> Iterator[Schema]:
    """Yield a schema and all schemas inside it."""
    pending: list[Any] = [schema]
    while pending:
        sub = pending.pop()
        if not isinstance(sub, Mapping):
            continue
        yield sub
        pending.extend(children(sub))


def children(schema: Schema) -> list[Any]:
    """Yield the schemas directly inside a schema."""
    found: list[Any] = []
    for member in ("properties", "patternProperties", "definitions", "dependencies"):
        found.extend((schema.get(member) or {}).values())
    for member in _JUNCTORS:
        found.extend(schema.get(member) or ())
    for member in ("additionalProperties", "additionalItems", "not", "items"):
        sub = schema.get(member)
        if isinstance(sub, list):
            found.extend(sub)
        elif sub is not None:
            found.append(sub)
    return found


def structural_errors(schema: Schema, *, field: str) -> list[FieldError]:
    """Return why a schema is not structural, sorted as Kubernetes sorts it."""
    errors: list[FieldError] = []
    _invariants(schema, "root", field, errors)
    _completeness(schema, schema, field, field, errors)
    return sorted(errors, key=str)


def _invariants(schema: Schema, level: str, field: str, errors: list[FieldError]) -> None:
    kind = schema.get("type") or ""
    items, properties = schema.get("items"), schema.get("properties") or {}
    if kind == "array" and not isinstance(items, Mapping):
        errors.append(required(f"{field}.items", "must be specified"))
    if isinstance(items, Mapping):
        _invariants(items, "items", f"{field}.items", errors)
    for name, sub in properties.items():
        _invariants(sub, "fields", f"{field}.properties[{name}]", errors)
    additional = schema.get("additionalProperties")
    if additional is not None:
        at = f"{field}.additionalProperties"
        if level == "root":
            errors.append(forbidden(at, "must not be used at the root"))
        if isinstance(additional, Mapping):
            _invariants(additional, "fields", at, errors)
    _extensions(schema, field, errors)
    _conditions(schema, field, errors, is_nested=False)
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    _type(schema, kind, level, field, errors)
    if embedded and additional is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(f"{field}.additionalProperties", detail))
    if level == "root" and kind and kind != "object":
        errors.append(invalid(f"{field}.type", kind, "must be object at the root"))
    _resource_members(properties, level, field, errors, is_resource=level == "root" or embedded)
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(f"{field}.properties", detail))


def _type(schema: Schema, kind: str, level: str, field: str, errors: list[FieldError]) -> None:
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        at = f"{field}.type"
        errors.append(invalid(at, kind, detail) if kind else required(at, detail))
        return
    untyped = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
    if not kind and not any(schema.get(member) for member in untyped):
        where = {
            "root": "at the root",
            "items": "for specified array items",
            "fields": "for specified object fields",
        }
        errors.append(required(f"{field}.type", f"must not be empty {where[level]}"))


def _extensions(schema: Schema, field: str, errors: list[FieldError]) -> None:
    if not schema.get("x-kubernetes-int-or-string"):
        return
    for member in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if schema.get(member):
            detail = "must be false if x-kubernetes-int-or-string is true"
            errors.append(invalid(f"{field}.{member}", True, detail))


def _resource_members(
    properties: Mapping[str, Schema],
    level: str,
    field: str,
    errors: list[FieldError],
    *,
    is_resource: bool,
) -> None:
    for name in ("kind", "apiVersion"):
        if is_resource and name in properties and properties[name].get("type") != "string":
            at = f"{field}.properties[{name}].type"
            errors.append(invalid(at, properties[name].get("type") or "", "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return
    at = f"{field}.properties[metadata]"
    if is_resource and metadata.get("type") != "object":
        errors.append(invalid(f"{at}.type", metadata.get("type") or "", "must be object"))
    if level != "root":
        return
    allowed = set(metadata.get("properties") or ()) <= {"name", "generateName"}
    ignored = {"type", "default", "properties"}
    if not allowed or any(value for member, value in metadata.items() if member not in ignored):
        detail = (
            "must not specify anything other than name and generateName, "
            "but metadata is implicitly specified"
        )
        errors.append(forbidden(at, detail))


def _conditions(
    schema: Schema,
    field: str,
    errors: list[FieldError],
    *,
    is_nested: bool,
    skip_any_of: bool = False,
) -> None:
    """Return the value validations of a schema, including those inside junctors."""
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    # Two notations of "integer or string" are allowed despite their types.
    if not skip_any_of and (is_nested or any_of != _INT_OR_STRING):
        for position, sub in enumerate(any_of):
            _nested(sub, f"{field}.anyOf[{position}]", errors)
    first_is_pair = (
        not is_nested and bool(all_of) and (all_of[0].get("anyOf") or []) == _INT_OR_STRING
    )
    for position, sub in enumerate(all_of):
        skip = first_is_pair and position == 0
        _nested(sub, f"{field}.allOf[{position}]", errors, skip_any_of=skip)
    for position, sub in enumerate(schema.get("oneOf") or ()):
        _nested(sub, f"{field}.oneOf[{position}]", errors)
    if schema.get("not") is not None:
        _nested(schema["not"], f"{field}.not", errors)
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except PatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid(f"{field}.pattern", pattern, detail))


def _nested(
    schema: Schema, field: str, errors: list[FieldError], *, skip_any_of: bool = False
) -> None:
    _conditions(schema, field, errors, is_nested=True, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), Mapping):
        _nested(schema["items"], f"{field}.items", errors)
    for name, sub in (schema.get("properties") or {}).items():
        _nested(sub, f"{field}.properties[{name}]", errors)
    for member, word in _NESTED_FORBIDDEN:
        value = schema.get(member)
        given = value is not None if word == "undefined" else bool(value)
        if given:
            errors.append(forbidden(f"{field}.{member}", f"must be {word} to be structural"))
    if "metadata" in (schema.get("properties") or {}):
        detail = "must not be specified in a nested context"
        errors.append(forbidden(f"{field}.properties[metadata]", detail))


def _completeness(
    conditions: Schema, schema: Schema, at: str, field: str, errors: list[FieldError]
) -> None:
    """Return the errors of validations (at `field`) for undeclared members (below `at`)."""
    for junctor in ("allOf", "anyOf", "oneOf"):
        for position, sub in enumerate(conditions.get(junctor) or ()):
            _nested_completeness(sub, schema, at, f"{field}.{junctor}[{position}]", errors)
    if conditions.get("not") is not None:
        _nested_completeness(conditions["not"], schema, at, f"{field}.not", errors)


def _nested_completeness(
    conditions: Schema, schema: Schema | None, at: str, field: str, errors: list[FieldError]
) -> None:
    if schema is None:
        errors.append(required(at, f"because it is defined in {field}"))
        return
    _completeness(conditions, schema, at, field, errors)
    if isinstance(conditions.get("items"), Mapping):
        items = schema.get("items")
        declared = items if isinstance(items, Mapping) else None
        where = f"{at}.items", f"{field}.items"
        _nested_completeness(conditions["items"], declared, *where, errors)
    for name, sub in (conditions.get("properties") or {}).items():
        declared = (schema.get("properties") or {}).get(name)
        where = f"{at}.properties[{name}]", f"{field}.properties[{name}]"
        _nested_completeness(sub, declared, *where, errors)
