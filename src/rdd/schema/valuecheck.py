# SPDX-License-Identifier: Apache-2.0
"""Errors of value validation, with Kubernetes' messages.

This is the exact but slow half of validation (`validate.py` has the fast
half, which only accepts or rejects): it walks schema and value once more and
builds the messages. It follows the validator Kubernetes uses in what counts
as an error, in the order of the checks, and in which alternative of an anyOf
or oneOf is reported: the one that passed most checks, so passed checks are
counted.

On update, an error is tolerated where the value did not change (ratcheting):
a stored object must stay editable after its schema was tightened.
"""

import math
from collections.abc import Mapping
from typing import Any

from rdd.api.fielderrors import FieldError
from rdd.base import gotext, govalue
from rdd.schema.formats import is_effective, string_check
from rdd.schema.regexps import PatternError, compile_pattern

Schema = Mapping[str, Any]

NO_OLD: Any = object()
"""There is no earlier value to compare with."""

_INT64_MAX = 2**63 - 1
_JSON_MAX = 2**53 - 1
_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}


class Result:
    """Errors found, and the number of checks passed."""

    __slots__ = ("_known", "errors", "passed")

    def __init__(self, errors: list[FieldError] | None = None, passed: int = 0) -> None:
        self.errors: list[FieldError] = errors or []
        self.passed = passed
        self._known: set[tuple[object, ...]] | None = None
        """Keys of `errors`, once there are several."""

    def merge(self, other: "Result") -> None:
        """Add another result to this one, which takes its errors over.

        An error already known is not repeated. Comparing each with all others would be
        quadratic, and copying them at every level of a deep value, too.
        """
        self.passed += other.passed
        if not other.errors:
            return
        if not self.errors:
            self.errors, self._known = other.errors, other._known
            return
        if self._known is None:
            self._known = {_key(error) for error in self.errors}
        for error in other.errors:
            key = _key(error)
            if key not in self._known:
                self._known.add(key)
                self.errors.append(error)


def _key(error: FieldError) -> tuple[object, ...]:
    """Return what distinguishes an error; objects and lists, which may be large, by identity."""
    value = error.value
    shown = id(value) if isinstance(value, dict | list) else f"{type(value).__name__} {value!r}"
    return error.kind, error.field, error.detail, shown


def value_errors(
    schema: Schema, value: Any, *, old: Any = NO_OLD, base: str = ""
) -> list[FieldError]:
    """Return the errors of a value. With `old` errors of unchanged parts are left out.

    `base` is the field of the value itself, where it is not a whole resource
    (a default inside a schema); messages name the fields below it only.
    """
    result = _ratcheted(schema, value, _Place("", base), old)
    return result.errors


class _Place:
    """Where a value is: the name used in messages, and the field of the error."""

    __slots__ = ("base", "name")

    def __init__(self, name: str, base: str) -> None:
        self.name = name
        self.base = base

    def member(self, name: str) -> "_Place":
        return _Place(f"{self.name}.{name}" if self.name else name, self.base)

    def entry(self, name: str) -> "_Place":
        return _Place(f"{self.name}.{name}", self.base)

    def item(self, position: int) -> "_Place":
        return _Place(f"{self.name}[{position}]", self.base)

    @property
    def field(self) -> str:
        name = self.name.removeprefix(".")
        if not name:
            return self.base or "<nil>"
        return f"{self.base}.{name}" if self.base else name

    def invalid(self, value: Any, words: str) -> FieldError:
        return FieldError("Invalid", self.field, value, f"{self.name} in body {words}")

    def type_invalid(self, expected: str, found: str) -> FieldError:
        words = f"{self.name} in body must be of type {expected}: {gotext.quote(found)}"
        return FieldError("TypeInvalid", self.field, found, words)

    def plain(self, words: str) -> FieldError:
        """Return an error that names no field of its own (it is plain text in Kubernetes)."""
        return FieldError("Invalid", self.base or "<nil>", "", words)


def _ratcheted(schema: Schema, value: Any, place: _Place, old: Any) -> Result:
    result = _check(schema, value, place, old)
    if result.errors and old is not NO_OLD and same(value, old):
        result.errors = []
    return result


