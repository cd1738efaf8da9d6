# SPDX-License-Identifier: Apache-2.0
"""Checks of the CEL rules of a definition, with the messages of Kubernetes.

Per rule: it is not empty, compiles to the right type, has a usable message, reason and fieldPath,
may use `oldSelf` at its position, and does not exceed the worst-case cost. The cost of a rule is
multiplied by the maximum number of its values in an object. All rules together have a limit, too,
and the error names the most expensive ones. A level with errors at or below it, formal ones or
those of its schema, is not compiled, and no level of a schema that is not structural.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rdd import cel
from rdd.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from rdd.base import govalue
from rdd.schema import fieldpath
from rdd.schema.rules.programs import (
    RULES,
    CompiledRule,
    compile_node_rules,
    has_rules,
    property_type,
)
from rdd.schema.rules.types import MAX_REQUEST_BYTES, Schema, declared_type

COST_LIMIT = 10_000_000
"""The maximum worst-case cost of one rule."""
TOTAL_COST_LIMIT = 100_000_000
"""The maximum worst-case cost of all rules of a schema."""

_MAX_COST = (1 << 64) - 1
_NAMED_RULES = 4  # reported rules of a total that is too high
_REASONS = (
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
)  # fmt: skip


def check_rules(
    schema: Schema, path: str, faulty: frozenset[int] | None = frozenset()
) -> list[FieldError]:
    """Return the errors of the rules of a schema; `path` is its field.

    `faulty` are the identities of levels with errors at or below them. None: the schema is not
    structural, so that only the formal errors of its rules are reported.
    """
    if not has_rules(schema):
        return []
    check = _Check(faulty)
    root = declared_type(schema, is_root=True) if faulty is not None else None
    formal, rules = check.level(schema, path, _Place(root, 1, ""), is_root=True)
    return [*formal, *rules, *check.total_errors(path)]


@dataclass(frozen=True, slots=True)
class _Place:
    """The constraints that the position of a level implies."""

    declared: cel.types.Type | None
    occurrences: int | None  # the maximum number of occurrences in an object; None is unbounded
    uncorrelatable: str  # the field within which old values cannot be correlated, if any


@dataclass(slots=True)
class _Check:
    """The accumulated costs of one check."""

    faulty: frozenset[int] | None
    total: int = 0
    dearest: list[tuple[int, str]] = field(default_factory=list)

    def level(
        self, schema: Any, path: str, place: _Place, *, is_root: bool = False
    ) -> tuple[list[FieldError], list[FieldError]]:
        """Return the formal errors and compile errors at a level and below."""
        formal: list[FieldError] = []
        found: list[FieldError] = []
        if not isinstance(schema, Mapping):
            return formal, found
        for below, below_path, below_place in _children(schema, path, place):
            errors, rule_errors = self.level(below, below_path, below_place)
            formal += errors
            found += rule_errors
        rules = schema.get(RULES) or ()
        for i, rule in enumerate(rules):
            formal += _formal_errors(rule, schema, f"{path}.{RULES}[{i}]")
        if rules and not formal and self.faulty is not None and id(schema) not in self.faulty:
            declared = place.declared or declared_type(
                schema, is_root=is_root or bool(schema.get("x-kubernetes-embedded-resource"))
            )
            if declared is None:
                detail = (
                    "internal error: failed to construct type information for "
                    f"{RULES} rules: unable to convert structural schema to CEL declarations"
                )
                found.append(FieldError("Internal", f"{path}.{RULES}", detail=detail))
            else:
                found += self._compiled_errors(schema, path, place, declared)
        return formal, found

    def _compiled_errors(
        self, schema: Schema, path: str, place: _Place, declared: cel.types.Type
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        occurrences = place.occurrences
        if occurrences is None:
            occurrences = MAX_REQUEST_BYTES // (declared.min_size + 1)
        for i, rule in enumerate(compile_node_rules(schema, declared)):
            at = f"{path}.{RULES}[{i}]"
            errors += self._rule_errors(rule, at, occurrences)
            errors += _message_errors(self, rule, at)
            errors += _old_errors(rule, at, place.uncorrelatable)
        return errors

    def _rule_errors(self, rule: CompiledRule, at: str, occurrences: int) -> list[FieldError]:
        errors = []
        cost = 0 if rule.program is None else min(rule.program.cost.max * occurrences, _MAX_COST)
        if cost > COST_LIMIT:
            errors.append(forbidden(f"{at}.rule", _too_dear("estimated rule cost", cost)))
        self.observe(f"{at}.rule", cost)
        if rule.error:
            errors.append(invalid(f"{at}.rule", _shown(rule.source), rule.error))
        return errors

    def observe(self, at: str, cost: int) -> None:
        """Add the cost of an expression."""
        self.total = min(self.total + cost, _MAX_COST)
        if cost >= TOTAL_COST_LIMIT // 100:
            self.dearest.append((cost, at))
            self.dearest.sort(key=lambda entry: -entry[0])
            del self.dearest[_NAMED_RULES:]

    def total_errors(self, path: str) -> list[FieldError]:
        """Return the errors of the total cost."""
        if self.total <= TOTAL_COST_LIMIT:
            return []
        detail = (
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 "
            "schema"
        )
        what = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        summary = _too_dear(what, self.total, TOTAL_COST_LIMIT)
        return [*(forbidden(at, detail) for _, at in self.dearest), forbidden(path, summary)]


def _children(schema: Schema, path: str, place: _Place) -> list[tuple[Any, str, _Place]]:
    """Yield the levels below, each with its field and place."""
    found: list[tuple[Any, str, _Place]] = []
    declared = place.declared
    occurrences = _times(place.occurrences, _max_elements(schema))
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        of_value = declared.params[1] if declared and declared.kind == cel.types.K_MAP else None
        inner = _Place(of_value, occurrences, place.uncorrelatable)
        found.append((additional, f"{path}.additionalProperties", inner))
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    uncorrelatable = place.uncorrelatable or (path if atomic else "")
    for name, sub in (schema.get("properties") or {}).items():
        below = property_type(name, declared) if declared else None
        inner = _Place(below, occurrences, uncorrelatable)
        found.append((sub, f"{path}.properties[{name}]", inner))
    items = schema.get("items")
    if isinstance(items, Mapping):
        of_item = declared.params[0] if declared and declared.kind == cel.types.K_LIST else None
        is_map = schema.get("x-kubernetes-list-type") == "map"
        uncorrelatable = place.uncorrelatable or ("" if is_map else path)
        found.append((items, f"{path}.items", _Place(of_item, occurrences, uncorrelatable)))
    return found


def _max_elements(schema: Schema) -> int | None:
    """Return the maximum number of child values; None is unbounded."""
    kind = schema.get("type")
    if kind == "array":
        limit = schema.get("maxItems")
    elif kind == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
    else:
        return 1
    return None if limit is None else max(0, limit)


def _times(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else min(left * right, _MAX_COST)


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _formal_errors(rule: Mapping[str, Any], schema: Schema, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    message, expression = rule.get("message") or "", rule.get("messageExpression") or ""
    text = (rule.get("rule") or "").strip()
    if not text:
        errors.append(required(f"{at}.rule", "rule is not specified"))
    elif message and not message.strip():
        errors.append(invalid(f"{at}.message", message, "must be non-empty if specified"))
    elif _has_line_breaks(message.strip()):
        errors.append(invalid(f"{at}.message", message, "must not contain line breaks"))
    elif _has_line_breaks(text) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        errors.append(required(f"{at}.message", detail))
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        errors.append(required(f"{at}.messageExpression", detail))
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{at}.reason", reason, _REASONS))
    place = rule.get("fieldPath") or ""
    if place and not place.strip():
        errors.append(invalid(f"{at}.fieldPath", place, "must be non-empty if specified"))
    if _has_line_breaks(place):
        errors.append(invalid(f"{at}.fieldPath", place, "must not contain line breaks"))
    if place:
        try:
            fieldpath.resolve(place, schema)
        except fieldpath.FieldPathError:
            errors.append(invalid(f"{at}.fieldPath", place, "must be a valid path"))
    return errors


def _message_errors(check: _Check, rule: CompiledRule, at: str) -> list[FieldError]:
    at = f"{at}.messageExpression"
    if rule.message_error:
        return [invalid(at, _shown(rule.source), rule.message_error)]
    if rule.message is None:
        return []
    cost = rule.message.cost.max
    check.observe(at, cost)
    if cost > COST_LIMIT:
        return [forbidden(at, _too_dear("estimated messageExpression cost", cost))]
    return []


def _old_errors(rule: CompiledRule, at: str, uncorrelatable: str) -> list[FieldError]:
    if rule.uses_old:
        if not uncorrelatable:
            return []
        detail = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"{uncorrelatable}"
        )
        return [invalid(f"{at}.rule", rule.source["rule"], detail)]
    choice = rule.source.get("optionalOldSelf")
    if choice is None:
        return []
    detail = "may not be set if oldSelf is not used in rule"
    return [invalid(f"{at}.optionalOldSelf", choice, detail)]


def _too_dear(what: str, cost: int, limit: int = COST_LIMIT) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _shown(rule: Mapping[str, Any]) -> govalue.Verbatim:
    """Return a rule as Kubernetes prints it: the Go struct as JSON."""
    members = {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    return govalue.Verbatim(govalue.json_text(members, sort_keys=False))
