# SPDX-License-Identifier: Apache-2.0
"""Whether an App is as its spec asks for: the decision, as a pure function.

The first row that fits decides. A condition of another controller counts only if it
speaks of this generation; on the way down the contexts of Docker and Kubernetes must be
gone before the App is settled, so that nothing of it is left when `rdd stop` returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdd.api import names
from rdd.controllers.app.app.reasons import KUBERNETES_READY, SETTLED, Said, forwarded, said
from rdd.runtime import find_condition

Conditions = Sequence[Mapping[str, Any]]

ENDED: Mapping[str, Sequence[str]] = {
    names.ENGINE_READY: ("Stopped", "NotApplicable"),
    KUBERNETES_READY: ("NotRunning", "NotApplicable"),
}
"""The reasons by which controllers say that nothing of theirs is left."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the decision is made from."""

    generation: int
    wants_running: bool
    wants_kubernetes: bool
    is_template_applied: bool
    conditions: Conditions
    """Of the App, those of the LimaVM among them as they are now."""
    has_engine: bool
    """Whether the engine controller is at work."""
    has_kubernetes: bool
    """Whether the kubernetes controller is at work."""


def decide(now: Situation) -> Said:
    """What the condition Settled says."""
    waiting = _machine(now)
    if waiting is not None:
        return waiting
    rest = _on_the_way_up if now.wants_running else _on_the_way_down
    return rest(now) or said(SETTLED, "Settled")


def _machine(now: Situation) -> Said | None:
    """What is missing of the virtual machine."""
    if not now.is_template_applied:
        return said(SETTLED, "ApplyingTemplate")
    running = _condition(now, names.RUNNING)
    if running is None:
        created = _condition(now, names.CREATED)
        if created is not None and created["status"] == "False":
            return said(SETTLED, "CreateFailed", created.get("message") or "")
        return said(SETTLED, "WaitingForLimaVM")
    reason, message = running["reason"], running.get("message") or ""
    if now.wants_running:
        is_there, goal = running["status"] == "True", "Started"
    else:
        is_there, goal = reason == "Stopped", "Stopped"
    if is_there:
        return None
    if not (reason.endswith("Failed") and message):
        message = f"LimaVM has not yet reached {goal}"
    return forwarded(SETTLED, reason, message)


def _on_the_way_down(now: Situation) -> Said | None:
    if now.has_engine and not _has_ended(now, names.ENGINE_READY):
        return said(SETTLED, "EngineStale")
    if now.has_kubernetes and not _has_ended(now, KUBERNETES_READY):
        return said(SETTLED, "KubernetesStale")
    return None


def _on_the_way_up(now: Situation) -> Said | None:
    if now.has_engine:
        engine = _unready(now, names.ENGINE_READY, missing="WaitingForEngine", stale="EngineStale")
        if engine is not None:
            return engine
    if now.has_kubernetes and now.wants_kubernetes:
        return _unready(
            now, KUBERNETES_READY, missing="WaitingForKubernetes", stale="KubernetesStale"
        )
    return None


def _unready(now: Situation, type_: str, *, missing: str, stale: str) -> Said | None:
    found = _condition(now, type_)
    if found is None:
        return said(SETTLED, missing)
    if found.get("observedGeneration", 0) < now.generation:
        return said(SETTLED, stale)
    if found["status"] != "True":
        return forwarded(SETTLED, found["reason"], found.get("message") or "")
    return None


def _has_ended(now: Situation, type_: str) -> bool:
    found = _condition(now, type_)
    return (
        found is not None
        and found.get("observedGeneration", 0) >= now.generation
        and found["reason"] in ENDED[type_]
    )


def _condition(now: Situation, type_: str) -> Mapping[str, Any] | None:
    return find_condition([dict(known) for known in now.conditions], type_)
