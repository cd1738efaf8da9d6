# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the App with a real engine: made, restored, exported, imported."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.app.filled_world import assert_filled, docker, fill, world
from tests.e2e.service.service_world import World
from tests.programs import run_program

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


def test_volume_and_settings_are_moved_as_files(world: World, tmp_path: Path) -> None:
    fill(world)
    volumes = world.instance.lima_home / "rd" / "docker" / "volumes"
    source = volumes / "data" / "_data"
    (source / "d").mkdir()
    (source / "d" / "file").write_text("content")
    os.chown(source / "d" / "file", 1234, 2345)
    (source / "d" / "file").chmod(0o640)
    os.utime(source / "d" / "file", (10**9, 10**9))
    backup = tmp_path / "data.tar"
    world.rdd("volume", "backup", "data", str(backup))
    assert "exists" in world.try_rdd("volume", "backup", "data", str(backup)).last[1]
    world.rdd("volume", "restore", "copy", str(backup))
    found = (volumes / "copy" / "_data" / "d" / "file").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1234, 2345, 0o640)
    assert found.st_mtime == 10**9
    assert "already" in world.try_rdd("volume", "restore", "copy", str(backup)).last[1]
    world.rdd("volume", "restore", "copy", str(backup), "--overwrite")
    (tmp_path / "cut.tar").write_bytes(backup.read_bytes()[:-8192])
    refused = world.try_rdd("volume", "restore", "other", str(tmp_path / "cut.tar"))
    assert "no complete tar archive" in refused.last[1]
    assert docker(world, "volume", "ls", "-q").split() == ["copy", "data"]

    settings = tmp_path / "settings.yaml"
    world.rdd("settings", "export", str(settings))
    assert "cpus" not in settings.read_text()  # a default
    world.rdd("set", "application.updates.enabled=false", "downloads.automatic=true")
    world.rdd("settings", "import", str(settings))
    assert world.kubectl("get", "app", "app", "-o", _UPDATES) == "true"
    assert world.kubectl("get", "app", "app", "-o", "jsonpath={.spec.downloads}") in ("", "{}")
    world.kubectl("apply", "-f", str(settings))
    (tmp_path / "bad.yaml").write_text(settings.read_text() + "  unknown: 1\n")
    refused = world.try_rdd("settings", "import", str(tmp_path / "bad.yaml"))
    assert "unknown" in refused.last[1]
    (tmp_path / "other.yaml").write_text("kind: ConfigMap\n")
    refused = world.try_rdd("settings", "import", str(tmp_path / "other.yaml"))
    assert "expected an App" in refused.last[1]


def test_namespace_is_restored_with_its_owners(world: World, tmp_path: Path) -> None:
    world.rdd("service", "start")
    world.kubectl("create", "namespace", "team")
    world.kubectl("create", "configmap", "owner", "-n", "team", "--from-literal=a=1")
    uid = world.kubectl("get", "cm", "owner", "-n", "team", "-o", "jsonpath={.metadata.uid}")
    child = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "child",
            "namespace": "team",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
            ],
        },
    }
    (tmp_path / "child.json").write_text(json.dumps(child))
    world.kubectl("apply", "-f", str(tmp_path / "child.json"))
    world.rdd("snapshot", "create", "team", "--scope", "namespace/team")
    world.kubectl("delete", "cm", "owner", "-n", "team")
    world.kubectl("create", "configmap", "later", "-n", "team")

    world.rdd("snapshot", "restore", "team")
    world.rdd("snapshot", "restore", "team", "--as", "copy")
    for namespace in ("team", "copy"):
        get = ("get", "-n", namespace, "-o")
        new = world.kubectl(*get, "jsonpath={.metadata.uid}", "cm", "owner")
        assert new != uid
        owner = world.kubectl(
            *get, "jsonpath={.metadata.ownerReferences[0].uid}", "secret", "child"
        )
        assert owner == new
    assert (
        world.kubectl("get", "cm", "later", "-n", "team", "-o", "name").strip() == "configmap/later"
    )

    world.kubectl("patch", "cm", "owner", "-n", "team", "-p", '{"immutable":true,"data":{"a":"2"}}')
    refused = world.try_rdd("snapshot", "restore", "team")
    assert "immutable" in refused.last[1]
    assert world.kubectl("get", "cm", "owner", "-n", "team", "-o", "jsonpath={.data.a}") == "2"
    missing = world.try_rdd("snapshot", "create", "none", "--scope", "namespace/none")
    assert 'there is no namespace "none"' in missing.last[1]
    assert [one["name"] for one in snapshots(world)] == ["team"]


def test_containerd_is_restored_here_and_in_another_instance(
    world: World, tmp_path: Path, real_part: Callable[[str], Path]
) -> None:
    ctr = real_part("ctr")

    def namespaces(at: World, *words: str) -> list[str]:
        socket = at.instance.lima_home / "rd" / "sock" / "containerd.sock"
        done = run_program([ctr, "-a", socket, "namespaces", *(words or ("ls", "-q"))])
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.split())

    world.rdd("set", "running=true", "virtualMachine.type=host", "containerEngine.name=containerd")
    namespaces(world, "create", "kept")
    world.rdd("snapshot", "create", "first")
    namespaces(world, "remove", "kept")
    namespaces(world, "create", "later")
    world.rdd("snapshot", "restore", "first")
    assert "kept" in namespaces(world)
    assert "later" not in namespaces(world)

    archive = tmp_path / "first.rdd"
    world.rdd("snapshot", "export", "first", str(archive))
    other = world.named("t2")
    try:
        other.rdd("snapshot", "import", str(archive), "--name", "moved")
        other.rdd("snapshot", "restore", "moved")
        other.rdd("start")
        assert "kept" in namespaces(other)
    finally:
        other.try_rdd("svc", "delete", "--no-trash")
