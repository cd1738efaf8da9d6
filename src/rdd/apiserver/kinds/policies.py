# SPDX-License-Identifier: Apache-2.0
"""Strategies of ValidatingAdmissionPolicy and its binding."""

import re
from collections.abc import Sequence
from typing import Any

from rdd.api import fielderrors, name_validation, selectors
from rdd.api.fielderrors import FieldError
from rdd.api.jsonpath import JsonPath, JsonPathError
from rdd.api.types import Object
from rdd.apiserver.kinds import admissionrules
from rdd.apiserver.kinds.admissionrules import choice_errors
from rdd.apiserver.kinds.builtin_strategy import AGE, NAME, BuiltinStrategy, StatusStrategy
from rdd.apiserver.kinds.expressions import EXPRESSIONS_BYTES, CheckExpression, Scope, accept_any
from rdd.apiserver.kinds.strategy import TableColumn
from rdd.schema.builtin import goprint

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_AUDIT_ANNOTATIONS = 20
_AUDIT_ANNOTATION = "io.k8s.api.admissionregistration.v1.AuditAnnotation"
_MAX_VALUE_EXPRESSION = 5 * 1024
_UNSET = "<unset>"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*").fullmatch
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return", "var"),
        *("void", "while"),
    )
)
_CONDITION_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_condition_reason = re.compile(_CONDITION_REASON).fullmatch


class PolicyStrategy(StatusStrategy):
    work_bytes = EXPRESSIONS_BYTES
    repeated_metadata_checks = ("whole",)
    has_generation = True
    allow_unconditional_update = False
    keeps_metadata_for_status = True
    columns = (
        NAME,
        TableColumn(
            "Validations",
            "integer",
            description="Validations indicates the number of validation rules defined in this "
            "configuration",
        ),
        TableColumn(
            "ParamKind",
            description="ParamKind specifies the kind of resources used to parameterize this "
            "policy",
        ),
        AGE,
    )

    def __init__(self, check_expression: CheckExpression = accept_any) -> None:
        self._check_expression = check_expression

    def normalise(self, obj: Object) -> None:
        set_defaults(obj, "ValidatingAdmissionPolicySpec")

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {}

    def errors(self, obj: Object) -> list[FieldError]:
        return self._errors(obj, None)

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        """Return the errors of an update; unchanged match conditions are not checked."""
        if subresource == "status":
            return _status_errors(obj.get("status") or {})
        return self._errors(obj, old.get("spec") or {})

    def _errors(self, obj: Object, old: Object | None) -> list[FieldError]:
        spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
        return [
            *scope_errors(spec, old, self._check_expression),
            *_expression_errors(spec, name, self._check_expression),
        ]

    def bookmark(self, obj: Object) -> Object:
        return {**obj, "spec": {}, "status": {}}

    def own_cells(self, obj: Object) -> list[Any]:
        spec = obj.get("spec") or {}
        return [len(spec.get("validations") or ()), param_kind_text(spec)]


# -- what validating and mutating policies have in common


def set_defaults(obj: Object, definition: str) -> None:
    """Default the failure policy and the match constraints; `definition` orders the fields."""
    spec = dict(obj.get("spec") or {})
    if spec.get("failurePolicy") is None:
        spec["failurePolicy"] = "Fail"
    if spec.get("matchConstraints") is not None:
        spec["matchConstraints"] = admissionrules.default_match_resources(
            dict(spec["matchConstraints"])
        )
    obj["spec"] = admissionrules.ordered(spec, definition)


