# SPDX-License-Identifier: Apache-2.0
"""The decision behind Settled, row by row, and its table of reasons."""

from pathlib import Path
from typing import Any

import pytest

from rdd.api import names
from rdd.controllers.app.app import reasons
from rdd.controllers.app.app.discovery import is_enabled
from rdd.controllers.app.app.settled import Situation, decide

GENERATION = 4


def condition(type_: str, status: str, reason: str, **members: Any) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": members.get("message", ""),
        "observedGeneration": members.get("generation", GENERATION),
    }


def situation(*conditions: dict[str, Any], **members: Any) -> Situation:
    usual: dict[str, Any] = {
        "generation": GENERATION,
        "wants_running": True,
        "wants_kubernetes": False,
        "is_template_applied": True,
        "has_engine": True,
        "has_kubernetes": True,
    }
    return Situation(conditions=conditions, **(usual | members))


STARTED = condition("Running", "True", "Started")
STOPPED = condition("Running", "False", "Stopped")
CONNECTED = condition("ContainerEngineReady", "True", "Connected")
ENGINE_STOPPED = condition("ContainerEngineReady", "False", "Stopped")
READY = condition("KubernetesReady", "True", "Ready")
NOT_RUNNING = condition("KubernetesReady", "False", "NotRunning")
DOWN = {"wants_running": False}
CLUSTER = {"wants_kubernetes": True}

SETTLED = ("True", "Settled", "App has reached the desired state")
ENGINE_STALE = ("False", "EngineStale", "Container engine needs to be synchronized")
KUBERNETES_STALE = ("False", "KubernetesStale", "Kubernetes context needs to be synchronized")
APPLYING = ("False", "ApplyingTemplate", "Applying the configuration change to the VM")


def old(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "observedGeneration": GENERATION - 1}


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(
            situation(STARTED, CONNECTED, is_template_applied=False), APPLYING, id="1 template"
        ),
        pytest.param(
            situation(),
            ("False", "WaitingForLimaVM", "Waiting for LimaVM to report its state"),
            id="2 no Running",
        ),
        pytest.param(
            situation(condition("Created", "Unknown", "Pending")),
            ("False", "WaitingForLimaVM", "Waiting for LimaVM to report its state"),
            id="2 being created",
        ),
        pytest.param(
            situation(condition("Created", "False", "CreateFailed", message="no disk")),
            ("False", "CreateFailed", "no disk"),
            id="2 not created",
        ),
        pytest.param(
            situation(condition("Running", "False", "Starting", message="x")),
            ("False", "Starting", "LimaVM has not yet reached Started"),
            id="3 starting",
        ),
        pytest.param(
            situation(condition("Running", "Unknown", "Reconciling")),
            ("False", "Reconciling", "LimaVM has not yet reached Started"),
            id="3 unknown",
        ),
        pytest.param(
            situation(condition("Running", "False", "StartFailed", message="why")),
            ("False", "StartFailed", "why"),
            id="3 failed",
        ),
        pytest.param(
            situation(condition("Running", "False", "StartFailed")),
            ("False", "StartFailed", "LimaVM has not yet reached Started"),
            id="3 failed without a word",
        ),
        pytest.param(
            situation(STARTED, **DOWN),
            ("False", "Started", "LimaVM has not yet reached Stopped"),
            id="4 still running",
        ),
        pytest.param(
            situation(condition("Running", "False", "StopFailed", message="hangs"), **DOWN),
            ("False", "StopFailed", "hangs"),
            id="4 failed",
        ),
        pytest.param(
            situation(STARTED, has_engine=False, has_kubernetes=False, **CLUSTER),
            SETTLED,
            id="5 no other controller, up",
        ),
        pytest.param(
            situation(STOPPED, has_engine=False, has_kubernetes=False, **DOWN),
            SETTLED,
            id="5 no other controller, down",
        ),
        pytest.param(
            situation(STOPPED, ENGINE_STOPPED, NOT_RUNNING, **DOWN), SETTLED, id="6 engine gone"
        ),
        pytest.param(
            situation(
                STOPPED, condition("ContainerEngineReady", "True", "NotApplicable"), NOT_RUNNING,
                **DOWN,
            ),
            SETTLED,
            id="6 engine not applicable",
        ),
        pytest.param(situation(STOPPED, NOT_RUNNING, **DOWN), ENGINE_STALE, id="6 engine missing"),
        pytest.param(
            situation(STOPPED, CONNECTED, NOT_RUNNING, **DOWN), ENGINE_STALE, id="6 connected"
        ),
        pytest.param(
            situation(STOPPED, old(ENGINE_STOPPED), NOT_RUNNING, **DOWN),
            ENGINE_STALE,
            id="6 engine of before",
        ),
        pytest.param(
            situation(STOPPED, ENGINE_STOPPED, **DOWN), KUBERNETES_STALE, id="6 contexts left"
        ),
        pytest.param(
            situation(STOPPED, ENGINE_STOPPED, READY, **DOWN), KUBERNETES_STALE, id="6 ready"
        ),
        pytest.param(
            situation(STOPPED, ENGINE_STOPPED, old(NOT_RUNNING), **DOWN),
            KUBERNETES_STALE,
            id="6 contexts of before",
        ),
        pytest.param(
            situation(STOPPED, has_engine=False, **DOWN), KUBERNETES_STALE, id="7 only Kubernetes"
        ),
        pytest.param(
            situation(STOPPED, NOT_RUNNING, has_engine=False, **DOWN), SETTLED, id="7 and it is not"
        ),
        pytest.param(
            situation(STARTED),
            ("False", "WaitingForEngine", "Waiting for container engine condition"),
            id="8 engine missing",
        ),
        pytest.param(situation(STARTED, old(CONNECTED)), ENGINE_STALE, id="9 engine of before"),
        pytest.param(
            situation(STARTED, condition("ContainerEngineReady", "False", "ConnectFailed",
                                         message="refused")),
            ("False", "ConnectFailed", "refused"),
            id="10 engine not ready",
        ),
        pytest.param(
            situation(STARTED, CONNECTED, **CLUSTER),
            ("False", "WaitingForKubernetes", "Waiting for Kubernetes condition"),
            id="11 cluster missing",
        ),
        pytest.param(
            situation(STARTED, CONNECTED, old(READY), **CLUSTER),
            KUBERNETES_STALE,
            id="12 cluster of before",
        ),
        pytest.param(
            situation(STARTED, CONNECTED, condition("KubernetesReady", "False", "Probing",
                                                    message="m"), **CLUSTER),
            ("False", "Probing", "m"),
            id="13 cluster not ready",
        ),
        pytest.param(situation(STARTED, CONNECTED, READY, **CLUSTER), SETTLED, id="14 all"),
        pytest.param(situation(STARTED, CONNECTED), SETTLED, id="14 without a cluster"),
        pytest.param(
            situation(STARTED, CONNECTED, has_kubernetes=False, **CLUSTER),
            SETTLED,
            id="14 no kubernetes controller",
        ),
    ],
)  # fmt: skip
def test_settled(now: Situation, expected: tuple[str, str, str]) -> None:
    assert decide(now) == (names.SETTLED, *expected, 0)


