# SPDX-License-Identifier: Apache-2.0
"""The LimaVM of an App: the new object, and what it reports, for decisions of the reconciler."""

from rdd.api import names
from rdd.api.types import Object
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import conditions_of, find_condition, is_true, owned_by, owner_reference

OWNED = owned_by(App.kind)


def reason_of(vm: LimaVM, type_: str) -> str:
    """Return the reason of a condition; empty without it."""
    return str((find_condition(conditions_of(vm.raw), type_) or {}).get("reason", ""))


def limits_of(vm: LimaVM | None) -> Object | None:
    """Return the limits that are enforced now."""
    found = vm.status.resource_limits if vm is not None else None
    return dict(found.raw) if found is not None else None


def can_replace_template(vm: LimaVM, *, has_locks: bool) -> bool:
    """Return whether a new template interrupts nothing: the machine is stopped or restarting.

    With locks a machine that is down starts with no other template, so one that should run
    must get it, too.
    """
    if vm.status.restart_needed or names.RESTART_REQUESTED in vm.metadata.annotations:
        return True
    if has_locks and not is_true(conditions_of(vm.raw), names.RUNNING):
        return True
    reason = reason_of(vm, names.RUNNING)
    return reason == "StartFailed" or (not vm.spec.running and reason in ("Stopped", ""))


def new_machine(app: App, driver: str) -> Object:
    """Return the LimaVM of an App that has none."""
    # The type of machine in the template may fit two drivers.
    annotations = {names.DRIVER: driver}
    if entry := app.metadata.annotations.get(names.RESTORE_FROM):
        annotations[names.RESTORE_FROM] = entry
    return {
        "metadata": {
            "name": names.APP_VM_NAME,
            "namespace": app.spec.namespace,
            "finalizers": [OWNED],
            "ownerReferences": [owner_reference(app.raw)],
            "annotations": annotations,
        },
        "spec": {
            "running": app.spec.running,
            "templateRef": {"name": names.APP_VM_NAME, "namespace": app.spec.namespace},
            **({"idle": idle} if (idle := app.spec.raw.get("idle")) else {}),
        },
    }
