# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the App with a real engine: made, restored, exported, imported."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.app.filled_world import assert_filled, docker, fill, world
from tests.e2e.service.service_world import World

__all__ = ["world"]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an engine of its own needs root here"),
    pytest.mark.timeout(400),
]


_UPDATES = "jsonpath={.spec.application.updates.enabled}"


def snapshots(world: World) -> list[Any]:
    found: list[Any] = world.rdd("snapshot", "ls", "-o", "json").json()
    return found


def test_app_is_saved_restored_exported_and_imported(world: World, tmp_path: Path) -> None:
    fill(world)
    root = world.instance.lima_home / "rd" / "docker" / "volumes" / "data" / "_data"
    (root / "file").write_text("before")
    world.rdd("snapshot", "create", "first", "--description", "before it breaks")
    assert_filled(world)  # the machine continues
    (root / "file").write_text("after")
    docker(world, "rm", "web")
    world.rdd("set", "application.updates.enabled=false")

    world.rdd("snapshot", "restore", "first")
    world.rdd("start")
    assert_filled(world)
    assert (root / "file").read_text() == "before"
    assert world.kubectl("get", "app", "app", "-o", _UPDATES) == "true"
    (kept,) = world.rdd("trash", "ls", "-o", "json").json()
    assert kept["content"] == "machine rd"

    archive = tmp_path / "first.rdd"
    world.rdd("snapshot", "export", "first", str(archive))
    assert archive.stat().st_mode & 0o777 == 0o600
    (found,) = snapshots(world)
    assert (found["name"], found["scope"], found["state"]) == ("first", "app", "Complete")
    assert found["description"] == "before it breaks"
    assert found["size"] > 1_000_000
    content = Path(found["path"])
    assert content.is_dir()

    world.rdd("delete", "--yes", "--no-trash")
    world.rdd("svc", "reset", "--no-trash")
    assert [one["name"] for one in snapshots(world)] == ["first"]  # kept by both
    world.rdd("snapshot", "rm", "first")
    assert not content.exists()

    refused = world.try_rdd("snapshot", "restore", "first")
    assert (refused.code, "there is no snapshot" in refused.last[1]) == (1, True)
    world.rdd("snapshot", "import", str(archive), "--name", "second")
    world.rdd("snapshot", "restore", "second")
    world.rdd("start")
    assert_filled(world)
    assert (root / "file").read_text() == "before"
    (again,) = snapshots(world)
    assert (again["name"], again["created"]) == ("second", found["created"])
    assert json.loads(world.kubectl("get", "snapshot", "second", "-o", "json"))["spec"] == {
        "scope": {"kind": "App"},
        "description": "before it breaks",
    }
