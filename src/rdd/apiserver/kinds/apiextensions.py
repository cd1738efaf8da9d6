# SPDX-License-Identifier: Apache-2.0
"""The strategy of CustomResourceDefinition; the validation is in rdd.schema.crd.validation."""

from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.conditions import Condition, remove_condition, set_condition
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds.builtin_strategy import CreatedAtStrategy, reset_metadata_for_status
from rdd.apiserver.kinds.expressions import EXPRESSIONS_BYTES

if TYPE_CHECKING:
    from rdd.schema.crd.schema import CheckRules

_DELETION_PENDING = Condition(
    "Terminating",
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)


class CustomResourceDefinitionStrategy(CreatedAtStrategy):
    """Custom resource definitions.

    rdd.schema.crd.validation is imported when the first definition is written, because schema
    validation is a large part of the package.
    """

    work_bytes = EXPRESSIONS_BYTES

    has_generation = True
    has_status = True
    allow_unconditional_update = False
    deletes_in_two_steps = True

    def __init__(self, check_rules: "CheckRules | None" = None) -> None:
        self._check_rules = check_rules

    def normalise(self, obj: Object) -> None:
        from rdd.schema.crd import validation as crd

        crd.normalise(obj)

    def prepare_for_create(self, obj: Object) -> None:
        from rdd.schema.crd import validation as crd

        crd.prepare_for_create(obj)

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        from rdd.schema.crd import validation as crd

        if subresource == "status":
            crd.prepare_for_status_update(obj, old)
            reset_metadata_for_status(obj, old)
        else:
            crd.prepare_for_update(obj, old)

    def errors(self, obj: Object) -> list[FieldError]:
        from rdd.schema.crd import validation as crd

        return crd.crd_errors(obj, check_rules=self._check_rules)

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        from rdd.schema.crd import validation as crd

        if subresource == "status":
            return crd.crd_status_update_errors(obj)
        return crd.crd_update_errors(obj, old, check_rules=self._check_rules)

    def begin_deletion(self, obj: Object, *, now: str) -> bool:
        """Add the cleanup finalizer, which keeps the definition until its objects are deleted."""
        meta = obj["metadata"]
        if not meta.get("deletionTimestamp"):
            meta["deletionTimestamp"] = now
            finalizers = meta.get("finalizers") or []
            if names.CRD_CLEANUP_FINALIZER not in finalizers:
                meta["finalizers"] = [*finalizers, names.CRD_CLEANUP_FINALIZER]
            status = obj["status"] = dict(obj.get("status") or {})
            others = remove_condition(status.get("conditions"), "Terminating")
            status["conditions"] = set_condition(others, _DELETION_PENDING, now=now)
        return bool(meta.get("finalizers"))

    def warnings(self, obj: Object) -> list[str]:
        from rdd.schema.crd import validation as crd

        return crd.crd_warnings(obj)

    def bookmark(self, obj: Object) -> Object:
        names = {"plural": "", "kind": ""}
        spec = {"group": "", "names": names, "scope": "", "versions": None}
        status = {"conditions": None, "acceptedNames": names, "storedVersions": None}
        return {**obj, "spec": spec, "status": status}