def types_of(schema: Schema) -> tuple[str, ...]:
    """Return the JSON types a schema allows; empty for any."""
    name = schema.get("type") or ""
    if name:
        return (name,)
    return ("integer", "string") if schema.get("x-kubernetes-int-or-string") else ()


def same(a: Any, b: Any) -> bool:
    """Return equality of JSON values that does not take True for 1 or 1.0 for 1."""
    cls = type(a)
    if cls is not type(b):
        return False
    if cls is dict:
        return len(a) == len(b) and all(k in b and same(v, b[k]) for k, v in a.items())
    if cls is list:
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def _check(schema: Schema, value: Any, place: _Place, old: Any) -> Result:
    types = types_of(schema)
    name = schema.get("format") or ""
    effective = name if name and is_effective(name) else ""
    if value is None:
        result = Result(passed=1)
        if types and not schema.get("nullable"):
            result = Result([place.type_invalid(",".join(types), "null")])
        if schema.get("enum"):
            result.merge(_enum(schema["enum"], value, place))
        return result
    if type(value) is int and not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        value = float(value)  # what Go decodes such a number to

    result = Result()
    if types or effective:
        result.merge(_type(types, effective, value, place))
        result.passed += 1
    result.merge(_junctors(schema, value, place, old))
    result.passed += 1
    cls = type(value)
    if cls is str:
        result.merge(_string(schema, value, place))
        result.passed += 1
        check = string_check(effective) if effective else None
        if check is not None:
            if not check(value):
                words = f"{place.name} in body must be of type {name}: {gotext.quote(value)}"
                result.merge(Result([FieldError("TypeInvalid", place.field, value, words)]))
            result.passed += 1
    elif cls is int or cls is float:
        result.merge(_number(schema, types, effective, value, place))
        result.passed += 1
    elif cls is list:
        result.merge(_array(schema, value, place, old))
        result.passed += 1
    if schema.get("enum"):
        result.merge(_enum(schema["enum"], value, place))
    result.passed += 1
    if cls is dict:
        result.merge(_object(schema, value, place, old))
        result.passed += 1
    result.passed += 1
    return result


_JSON_TYPES = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
}


def _type(types: tuple[str, ...], name: str, value: Any, place: _Place) -> Result:
    cls = type(value)
    found, found_format = _JSON_TYPES[cls]
    fits = (
        found in types
        or (found == "integer" and "number" in types)
        or (found == "number" and "integer" in types and _is_integral(value))
    )
    if name and cls is not str and cls is not list and not fits and found_format != name:
        return Result([place.type_invalid(name, found_format)])
    if name and (cls is str or cls is list) and "number" not in types and "integer" not in types:
        return Result(passed=1)
    if not fits:
        return Result([place.type_invalid(",".join(types), found)])
    return Result(passed=1)


def _is_integral(value: float) -> bool:
    """Return whether a float stands for an integer (JSON writers differ in the last digits)."""
    if not math.isfinite(value) or abs(value) > _JSON_MAX:
        return False
    whole = float(int(value))
    if value == whole:
        return True
    if value == 0 or whole == 0:
        return False
    return abs(value - whole) / (abs(value) + abs(whole)) < 1e-9


def _junctors(schema: Schema, value: Any, place: _Place, old: Any) -> Result:
    result = Result(passed=1)
    quoted = None
    if any_of := schema.get("anyOf"):
        best = None
        for alternative in any_of:
            found = _check(alternative, value, place, old)
            if not found.errors:
                best = found
                break
            if best is None or found.passed > best.passed:
                best = found
        if best is not None:
            if best.errors:
                quoted = gotext.quote(place.name)
                words = f"{quoted} must validate at least one schema (anyOf)"
                result.merge(Result([place.plain(words)]))
            result.merge(best)
    if one_of := schema.get("oneOf"):
        result.merge(_one_of(one_of, value, place, old))
    if all_of := schema.get("allOf"):
        valid = 0
        for part in all_of:
            found = _check(part, value, place, old)
            valid += not found.errors
            result.merge(found)
        if valid != len(all_of):
            quoted = gotext.quote(place.name)
            none = "" if valid else ". None validated"
            words = f"{quoted} must validate all the schemas (allOf){none}"
            result.merge(Result([place.plain(words)]))
    negated = schema.get("not")
    if negated is not None and not _check(negated, value, place, old).errors:
        words = f"{gotext.quote(place.name)} must not validate the schema (not)"
        result.merge(Result([place.plain(words)]))
    return result


