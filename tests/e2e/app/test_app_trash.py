# SPDX-License-Identifier: Apache-2.0
"""The trash with a real engine: reset, delete and service delete can be undone."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.app.filled_world import assert_filled, docker, fill, world
from tests.e2e.machine.limavm_parts import PLAIN
from tests.e2e.service.service_world import World
from tests.programs import run_program

__all__ = ["world"]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an engine of its own needs root here"),
    pytest.mark.timeout(300),
]


def trash(world: World) -> list[Any]:
    found: list[Any] = world.rdd("trash", "ls", "-o", "json").json()
    return found


def newest(world: World) -> str:
    return str(trash(world)[0]["id"])


def settings(world: World) -> dict[str, Any]:
    """Return the settings whose source is a change, not a default."""
    found = world.rdd("get", "-o", "json").json()
    return {one["property"]: one["value"] for one in found if one["source"].startswith("set")}


def test_reset_delete_and_their_undo(world: World) -> None:
    fill(world)
    shown = world.on_terminal("reset", typed="n\n")
    assert "The trash keeps the machine for 7 days" in shown.out
    assert trash(world) == []
    world.rdd("reset", "--yes")
    assert docker(world, "volume", "ls", "-q") == ""
    (entry,) = trash(world)
    assert (entry["instance"], entry["content"]) == ("t1", "machine rd")
    root = Path(entry["path"]).parent
    assert not root.is_relative_to(world.instance.dir)
    assert not root.is_relative_to(world.instance.short_dir)
    assert root.stat().st_mode & 0o777 == 0o700

    world.rdd("trash", "restore", entry["id"])
    assert_filled(world)
    assert [found["id"] for found in trash(world)] != [entry["id"]]  # the empty machine

    world.rdd("set", "registries.insecure=one:5000", "virtualMachine.memory=3Gi")
    refused = world.try_rdd("limavm", "delete", "rd", "--yes", "--no-trash")
    assert "owned by App" in refused.last[1]
    world.rdd("delete", "--yes")
    assert trash(world)[0]["content"] == "machine rd, settings"
    world.rdd("trash", "restore", newest(world))
    assert settings(world) == {
        "registries.insecure": ["one:5000"],
        "virtualMachine.memory": "3Gi",
        "virtualMachine.type": "host",
    }
    world.rdd("start")
    assert_filled(world)

    world.rdd("delete", "--yes", "--no-trash")
    assert len(trash(world)) == 1
    world.rdd("set", "registries.insecure=two:5000")
    assert settings(world).keys() == {"registries.insecure"}
    world.rdd("delete", "--yes", "--no-trash")
    assert len(trash(world)) == 1
    world.rdd("trash", "empty", "--yes")
    assert trash(world) == []
    assert not root.exists()


def test_deleted_instance_leaves_no_path_no_key_and_is_restored(world: World) -> None:
    fill(world)
    uid = world.kubectl("get", "app", "app", "-o", "jsonpath={.metadata.uid}")
    tokens = json.loads(world.instance.tokens_file.read_text())
    secrets = [text for text in _strings(tokens) if len(text) > 16]
    assert secrets
    paths = [Path(path) for path in world.rdd("svc", "paths", "-o", "json").json().values()]
    assert any(path.exists() for path in paths)
    assert world.rdd("svc", "delete").messages == [f"{world.title} has been deleted"]
    assert [path for path in paths if path.exists()] == []
    (entry,) = trash(world)
    assert entry["content"] == "database, machine rd"
    for path in Path(entry["path"]).rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            assert b"PRIVATE KEY" not in content, path
            assert not [text for text in secrets if text.encode() in content], path

    world.rdd("trash", "restore", entry["id"])
    world.rdd("start")
    assert_filled(world)
    assert world.kubectl("get", "app", "app", "-o", "jsonpath={.metadata.uid}") == uid
    assert json.loads(world.instance.tokens_file.read_text()) != tokens


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _strings(member)


def test_reset_database_is_swapped_with_the_present_one(world: World) -> None:
    world.rdd("svc", "start")
    world.write_first("treasure")
    template = world.home / "vm.yaml"
    template.write_text(PLAIN)
    world.rdd("limavm", "create", "vm", str(template))
    world.kubectl("wait", "limavm/vm", "--for=condition=Created", "--timeout=60s")
    world.rdd("svc", "reset")
    assert not (world.instance.lima_home / "vm").exists()
    first = newest(world)
    world.write_first("second")
    world.rdd("trash", "restore", first)
    assert "treasure" in world.kubectl("get", "cm", "-o", "name")
    world.kubectl("wait", "limavm/vm", "--for=condition=Created", "--timeout=60s")
    assert (world.instance.lima_home / "vm").is_dir()
    world.rdd("trash", "restore", newest(world))
    assert "second" in world.kubectl("get", "cm", "-o", "name")
    world.rdd("svc", "reset", "--no-trash")
    assert list(world.instance.dir.glob("db-*")) == []


def test_machine_is_restored_with_its_template(world: World) -> None:
    template = world.home / "vm.yaml"
    template.write_text(PLAIN + "message: mine\n")
    world.rdd("limavm", "create", "vm", str(template), "--start")
    (world.instance.lima_home / "vm" / "mark").touch()
    world.rdd("limavm", "delete", "vm", "--yes")
    entry = newest(world)
    done = world.try_rdd("trash", "restore", f"{entry}x")
    assert (done.code, done.last[0]) == (1, "fatal")
    assert f'did you mean "{entry}"?' in done.last[1]
    world.rdd("trash", "restore", entry)
    assert (world.instance.lima_home / "vm" / "mark").exists()
    world.rdd("limavm", "start", "vm")
    assert "message: mine" in (world.instance.lima_home / "vm" / "lima.yaml").read_text()
    world.rdd("limavm", "reset", "vm", "--yes", "--no-trash")
    assert not (world.instance.lima_home / "vm" / "mark").exists()
    assert trash(world) == []


def test_short_space_frees_the_trash(world: World, mounted: Callable[..., Path]) -> None:
    mounted(world.home, options="size=64m")
    template = world.home / "vm.yaml"
    template.write_text(PLAIN)
    for name in ("one", "two"):
        world.rdd("limavm", "create", name, str(template))
        world.kubectl("wait", f"limavm/{name}", "--for=condition=Created", "--timeout=60s")
    world.rdd("limavm", "delete", "one", "--yes")
    assert [found["name"] for found in trash(world)] == ["one"]
    ballast = shutil.disk_usage(world.home).free - (5 << 20)
    run_program(["fallocate", "-l", str(ballast), str(world.home / "ballast")], check=True)
    shown = world.on_terminal("limavm", "delete", "two", typed="n\n")
    assert "cannot be undone" in shown.out
    assert trash(world) == []
    world.rdd("limavm", "delete", "two", "--yes")
    assert trash(world) == []


def test_machine_on_another_file_system_is_deleted_at_once(
    world: World, mounted: Callable[..., Path]
) -> None:
    mounted(world.instance.short_dir, options="size=64m")
    template = world.home / "vm.yaml"
    template.write_text(PLAIN)
    world.rdd("limavm", "create", "vm", str(template))
    world.kubectl("wait", "limavm/vm", "--for=condition=Created", "--timeout=60s")
    shown = world.on_terminal("limavm", "delete", "vm", typed="y\n")
    assert "another file system" in shown.out
    assert trash(world) == []
    assert not (world.instance.lima_home / "vm").exists()

    world.rdd("set", "virtualMachine.type=host", "registries.insecure=one:5000")
    world.kubectl("wait", "limavm/rd", "--for=condition=Created", "--timeout=60s")
    kept = settings(world)
    world.rdd("delete", "--yes")
    (entry,) = trash(world)
    assert entry["content"] == "settings"
    world.rdd("trash", "restore", entry["id"])
    assert (settings(world), trash(world)) == (kept, [])
    world.rdd("delete", "--yes")
    world.rdd("set", "registries.insecure=two:5000")
    done = world.try_rdd("trash", "restore", newest(world))
    assert (done.code, "the App exists" in done.last[1]) == (1, True)
