# SPDX-License-Identifier: Apache-2.0
"""Writes the status of LimaVMs, and an event for each change of a condition."""

from collections.abc import Collection, Mapping
from typing import Any

from rdd.api.types import Object
from rdd.controllers.lima.limavm.reasons import (
    CREATED,
    DEGRADED,
    OF_RUNNING,
    RUNNING,
    STARTED,
)
from rdd.host.errors import HostError
from rdd.kinds.limavm import LimaVM
from rdd.runtime import Condition, Context, StatusWriter, conditions_of, record_transition


class LimaVMStatusWriter:
    """Writes conditions and other members of the status."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._writer = StatusWriter(
            context,
            LimaVM,
            has_generation=False,
            on_transition=record_transition(context, warnings=(DEGRADED,)),
        )

    async def write(
        self,
        vm: LimaVM,
        *conditions: Condition,
        remove: Collection[str] = (),
        observes: bool = False,
        counts_start: bool = False,
        failure: HostError | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> LimaVM:
        """Set conditions, remove those of the types `remove`, and return the LimaVM.

        Conditions about a running machine (`OF_RUNNING`) are also removed when it does not run.

        `observes` sets the observed generation to that of `vm`. `counts_start` increments the
        restart count in the write that changes the machine to Started. `failure` is the
        cause of a failed creation or start. `members` are further members of the status; None
        removes one.
        """

        def derive(current: Object) -> Mapping[str, Any]:
            status = current.get("status") or {}
            derived: dict[str, Any] = {}
            if any(condition.type in (CREATED, RUNNING) for condition in conditions):
                derived["failure"] = _failure_data(failure)
            if counts_start and not STARTED.is_in(conditions_of(current)):
                derived["restartCount"] = status.get("restartCount", 0) + 1
            if DEGRADED in remove:  # the ports belong to that condition
                derived["unavailablePorts"] = None
            if any(found.type == RUNNING and found.status == "False" for found in conditions):
                derived["resourceLimits"] = derived["guestMemory"] = None
            if observes:
                generation = vm.raw["metadata"].get("generation", 0)
                derived["observedGeneration"] = max(generation, status.get("observedGeneration", 0))
            return {**derived, **(members or {})}

        removed = set(remove)
        if any(found.type == RUNNING and found.status != "True" for found in conditions):
            removed |= OF_RUNNING
        written = await self._writer.write(
            vm.raw, *conditions, remove=sorted(removed), members=derive
        )
        return LimaVM.of(written)

    def warn(self, vm: LimaVM, reason: str, note: str) -> None:
        """Record an event that is not about a condition."""
        self._context.events.event(vm.raw, "Warning", reason, note)


def _failure_data(failure: HostError | None) -> Object | None:
    if failure is None or failure.reason is None:
        return None
    data = {"reason": str(failure.reason), "remedy": failure.remedy}
    return {key: value for key, value in data.items() if value}
