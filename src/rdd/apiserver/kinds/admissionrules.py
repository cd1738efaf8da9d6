# SPDX-License-Identifier: Apache-2.0
"""Rules and match conditions, which webhook configurations and admission policies share."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from rdd.api import fielderrors, name_validation, selectors
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds.expressions import CheckExpression, Scope
from rdd.schema.builtin import notation

FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
SCOPES = ("*", "Cluster", "Namespaced")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MAX_MATCH_CONDITIONS = 64


@cache
def _members(struct: str) -> tuple[str, ...]:
    return tuple(f.name for f in notation.struct(notation.short_name(_FILE, struct)).fields)


_FILE = "admissionregistration"


def ordered(obj: Object, struct: str) -> Object:
    """Return the members of an object in the order of its struct."""
    return {name: obj[name] for name in _members(struct) if name in obj}


def default_rules(rules: Sequence[Object] | None) -> None:
    """Default the scope of rules to all scopes."""
    for rule in rules or ():
        if rule.get("scope") is None:
            rule["scope"] = "*"


def default_match_resources(found: Object) -> Object:
    """Default the policy and the selectors; empty selectors match everything."""
    if found.get("matchPolicy") is None:
        found["matchPolicy"] = "Equivalent"
    for selector in ("namespaceSelector", "objectSelector"):
        if found.get(selector) is None:
            found[selector] = {}
    default_rules(found.get("resourceRules"))
    default_rules(found.get("excludeResourceRules"))
    return ordered(found, "MatchResources")


def choice_errors(value: Any, path: str, supported: Iterable[str]) -> list[FieldError]:
    """Return the error of a value outside a closed set."""
    supported = tuple(supported)
    return [] if value in supported else [fielderrors.not_supported(path, value, supported)]


def rule_errors(rule: Object, path: str) -> list[FieldError]:
    """Return the errors of a rule with operations."""
    errors: list[FieldError] = []
    operations = rule.get("operations") or []
    errors += _wildcard_errors(operations, f"{path}.operations", "operations")
    for i, operation in enumerate(operations):
        errors += choice_errors(operation, f"{path}.operations[{i}]", OPERATIONS)
    errors += _wildcard_errors(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    errors += _wildcard_errors(versions, f"{path}.apiVersions", "API versions")
    for i, version in enumerate(versions):
        if not version:
            errors.append(fielderrors.required(f"{path}.apiVersions[{i}]"))
    errors += _resource_errors(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") is not None:
        errors += choice_errors(rule["scope"], f"{path}.scope", SCOPES)
    return errors


def _wildcard_errors(values: list[str], path: str, what: str) -> list[FieldError]:
    if not values:
        return [fielderrors.required(path)]
    if len(values) > 1 and "*" in values:
        detail = f"if '*' is present, must not specify other {what}"
        return [fielderrors.invalid(path, values, detail)]
    return []


def _resource_errors(resources: list[str], path: str) -> list[FieldError]:
    if not resources:
        return [fielderrors.required(path)]
    errors: list[FieldError] = []
    whole: set[str] = set()  # x of x/*
    every: set[str] = set()  # x of */x
    has_plain = False
    for i, item in enumerate(resources):
        at = f"{path}[{i}]"
        if not item:
            errors.append(fielderrors.required(at))
            continue
        resource, slash, subresource = item.partition("/")
        if not slash:
            has_plain = item != "*"
            continue
        if resource in whole:
            detail = f"if '{resource}/*' is present, must not specify {item}"
            errors.append(fielderrors.invalid(at, item, detail))
        if subresource in every:
            detail = f"if '*/{subresource}' is present, must not specify {item}"
            errors.append(fielderrors.invalid(at, item, detail))
        if subresource == "*":
            whole.add(resource)
        if resource == "*":
            every.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        errors.append(fielderrors.invalid(path, resources, detail))
    if "*" in resources and has_plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(fielderrors.invalid(path, resources, detail))
    return errors


def named_rule_errors(rule: Object, path: str) -> list[FieldError]:
    """Return the errors of a rule that may name objects."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, name in enumerate(rule.get("resourceNames") or ()):
        at = f"{path}.resourceNames[{i}]"
        for why in name_validation.path_segment_name_errors(name):
            errors.append(fielderrors.invalid(at, name, why))
        if name in seen:
            errors.append(fielderrors.duplicate(at, name))
        seen.add(name)
    return errors + rule_errors(rule, path)


def match_resources_errors(found: Object | None, path: str) -> list[FieldError]:
    """Return the errors of the constraints that select the requests of a policy."""
    if found is None:
        return []
    errors = choice_errors(found.get("matchPolicy"), f"{path}.matchPolicy", MATCH_POLICIES)
    for selector in ("namespaceSelector", "objectSelector"):
        errors += selectors.validate_label_selector(found.get(selector), f"{path}.{selector}")
    for member in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(found.get(member) or ()):
            errors += named_rule_errors(rule, f"{path}.{member}[{i}]")
    return errors


def match_condition_errors(
    conditions: Sequence[Object], path: str, check: CheckExpression, *, has_params: bool = False
) -> list[FieldError]:
    """Return the errors of match conditions: unique names and CEL of type bool."""
    errors: list[FieldError] = []
    if len(conditions) > MAX_MATCH_CONDITIONS:
        errors.append(fielderrors.too_many(path, len(conditions), MAX_MATCH_CONDITIONS))
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        at, name = f"{path}[{i}]", condition.get("name", "")
        expression = condition.get("expression", "").strip()
        if not expression:
            errors.append(fielderrors.required(f"{at}.expression"))
        else:
            errors += check(expression, f"{at}.expression", Scope(has_params=has_params))
        if not name:
            errors.append(fielderrors.required(f"{at}.name"))
        for why in name_validation.qualified_name_errors(name) if name else ():
            errors.append(fielderrors.invalid(f"{at}.name", name, why))
        if name and name in seen:
            errors.append(fielderrors.duplicate(f"{at}.name", name))
        seen.add(name)
    return errors
