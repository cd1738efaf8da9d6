# SPDX-License-Identifier: Apache-2.0
"""Packages: signed, reproducible, complete or rejected."""

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest
from rdd.fetch.packages import Manifest, PackagedFile, opened_package, write_package
from rdd.fetch.signing import SigningKey
from rdd.host.errors import HostError

AMD, ARM = "linux/amd64", "linux/arm64"


def added(cache: Cache, content: bytes) -> Digest:
    path = cache.partial(f"test {content!r}")
    path.write_bytes(content)
    digest = Digest.of(path)
    cache.add(path, digest)
    return digest


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.of_user(tmp_path / "keys" / "key.pem")


@pytest.fixture
def manifest(cache: Cache) -> Manifest:
    files = [
        PackagedFile(
            added(cache, platform.encode()), 11, platform, "tool", "helm", "3.19.0",
            f"https://get.helm.sh/{platform}",
        )
        for platform in (ARM, AMD)
    ]  # fmt: skip
    images = PackagedFile(added(cache, b"images"), 6, AMD, "images", references=("a:1",))
    return Manifest((*files, images), {"kubernetes": {"enabled": True}})


@pytest.fixture(params=["file", "directory"])
def package(
    request: pytest.FixtureRequest, cache: Cache, manifest: Manifest, key: SigningKey,
    tmp_path: Path,
) -> Path:  # fmt: skip
    path = tmp_path / "package"
    if request.param == "directory":
        path.mkdir()
    write_package(manifest, cache, path, key)
    return path


def other_cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "other")


def installed(path: Path, cache: Cache, platform: str = AMD) -> list[PackagedFile]:
    with opened_package(path) as found:
        return found.add_to(cache, platform)


def test_package_moves_the_files_of_a_platform(
    package: Path, manifest: Manifest, key: SigningKey, tmp_path: Path
) -> None:
    target = other_cache(tmp_path)
    with opened_package(package) as found:
        assert found.signed_by is not None
        assert found.signed_by.fingerprint == key.fingerprint
        assert found.manifest.settings == manifest.settings
        assert found.manifest.platforms == (AMD, ARM)
        files = found.add_to(target, AMD)
    assert [file.platform for file in files] == [AMD, AMD]
    contents = {entry.path.read_bytes() for entry in target.entries()}
    assert contents == {b"linux/amd64", b"images"}


def test_same_content_gives_the_same_bytes(
    cache: Cache, manifest: Manifest, key: SigningKey, tmp_path: Path
) -> None:
    reordered = Manifest(tuple(reversed(manifest.files)), manifest.settings)
    one, two = tmp_path / "one", tmp_path / "two"
    write_package(manifest, cache, one, key)
    write_package(reordered, cache, two, key)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("at", [600, 1200])
def test_changed_manifest_or_signature_is_rejected(
    cache: Cache, manifest: Manifest, key: SigningKey, tmp_path: Path, at: int
) -> None:
    path = tmp_path / "package"
    write_package(manifest, cache, path, key)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(HostError, match=r"the signature of .* is wrong"):
        installed(path, other_cache(tmp_path))


def test_every_truncation_is_rejected(
    cache: Cache, manifest: Manifest, key: SigningKey, tmp_path: Path
) -> None:
    path = tmp_path / "package"
    write_package(manifest, cache, path, key)
    content = path.read_bytes()
    end = content.rindex(b"linux/amd64") + 11  # after it, only padding
    for size in range(0, end, 256):
        path.write_bytes(content[:size])
        with pytest.raises(HostError):
            installed(path, other_cache(tmp_path / str(size)))


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(member("../../escaped", b"x"), id="upwards"),
        pytest.param(member("/escaped", b"x"), id="absolute"),
        pytest.param(member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), id="link"),
        pytest.param(member("hard", type=tarfile.LNKTYPE, linkname="manifest.json"), id="hard"),
        pytest.param(member("device", type=tarfile.CHRTYPE), id="device"),
        pytest.param(member("fifo", type=tarfile.FIFOTYPE), id="fifo"),
        pytest.param(member("sha256/" + "0" * 64, b"x"), id="unlisted"),
    ],
)
def test_foreign_members_are_rejected(
    cache: Cache,
    key: SigningKey,
    tmp_path: Path,
    extra: tuple[tarfile.TarInfo, bytes],
) -> None:
    path = tmp_path / "package"
    content = Manifest(()).encode()
    with tarfile.open(path, "w") as tar:
        for info, data in (
            member("manifest.json", content),
            member("manifest.sig", key.sign(content)),
            extra,
        ):
            tar.addfile(info, io.BytesIO(data))
    with pytest.raises(HostError, match="is not a file"):
        installed(path, cache)
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path.write_bytes(b"other content"), id="changed"),
        pytest.param(lambda path: None, id="missing"),
        pytest.param(lambda path: path.symlink_to("/etc/passwd"), id="link"),
        pytest.param(os.mkfifo, id="fifo"),
    ],
)
def test_damaged_directory_is_rejected(
    cache: Cache,
    manifest: Manifest,
    key: SigningKey,
    tmp_path: Path,
    change: Callable[[Path], object],
) -> None:
    path = tmp_path / "package"
    path.mkdir()
    write_package(manifest, cache, path, key)
    target = path / "sha256" / Digest.of(cache.path(manifest.files[1].digest)).hexadecimal
    target.unlink()
    change(target)
    with pytest.raises(HostError):
        installed(path, other_cache(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"files": None},
        {"files": [{}]},
        {"settings": []},
        {"files": [{"content": "virus", "platform": AMD}]},
        {"files": [{"content": "tool", "platform": "../x", "size": 1}]},
        {"files": [{"content": "tool", "platform": AMD, "size": -1}]},
        {"files": [{"content": "tool", "platform": AMD, "size": 1, "digest": "sha256:x"}]},
        {
            "files": [
                {
                    "content": "tool",
                    "platform": AMD,
                    "size": 1,
                    "digest": f"sha256:{'0' * 64}",
                    "tool": "../../x",
                    "version": "1",
                    "url": "",
                }
            ]
        },
    ],
)
def test_invalid_manifest_is_rejected(change: dict[str, Any]) -> None:
    data = {"format": 1, "files": [], "settings": {}} | change
    with pytest.raises(HostError, match="is not a package"):
        Manifest.decode(json.dumps(data).encode(), "x")


def test_pipe_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(HostError, match="it is not a file"):
        installed(path, Cache(tmp_path / "cache"))


def test_target_that_cannot_be_written_is_refused(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    for target, problem in (("full", "is not empty"), ("none/package", "there is no directory")):
        with pytest.raises(HostError, match=problem):
            write_package(Manifest(()), cache, tmp_path / target, None)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


def test_key_of_the_user_is_created_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "key.pem"
    first = SigningKey.of_user(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.of_user(path).fingerprint == first.fingerprint


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_damaged_key_is_a_failure_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key.pem"
    path.write_text(text)
    with pytest.raises(HostError, match=r"key\.pem"):
        SigningKey.read(path)
