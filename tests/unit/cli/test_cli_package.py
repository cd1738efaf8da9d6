# SPDX-License-Identifier: Apache-2.0
"""`rdd package`: keys, and files that are no packages. Installing is in tests/e2e/app."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest
from rdd.fetch.packages import Manifest, PackagedFile, write_package

Rdd = Callable[..., Any]


def test_key_is_created_once(rdd: Rdd, home: Path) -> None:
    first = rdd("package", "key")
    assert first.out.startswith("sha256:")
    assert (home / ".config" / "rdd" / "package-key.pem").stat().st_mode & 0o777 == 0o600
    assert rdd("package", "key").out == first.out


@pytest.mark.parametrize("command", ["show", "install"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param(b"", "is not a package", id="empty"),
        pytest.param(b"x" * 5000, "is not a package", id="text"),
    ],
)
def test_what_is_no_package_is_refused(
    rdd: Rdd, home: Path, tmp_path: Path, command: str, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "package"
    if content is not None:
        path.write_bytes(content)
    outcome = rdd("package", command, str(path))
    assert (outcome.code, problem in outcome.err) == (1, True)
    assert not (home / ".cache").exists()


def test_package_for_another_platform_is_refused(rdd: Rdd, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    partial = cache.partial("test")
    partial.write_bytes(b"helm")
    digest = Digest.of(partial)
    cache.add(partial, digest)
    url = "https://get.helm.sh/helm.tgz"
    file = PackagedFile(digest, 4, "linux/s390x", "tool", "helm", "3.19.0", url)
    path = tmp_path / "package"
    write_package(Manifest((file,)), cache, path, None)
    outcome = rdd("package", "install", str(path))
    assert "is not signed; nothing was installed" in outcome.err
    outcome = rdd("package", "install", "--allow-unsigned", str(path))
    assert "has nothing for" in outcome.err
    assert "it is for linux/s390x" in outcome.err
    shown = json.loads(rdd("package", "show", "-o", "json", str(path)).out)
    assert (shown["key"], shown["files"][0]["tool"]) == ("", "helm")
    assert "helm 3.19.0 (helm.tgz)" in rdd("package", "show", str(path)).out
