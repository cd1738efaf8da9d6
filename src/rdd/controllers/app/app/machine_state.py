# SPDX-License-Identifier: Apache-2.0
"""The state of the App's machine as its LimaVM reports it, for decisions of the reconciler."""

from rdd.api import names
from rdd.api.types import Object
from rdd.kinds.limavm import LimaVM
from rdd.runtime import conditions_of, find_condition, is_true


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