def _one_of(alternatives: list[Schema], value: Any, place: _Place, old: Any) -> Result:
    best = first = None
    valid = 0
    for alternative in alternatives:
        found = _check(alternative, value, place, old)
        if not found.errors:
            valid += 1
            first = first or found
        elif not valid and (best is None or found.passed > best.passed):
            best = found
    if valid == 1 and first is not None:
        return first
    how = f"Found {valid} valid alternatives" if valid else "Found none valid"
    words = f"{gotext.quote(place.name)} must validate one and only one schema (oneOf). {how}"
    result = Result([place.plain(words)])
    if best is not None and not valid:
        result.merge(best)
    return result


def _string(schema: Schema, value: str, place: _Place) -> Result:
    limit = schema.get("maxLength")
    if limit is not None and len(value) > limit:
        unit = "byte" if limit == 1 else "bytes"
        detail = f"may not be more than {limit} {unit}"
        return Result([FieldError("TooLong", place.field, detail=detail)])
    limit = schema.get("minLength")
    if limit is not None and len(value) < limit:
        return Result([place.invalid(value, f"should be at least {limit} chars long")])
    pattern = schema.get("pattern")
    if pattern:
        try:
            if compile_pattern(pattern).search(value) is None:
                return Result([place.invalid(value, f"should match '{pattern}'")])
        except PatternError as error:
            words = f"should match '{pattern}, but pattern is invalid: {error}'"
            return Result([place.invalid(value, words)])
    return Result()


def _number(
    schema: Schema, types: tuple[str, ...], name: str, value: float, place: _Place
) -> Result:
    kind = types[0] if len(types) == 1 else ""
    result = Result(passed=1)

    def in_range(number: float, prefix: str) -> bool:
        if _fits_format(number, kind, name):
            return True
        suffix = f"with format {name}" if name else "(default format)"
        words = f"{prefix} value must be of type {kind} {suffix} in {place.name}"
        result.merge(Result([place.plain(words)]))
        return False

    in_range(value, "Checked")
    factor = schema.get("multipleOf")
    if factor is not None:
        native = in_range(factor, "MultipleOf")
        error = _not_multiple(value, factor, place, native=native)
        if error is not None:
            result.merge(Result([error]))
    for key, prefix, sign, words in (
        ("minimum", "Minimum boundary", 1, "greater"),
        ("maximum", "Maximum boundary", -1, "less"),
    ):
        bound = schema.get(key)
        if bound is None:
            continue
        is_native = in_range(bound, prefix) and type(value) is int
        bound = int(bound) if is_native else float(bound)
        exclusive = bool(schema.get(f"exclusive{key.capitalize()}"))
        distance = (value - bound) * sign
        if distance < 0 or (exclusive and distance == 0):
            than = "than" if exclusive else "than or equal to"
            text = f"should be {words} {than} {govalue.plain(bound)}"
            result.merge(Result([place.invalid(value, text)]))
    return result


def _fits_format(number: float, kind: str, name: str) -> bool:
    if kind == "integer":
        if isinstance(number, float) and not number.is_integer():
            return False
        low, high = _RANGES.get(name, (-_INT64_MAX - 1, _INT64_MAX))
        return low <= number <= high
    if name in ("float", "float32"):
        return abs(number) <= 3.4028235677973366e38
    return True


def _not_multiple(value: float, factor: float, place: _Place, *, native: bool) -> FieldError | None:
    # Kubernetes rejects every integer if less than 1 is left.
    factor = int(factor) if native and type(value) is int else float(factor)
    if factor < 0 or (factor == 0 and type(value) is int and native):
        words = f"factor MultipleOf declared for {place.name} must be positive: "
        return FieldError("Invalid", place.field, factor, words + govalue.plain(factor))
    if factor == 0:
        fits = False
    elif native and type(value) is int:
        fits = math.fmod(value, factor) == 0 if abs(value) <= _JSON_MAX else value % factor == 0
    else:
        fits = _is_integral(1 / factor * value if factor < 1 else value / factor)
    if fits:
        return None
    return place.invalid(value, f"should be a multiple of {govalue.plain(factor)}")


