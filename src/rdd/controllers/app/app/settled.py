# SPDX-License-Identifier: Apache-2.0
"""The condition Settled: whether an App matches its spec, as a pure function.

The first matching row decides. A condition of another controller counts only if it observed
this generation. On the way down the contexts of Docker and Kubernetes must be gone before the
App is settled, so that nothing is left when `rdd stop` returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdd.api import names
from rdd.api.names import KUBERNETES_READY, SETTLED
from rdd.controllers.app.app.reasons import settled
from rdd.runtime import Condition, find_condition

Conditions = Sequence[Mapping[str, Any]]

ENDED: Mapping[str, Sequence[str]] = {
    names.ENGINE_READY: ("Stopped", "NotApplicable"),
    KUBERNETES_READY: ("NotRunning", "NotApplicable"),
}
"""The reasons that mean that a controller has cleaned up."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The inputs of the decision."""

    generation: int
    wants_running: bool
    wants_kubernetes: bool
    is_template_applied: bool
    conditions: Conditions
    """Those of the App, with the present ones of the LimaVM."""
    has_engine: bool
    """Whether the engine controller is enabled."""
    has_kubernetes: bool
    """Whether the kubernetes controller is enabled."""


def decide(now: Situation) -> Condition:
    """Return the condition Settled."""
    waiting = _machine(now)
    if waiting is not None:
        return waiting
    rest = _on_the_way_up if now.wants_running else _on_the_way_down
    return rest(now) or settled("Settled")


def _machine(now: Situation) -> Condition | None:
    """Return what the virtual machine lacks; None if it is in the desired state."""
    if not now.is_template_applied:
        return settled("ApplyingTemplate")
    running = _condition(now, names.RUNNING)
    if running is None:
        created = _condition(now, names.CREATED)
        if created is not None and created["status"] == "False":
            return settled("CreateFailed", created.get("message") or "")
        return settled("WaitingForLimaVM")
    reason, message = running["reason"], running.get("message") or ""
    if now.wants_running:
        is_reached, goal = running["status"] == "True", "Started"
    else:
        is_reached, goal = reason == "Stopped", "Stopped"
    if is_reached:
        return None
    if not (reason.endswith("Failed") and message):
        message = f"LimaVM has not yet reached {goal}"
    return _forwarded(reason, message)


def _on_the_way_down(now: Situation) -> Condition | None:
    if now.has_engine and not _has_ended(now, names.ENGINE_READY):
        return settled("EngineStale")
    if now.has_kubernetes and not _has_ended(now, KUBERNETES_READY):
        return settled("KubernetesStale")
    return None


def _on_the_way_up(now: Situation) -> Condition | None:
    if now.has_engine:
        engine = _unready(now, names.ENGINE_READY, missing="WaitingForEngine", stale="EngineStale")
        if engine is not None:
            return engine
    if now.has_kubernetes and now.wants_kubernetes:
        return _unready(
            now, KUBERNETES_READY, missing="WaitingForKubernetes", stale="KubernetesStale"
        )
    return None


def _unready(now: Situation, type_: str, *, missing: str, stale: str) -> Condition | None:
    found = _condition(now, type_)
    if found is None:
        return settled(missing)
    if found.get("observedGeneration", 0) < now.generation:
        return settled(stale)
    if found["status"] != "True":
        return _forwarded(found["reason"], found.get("message") or "")
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


def _forwarded(reason: str, message: str) -> Condition:
    """Return the condition with the reason and message of another one."""
    return Condition(SETTLED, "False", reason, message)
