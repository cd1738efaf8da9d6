# SPDX-License-Identifier: Apache-2.0
"""What a LimaVM says of itself: its conditions, and the events that tell of their changes.

Every state a LimaVM can be in is made here, so that reasons and messages, which other
programs match, stand in one place. Writing goes through `Reporter.write`: it derives the new
status from the present one and tries again when somebody else was faster, so that what
others put into the status stays.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rdd.api import timestamps
from rdd.api.types import Object
from rdd.kinds.limavm import LimaVM
from rdd.runtime import (
    Condition,
    Context,
    ObjectKey,
    find_condition,
    remove_condition,
    set_condition,
    update_status,
)
from rdd.runtime.conditions import ConditionStatus

CREATED, RUNNING, DEGRADED = "Created", "Running", "Degraded"


class Says(NamedTuple):
    """One condition, as it is to be."""

    type: str
    status: ConditionStatus
    reason: str
    message: str

    def is_said(self, vm: LimaVM) -> bool:
        """Whether the LimaVM has exactly this condition already."""
        found = condition_of(vm, self.type)
        return found is not None and self == (
            self.type,
            found.get("status"),
            found.get("reason"),
            found.get("message"),
        )


PENDING = Says(CREATED, "Unknown", "Pending", "Reconciliation in progress")
CREATED_NOW = Says(CREATED, "True", "Created", "Lima instance created successfully")
EXISTS = Says(CREATED, "True", "Created", "Lima instance exists")
RECONCILING = Says(
    RUNNING, "Unknown", "Reconciling", "Verifying instance state after controller restart"
)
TAKING_OVER = Says(
    RUNNING, "Unknown", "Reconciling", "Host agent has ended, taking over the running instance"
)
STARTING = Says(RUNNING, "False", "Starting", "Lima instance is starting")
STARTED = Says(RUNNING, "True", "Started", "Lima instance is running")
IS_STOPPED = Says(RUNNING, "False", "Stopped", "Lima instance is stopped")
STOPPED_NOW = Says(RUNNING, "False", "Stopped", "Lima instance stopped successfully")
STOPPED_FOR_RESTART = Says(RUNNING, "False", "Stopped", "Stopped for restart")
STOPPED_FOR_RESET = Says(RUNNING, "False", "Stopped", "Stopped for reset")


def progress(message: str) -> Says:
    """How far the creation is."""
    return Says(CREATED, "Unknown", "Pending", message)


def create_failed(why: str) -> Says:
    """The instance could not be made."""
    return Says(CREATED, "False", "CreateFailed", why)


def start_failed(why: str) -> Says:
    """The instance does not come up, or did not stay up."""
    return Says(RUNNING, "False", "StartFailed", why)


def stop_failed(why: str) -> Says:
    """The instance could not be stopped."""
    return Says(RUNNING, "False", "StopFailed", why)


def degraded(errors: Sequence[str]) -> Says:
    """The instance runs, but something it should have does not work."""
    why = "\n".join(errors) or "the host agent does not say why"
    return Says(DEGRADED, "True", "Degraded", why)


def condition_of(vm: LimaVM, type_: str) -> Object | None:
    """A condition of a LimaVM, None if it has none of the type."""
    return find_condition((vm.raw.get("status") or {}).get("conditions"), type_)


def reason_of(vm: LimaVM, type_: str) -> str:
    """The reason of a condition; empty without one."""
    return str((condition_of(vm, type_) or {}).get("reason", ""))


def is_created(vm: LimaVM) -> bool:
    """Whether the instance was made."""
    return (condition_of(vm, CREATED) or {}).get("status") == "True"


def is_said_down(vm: LimaVM) -> bool:
    """Whether the instance is said not to run, for whatever reason."""
    return (condition_of(vm, RUNNING) or {}).get("status") == "False"


class Reporter:
    """Writes the status of LimaVMs."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def write(
        self,
        vm: LimaVM,
        *says: Says,
        without: str = "",
        observes: bool = False,
        counts_start: bool = False,
        members: Mapping[str, Any] | None = None,
    ) -> LimaVM:
        """The LimaVM with these conditions, without the one of type `without`.

        `observes`: they speak of the generation of `vm`. `counts_start`: the first write
        of a transition to Started counts it. `members` are further members of the status;
        None removes one. Nothing is sent, and no event made, if nothing changes.
        """
        before: Object = {}
        now = timestamps.now_text(self._context.clock)

        def change(obj: Object) -> Object:
            nonlocal before
            before = obj
            status = dict(obj.get("status") or {})
            conditions = status.get("conditions") or []
            if counts_start and not STARTED.is_said(LimaVM.of(obj)):
                status["restartCount"] = status.get("restartCount", 0) + 1
            for type_, value, reason, message in says:
                conditions = set_condition(
                    conditions, Condition(type_, value, reason, message), now=now
                )
            if without and find_condition(conditions, without) is not None:
                conditions = remove_condition(conditions, without)
            if without == DEGRADED:  # the ports are part of what is degraded
                status.pop("unavailablePorts", None)
            if conditions:
                status["conditions"] = conditions
            for name, value in (members or {}).items():
                if value is None:
                    status.pop(name, None)
                else:
                    status[name] = value
            if observes:
                seen = vm.raw["metadata"].get("generation", 0)
                status["observedGeneration"] = max(seen, status.get("observedGeneration", 0))
            return status

        key = ObjectKey.of(vm.raw)
        after = await update_status(self._context.client, LimaVM, key, change, known=vm.raw)
        self._tell(before, after, says)
        return LimaVM.of(after)

    def warn(self, vm: LimaVM, reason: str, note: str) -> None:
        """An event about something that is no condition."""
        self._context.events.event(vm.raw, "Warning", reason, note)

    def _tell(self, before: Object, after: Object, says: Sequence[Says]) -> None:
        old = (before.get("status") or {}).get("conditions")
        for type_, status, reason, message in says:
            known = find_condition(old, type_) or {}
            if (known.get("status"), known.get("reason")) != (status, reason):
                self._context.events.event(
                    after,
                    "Warning" if reason.endswith("Failed") or type_ == DEGRADED else "Normal",
                    "ConditionChanged",
                    f"{type_}={status}: {message} ({reason})",
                )
