# SPDX-License-Identifier: Apache-2.0
"""Validation of custom resources, compiled once per schema.

Nearly every object is valid, so a schema is compiled into closures that only
answer yes or no; each node costs one call. When the answer is no, the slow
half (`valuecheck.py`) finds the messages. Both halves must agree on what is
valid; a test compares them on generated schemas and values, and whatever a
closure does not decide itself (a null, a type that does not match, a number
format) it hands to the slow half.

A `Validator` adds what is not value validation: embedded resources and the
uniqueness of sets and list maps. CEL rules are separate (`rdd.schema.rules.evaluation`):
they run after this, unless `rules_blocked` finds that the errors make their
answers meaningless.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rdd.api.fielderrors import FieldError
from rdd.base import goformat
from rdd.schema.embedded import embedded_errors, has_embedded
from rdd.schema.formats import is_effective, string_check
from rdd.schema.listtypes import has_list_types, list_type_errors
from rdd.schema.node import Node
from rdd.schema.regexps import PatternError, compile_pattern
from rdd.schema.valuecheck import NO_OLD, Schema, types_of, value_errors

Predicate = Callable[[Any], bool]

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Validator:
    """Checks objects of one schema: `validator(obj)` or, on update, `validator(obj, old)`."""

    __slots__ = ("_has_embedded", "_has_list_types", "_is_valid", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._is_valid = compile_predicate(node.source)
        self._has_embedded = has_embedded(node)
        self._has_list_types = has_list_types(node)

    def __call__(self, obj: Any, old: Any = None) -> list[FieldError]:
        """Return all errors of an object, in Kubernetes' order; `old` is what it replaces."""
        try:
            return self._errors(obj, old)
        except RecursionError:
            # Only parts without a schema can be that deep, and only messages look into them.
            return [FieldError("Invalid", "<nil>", "", goformat.TOO_DEEP)]

    def _errors(self, obj: Any, old: Any) -> list[FieldError]:
        errors: list[FieldError] = []
        if self._is_valid is not None and not self._is_valid(obj):
            earlier = NO_OLD if old is None else old
            errors = value_errors(self.node.source, obj, old=earlier)
        if self._has_embedded:
            errors += embedded_errors(self.node, obj)
        if self._has_list_types:
            found = list_type_errors(self.node, obj)
            if found and (old is None or not list_type_errors(self.node, old)):
                errors += found
        return errors


def compile_validator(node: Node) -> Validator:
    """Return the validator of a schema; make it once, call it per object."""
    return Validator(node)


_BLOCKING = frozenset(("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"))


def rules_blocked(errors: Sequence[FieldError]) -> FieldError | None:
    """Return the error for CEL rules skipped because the object is too invalid to run them."""
    if any(e.kind in _BLOCKING for e in errors):
        return FieldError(
            "Invalid",
            "<nil>",
            None,
            "some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation",
        )
    return None


def compile_predicate(schema: Schema) -> Predicate | None:
    """Return a predicate for valid values; None if every value is valid."""
    checks: list[Predicate] = []
    core = _core(schema)
    if core is not None:
        checks.append(core)
    checks.extend(_junctors(schema))
    if not checks:
        return None
    if len(checks) == 1:
        return checks[0]
    return lambda value: all(check(value) for check in checks)


def _slow(schema: Schema) -> Predicate:
    """Return the slow half as a predicate, without junctors (they have predicates of their own)."""
    own = schema
    if any(key in schema for key in _JUNCTORS):
        own = {k: v for k, v in schema.items() if k not in _JUNCTORS}
    return lambda value: not value_errors(own, value)


_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")


def _core(schema: Schema) -> Predicate | None:
    types = types_of(schema)
    name = schema.get("format") or ""
    if name and not is_effective(name):
        name = ""
    if len(types) == 1 and not (schema.get("enum") and types[0] != "string"):
        if types[0] == "string":
            return _string(schema, name)
        if types[0] == "object" and not name:
            return _object(schema)
        if types[0] == "array" and not name:
            return _array(schema)
        if types[0] == "boolean" and not name:
            slow = _slow(schema)
            return lambda value: value is True or value is False or slow(value)
        if types[0] in ("integer", "number"):
            return _number(schema, types[0], name)
    if not types and not name and not any(key in schema for key in _VALUE_KEYS):
        return None
    return _slow(schema)


_VALUE_KEYS = frozenset((
    "enum", "maximum", "minimum", "multipleOf", "maxLength", "minLength", "pattern", "maxItems",
    "minItems", "uniqueItems", "maxProperties", "minProperties", "required", "properties", "items",
    "additionalProperties",
))  # fmt: skip


