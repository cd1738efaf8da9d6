# SPDX-License-Identifier: Apache-2.0
"""Evaluation of x-kubernetes-validations, the CEL rules of a schema, on objects.

`compile_rules` mirrors the part of a schema that has rules; `RuleSet.validate` traverses an object
along it. A rule that uses `oldSelf` compares with the previous value: it runs only on updates, and
only where the old value can be correlated by its position (fields, map entries, items of list
maps). A failing rule without `oldSelf` on an unchanged value is only a warning: objects must stay
writable after their schema becomes stricter.

Rules are compiled when the first object is validated, because most definitions of a server receive
no object after a restart. `check_rules` checks definitions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rdd import cel
from rdd.api import fielderrors
from rdd.api.fielderrors import OMIT, FieldError
from rdd.base import gotext
from rdd.cel.values import NONE, Optional
from rdd.schema.rules.checks import check_rules
from rdd.schema.rules.programs import (
    OLD_SELF,
    RULES,
    SELF,
    CompiledRule,
    compile_node_rules,
    has_rules,
    property_type,
)
from rdd.schema.rules.types import Schema, declared_type

__all__ = ["RuleSet", "check_rules", "compile_rules"]

MAX_MESSAGE_BYTES = 5 * 1024

_OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_ROOT = "<nil>"  # how Kubernetes prints the path of the object itself
_UNKNOWN: Any = object()  # the old value if there is none, or if it cannot be correlated


class _Level:
    """One level of a schema with rules at or below it."""

    __slots__ = ("_declared", "_rules", "additional", "is_map_atomic", "items", "keys",
                 "properties", "schema", "type")  # fmt: skip

    def __init__(self, schema: Schema, declared: cel.types.Type) -> None:
        self.schema = schema
        self.type: str = schema.get("type") or ""
        self.is_map_atomic: bool = schema.get("x-kubernetes-map-type") == "atomic"
        self.keys: tuple[str, ...] = (
            tuple(schema.get("x-kubernetes-list-map-keys") or ())
            if schema.get("x-kubernetes-list-type") == "map"
            else ()
        )
        self.properties: dict[str, _Level] = {}
        self.additional: _Level | None = None
        self.items: _Level | None = None
        self._declared = declared
        self._rules: list[CompiledRule] | None = None

    @property
    def rules(self) -> list[CompiledRule]:
        """The rules of this level, compiled on first use."""
        if self._rules is None:
            self._rules = compile_node_rules(self.schema, self._declared)
        return self._rules


def _build(schema: Schema, declared: cel.types.Type) -> _Level | None:
    level = _Level(schema, declared)
    items = schema.get("items")
    if isinstance(items, Mapping) and declared.kind == cel.types.K_LIST:
        level.items = _build(items, declared.params[0])
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping) and declared.kind == cel.types.K_MAP:
        level.additional = _build(additional, declared.params[1])
    for name, sub in (schema.get("properties") or {}).items():
        found = property_type(name, declared)
        below = None if found is None else _build(sub, found)
        if below is not None:
            level.properties[name] = below
    if schema.get(RULES) or level.items or level.additional or level.properties:
        return level
    return None


def compile_rules(schema: Schema) -> "RuleSet | None":
    """Return the rules of a custom resource schema; None if it has none."""
    if not has_rules(schema):
        return None
    declared = declared_type(schema, is_root=True)
    level = None if declared is None else _build(schema, declared)
    return None if level is None else RuleSet(level)


class _Stop(Exception):
    """Stops the evaluation of further rules."""


class RuleSet:
    """The compiled rules of a schema."""

    def __init__(self, root: _Level) -> None:
        self._root = root

    def validate(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        *,
        budget: cel.Budget | None = None,
        warnings: list[str] | None = None,
    ) -> list[FieldError]:
        """Return the errors of an object and, on updates, of its transition from the old one.

        Failures of rules on unchanged values are appended to `warnings` as text.
        """
        run = _Run(budget or cel.Budget(), warnings if warnings is not None else [])
        try:
            run.check(self._root, "", obj, _UNKNOWN if old is None else old, nearest=None)
        except _Stop:
            pass
        return run.errors


class _Run:
    """One validation of one object."""

    def __init__(self, budget: cel.Budget, warnings: list[str]) -> None:
        self._budget = budget
        self._warnings = warnings
        self.errors: list[FieldError] = []

    def check(
        self, level: _Level, path: str, value: Any, old: Any, *, nearest: "_Nearest | None"
    ) -> None:
        """Check a value and everything below it.

        `nearest` is the nearest level with a correlated old value, once the current level has
        none; until then it is None.
        """
        if value is None:
            return
        if level.schema.get(RULES):
            self._check_rules(level, path, value, old, nearest)
        if isinstance(value, list):
            self._check_items(level, path, value, old, nearest)
        elif isinstance(value, dict):
            self._check_members(level, path, value, old, nearest)

    def _check_items(
        self, level: _Level, path: str, items: list[Any], old: Any, nearest: "_Nearest | None"
    ) -> None:
        if level.items is None:
            return
        entries = _entries(old, level.keys)
        fallback = nearest or _nearest(items, old)
        for i, item in enumerate(items):
            before = _UNKNOWN
            if entries is not None and isinstance(item, dict):
                before = entries.get(_identity(item, level.keys), _UNKNOWN)
            inherited = fallback if before is _UNKNOWN else None
            place = fielderrors.index(path, i)
            self.check(level.items, place, item, before, nearest=inherited)

    def _check_members(
        self, level: _Level, path: str, value: dict[str, Any], old: Any, nearest: "_Nearest | None"
    ) -> None:
        fallback = nearest or _nearest(value, old)
        is_comparable = isinstance(old, dict) and not level.is_map_atomic
        for name, member in value.items():
            below = level.properties.get(name)
            if below is not None:
                place = fielderrors.child(path, name)
            elif level.additional is not None:
                below, place = level.additional, fielderrors.key(path, name)
            else:
                continue
            before = old.get(name, _UNKNOWN) if is_comparable else _UNKNOWN
            inherited = fallback if before is _UNKNOWN else None
            self.check(below, place, member, before, nearest=inherited)

    def _check_rules(
        self, level: _Level, path: str, value: Any, old: Any, nearest: "_Nearest | None"
    ) -> None:
        place = path or _ROOT
        if old is None:
            old = _UNKNOWN
        if self._budget.remaining <= 0:
            self._stop(place, level, _OUT_OF_BUDGET)
        for rule in level.rules:
            if rule.error:
                detail = f"rule compile error: {rule.error}"
                self.errors.append(fielderrors.invalid(place, level.type, detail))
            if rule.program is None:
                continue
            is_optional = bool(rule.source.get("optionalOldSelf"))
            if rule.uses_old and old is _UNKNOWN and not is_optional:
                continue
            if self._holds(rule, rule.program, level, place, value, old):
                continue
            failure = self._failure(rule, level, path, value, old)
            if rule.uses_old or not _is_unchanged(value, old, nearest):
                self.errors.append(failure)
            else:
                self._warnings.append(str(failure))

    def _holds(
        self,
        rule: CompiledRule,
        program: cel.Program,
        level: _Level,
        place: str,
        value: Any,
        old: Any,
    ) -> bool:
        """Return whether a rule holds; a failed evaluation adds an error and counts as held."""
        bindings = {SELF: value}
        if rule.uses_old:
            bindings[OLD_SELF] = old
            if rule.source.get("optionalOldSelf"):
                bindings[OLD_SELF] = NONE if old is _UNKNOWN else Optional(old)
        try:
            return bool(program.evaluate(bindings, budget=self._budget))
        except cel.CostExceeded as error:
            detail = _OUT_OF_BUDGET
            if not error.is_total:
                detail = (
                    f"'{error}': no further validation rules will be run due to call cost exceeds "
                    f"limit for rule: {rule.title}"
                )
            self._stop(place, level, detail)
        except cel.EvaluationError as error:
            detail = f"{error} evaluating rule: {rule.title}"
            if isinstance(error, cel.NoSuchOverload):
                detail = (
                    f"'{error}': call arguments did not match a supported operator, function or "
                    f"macro signature for rule: {rule.title}"
                )
            self.errors.append(fielderrors.invalid(place, level.type, detail))
        return True

    def _stop(self, place: str, level: _Level, detail: str) -> None:
        self.errors.append(fielderrors.invalid(place, level.type, detail))
        raise _Stop

    def _failure(
        self, rule: CompiledRule, level: _Level, path: str, value: Any, old: Any
    ) -> FieldError:
        place = (fielderrors.child(path, rule.field_path) if rule.field_path else path) or _ROOT
        detail = self._message(rule, level, place, value, old)
        if not detail:
            given = (rule.source.get("message") or "").strip()
            detail = given or f"failed rule: {rule.title}"
        shown = OMIT if level.type in ("object", "array") else value
        reason = rule.source.get("reason")
        if reason == "FieldValueForbidden":
            return fielderrors.forbidden(place, detail)
        if reason == "FieldValueRequired":
            return fielderrors.required(place, detail)
        if reason == "FieldValueDuplicate":
            return fielderrors.duplicate(place, shown)
        return fielderrors.invalid(place, shown, detail)

    def _message(self, rule: CompiledRule, level: _Level, place: str, value: Any, old: Any) -> str:
        """Return the value of the message expression; empty if it has no usable value."""
        if rule.message is None:
            return ""
        bindings = {SELF: value} if old is _UNKNOWN else {SELF: value, OLD_SELF: old}
        try:
            text = cel.to_text(rule.message.evaluate(bindings, budget=self._budget)) or ""
        except cel.EvaluationError:
            return ""
        except cel.CostExceeded as error:
            detail = (
                "messageExpression evaluation failed due to running out of cost budget, no further "
                "validation rules will be run"
            )
            if not error.is_total:
                source = gotext.quote(rule.source["messageExpression"])
                detail = (
                    "no further validation rules will be run due to call cost exceeds limit for "
                    f"messageExpression: {source}"
                )
            self._stop(place, level, detail)
        text = text.strip()
        return "" if len(text.encode()) > MAX_MESSAGE_BYTES or "\n" in text else text


def _identity(item: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(item.get(key) for key in keys)


def _entries(old: Any, keys: Sequence[str]) -> dict[tuple[Any, ...], Any] | None:
    """Return the items of an old list map by key; None if the items cannot be correlated."""
    if not keys or not isinstance(old, list):
        return None
    try:
        return {_identity(item, keys): item for item in old if isinstance(item, dict)}
    except TypeError:
        return None  # a non-scalar key: the schema was different then


class _Nearest:
    """A level with a correlated old value, compared at most once and only after a failed rule."""

    __slots__ = ("_is_unchanged", "_old", "_value")

    def __init__(self, value: Any, old: Any) -> None:
        self._value = value
        self._old = old
        self._is_unchanged: bool | None = None

    def is_unchanged(self) -> bool:
        """Return whether the value is unchanged."""
        if self._is_unchanged is None:
            self._is_unchanged = bool(self._value == self._old)
        return self._is_unchanged


def _nearest(value: Any, old: Any) -> _Nearest | None:
    return None if old is _UNKNOWN else _Nearest(value, old)


def _is_unchanged(value: Any, old: Any, nearest: _Nearest | None) -> bool:
    if old is not _UNKNOWN:
        return bool(value == old)
    return nearest is not None and nearest.is_unchanged()
