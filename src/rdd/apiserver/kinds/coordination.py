# SPDX-License-Identifier: Apache-2.0
"""The strategy of coordination.k8s.io Lease."""

from typing import Any

from rdd.api import fielderrors
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds.builtin_strategy import AGE, NAME, BuiltinStrategy
from rdd.apiserver.kinds.strategy import TableColumn
from rdd.schema.builtin import texts


class LeaseStrategy(BuiltinStrategy):
    """Leases; an update requires the current resourceVersion."""

    allow_create_on_update = True
    allow_unconditional_update = False
    durable = False
    columns = (NAME, TableColumn("Holder", description=texts.HOLDER_IDENTITY), AGE)

    def prepare_for_create(self, obj: Object) -> None:
        """Drop the fields of coordinated leader election, which Kubernetes disables by default."""
        spec = obj.get("spec") or {}
        if "strategy" in spec or "preferredHolder" in spec:
            obj["spec"] = {
                k: v for k, v in spec.items() if k not in ("strategy", "preferredHolder")
            }

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        self.prepare_for_create(obj)

    def errors(self, obj: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.get("spec") or {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            detail = "must be greater than 0"
            errors.append(fielderrors.invalid("spec.leaseDurationSeconds", duration, detail))
        if transitions is not None and transitions < 0:
            detail = "must be greater than or equal to 0"
            errors.append(fielderrors.invalid("spec.leaseTransitions", transitions, detail))
        return errors

    def bookmark(self, obj: Object) -> Object:
        return {**obj, "spec": {}}

    def own_cells(self, obj: Object) -> list[Any]:
        return [(obj.get("spec") or {}).get("holderIdentity", "")]
