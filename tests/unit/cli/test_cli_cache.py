# SPDX-License-Identifier: Apache-2.0
"""`rdd cache`: list, remove, collect, export and import fetched files."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest

Rdd = Callable[..., Any]


@pytest.fixture
def cache(home: Path) -> Cache:
    return Cache(home / ".cache" / "rdd" / "files")


def added(cache: Cache, content: bytes, location: str = "") -> Digest:
    path = cache.partial("test")
    path.write_bytes(content)
    digest = Digest.of(path)
    cache.add(path, digest, location=location)
    return digest


def test_empty_cache_lists_nothing_and_is_not_created(rdd: Rdd, home: Path) -> None:
    assert rdd("cache", "ls").out == ""
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
