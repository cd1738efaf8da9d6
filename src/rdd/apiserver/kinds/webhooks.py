# SPDX-License-Identifier: Apache-2.0
"""Strategies of webhook configurations.

An update must satisfy the strict rules only where the stored object already satisfies them, so
that objects created under older rules remain editable.
"""

from typing import Any

from rdd.api import fielderrors, name_validation, selectors
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds import admissionrules
from rdd.apiserver.kinds.admissionrules import choice_errors
from rdd.apiserver.kinds.builtin_strategy import AGE, NAME, BuiltinStrategy
from rdd.apiserver.kinds.expressions import EXPRESSIONS_BYTES, CheckExpression, accept_any
from rdd.apiserver.kinds.strategy import TableColumn
from rdd.schema.webhookconfig import (
    REVIEW_VERSIONS,
    client_config_errors,
    review_version_errors,
)

_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")


class ValidatingWebhookStrategy(BuiltinStrategy):
    work_bytes = EXPRESSIONS_BYTES
    repeated_metadata_checks = ("whole",)
    has_generation = True
    allow_unconditional_update = False
    struct = "ValidatingWebhook"
    columns = (
        NAME,
        TableColumn(
            "Webhooks",
            "integer",
            description="Webhooks indicates the number of webhooks registered in this "
            "configuration",
        ),
        AGE,
    )

    def __init__(self, check_expression: CheckExpression = accept_any) -> None:
        self._check_expression = check_expression

    def normalise(self, obj: Object) -> None:
        """Default policies, selectors, timeout and port."""
        if obj.get("webhooks"):
            obj["webhooks"] = [self._completed(dict(hook)) for hook in obj["webhooks"]]

    def _completed(self, hook: Object) -> Object:
        for member, value in self.defaults().items():
            if hook.get(member) is None:
                hook[member] = value
        admissionrules.default_rules(hook.get("rules"))
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443
        return admissionrules.ordered(hook, self.struct)

    def defaults(self) -> dict[str, Any]:
        """Return the defaults of a webhook."""
        return {
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
        }

    def errors(self, obj: Object) -> list[FieldError]:
        return self._errors(obj.get("webhooks") or [], [])

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        """Return the violations of the rules that the stored configuration satisfies."""
        return self._errors(obj.get("webhooks") or [], old.get("webhooks") or [])

    def _errors(self, hooks: list[Object], old: list[Object]) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        old_names = [hook.get("name") for hook in old]
        unique = len(set(old_names)) == len(old_names)
        side_effects = (
            _NO_SIDE_EFFECTS
            if all(hook.get("sideEffects") in _NO_SIDE_EFFECTS for hook in old)
            else _SIDE_EFFECTS
        )
        known_version = all(
            set(REVIEW_VERSIONS) & set(hook["admissionReviewVersions"])
            for hook in old
            if hook.get("admissionReviewVersions")
        )
        lenient_labels = any(_selector_errors(hook, "") for hook in old)
        same_conditions = bool(old) and [h.get("matchConditions") for h in hooks] == [
            h.get("matchConditions") for h in old
        ]
        for i, hook in enumerate(hooks):
            path = f"webhooks[{i}]"
            errors += self._hook_errors(hook, path, side_effects, lenient_labels)
            if not same_conditions:
                errors += admissionrules.match_condition_errors(
                    hook.get("matchConditions") or [],
                    f"{path}.matchConditions",
                    self._check_expression,
                )
            versions = hook.get("admissionReviewVersions") or []
            errors += review_version_errors(
                versions,
                f"{path}.admissionReviewVersions",
                must_be_known=known_version,
                detail=f"must specify one of {', '.join(REVIEW_VERSIONS)}",
            )
            name = hook.get("name")
            if unique and name:
                if name in seen:
                    errors.append(fielderrors.duplicate(f"{path}.name", name))
                seen.add(name)
        return errors

    def _hook_errors(
        self, hook: Object, path: str, side_effects: tuple[str, ...], lenient_labels: bool
    ) -> list[FieldError]:
        errors = name_validation.fully_qualified_name_errors(
            hook.get("name", ""), path=f"{path}.name"
        )
        for i, rule in enumerate(hook.get("rules") or ()):
            errors += admissionrules.rule_errors(rule, f"{path}.rules[{i}]")
        for member, supported in self.choices().items():
            if hook.get(member) is not None:
                errors += choice_errors(hook[member], f"{path}.{member}", supported)
        if hook.get("sideEffects") is None:
            detail = f"must specify one of {', '.join(side_effects)}"
            errors.append(fielderrors.required(f"{path}.sideEffects", detail))
        else:
            errors += choice_errors(hook["sideEffects"], f"{path}.sideEffects", side_effects)
        timeout = hook.get("timeoutSeconds")
        if timeout is not None and not 1 <= timeout <= 30:
            detail = "the timeout value must be between 1 and 30 seconds"
            errors.append(fielderrors.invalid(f"{path}.timeoutSeconds", timeout, detail))
        errors += _selector_errors(hook, path, lenient=lenient_labels)
        return errors + client_config_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")

    def choices(self) -> dict[str, tuple[str, ...]]:
        """Return the members that have a closed set of values."""
        return {
            "failurePolicy": admissionrules.FAILURE_POLICIES,
            "matchPolicy": admissionrules.MATCH_POLICIES,
        }

    def own_cells(self, obj: Object) -> list[Any]:
        return [len(obj.get("webhooks") or ())]


class MutatingWebhookStrategy(ValidatingWebhookStrategy):
    struct = "MutatingWebhook"

    def defaults(self) -> dict[str, Any]:
        """Return the defaults; mutating webhooks are not reinvoked."""
        return {**super().defaults(), "reinvocationPolicy": "Never"}

    def choices(self) -> dict[str, tuple[str, ...]]:
        return {**super().choices(), "reinvocationPolicy": ("IfNeeded", "Never")}


def _selector_errors(hook: Object, path: str, *, lenient: bool = False) -> list[FieldError]:
    errors: list[FieldError] = []
    for selector in ("namespaceSelector", "objectSelector"):
        errors += selectors.validate_label_selector(
            hook.get(selector), f"{path}.{selector}", allow_invalid_values=lenient
        )
    return errors