def _array(schema: Schema, value: list[Any], place: _Place, old: Any) -> Result:
    result = Result(passed=1)
    items = schema.get("items")
    if isinstance(items, Mapping):
        earlier = _Earlier(schema, old)
        for position, item in enumerate(value):
            before = earlier.of(position, item)
            result.merge(_ratcheted(items, item, place.item(position), before))
    size = len(value)
    limit = schema.get("minItems")
    if limit is not None and size < limit:
        result.merge(Result([place.invalid(size, f"should have at least {limit} items")]))
    limit = schema.get("maxItems")
    if limit is not None and size > limit:
        result.merge(Result([_too_many(place, size, limit)]))
    if schema.get("uniqueItems") and _has_repeats(value):
        result.merge(Result([place.invalid("", "shouldn't contain duplicates")]))
    return result


def _too_many(place: _Place, actual: int, limit: int) -> FieldError:
    unit = "item" if limit == 1 else "items"
    return FieldError("TooMany", place.field, actual, f"must have at most {limit} {unit}")


def _has_repeats(value: list[Any]) -> bool:
    return any(same(a, b) for i, a in enumerate(value) for b in value[:i])


class _Earlier:
    """Finds the earlier version of a list item, the way the list type correlates items."""

    def __init__(self, schema: Schema, old: Any) -> None:
        self.old = old if type(old) is list else None
        self.kind = schema.get("x-kubernetes-list-type")
        self.keys: dict[str, Any] = {}
        self.names = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        if self.old is not None and self.kind == "map":
            for item in self.old:
                if type(item) is dict:
                    self.keys.setdefault(self._key(item), item)

    def of(self, position: int, item: Any) -> Any:
        if self.old is None or self.kind in ("set", "atomic"):
            return NO_OLD
        if self.kind == "map":
            return self.keys.get(self._key(item), NO_OLD) if type(item) is dict else NO_OLD
        return self.old[position] if position < len(self.old) else NO_OLD

    def _key(self, item: dict[str, Any]) -> str:
        return govalue.json_text([item.get(name) for name in self.names])


def _enum(allowed: list[Any], value: Any, place: _Place) -> Result:
    if any(_is_enum_value(option, value) for option in allowed):
        return Result()
    names = ", ".join(
        gotext.quote(option if isinstance(option, str) else govalue.json_text(option))
        for option in allowed
    )
    return Result([FieldError("NotSupported", place.field, value, f"supported values: {names}")])


def _is_enum_value(option: Any, value: Any) -> bool:
    if option is None:
        return False
    if type(option) is int and type(value) is float and math.isfinite(value):
        return int(value) == option
    if type(option) is float and type(value) is int:
        return float(value) == option
    return same(option, value)


def _object(schema: Schema, value: dict[str, Any], place: _Place, old: Any) -> Result:
    result = Result()
    count = len(value)
    limit = schema.get("minProperties")
    if limit is not None and count < limit:
        result.merge(Result([place.invalid(count, f"should have at least {limit} properties")]))
    limit = schema.get("maxProperties")
    if limit is not None and count > limit:
        result.merge(Result([_too_many(place, count, limit)]))
    earlier = old if type(old) is dict else {}
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if additional is False:
        for key in value:
            if key not in properties:
                words = f"{place.name}.{key} in body is a forbidden property"
                result.merge(Result([FieldError("Invalid", place.field, key, words)]))
    elif isinstance(additional, Mapping):
        for key, item in value.items():
            if key not in properties:
                before = earlier.get(key, NO_OLD)
                result.merge(_ratcheted(additional, item, place.entry(key), before))
    for key, sub in properties.items():
        if key in value:
            before = earlier.get(key, NO_OLD)
            result.merge(_ratcheted(sub, value[key], place.member(key), before))
    for key in schema.get("required") or ():
        if key not in value:
            result.merge(Result([FieldError("Required", place.entry(key).field)]))
    return result
