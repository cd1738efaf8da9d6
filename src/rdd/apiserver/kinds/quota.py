# SPDX-License-Identifier: Apache-2.0
"""The strategy of ResourceQuota; `apiserver/quota/` enforces quotas."""

from collections.abc import Mapping
from typing import Any

from rdd.api import fielderrors, name_validation
from rdd.api.fielderrors import FieldError
from rdd.api.quantity import Quantity, QuantityError
from rdd.api.types import Object
from rdd.apiserver.kinds.builtin_strategy import AGE, NAME, StatusStrategy
from rdd.apiserver.kinds.strategy import TableColumn
from rdd.schema.builtin import goprint

_COUNTS = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets"),
        *("configmaps", "persistentvolumeclaims", "services.nodeports"),
        "services.loadbalancers",
    }
)
_COMPUTE = frozenset(
    {
        *("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory"),
        *("requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory"),
        "limits.ephemeral-storage",
    }
)
_STANDARD = _COUNTS | _COMPUTE | {"storage"}
_SCOPES = frozenset(
    {
        *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"),
        *("CrossNamespacePodAffinity", "VolumeAttributesClass"),
    }
)
_POD_COMPUTE = frozenset(
    {"pods", "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory"}
    | {"requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage"}
)
_OF_SCOPE = {
    "Terminating": _POD_COMPUTE,
    "NotTerminating": _POD_COMPUTE,
    "NotBestEffort": _POD_COMPUTE,
    "PriorityClass": _POD_COMPUTE,
    "CrossNamespacePodAffinity": _POD_COMPUTE,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_SELECTOR = "io.k8s.api.core.v1.ScopeSelector"
_FOR = " for scope selector"
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


class ResourceQuotaStrategy(StatusStrategy):
    qualified_finalizers = True
    returns_deleted = True
    columns = (
        NAME,
        TableColumn(
            "Request",
            description="Request represents a minimum amount of cpu/memory that a container may "
            "consume.",
        ),
        TableColumn(
            "Limit",
            description="Limits control the maximum amount of cpu/memory that a container may use "
            "independent of contention on the node.",
        ),
        AGE,
    )

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {}

    def errors(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = self.finalizer_errors(obj) + _amount_errors(spec.get("hard"), "spec.hard")
        return errors + _scope_errors(spec)

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        if subresource == "status":
            status = obj.get("status") or {}
            errors = _amount_errors(status.get("hard"), "status.hard")
            return errors + _amount_errors(status.get("used"), "status.used")
        errors = self.errors(obj)
        scopes = (obj.get("spec") or {}).get("scopes") or None
        if set(scopes or ()) != set((old.get("spec") or {}).get("scopes") or ()):
            errors.append(fielderrors.invalid("spec.scopes", scopes, "field is immutable"))
        return errors

    def bookmark(self, obj: Object) -> Object:
        return {**obj, "spec": {}, "status": {}}

    def own_cells(self, obj: Object) -> list[Any]:
        status = obj.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        requests: list[str] = []
        limits: list[str] = []
        for name in sorted(hard):
            column = limits if name.startswith("limits.") else requests
            column.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
        return [", ".join(requests), ", ".join(limits)]


def _amount_errors(amounts: Mapping[str, str] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text in (amounts or {}).items():
        at = f"{path}[{name}]"
        errors += _name_errors(name, at)
        try:
            amount = Quantity.parse(text)
        except QuantityError as error:
            errors.append(fielderrors.invalid(at, text, str(error)))
            continue
        if amount.sign < 0:
            errors.append(fielderrors.invalid(at, text, "must be greater than or equal to 0"))
        if _is_count(name) and Quantity.of(amount.value()) != amount:
            errors.append(fielderrors.invalid(at, text, "must be an integer"))
    return errors


def _is_count(name: str) -> bool:
    return name in _COUNTS or name.startswith("count/")


def _name_errors(name: str, path: str) -> list[FieldError]:
    errors = [
        fielderrors.invalid(path, name, why) for why in name_validation.qualified_name_errors(name)
    ]
    if "/" in name or errors:
        return errors
    is_huge_page = name.startswith(("hugepages-", "requests.hugepages-"))
    if name not in _STANDARD and not is_huge_page:
        detail = "must be a standard resource type or fully qualified"
        errors.append(fielderrors.invalid(path, name, detail))
    if name not in _COUNTS | _COMPUTE and not is_huge_page:
        detail = "must be a standard resource for quota"
        errors.append(fielderrors.invalid(path, name, detail))
    return errors


def _scope_errors(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    scopes = spec.get("scopes") or []
    hard = sorted(name for name in spec.get("hard") or () if name in _COUNTS | _COMPUTE)
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(fielderrors.invalid("spec.scopes", scopes, "unsupported scope"))
        for name in hard:
            if name not in _OF_SCOPE.get(scope, _STANDARD):
                detail = "unsupported scope applied to resource"
                errors.append(fielderrors.invalid("spec.scopes", scopes, detail))
    for pair in _CONFLICTS:
        if pair <= set(scopes):
            errors.append(fielderrors.invalid("spec.scopes", scopes, "conflicting scopes"))
    selector = spec.get("scopeSelector")
    if selector:
        errors += _selector_errors(selector, hard)
    return errors


def _selector_errors(selector: Object, hard: list[str]) -> list[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    errors: list[FieldError] = []
    seen: set[str] = set()
    for requirement in selector.get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values") or []
        seen.add(scope)
        if scope not in _SCOPES:
            errors.append(fielderrors.invalid(f"{path}.scopeName", scope, "unsupported scope"))
        for name in hard:
            if name not in _OF_SCOPE.get(scope, _STANDARD):
                detail = "unsupported scope applied to resource"
                errors.append(
                    fielderrors.invalid(path, goprint.internal(_SELECTOR, selector), detail)
                )
        exists_only = scope in _SCOPES - {"PriorityClass", "VolumeAttributesClass"}
        if exists_only and operator != "Exists":
            detail = (
                "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(fielderrors.invalid(f"{path}.operator", operator, detail))
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn'"
                errors.append(fielderrors.required(f"{path}.values", detail + _FOR))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist'"
                errors.append(fielderrors.invalid(f"{path}.values", values, detail + _FOR))
        else:
            detail = "not a valid selector operator"
            errors.append(fielderrors.invalid(f"{path}.operator", operator, detail))
    for pair in _CONFLICTS:
        if pair <= seen:
            shown = goprint.internal(_SELECTOR, selector)
            errors.append(fielderrors.invalid(path, shown, "conflicting scopes"))
    return errors