@pytest.mark.parametrize(
    ("config_map", "enabled"),
    [
        pytest.param(None, True, id="no list"),
        pytest.param({"metadata": {}, "data": {}}, True, id="not ready yet"),
        pytest.param({"metadata": {"annotations": {"rdd.rancherdesktop.io/ready": "true"}}},
                     False, id="none"),
        pytest.param({"metadata": {"annotations": {"rdd.rancherdesktop.io/ready": "true"}},
                      "data": {"embedded": '{"enabledControllers": ["app", "engine"]}'}},
                     True, id="listed"),
        pytest.param({"metadata": {"annotations": {"rdd.rancherdesktop.io/ready": "true"}},
                      "data": {"embedded": '{"enabledControllers": null}',
                               "containers": '{"enabledControllers": ["engine"]}'}},
                     True, id="listed by another program"),
        pytest.param({"metadata": {"annotations": {"rdd.rancherdesktop.io/ready": "true"}},
                      "data": {"embedded": "{"}}, True, id="unreadable"),
    ],
)  # fmt: skip
def test_enabled_controllers(config_map: Any, enabled: bool) -> None:
    assert is_enabled("engine", config_map) is enabled


def test_rejects_reasons_that_are_not_in_the_table() -> None:
    with pytest.raises(KeyError):
        reasons.settled("MadeUp")


def test_page_contains_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "app.md").read_text()
    assert reasons.update(page) == page


def test_forwarded_messages() -> None:
    merge = reasons.kubernetes_ready("MergeFailed", "disk full")
    assert merge.message == "Failed to publish Kubernetes context: disk full"
    rejected = reasons.settled("Refused", "no")
    assert (rejected.status, rejected.message) == ("False", "no")
    assert reasons.settled("Refused").message.startswith("the LimaVM or its template")
