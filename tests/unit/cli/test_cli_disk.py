# SPDX-License-Identifier: Apache-2.0
"""`rdd disk` and `rdd disk prune` without a control plane: files on this computer, arguments."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest
from rdd.host.trash import Trash
from rdd.instance import Instance

Rdd = Callable[..., Any]
MIB = 1 << 20


@pytest.fixture
def instance(home: Path) -> Instance:
    made = Instance("2", home)
    made.dir.mkdir(parents=True)
    made.args_file.write_text("[]")
    return made


def filled(path: Path, size: int = MIB) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def cached(home: Path, content: bytes, age_s: float = 0) -> Digest:
    cache = Cache(home / ".cache" / "rdd" / "files")
    path = cache.partial("test")
    path.write_bytes(content)
    digest = Digest.of(path)
    cache.add(path, digest)
    then = time.time() - age_s
    os.utime(cache._record(digest), (then, then))
    return digest


def by_name(found: Any) -> dict[tuple[str, str], int]:
    return {(item["machine"], item["name"]): item["bytes"] for item in found["host"]["items"]}


def test_files_of_machines_are_listed_by_what_they_are(rdd: Rdd, instance: Instance) -> None:
    machine = instance.lima_home / "rd"
    filled(machine / "lima.yaml", 1)
    filled(machine / "docker" / "overlay2" / "a" / "diff" / "file", 3 * MIB)
    filled(machine / "docker" / "volumes" / "v" / "_data" / "file", 2 * MIB)
    filled(machine / "docker" / "containers" / "c" / "c-json.log", MIB)
    filled(machine / "docker" / "network" / "files" / "local.db", MIB)
    filled(machine / "dockerd.log", 2 * MIB)
    filled(instance.log_dir / "rdd.stderr.log", MIB)
    filled(instance.database, MIB)
    done = rdd("disk", "-o", "json")
    assert done.code == 0
    found = json.loads(done.out)
    sizes = by_name(found)
    assert 3 * MIB <= sizes["rd", "images and containers"] < 3.2 * MIB
    assert 2 * MIB <= sizes["rd", "volumes"] < 2.2 * MIB
    assert MIB <= sizes["rd", "logs of containers"] < 1.2 * MIB
    assert 2 * MIB <= sizes["rd", "logs"] < 2.2 * MIB
    assert MIB <= sizes["rd", "others"] < 1.2 * MIB
    assert sizes["", "logs"] >= MIB
    assert sizes["", "database"] >= MIB
    assert found["host"]["bytes"] == sum(sizes.values())
    assert found["fileSystems"][0]["freeBytes"] > 0
    assert "control plane is not running" in found["engine"]["problem"]
    text = rdd("disk")
    assert "machine rd: volumes" in text.out
    assert "control plane is not running" in text.err


def test_image_that_a_machine_links_is_counted_once(
    rdd: Rdd, instance: Instance, home: Path
) -> None:
    digest = cached(home, b"y" * 4 * MIB)
    machine = instance.lima_home / "rd"
    filled(machine / "lima.yaml", 1)
    os.link(Cache(home / ".cache" / "rdd" / "files").path(digest), machine / "image")
    sizes = by_name(json.loads(rdd("disk", "-o", "json").out))
    assert sizes["rd", "base image"] >= 4 * MIB
    assert sizes["", "cache"] < MIB


def test_unknown_instance_is_an_error(rdd: Rdd, home: Path) -> None:
    for words in (("disk",), ("disk", "prune")):
        done = rdd(*words)
        assert done.code == 1
        assert "does not exist" in done.err
    assert list(home.iterdir()) == []


def test_cache_is_pruned_by_age_after_a_preview(rdd: Rdd, instance: Instance, home: Path) -> None:
    old, new = cached(home, b"old" * MIB, age_s=7200), cached(home, b"new")
    cache = Cache(home / ".cache" / "rdd" / "files")
    preview = rdd("disk", "prune", "cache", "--until=1h", "--dry-run")
    assert old.hexadecimal[:12] in preview.out
    assert new.hexadecimal[:12] not in preview.out
    assert "3.0 MiB in total" in preview.out
    assert {entry.digest for entry in cache.entries()} == {old, new}
    done = json.loads(rdd("disk", "prune", "cache", "--until=1h", "-y", "-o", "json").out)
    assert (done["removed"], done["kept"], done["dryRun"]) == (1, [], False)
    assert done["freedBytes"] == done["bytes"] >= 3 * MIB
    assert {entry.digest for entry in cache.entries()} == {new}


def test_unused_release_of_kubernetes_is_pruned_with_the_cache(
    rdd: Rdd, instance: Instance, home: Path
) -> None:
    program = filled(home / ".cache" / "rdd" / "k3s" / "v1.33.7+k3s3" / "k3s")
    assert "k3s/v1.33.7+k3s3" in rdd("disk", "prune", "cache", "--dry-run").out
    done = rdd("disk", "prune", "cache", "--yes")
    assert "1 items removed, 1.0 MiB freed" in done.out
    assert not program.parent.exists()


def test_trash_is_pruned_only_if_it_is_named(rdd: Rdd, instance: Instance) -> None:
    deleted = filled(instance.lima_home / "rd" / "disk")
    trash = Trash(instance.trash_dirs)
    entry = trash.add(
        {"lima/rd": deleted.parent}, instance="2", kind="machine", name="rd", details={}
    )
    assert entry is not None
    assert rdd("disk", "prune", "cache", "--yes").code == 0
    assert [one.id for one in trash.entries()] == [entry.id]
    done = rdd("disk", "prune", "trash", "--yes")
    assert "1 items removed, 1.0 MiB freed" in done.out
    assert trash.entries() == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(["imags"], 'cannot prune "imags"; did you mean "images"?', id="what"),
        pytest.param(["everything"], "valid values: containers, images", id="far away"),
        pytest.param(["--until=soon"], "--until", id="duration"),
        pytest.param(["--until=-1h"], "--until must not be negative", id="negative"),
        pytest.param(["cache", "--label=a"], "cache has no labels", id="label"),
        pytest.param(["-o", "xml"], "unknown output format", id="output"),
        pytest.param(["images"], "control plane is not running", id="no control plane"),
    ],
)
def test_invalid_arguments_of_prune(
    words: list[str], text: str, rdd: Rdd, instance: Instance
) -> None:
    done = rdd("disk", "prune", *words)
    assert done.code == 1
    assert text in done.err.replace('\\"', '"')