def _string(schema: Schema, name: str) -> Predicate:
    slow = _slow(schema)
    low: int = schema.get("minLength") or 0
    high: int | None = schema.get("maxLength")
    check = string_check(name) if name else None
    enum = schema.get("enum")
    allowed = frozenset(v for v in enum if type(v) is str) if enum else None
    search = None
    if schema.get("pattern"):
        try:
            search = compile_pattern(schema["pattern"]).search
        except PatternError:
            return slow
    if allowed is None and check is None and search is None and not low and high is None:
        return lambda value: type(value) is str or slow(value)
    if allowed is not None and check is None and search is None and not low and high is None:
        return lambda value: value in allowed if type(value) is str else slow(value)

    def is_valid(value: Any) -> bool:
        if type(value) is not str:
            return slow(value)
        if (high is not None and len(value) > high) or len(value) < low:
            return False
        if allowed is not None and value not in allowed:
            return False
        if search is not None and search(value) is None:
            return False
        return check is None or check(value)

    return is_valid


def _number(schema: Schema, kind: str, name: str) -> Predicate:
    slow = _slow(schema)
    low, high = schema.get("minimum"), schema.get("maximum")
    exclusive = schema.get("exclusiveMinimum") or schema.get("exclusiveMaximum")
    odd = any(isinstance(b, float) and not b.is_integer() for b in (low, high))
    if schema.get("multipleOf") is not None or exclusive or odd or (name and name != "int64"):
        return slow
    if name and kind == "number":
        return slow
    floor = _INT64_MIN if low is None else max(_INT64_MIN, int(low))
    ceiling = _INT64_MAX if high is None else min(_INT64_MAX, int(high))
    if (low is not None and not _INT64_MIN <= low <= _INT64_MAX) or (
        high is not None and not _INT64_MIN <= high <= _INT64_MAX
    ):
        return slow
    return lambda value: (
        floor <= value <= ceiling or slow(value) if type(value) is int else slow(value)
    )


def _object(schema: Schema) -> Predicate:
    slow = _slow(schema)
    properties = {
        name: check
        for name, sub in (schema.get("properties") or {}).items()
        if (check := compile_predicate(sub)) is not None
    }
    declared = frozenset(schema.get("properties") or ())
    required = tuple(schema.get("required") or ())
    low, high = schema.get("minProperties"), schema.get("maxProperties")
    additional = schema.get("additionalProperties")
    rest: Predicate | None = None
    if isinstance(additional, Mapping):
        rest = compile_predicate(additional)
    elif additional is False:
        rest = lambda value: False  # noqa: E731

    if rest is None:

        def has_valid_members(value: dict[str, Any]) -> bool:
            for key, item in value.items():
                check = properties.get(key)
                if check is not None and not check(item):
                    return False
            return True

    else:
        others = rest

        def has_valid_members(value: dict[str, Any]) -> bool:
            for key, item in value.items():
                check = properties.get(key)
                if check is None:
                    if key in declared:
                        continue
                    check = others
                if not check(item):
                    return False
            return True

    def is_valid(value: Any) -> bool:
        if type(value) is not dict:
            return slow(value)
        for key in required:
            if key not in value:
                return False
        if low is not None and len(value) < low:
            return False
        if high is not None and len(value) > high:
            return False
        return has_valid_members(value)

    return is_valid


def _array(schema: Schema) -> Predicate:
    slow = _slow(schema)
    if schema.get("uniqueItems"):
        return slow
    low, high = schema.get("minItems") or 0, schema.get("maxItems")
    items = schema.get("items")
    check = compile_predicate(items) if isinstance(items, Mapping) else None

    def is_valid(value: Any) -> bool:
        if type(value) is not list:
            return slow(value)
        if len(value) < low or (high is not None and len(value) > high):
            return False
        if check is not None:
            for item in value:
                if not check(item):
                    return False
        return True

    return is_valid


def _junctors(schema: Schema) -> list[Predicate]:
    checks: list[Predicate] = []
    for part in schema.get("allOf") or ():
        check = compile_predicate(part)
        if check is not None:
            checks.append(_unless_null(check))
    if any_of := schema.get("anyOf"):
        options = [compile_predicate(s) for s in any_of]
        if all(o is not None for o in options):
            alternatives = [o for o in options if o is not None]
            checks.append(_unless_null(lambda value: any(o(value) for o in alternatives)))
    if one_of := schema.get("oneOf"):
        exactly = [compile_predicate(s) for s in one_of]
        checks.append(_unless_null(lambda value: sum(o is None or o(value) for o in exactly) == 1))
    negated = schema.get("not")
    if negated is not None:
        refused = compile_predicate(negated)
        checks.append(_unless_null(lambda value: refused is not None and not refused(value)))
    return checks


def _unless_null(check: Predicate) -> Predicate:
    # Kubernetes does not look at junctors for a null: type and enum alone decide.
    return lambda value: value is None or check(value)
