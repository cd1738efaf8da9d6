# SPDX-License-Identifier: Apache-2.0
"""The status of an App, as far as it is the App controller's.

Other controllers write conditions of the same object. Each owns its part by server-side
apply: what is applied here is complete, so a condition that the LimaVM no longer has goes,
and nobody else's is touched. A condition says the generation that was looked at, never a
later one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rdd.api import names, timestamps
from rdd.api.types import Object
from rdd.controllers.app.app.reasons import KUBERNETES_READY, RESTART_PENDING, SETTLED, Said
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import Condition, Context, ObjectKey, apply_status, find_condition

FIELD_MANAGER = "app-controller"
_NOT_MIRRORED = (SETTLED, RESTART_PENDING, names.ENGINE_READY, KUBERNETES_READY)


@dataclass(frozen=True, slots=True)
class Report:
    """What the App controller says."""

    settled: Said
    mirrored: Sequence[Object]
    """The conditions of the LimaVM, as they are to be on the App."""
    restart_pending: Said | None = None
    port: int = 0
    driver: str = ""


def mirrored(app: App, vm: LimaVM | None) -> list[Object]:
    """The conditions of a LimaVM for its App; without one, those the App has of it."""
    present = conditions_of(app)
    if vm is None:
        return [known for known in present if known["type"] not in _NOT_MIRRORED]
    found = []
    for source in (vm.raw.get("status") or {}).get("conditions") or ():
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


def not_known(app: App, *, now: str) -> list[Object]:
    """What is mirrored of the LimaVM, without knowing whether it runs."""
    message = "Verifying instance state after controller restart"
    running = Condition(
        names.RUNNING, "Unknown", "Reconciling", message, app.metadata.generation
    ).to_object(now=now)
    return [running if known["type"] == names.RUNNING else known for known in mirrored(app, None)]


def with_mirrored(app: App, conditions: Sequence[Object]) -> list[Object]:
    """All conditions of an App once those of its LimaVM are in place."""
    others = [known for known in conditions_of(app) if known["type"] in _NOT_MIRRORED]
    return [*conditions, *others]


def conditions_of(app: App) -> list[Object]:
    """The conditions of an App as plain objects."""
    return (app.raw.get("status") or {}).get("conditions") or []


class Reporter:
    """Writes our part of the status of Apps."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def write(self, app: App, report: Report) -> bool:
        """Have the App say this; whether anything had to be written."""
        wanted = self._status(app, report)
        if _has(app, wanted):
            return False
        await apply_status(
            self._context.client, App, ObjectKey.of(app.raw), wanted, field_manager=FIELD_MANAGER
        )
        self._tell(app, report.settled)
        return True

    def _status(self, app: App, report: Report) -> Object:
        now = timestamps.now_text(self._context.clock)
        conditions = list(report.mirrored)
        for said in (report.settled, report.restart_pending):
            if said is None:
                continue
            conditions.append(
                Condition(
                    said.type, said.status, said.reason, said.message, app.metadata.generation
                ).to_object(conditions_of(app), now=now)
            )
        status: Object = {"conditions": conditions}
        if report.port:
            status["kubernetesPort"] = report.port
        if report.driver:
            status["virtualMachineType"] = report.driver
        return status

    def _tell(self, app: App, settled: Said) -> None:
        known = find_condition(conditions_of(app), settled.type) or {}
        if (known.get("status"), known.get("reason")) != (settled.status, settled.reason):
            is_bad = settled.reason.endswith("Failed") or settled.reason in _BAD
            self._context.events.event(
                app.raw,
                "Warning" if is_bad else "Normal",
                "ConditionChanged",
                f"{settled.type}={settled.status}: {settled.message} ({settled.reason})",
            )


_BAD = ("NoDriver", "NotOurs", "Refused", "NamespaceTerminating")


def _has(app: App, wanted: Object) -> bool:
    """Whether an App says all that, and nothing else in our name."""
    status = app.raw.get("status") or {}
    for member in ("kubernetesPort", "virtualMachineType"):
        if status.get(member) != wanted.get(member):
            return False
    present = conditions_of(app)
    types = {found["type"] for found in wanted["conditions"]}
    others = (names.ENGINE_READY, KUBERNETES_READY)
    if any(known["type"] not in types and known["type"] not in others for known in present):
        return False
    return all(find_condition(present, found["type"]) == found for found in wanted["conditions"])
