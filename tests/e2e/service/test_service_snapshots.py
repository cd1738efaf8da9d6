# SPDX-License-Identifier: Apache-2.0
"""What happens to snapshots when the instance is deleted."""

import json
from pathlib import Path

from tests.e2e.service.service_world import Done, World


def delete_from(world: World, folder: Path, *words: str) -> Done:
    """Run `rdd service delete` in a directory."""
    command = ("service", "delete", *words)
    return world.end(world.begin_program("env", f"--chdir={folder}", world.script, *command))


def test_deletion_names_its_snapshots_and_exports_them(world: World, tmp_path: Path) -> None:
    world.rdd("service", "start")
    for name in ("one", "two"):
        world.kubectl("create", "namespace", name)
        world.kubectl("create", "configmap", "saved", "-n", name, f"--from-literal=of={name}")
        world.rdd("snapshot", "create", name, "--scope", f"namespace/{name}")
    shown = world.on_terminal("service", "delete", typed="n\n")
    assert shown.code == 1
    assert "It also deletes these snapshots" in shown.out
    assert "one, two; the trash does not keep them; --keep-snapshots exports them" in shown.out
    assert "The trash keeps the database and the machines for 7 days" in shown.out
    assert "nothing was changed" in shown.out
    assert world.pid()

    # What cannot be exported keeps everything: a file in the way, an unreadable snapshot.
    first, second = (tmp_path / f"{world.instance.name}-{name}.rdd" for name in ("one", "two"))
    second.touch()
    refused = delete_from(world, tmp_path, "--keep-snapshots")
    assert refused.code == 1
    assert refused.last[1].endswith("exists; nothing was deleted")
    second.unlink()
    (manifest,) = world.instance.snapshot_dirs[0].glob("two/manifest.json")
    text = manifest.read_text()
    manifest.write_text(json.dumps({**json.loads(text), "format": 99}))
    refused = delete_from(world, tmp_path, "--keep-snapshots")
    assert (refused.code, "format 99 of a newer rdd" in refused.last[1]) == (1, True)
    assert not first.exists()
    assert world.pid()
    manifest.write_text(text)

    deleted = delete_from(world, tmp_path, "--keep-snapshots")
    assert deleted.code == 0, deleted
    assert deleted.out.split() == [str(first), str(second)]
    assert not world.instance.dir.exists()
    assert [path for path in world.instance.snapshot_dirs if path.exists()] == []

    # The trash has the database, whose snapshots have no content any more; the archive does.
    (kept,) = world.rdd("trash", "ls", "-o", "json").json()
    world.rdd("trash", "restore", kept["id"])
    world.rdd("service", "start")
    refused = world.try_rdd("snapshot", "restore", "one")
    assert refused.code == 1, refused
    world.rdd("snapshot", "import", str(second), "--name", "imported")
    world.kubectl("delete", "configmap", "saved", "-n", "two")
    world.rdd("snapshot", "restore", "imported")
    assert world.kubectl("get", "cm", "saved", "-n", "two", "-o", "jsonpath={.data.of}") == "two"


def test_deletion_without_a_terminal_removes_snapshots(world: World) -> None:
    world.rdd("service", "start")
    world.rdd("snapshot", "create", "one", "--scope", "namespace/default")
    world.rdd("service", "delete")
    assert [path for path in world.instance.snapshot_dirs if path.exists()] == []
