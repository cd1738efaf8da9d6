# SPDX-License-Identifier: Apache-2.0
"""The strategy of apiregistration.k8s.io APIService.

The server keeps one object for every group version it serves itself. There is no aggregation of
other servers; their objects are only stored.
"""

from typing import Any

from rdd.api import fielderrors, name_validation, timestamps
from rdd.api.conditions import Condition
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds.admissionrules import choice_errors
from rdd.apiserver.kinds.builtin_strategy import AGE, NAME, StatusStrategy
from rdd.apiserver.kinds.core import decoded_length
from rdd.apiserver.kinds.strategy import TableColumn
from rdd.base import gotext


def local_condition() -> Object:
    """Return the condition of a group version that this server serves."""
    condition = Condition("Available", "True", "Local", "Local APIServices are always available")
    return condition.to_object(now=timestamps.now_text())


class APIServiceStrategy(StatusStrategy):
    repeated_metadata_checks = ("changed", "whole")
    allow_unconditional_update = False
    keeps_metadata_for_status = True
    columns = (
        NAME,
        TableColumn(
            "Service",
            description="The reference to the service that hosts this API endpoint.",
        ),
        TableColumn("Available", description="Whether this service is available."),
        AGE,
    )

    def name_errors(self, name: str, *, is_prefix: bool) -> list[str]:
        """Accept every path segment; `errors` requires `version.group`."""
        return name_validation.path_segment_name_errors(name)

    def normalise(self, obj: Object) -> None:
        """Default the port of a service to 443."""
        service = (obj.get("spec") or {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443

    def prepare_for_create(self, obj: Object) -> None:
        """Mark a group version of this server as available."""
        local = (obj.get("spec") or {}).get("service") is None
        obj["status"] = {"conditions": [local_condition()]} if local else {}

    def errors(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        group, version = spec.get("group", ""), spec.get("version", "")
        errors = self._name_errors(obj["metadata"], f"{version}.{group}")
        if not group and version != "v1":
            detail = "only v1 may have an empty group and it better be legacy kube"
            errors.append(fielderrors.required("spec.group", detail))
        for why in name_validation.dns1123_subdomain_errors(group) if group else ():
            errors.append(fielderrors.invalid("spec.group", group, why))
        for why in name_validation.dns1035_label_errors(version):
            errors.append(fielderrors.invalid("spec.version", version, why))
        for member, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(member, 0)
            if not 0 < value <= most:
                detail = f"must be positive and less than {most}"
                errors.append(fielderrors.invalid(f"spec.{member}", value, detail))
        return errors + _backend_errors(spec)

    def _name_errors(self, meta: Object, required: str) -> list[FieldError]:
        detail = f'must be `spec.version+"."+spec.group`: {gotext.quote(required)}'
        return [
            fielderrors.invalid(f"metadata.{member}", name, detail)
            for member in ("generateName", "name")
            if (name := meta.get(member))
            and name != required
            and not name_validation.path_segment_name_errors(name)
        ]

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        """Return the errors of an update; /status can only change conditions."""
        if subresource != "status":
            return self.errors(obj)
        errors: list[FieldError] = []
        for i, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
            path = f"status.conditions[{i}].status"
            errors += choice_errors(condition.get("status", ""), path, ("True", "False", "Unknown"))
        return errors

    def bookmark(self, obj: Object) -> Object:
        spec = {"groupPriorityMinimum": 0, "versionPriority": 0}
        return {**obj, "spec": spec, "status": {}}

    def own_cells(self, obj: Object) -> list[Any]:
        service = (obj.get("spec") or {}).get("service")
        shown = "Local"
        if service is not None:
            shown = f"{service.get('namespace', '')}/{service.get('name', '')}"
        available = "Unknown"
        for condition in (obj.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Available":
                available = condition.get("status", "")
                if available != "True" and condition.get("reason"):
                    available = f"{available} ({condition['reason']})"
        return [shown, available]


def _backend_errors(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    insecure = bool(spec.get("insecureSkipTLSVerify"))
    at = "spec.insecureSkipTLSVerify"
    if service is None:
        if bundle:
            detail = "local APIServices may not have a caBundle"
            shown = f"{decoded_length(bundle)} bytes"
            errors.append(fielderrors.invalid("spec.caBundle", shown, detail))
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(fielderrors.invalid(at, True, detail))
        return errors
    for member in ("namespace", "name"):
        if not service.get(member):
            errors.append(fielderrors.required(f"spec.service.{member}"))
    if insecure and bundle:
        errors.append(fielderrors.invalid(at, True, "may not be true if caBundle is present"))
    return errors
