# SPDX-License-Identifier: Apache-2.0
"""The part of the App's status that belongs to the App controller.

Other controllers write conditions of the same object. Each owns its part by server-side
apply: this part is applied completely, so a condition that the LimaVM no longer has is
removed, and the conditions of other controllers stay. A condition has the generation that
the reconciler read, never a later one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rdd.api import names
from rdd.api.types import Object
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import (
    Condition,
    Context,
    StatusWriter,
    conditions_of,
    find_condition,
    record_transition,
)

FIELD_MANAGER = "app-controller"
_OTHER_CONTROLLERS = (names.ENGINE_READY, names.KUBERNETES_READY, names.DISK_PRESSURE)
_NOT_MIRRORED = (names.SETTLED, names.RESTART_PENDING, *_OTHER_CONTROLLERS)
_WARNINGS = ("NoDriver", "NotOurs", "Refused", "NamespaceTerminating")


@dataclass(frozen=True, slots=True)
class AppReport:
    """The desired content of the App controller's part of the status."""

    settled: Condition
    mirrored: Sequence[Object]
    """The conditions of the LimaVM in their form on the App."""
    restart_pending: Condition | None = None
    port: int = 0
    driver: str = ""
    passed_over: Sequence[str] = ()
    """The drivers that are preferred to `driver` and do not work here."""
    failure: Object | None = None
    """Why the App does not settle, if only the user can help."""
    limits: Object | None = None
    """The limits that the LimaVM reports."""


def mirrored(app: App, vm: LimaVM | None) -> list[Object]:
    """Return the conditions of a LimaVM for its App; without one, those that the App has of it."""
    present = conditions_of(app.raw)
    if vm is None:
        return [known for known in present if known["type"] not in _NOT_MIRRORED]
    found = []
    for source in conditions_of(vm.raw):
        if source["type"] in _OTHER_CONTROLLERS:  # DiskPressure of the App covers both computers
            continue
        known = find_condition(present, source["type"]) or {}
        since = known if known.get("status") == source["status"] else source
        found.append(
            {
                "type": source["type"],
                "status": source["status"],
                "reason": source["reason"],
                "message": source.get("message") or "",
                "lastTransitionTime": since["lastTransitionTime"],
                "observedGeneration": app.metadata.generation,
            }
        )
    return found


def mirrored_as_unknown(app: App, *, now: str) -> list[Object]:
    """Return the mirrored conditions with Running as Unknown."""
    message = "Verifying instance state after controller restart"
    running = Condition(
        names.RUNNING, "Unknown", "Reconciling", message, app.metadata.generation
    ).to_object(now=now)
    return [running if known["type"] == names.RUNNING else known for known in mirrored(app, None)]


def with_mirrored(app: App, conditions: Sequence[Object]) -> list[Object]:
    """Return all conditions of an App with new ones of its LimaVM."""
    others = [known for known in conditions_of(app.raw) if known["type"] in _NOT_MIRRORED]
    return [*conditions, *others]


class AppStatusWriter:
    """Writes the App controller's part of the status."""

    def __init__(self, context: Context) -> None:
        self._writer = StatusWriter(
            context,
            App,
            field_manager=FIELD_MANAGER,
            on_transition=record_transition(context, types=(names.SETTLED,), warnings=_WARNINGS),
        )

    async def write(self, app: App, report: AppReport) -> None:
        """Apply a report; a no-op if the App already has it."""
        pending = report.restart_pending
        own = [report.settled, *([pending] if pending is not None else ())]
        kept = {
            *_OTHER_CONTROLLERS,
            *(condition["type"] for condition in report.mirrored),
            *(condition.type for condition in own),
        }
        await self._writer.write(
            app.raw,
            *report.mirrored,
            *own,
            remove=[c["type"] for c in conditions_of(app.raw) if c["type"] not in kept],
            members={
                "kubernetesPort": report.port or None,
                "virtualMachineType": report.driver or None,
                "passedOver": list(report.passed_over) or None,
                "resourceLimits": report.limits or None,
                "failure": report.failure or None,
            },
        )
