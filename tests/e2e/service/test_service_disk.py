# SPDX-License-Identifier: Apache-2.0
"""Full, read-only and missing disks: one clear line, no data lost."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.service.service_world import Done, World
from tests.programs import run_program

from rdd.instance import Instance

Mounted = Callable[..., Path]


def one_line(done: Done) -> str:
    """Return the only line that a failure may print besides progress."""
    assert done.code == 1, done
    assert "Traceback" not in done.err
    level, text = done.last
    assert level == "fatal"
    return text


def fill(directory: Path, *, leave_bytes: int = 0) -> Path:
    """Fill a file system."""
    path = directory / "ballast"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(64 * 1024))
        except OSError:
            pass
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass
        if leave_bytes:
            file.truncate(file.tell() - leave_bytes)
    return path


def test_full_disk_is_named_before_anything_is_created(world: World, mounted: Mounted) -> None:
    mounted(world.home)
    fill(world.home)
    text = one_line(world.try_rdd("svc", "start"))
    assert "No space left on device" in text
    assert str(world.instance.dir) in text
    assert world.pid() == 0


@pytest.mark.parametrize("left_kib", [0, 16, 96, 200])
def test_disk_that_fills_up_keeps_the_data_and_recovers(
    world: World, mounted: Mounted, left_kib: int
) -> None:
    mounted(world.home, options="size=8m")
    world.rdd("svc", "start")
    world.write_first("treasure")
    world.rdd("svc", "stop")
    ballast = fill(world.home, leave_bytes=left_kib * 1024)
    done = world.try_rdd("svc", "start")
    if done.code != 0:
        text = one_line(done)
        assert "o space left on device" in text or "disk is full" in text, text
        assert world.pid() == 0
    else:
        world.rdd("svc", "stop")
    ballast.unlink()
    world.rdd("svc", "start")
    assert "treasure" in world.kubectl("get", "cm", "-o", "name")
    world.write_first()


def test_start_on_a_full_disk_after_a_crash_ends_and_the_next_one_succeeds(
    world: World, mounted: Mounted
) -> None:
    """The log of the database is so long that it is checkpointed during the start."""
    mounted(world.home, options="size=48m")
    world.rdd("svc", "start")
    data = {"a": os.urandom(250_000).hex()}
    names = [f"treasure-{number}" for number in range(20)]
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        for name in names
    ]
    file = world.home / "list.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    world.kubectl("create", "-f", str(file))
    file.unlink()
    world.crash()
    ballast = fill(world.home, leave_bytes=68 * 1024)
    done = world.try_rdd("svc", "start")
    if done.code != 0:
        assert "o space left on device" in one_line(done)
        assert world.pid() == 0
    ballast.unlink()
    world.rdd("svc", "start")
    assert {f"configmap/{name}" for name in names} <= set(
        world.kubectl("get", "cm", "-o", "name").split()
    )
    world.write_first()


def test_read_only_home_is_named(world: World, mounted: Mounted) -> None:
    mounted(world.home, options="size=8m")
    world.rdd("svc", "create")
    run_program(["mount", "-o", "remount,ro", str(world.home)], check=True)
    for words in (["svc", "start"], ["svc", "config"], ["svc", "delete"], ["svc", "reset"]):
        text = one_line(world.try_rdd(*words))
        assert "Read-only file system" in text
    other = world.named("other")
    assert "Read-only file system" in one_line(other.try_rdd("svc", "create"))
    assert world.rdd("svc", "status", "-o", "json").json()["created"] is True
    assert world.rdd("svc", "stop").messages == [f"{world.title} is already stopped"]


def test_unwritable_log_directory_is_named(world: World, mounted: Mounted) -> None:
    logs = mounted(world.home / "logs")
    run_program(["mount", "-o", "remount,ro", str(logs)], check=True)
    world.variables["RDD_LOG_DIR"] = str(logs)
    text = one_line(world.try_rdd("svc", "start"))
    assert str(logs) in text
    assert "Read-only file system" in text
    assert world.pid() == 0


def test_file_in_place_of_a_directory_is_named(world: World) -> None:
    instance = Instance(world.suffix, world.home)
    instance.log_dir.parent.mkdir(parents=True)
    instance.log_dir.write_text("a file")
    assert str(instance.log_dir) in one_line(world.try_rdd("svc", "start"))
    instance.log_dir.unlink()
    instance.short_dir.write_text("a file")  # publishing tools is best effort
    world.rdd("svc", "start")
    assert "tools were not published" in world.log()
    world.rdd("svc", "stop")
    os.unlink(instance.short_dir)
