# SPDX-License-Identifier: Apache-2.0
"""Controllers of a real daemon: selection, readiness, fatal failures."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.service.service_world import World

from rdd.controllers import catalog

NOTARY: dict[str, Any] = {
    "apiVersion": "rdd.rancherdesktop.io/v1alpha1",
    "kind": "Notary",
    "metadata": {"namespace": "default"},
    "spec": {"configMapName": "record"},
}


def applied(world: World, obj: dict[str, Any]) -> None:
    path = world.home / "object.json"
    path.write_text(json.dumps(obj))
    world.kubectl("create", "-f", str(path))


def notary(name: str, value: str) -> dict[str, Any]:
    metadata = {**NOTARY["metadata"], "name": name}
    return {**NOTARY, "metadata": metadata, "spec": {**NOTARY["spec"], "value": value}}


def enabled(world: World) -> list[str] | None:
    place = ("configmap", "rdd-controller-manager", "-n", "rdd-system", "-o", "json")
    data = json.loads(world.kubectl("get", *place))["data"]
    found: list[str] | None = json.loads(data["embedded"])["enabledControllers"]
    return found


def test_first_write_after_each_of_many_starts_is_admitted(world: World) -> None:
    for count in range(6):
        if count % 3 == 2 and world.pid():
            world.crash()
        elif world.pid():
            world.rdd("svc", "stop")
        world.rdd("svc", "start")
        applied(world, notary(f"n{count}", "good"))
        with pytest.raises(AssertionError, match="cannot start with 'invalid'"):
            applied(world, notary(f"m{count}", "invalid"))
    assert enabled(world) == list(catalog.EMBEDDED)


@pytest.mark.parametrize("command", ["create", "start", "serve"])
def test_unknown_controllers_are_rejected_before_the_start(world: World, command: str) -> None:
    done = world.try_rdd("svc", command, "--controllers=rdd,nonsense")
    assert done.code == 1
    text = done.last[1]
    assert text.startswith("unknown controllers: nonsense; valid are *, ")
    for entry in catalog.ENTRIES:
        if entry.group != catalog.MOCK:
            assert f" {entry.name}" in text and f" {entry.group}" in text
    assert not Path(world.instance.dir, "db").exists()
    assert world.pid() == 0


def test_controllers_are_selected_for_all_starts_or_for_one(world: World) -> None:
    world.rdd("svc", "create", "--controllers=rdd,-hostinfo")
    world.rdd("svc", "start")
    assert enabled(world) == ["notary", "configmapreplicaset"]
    world.rdd("svc", "stop")
    world.rdd("svc", "start", "--controllers=")
    assert enabled(world) is None
    world.rdd("svc", "stop")
    world.rdd("svc", "start")
    assert enabled(world) == ["notary", "configmapreplicaset"]


def test_daemon_whose_controllers_cannot_start_ends_with_the_reason(world: World) -> None:
    world.rdd("svc", "start", "--controllers=")
    wrong = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "notaries.rdd.rancherdesktop.io"},
        "spec": {
            "group": "rdd.rancherdesktop.io",
            "scope": "Cluster",
            "names": {"plural": "notaries", "singular": "notary", "kind": "Notary"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    applied(world, wrong)
    world.rdd("svc", "stop")
    done = world.try_rdd("svc", "start")
    assert done.code == 1
    level, text = done.last
    assert level == "fatal"
    assert "failed to start: the controllers could not be started: " in text
    assert "spec.scope" in text and "field is immutable" in text
    assert world.pid() == 0
    assert not world.is_locked()
    world.rdd("svc", "start", "--controllers=*,-notary")  # the remedy
    world.kubectl("delete", "crd", "notaries.rdd.rancherdesktop.io")
    world.rdd("svc", "stop")
    world.rdd("svc", "start")


def test_incomplete_selection_is_logged(world: World) -> None:
    world.rdd("svc", "start", "--controllers=app")
    assert "controller app has limited functionality without limavm, engine" in world.log()