def scope_errors(spec: Object, old: Object | None, check: CheckExpression) -> list[FieldError]:
    """Return the errors of failure policy, parameters, match constraints and match conditions.

    Match conditions that an update of `old` does not change are not checked.
    """
    errors = choice_errors(
        spec.get("failurePolicy"), "spec.failurePolicy", admissionrules.FAILURE_POLICIES
    )
    param_kind = spec.get("paramKind")
    if param_kind is not None:
        errors += _param_kind_errors(param_kind, "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.append(fielderrors.required("spec.matchConstraints"))
    else:
        errors += admissionrules.match_resources_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.append(fielderrors.required("spec.matchConstraints.resourceRules"))
    conditions = spec.get("matchConditions") or []
    if old is None or (param_kind, conditions) != (
        old.get("paramKind"),
        old.get("matchConditions") or [],
    ):
        errors += admissionrules.match_condition_errors(
            conditions, "spec.matchConditions", check, has_params=param_kind is not None
        )
    return errors


def param_kind_text(spec: Object) -> str:
    """Return the cell of the kind of parameters."""
    kind = spec.get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else _UNSET


def _param_kind_errors(kind: Object, path: str) -> list[FieldError]:
    """Return the errors of the kind of parameters."""
    errors: list[FieldError] = []
    api_version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    at = f"{path}.apiVersion"
    if not api_version:
        errors.append(fielderrors.required(at))
    elif api_version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {api_version}"
        errors.append(fielderrors.invalid(at, api_version, detail))
    else:
        group, _, version = api_version.rpartition("/")
        why = name_validation.dns1123_subdomain_errors(group) if group else []
        if why:
            errors.append(fielderrors.invalid(at, group, ",".join(why)))
        if not version:
            errors.append(fielderrors.invalid(at, api_version, "version must be specified"))
        elif why := name_validation.dns1035_label_errors(version):
            errors.append(fielderrors.invalid(at, version, ",".join(why)))
    if not name:
        errors.append(fielderrors.required(f"{path}.kind"))
    elif why := name_validation.dns1035_label_errors(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(why)}"
        errors.append(fielderrors.invalid(f"{path}.kind", name, detail))
    return errors


def _expression_errors(spec: Object, policy: str, check: CheckExpression) -> list[FieldError]:
    has_params = spec.get("paramKind") is not None
    declared: list[tuple[str, str]] = []
    errors: list[FieldError] = []
    for i, variable in enumerate(spec.get("variables") or ()):
        errors += variable_errors(variable, f"spec.variables[{i}]", has_params, declared, check)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        errors.append(fielderrors.required("spec.validations", detail))
        errors.append(fielderrors.required("spec.auditAnnotations", detail))
    variables = tuple(declared) if declared else None
    for i, validation in enumerate(validations):
        at = f"spec.validations[{i}]"
        errors += _validation_errors(validation, at, has_params, variables, check)
    return errors + _annotation_errors(annotations, policy, has_params, variables, check)


def variable_errors(
    variable: Object,
    path: str,
    has_params: bool,
    declared: list[tuple[str, str]],
    check: CheckExpression,
    is_mutation: bool = False,
) -> list[FieldError]:
    """Return the errors of a variable, and add it to those that later ones may use."""
    errors: list[FieldError] = []
    name, expression = variable.get("name", ""), variable.get("expression", "")
    if not name.strip():
        errors.append(fielderrors.required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER(name) or name in _RESERVED:
        detail = "must be a valid CEL identifier"
        errors.append(fielderrors.invalid(f"{path}.name", name, detail))
    if not expression.strip():
        detail = "expression is not specified"
        errors.append(fielderrors.required(f"{path}.expression", detail))
    else:
        scope = Scope("any", has_params, variables=tuple(declared), is_mutation=is_mutation)
        errors += check(expression, f"{path}.expression", scope)
    declared.append((name, expression))
    return errors


def _validation_errors(
    validation: Object,
    path: str,
    has_params: bool,
    variables: tuple[tuple[str, str], ...] | None,
    check: CheckExpression,
) -> list[FieldError]:
    errors: list[FieldError] = []
    expression, message = validation.get("expression", ""), validation.get("message", "")
    by_expression = validation.get("messageExpression", "")
    if not expression.strip():
        detail = "expression is not specified"
        errors.append(fielderrors.required(f"{path}.expression", detail))
    else:
        scope = Scope("bool", has_params, variables=variables)
        errors += check(expression, f"{path}.expression", scope)
    at = f"{path}.messageExpression"
    if by_expression and not by_expression.strip():
        errors.append(fielderrors.invalid(at, by_expression, "must be non-empty if specified"))
    elif by_expression:
        scope = Scope("string", has_params, False, variables)
        errors += check(by_expression, at, scope)
    if message and not message.strip():
        detail = "message must be non-empty if specified"
        errors.append(fielderrors.invalid(f"{path}.message", message, detail))
    elif re.search(r"[\r\n]", message.strip()):
        detail = "message must not contain line breaks"
        errors.append(fielderrors.invalid(f"{path}.message", message, detail))
    if validation.get("reason") is not None:
        errors += choice_errors(validation["reason"], f"{path}.reason", _REASONS)
    return errors


def _annotation_errors(
    annotations: Sequence[Object],
    policy: str,
    has_params: bool,
    variables: tuple[tuple[str, str], ...] | None,
    check: CheckExpression,
) -> list[FieldError]:
    errors: list[FieldError] = []
    path = "spec.auditAnnotations"
    if len(annotations) > _MAX_AUDIT_ANNOTATIONS:
        detail = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        shown = goprint.internal_list(_AUDIT_ANNOTATION, annotations)
        errors.append(fielderrors.invalid(path, shown, detail))
    seen: set[str] = set()
    for i, annotation in enumerate(annotations):
        at, key = f"{path}[{i}]", annotation.get("key", "")
        full = f"{policy}/{key}"
        for why in name_validation.qualified_name_errors(full):
            errors.append(fielderrors.invalid(f"{at}.key", full, why))
        expression = annotation.get("valueExpression", "").strip()
        if not expression:
            detail = "valueExpression is not specified"
            errors.append(fielderrors.required(f"{at}.valueExpression", detail))
        elif len(expression.encode()) > _MAX_VALUE_EXPRESSION:
            detail = f"must not exceed {_MAX_VALUE_EXPRESSION} bytes in length"
            errors.append(fielderrors.required(f"{at}.valueExpression", detail))
        else:
            scope = Scope("string or null", has_params, variables=variables)
            errors += check(expression, f"{at}.valueExpression", scope)
        if key in seen:
            errors.append(fielderrors.duplicate(f"{at}.key", key))
        seen.add(key)
    return errors


def _status_errors(status: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    checking = status.get("typeChecking") or {}
    for i, warning in enumerate(checking.get("expressionWarnings") or ()):
        path = f"status.typeChecking.expressionWarnings[{i}]"
        if not warning.get("warning"):
            errors.append(fielderrors.required(f"{path}.warning"))
        errors += _field_ref_errors(warning.get("fieldRef", "").strip(), f"{path}.fieldRef")
    seen: set[str] = set()
    for i, condition in enumerate(status.get("conditions") or ()):
        path, kind = f"status.conditions[{i}]", condition.get("type", "")
        if kind in seen:
            errors.append(fielderrors.duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += condition_errors(condition, path)
    return errors


def _field_ref_errors(text: str, path: str) -> list[FieldError]:
    if not text:
        return [fielderrors.required(path)]
    try:
        JsonPath(text)
    except JsonPathError as error:
        return [fielderrors.invalid(path, text, f"invalid JSONPath: {error}")]
    return []


def condition_errors(condition: Object, path: str) -> list[FieldError]:
    """Return the errors of a metav1.Condition."""
    errors = selectors.validate_label_name(condition.get("type", ""), f"{path}.type")
    errors += choice_errors(
        condition.get("status", ""), f"{path}.status", ("False", "True", "Unknown")
    )
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(fielderrors.invalid(f"{path}.observedGeneration", generation, detail))
    if not condition.get("lastTransitionTime"):
        errors.append(fielderrors.required(f"{path}.lastTransitionTime", "must be set"))
    reason = condition.get("reason", "")
    if not reason:
        errors.append(fielderrors.required(f"{path}.reason", "must be set"))
    elif not _is_condition_reason(reason):
        explanation = (
            "a condition reason must start with alphabetic character, optionally followed by a "
            "string of alphanumeric characters or '_,:', and must end with an alphanumeric "
            "character or '_'"
        )
        samples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
        detail = name_validation.regex_error(explanation, _CONDITION_REASON, *samples)
        errors.append(fielderrors.invalid(f"{path}.reason", reason, detail))
    if len(reason.encode()) > 1024:
        errors.append(fielderrors.too_long(f"{path}.reason", 1024))
    if len(condition.get("message", "").encode()) > 32768:
        errors.append(fielderrors.too_long(f"{path}.message", 32768))
    return errors


class PolicyBindingStrategy(BuiltinStrategy):
    repeated_metadata_checks = ("whole",)
    has_generation = True
    allow_unconditional_update = False
    columns = (
        NAME,
        TableColumn(
            "PolicyName",
            description="PolicyName indicates the policy definition which the policy binding "
            "binded to",
        ),
        TableColumn(
            "ParamRef",
            description="ParamRef indicates the param resource which sets the configuration param",
        ),
        AGE,
    )

    def normalise(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        if spec.get("matchResources") is not None:
            obj["spec"] = {
                **spec,
                "matchResources": admissionrules.default_match_resources(
                    dict(spec["matchResources"])
                ),
            }

    def errors(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        policy = spec.get("policyName", "")
        if not policy:
            errors.append(fielderrors.required("spec.policyName"))
        for why in name_validation.dns1123_subdomain_errors(policy) if policy else ():
            errors.append(fielderrors.invalid("spec.policyName", policy, why))
        if spec.get("paramRef") is not None:
            errors += param_ref_errors(spec["paramRef"], "spec.paramRef")
        errors += admissionrules.match_resources_errors(
            spec.get("matchResources"), "spec.matchResources"
        )
        return errors + self.action_errors(spec)

    def action_errors(self, spec: Object) -> list[FieldError]:
        """Return the errors of what happens when a validation fails."""
        return _action_errors(spec.get("validationActions") or [])

    def bookmark(self, obj: Object) -> Object:
        return {**obj, "spec": {}}

    def own_cells(self, obj: Object) -> list[Any]:
        spec = obj.get("spec") or {}
        return [spec.get("policyName", ""), _param_ref_text(spec.get("paramRef"))]


def _param_ref_text(ref: Object | None) -> str:
    if not ref:
        return _UNSET
    if ref.get("name"):
        return f"{ref['namespace']}/{ref['name']}" if ref.get("namespace") else str(ref["name"])
    selector = ref.get("selector")
    if selector is None:
        return _UNSET
    labels = "".join(f"{k}: {v}," for k, v in sorted((selector.get("matchLabels") or {}).items()))
    conditions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{e.get('key', '')},Operator:{e.get('operator', '')},"
        f"Values:[{' '.join(e.get('values') or ())}],}},"
        for e in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{conditions}}},}}"
    )


def param_ref_errors(ref: Object, path: str) -> list[FieldError]:
    """Return the errors of the reference to parameters."""
    errors: list[FieldError] = []
    name, selector = ref.get("name", ""), ref.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        for why in name_validation.path_segment_name_errors(name):
            errors.append(fielderrors.invalid(f"{path}.name", name, why))
        if selector is not None:
            errors.append(fielderrors.forbidden(f"{path}.name", exclusive))
    if selector is not None:
        errors += selectors.validate_label_selector(selector, f"{path}.selector")
        if name:
            errors.append(fielderrors.forbidden(f"{path}.selector", exclusive))
    if not name and selector is None:
        detail = "one of name or selector must be specified"
        errors.append(fielderrors.required(path, detail))
    action = ref.get("parameterNotFoundAction")
    if not action:
        errors.append(fielderrors.required(f"{path}.parameterNotFoundAction"))
    else:
        errors += choice_errors(action, f"{path}.parameterNotFoundAction", ("Deny", "Allow"))
    return errors


def _action_errors(actions: list[str]) -> list[FieldError]:
    path = "spec.validationActions"
    if not actions:
        return [fielderrors.required(path, "at least one validation action is required")]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, action in enumerate(actions):
        errors += choice_errors(action, f"{path}[{i}]", _ACTIONS)
        if action in seen:
            errors.append(fielderrors.duplicate(f"{path}[{i}]", action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        errors.append(fielderrors.invalid(path, actions, detail))
    return errors
