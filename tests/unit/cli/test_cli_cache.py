# SPDX-License-Identifier: Apache-2.0
"""`rdd cache`: list, remove, collect, export and import fetched files."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest
from rdd.instance import Instance
from rdd.vm.drivers.kubernetes_files import has_program
from rdd.vm.drivers.kubernetes_files import releases as kubernetes_releases
from rdd.vm.instance_dir import LimaHome

Rdd = Callable[..., Any]
DAY_S = 86_400.0


@pytest.fixture
def cache(home: Path) -> Cache:
    return Cache(home / ".cache" / "rdd" / "files")


@pytest.fixture
def instance(home: Path) -> Instance:
    return Instance("2", home)


def added(cache: Cache, content: bytes, location: str = "") -> Digest:
    path = cache.partial("test")
    path.write_bytes(content)
    digest = Digest.of(path)
    cache.add(path, digest, location=location)
    return digest


def test_empty_cache_lists_nothing_and_is_not_created(rdd: Rdd, home: Path) -> None:
    assert rdd("cache", "ls").out == "DIGEST   SIZE   LAST USED   IN USE   SOURCE\n"
    assert rdd("cache", "ls", "-o", "json").out == "[]\n"
    assert rdd("cache", "gc").code == 0
    assert list(home.iterdir()) == []


def test_files_are_listed(rdd: Rdd, cache: Cache) -> None:
    digest = added(cache, b"x" * 5000, "https://files.example/k3s")
    header, row = rdd("cache", "ls").out.splitlines()
    assert header.split() == ["DIGEST", "SIZE", "LAST", "USED", "IN", "USE", "SOURCE"]
    assert row.split()[0] == digest.hexadecimal[:12]
    assert row.endswith("https://files.example/k3s")
    (found,) = json.loads(rdd("cache", "ls", "-o", "json").out)
    assert (found["digest"], found["pins"], found["isLinked"]) == (str(digest), [], False)


def test_file_is_removed_by_a_prefix_of_its_digest(rdd: Rdd, cache: Cache) -> None:
    one, two = added(cache, b"one"), added(cache, b"two")
    assert rdd("cache", "rm", one.hexadecimal[:12]).code == 0
    assert [entry.digest for entry in cache.entries()] == [two]
    outcome = rdd("cache", "rm", "zzz")
    assert outcome.code == 1
    assert 'the cache has no file \\"zzz\\"' in outcome.err


def test_file_in_use_is_not_removed(rdd: Rdd, cache: Cache, tmp_path: Path) -> None:
    one, two = added(cache, b"one"), added(cache, b"two")
    cache.pin(one, "2-uid")
    os.link(cache.path(two), tmp_path / "disk")
    for digest in (one, two):
        outcome = rdd("cache", "rm", str(digest))
        assert outcome.code == 1
        assert "in use" in outcome.err
    assert rdd("cache", "gc", "--max-age=0s", "--max-size=0").code == 0
    assert {entry.digest for entry in cache.entries()} == {one, two}


def test_collection_removes_what_exceeds_the_size(rdd: Rdd, cache: Cache) -> None:
    digest = added(cache, b"one")
    assert "would remove" in rdd("cache", "gc", "--max-size=1", "--dry-run").out
    assert [entry.digest for entry in cache.entries()] == [digest]
    assert rdd("cache", "gc", "--max-size=1").code == 0
    assert list(cache.entries()) == []


def test_rejects_an_invalid_size(rdd: Rdd) -> None:
    outcome = rdd("cache", "gc", "--max-size=lots")
    assert outcome.code == 1
    assert "is not a size such as 20GiB" in outcome.err


def test_files_move_in_an_archive(rdd: Rdd, cache: Cache, tmp_path: Path) -> None:
    digest = added(cache, b"one", "https://files.example/one")
    archive = tmp_path / "a.tar"
    assert rdd("cache", "export", str(archive)).out == f"{archive}\n"
    assert archive.stat().st_mode & 0o777 == 0o600
    cache.remove(digest)
    assert rdd("cache", "import", str(archive)).code == 0
    assert [entry.digest for entry in cache.entries()] == [digest]
    archive.write_bytes(b"damaged")
    outcome = rdd("cache", "import", str(archive))
    assert outcome.code == 1
    assert "is not an archive of the cache, or damaged" in outcome.err
    outcome = rdd("cache", "import", str(tmp_path / "missing"))
    assert "No such file or directory" in outcome.err


def test_digests_are_completed(rdd: Rdd, cache: Cache) -> None:
    digest = added(cache, b"one")
    assert digest.hexadecimal[:12] in rdd("__complete", "cache", "rm", "").out


def release(home: Path, cache: Cache, name: str, age_s: float = 0) -> Digest:
    """Create a release of Kubernetes: a program of its own, and images that the cache has, too."""
    digest = added(cache, b"images of " + name.encode() * 1000)
    directory = home / ".cache" / "rdd" / "k3s" / name
    directory.mkdir(parents=True)
    (directory / "k3s").write_bytes(b"#!/bin/sh\n" * 5000)
    (directory / "k3s").chmod(0o755)
    os.link(cache.path(digest), directory / "k3s-airgap-images-amd64.tar.zst")
    then = time.time() - age_s
    for path in (directory, cache._record(digest)):
        os.utime(path, (then, then))
    return digest


def machine(instance: Instance, release: str) -> None:
    directory = LimaHome(instance.lima_home).directory("rd").path
    directory.mkdir(parents=True)
    param = {"KUBERNETES_ENABLED": "true", "KUBERNETES_RELEASE": release}
    (directory / "lima.yaml").write_text(json.dumps({"vmType": "host", "param": param}))
    instance.dir.mkdir(parents=True, exist_ok=True)
    instance.args_file.write_text("[]")


def releases(home: Path) -> set[str]:
    return {path.name for path in (home / ".cache" / "rdd" / "k3s").iterdir()}


def test_releases_of_kubernetes_are_listed_and_removed(
    rdd: Rdd, home: Path, cache: Cache, instance: Instance
) -> None:
    digest = release(home, cache, "v1.33.7+k3s3")
    release(home, cache, "v1.34.1+k3s1")
    machine(instance, "v1.34.1+k3s1")
    rows = [line.split() for line in rdd("cache", "ls").out.splitlines()]
    assert [row[0] for row in rows[3:]] == ["k3s/v1.33.7+k3s3", "k3s/v1.34.1+k3s1"]
    found = json.loads(rdd("cache", "ls", "-o", "json").out)[2:]
    assert [one["machines"] for one in found] == [[], [f"{instance.suffix}/rd"]]
    assert all(one["sizeBytes"] < 100_000 for one in found)  # the images count once
    refused = rdd("cache", "rm", "k3s/v1.34.1+k3s1", "k3s/v1.33.7+k3s3")
    assert (refused.code, f"by machine {instance.suffix}/rd" in refused.err) == (1, True)
    assert releases(home) == {"v1.33.7+k3s3", "v1.34.1+k3s1"}
    assert rdd("cache", "rm", str(digest)).code == 1  # linked by the release
    assert rdd("cache", "rm", "k3s/v1.33.7+k3s3", str(digest)).code == 0
    assert releases(home) == {"v1.34.1+k3s1"}
    assert cache.find(digest) is None
    outcome = rdd("cache", "rm", "k3s/v1.33.7+k3s3")
    assert (outcome.code, "the cache has no" in outcome.err) == (1, True)
    assert "k3s/v1.34.1+k3s1" in rdd("__complete", "cache", "rm", "").out


def test_collection_removes_unused_releases_with_their_images(
    rdd: Rdd, home: Path, cache: Cache, instance: Instance
) -> None:
    old = release(home, cache, "v1.32.1+k3s1", age_s=100 * DAY_S)
    used = release(home, cache, "v1.33.7+k3s3", age_s=100 * DAY_S)
    young = release(home, cache, "v1.34.1+k3s1")
    machine(instance, "v1.33.7+k3s3")
    preview = rdd("cache", "gc", "--dry-run").out
    assert "k3s/v1.32.1+k3s1" in preview
    assert "k3s/v1.33.7+k3s3" not in preview
    assert releases(home) == {"v1.32.1+k3s1", "v1.33.7+k3s3", "v1.34.1+k3s1"}
    assert rdd("cache", "gc").code == 0
    assert releases(home) == {"v1.33.7+k3s3", "v1.34.1+k3s1"}
    assert [digest for digest in (old, used, young) if cache.find(digest)] == [used, young]
    assert rdd("cache", "gc", "--max-size=0").code == 0
    assert releases(home) == {"v1.33.7+k3s3"}
    assert cache.find(used) is not None


def test_use_of_a_release_is_recorded(home: Path, cache: Cache) -> None:
    release(home, cache, "v1.33.7+k3s3", age_s=100 * DAY_S)
    environment = {"HOME": str(home)}
    assert has_program("v1.33.7+k3s3", environment)
    assert not has_program("v1.34.1+k3s1", environment)
    (found,) = kubernetes_releases(environment)
    assert time.time() - found.used_at < DAY_S
