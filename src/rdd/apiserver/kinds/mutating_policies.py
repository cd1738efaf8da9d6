# SPDX-License-Identifier: Apache-2.0
"""Strategies of MutatingAdmissionPolicy and its binding."""

from typing import Any

from rdd.api import fielderrors
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds import policies
from rdd.apiserver.kinds.admissionrules import choice_errors
from rdd.apiserver.kinds.builtin_strategy import AGE, NAME, BuiltinStrategy
from rdd.apiserver.kinds.expressions import EXPRESSIONS_BYTES, CheckExpression, Scope, accept_any
from rdd.apiserver.kinds.strategy import TableColumn

_REINVOCATION = ("IfNeeded", "Never")
_FORMS = {
    "ApplyConfiguration": ("applyConfiguration", "object"),
    "JSONPatch": ("jsonPatch", "patches"),
}
"""Patch types with their member and the type of its expression."""


class MutatingPolicyStrategy(BuiltinStrategy):
    work_bytes = EXPRESSIONS_BYTES
    repeated_metadata_checks = ("whole",)
    has_generation = True
    allow_unconditional_update = False
    columns = (
        NAME,
        TableColumn(
            "Mutations",
            "integer",
            description="Mutations indicates the number of mutations rules defined in this "
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
        policies.set_defaults(obj, "MutatingAdmissionPolicySpec")

    def errors(self, obj: Object) -> list[FieldError]:
        return self._errors(obj, None)

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        """Return the errors of an update; unchanged match conditions are not checked."""
        return self._errors(obj, old.get("spec") or {})

    def _errors(self, obj: Object, old: Object | None) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = policies.scope_errors(spec, old, self._check_expression)
        policy = spec.get("reinvocationPolicy")
        if not policy:
            errors.append(fielderrors.required("spec.reinvocationPolicy"))
        else:
            errors += choice_errors(policy, "spec.reinvocationPolicy", _REINVOCATION)
        return errors + self._mutation_errors(spec)

    def _mutation_errors(self, spec: Object) -> list[FieldError]:
        has_params = spec.get("paramKind") is not None
        declared: list[tuple[str, str]] = []
        errors: list[FieldError] = []
        for i, variable in enumerate(spec.get("variables") or ()):
            errors += policies.variable_errors(
                variable,
                f"spec.variables[{i}]",
                has_params,
                declared,
                self._check_expression,
                is_mutation=True,
            )
        mutations = spec.get("mutations") or []
        if not mutations:
            detail = "mutations must contain at least one item"
            errors.append(fielderrors.required("spec.mutations", detail))
        for i, mutation in enumerate(mutations):
            path, kind = f"spec.mutations[{i}]", mutation.get("patchType")
            if not kind:
                errors.append(fielderrors.required(f"{path}.patchType"))
                continue
            if kind not in _FORMS:
                errors += choice_errors(kind, f"{path}.patchType", tuple(_FORMS))
                continue
            for other, (member, returns) in _FORMS.items():
                at = f"{path}.{member}"
                if other != kind:
                    if mutation.get(member) is not None:
                        detail = f"must not be specified when patchType is {kind}"
                        errors.append(fielderrors.forbidden(at, detail))
                    continue
                expression = (mutation.get(member) or {}).get("expression", "")
                if mutation.get(member) is None:
                    detail = f"must be specified when patchType is {kind}"
                    errors.append(fielderrors.required(at, detail))
                elif not expression.strip():
                    detail = "expression is not specified"
                    errors.append(fielderrors.required(f"{at}.expression", detail))
                else:
                    variables = tuple(declared) if declared else None
                    scope = Scope(returns, has_params, variables=variables, is_mutation=True)
                    errors += self._check_expression(expression, f"{at}.expression", scope)
        return errors

    def bookmark(self, obj: Object) -> Object:
        return {**obj, "spec": {}}

    def own_cells(self, obj: Object) -> list[Any]:
        spec = obj.get("spec") or {}
        return [len(spec.get("mutations") or ()), policies.param_kind_text(spec)]


class MutatingPolicyBindingStrategy(policies.PolicyBindingStrategy):
    def action_errors(self, spec: Object) -> list[FieldError]:
        """Return nothing: a mutation has no action to select."""
        return []
