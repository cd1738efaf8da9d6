# SPDX-License-Identifier: Apache-2.0
"""Images over HTTP and from files: complete or missing, each failure with its reason."""

import asyncio
import bz2
import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.origin import CONTENT, DIGEST, Origin
from tests.programs import run_program

from rdd.fetch import download as downloads
from rdd.fetch.cache import Cache
from rdd.fetch.checkout import link_or_copy
from rdd.fetch.digests import Digest
from rdd.fetch.failures import SourceUnreachable
from rdd.fetch.fetching import fetch_expanded
from rdd.host.errors import HostError
from rdd.vm.drivers.qemu.local_image import chosen_image, installed_image


async def get(
    cache: Cache, location: str, digest: str = "", messages: list[str] | None = None
) -> Path:
    found = messages if messages is not None else []
    report = lambda progress: found.append(str(progress))  # noqa: E731
    return await fetch_expanded(location, digest, cache=cache, report=report)


def packed(kind: str) -> bytes:
    if kind == "xz":
        return lzma.compress(CONTENT)
    return gzip.compress(CONTENT) if kind == "gzip" else bz2.compress(CONTENT)


def entries(cache: Cache) -> list[str]:
    """Return the entries of the cache, without partial files."""
    found = [path for path in cache.root.rglob("*") if path.is_file()]
    return [
        path.name for path in found if path.parent.name not in ("partial", "locations", "records")
    ]


async def test_image_is_downloaded_once_and_shared(origin: Origin, cache: Cache) -> None:
    messages: list[str] = []
    path = await get(cache, origin.url, DIGEST, messages)
    assert path.read_bytes() == CONTENT
    assert any("disk.img: 100 %" in line for line in messages)
    assert await get(cache, origin.url, DIGEST) == path
    assert origin.requests == ["GET"]


async def test_concurrent_fetches_download_once(origin: Origin, cache: Cache) -> None:
    paths = await asyncio.gather(*(get(cache, origin.url, DIGEST) for _ in range(3)))
    assert len(set(paths)) == 1
    assert origin.requests == ["GET"]


async def test_interrupted_download_resumes(origin: Origin, cache: Cache) -> None:
    origin.cut_after = 200_000
    assert (await get(cache, origin.url, DIGEST)).read_bytes() == CONTENT
    assert [request.partition("=")[0] for request in origin.requests] == ["GET", "GET bytes"]


async def test_cancelled_download_resumes_next_time(origin: Origin, cache: Cache) -> None:
    origin.gate = asyncio.Event()
    messages: list[str] = []
    task = asyncio.create_task(get(cache, origin.url, DIGEST, messages))
    while not any(path.stat().st_size for path in (cache.root / "partial").glob("*[0-9a-f]")):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    origin.gate.set()
    origin.gate = None
    assert entries(cache) == []
    assert (await get(cache, origin.url, DIGEST)).read_bytes() == CONTENT
    assert "bytes=" in origin.requests[-1]


async def test_changed_file_is_downloaded_again(
    origin: Origin, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_ATTEMPTS", 1)
    origin.cut_after = 200_000
    with pytest.raises(SourceUnreachable):
        await get(cache, origin.url)
    origin.etag, origin.content = '"two"', CONTENT[::-1]
    assert (await get(cache, origin.url)).read_bytes() == CONTENT[::-1]
    assert [request.partition("=")[0] for request in origin.requests] == ["GET", "GET bytes"]


async def test_wrong_digest_keeps_nothing(origin: Origin, cache: Cache) -> None:
    wrong = "sha256:" + "0" * 64
    with pytest.raises(HostError) as refused:
        await get(cache, origin.url, wrong)
    assert str(refused.value) == (
        f'the digest of "{origin.url}" is {DIGEST}, expected {wrong}: the file was changed '
        "or damaged; the download was deleted"
    )
    assert entries(cache) == []
    assert [path for path in (cache.root / "partial").iterdir() if path.suffix != ".lock"] == []


async def test_http_errors_are_reported_with_their_status(origin: Origin, cache: Cache) -> None:
    origin.status = 404
    with pytest.raises(HostError, match="the server answered 404 Not Found"):
        await get(cache, origin.url, DIGEST)
    origin.status = 503
    with pytest.raises(SourceUnreachable, match="the server answered 503 Service Unavailable"):
        await get(cache, origin.url, DIGEST)


async def test_refused_connection_is_unreachable(cache: Cache) -> None:
    with pytest.raises(SourceUnreachable, match=r'failed to download "http://127\.0\.0\.1:1/x": '):
        await get(cache, "http://127.0.0.1:1/x", DIGEST)


async def test_insufficient_space_is_reported_before_the_download(
    origin: Origin, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1 << 20

    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(HostError, match=r"2 MiB are needed in .*, 1 MiB are free"):
        await get(cache, origin.url, DIGEST)


async def test_disk_full_during_the_download_is_reported(
    origin: Origin, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        if len(data) > 10_000:
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(HostError, match="No space left on device; free some space"):
        await get(cache, origin.url, DIGEST)


@pytest.mark.parametrize("kind", ["xz", "gzip", "bzip2", "zstd"])
async def test_images_are_decompressed_with_holes(
    kind: str, cache: Cache, tmp_path: Path, real_part: Callable[[str], Path]
) -> None:
    source = tmp_path / "disk"
    if kind == "zstd":
        plain = tmp_path / "plain"
        plain.write_bytes(CONTENT)
        command = [str(real_part("zstd")), "-q", str(plain), "-o", str(source)]
        done = await asyncio.to_thread(lambda: run_program(command))
        assert done.returncode == 0
    else:
        source.write_bytes(packed(kind))
    path = await get(cache, str(source))
    assert path.read_bytes() == CONTENT
    assert path.stat().st_blocks * 512 < len(CONTENT) - 1_000_000


@pytest.mark.parametrize("kind", ["xz", "gzip", "zstd"])
async def test_damaged_archive_is_reported_and_deleted(
    kind: str, cache: Cache, tmp_path: Path, real_part: Callable[[str], Path]
) -> None:
    source = tmp_path / "disk"
    if kind == "zstd":
        real_part("zstd")
        source.write_bytes(b"\x28\xb5\x2f\xfd" + b"nonsense" * 100)
    else:
        source.write_bytes(packed(kind)[:50_000])
    with pytest.raises(HostError, match="is damaged and cannot be decompressed"):
        await get(cache, str(source))
    assert list((cache.root / "expanded").glob("*")) == []


async def test_local_file_is_copied_again_after_a_change(cache: Cache, tmp_path: Path) -> None:
    source = tmp_path / "disk"
    source.write_bytes(b"one")
    messages: list[str] = []
    first = await get(cache, str(source), "", messages)
    assert await get(cache, f"file://{source}", "", messages) == first
    assert messages == [f"Reading {source}"]
    source.write_bytes(b"other")
    assert (await get(cache, str(source))).read_bytes() == b"other"
    assert first.read_bytes() == b"one"


async def test_rejects_a_local_file_with_another_digest(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"one")
    with pytest.raises(
        HostError, match=r'the digest of ".*disk" is sha256:.*, expected sha256:a{64}'
    ):
        await get(cache, str(tmp_path / "disk"), f"sha256:{'a' * 64}")


async def test_file_without_digest_is_revalidated_unless_offline(
    origin: Origin, cache: Cache
) -> None:
    first = await get(cache, origin.url)
    assert await get(cache, origin.url) == first
    assert origin.requests == ["GET", "HEAD"]
    origin.status = 500
    assert await get(cache, origin.url) == first
    origin.status, origin.etag, origin.content = 200, '"two"', b"new"
    assert (await get(cache, origin.url)).read_bytes() == b"new"


def test_rejects_other_url_schemes(cache: Cache) -> None:
    with pytest.raises(HostError, match="only http, https and file are supported"):
        asyncio.run(get(cache, "ftp://example.com/x"))


@pytest.mark.parametrize("text", ["md5:00", "sha256", "sha256:", "sha256:ab", f"sha256:{'g' * 64}"])
def test_rejects_invalid_digests(text: str) -> None:
    rule = "must begin with one of sha256, sha384, sha512:|must have 64 hexadecimal digits"
    with pytest.raises(HostError, match=rule):
        Digest.parse(text)


def test_hard_link_survives_eviction_from_the_cache(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"content")
    target.write_bytes(b"old")
    link_or_copy(source, target)
    assert target.stat().st_ino == source.stat().st_ino
    source.unlink()
    assert target.read_bytes() == b"content"


def test_guest_directory_yields_all_files(tmp_path: Path) -> None:
    for name in ("image", "kernel", "initrd"):
        (tmp_path / name).touch()
    (tmp_path / "kernel.cmdline").write_text("quiet\n")
    image = chosen_image({"RDD_GUEST_IMAGE": str(tmp_path)})
    assert image is not None
    assert image.kernel is not None
    assert image.initrd is not None
    assert (image.location, image.kernel.cmdline) == (str(tmp_path / "image"), "quiet")
    assert chosen_image({}) is None
    with pytest.raises(HostError, match='RDD_GUEST_IMAGE: "/no/such" does not exist') as failure:
        chosen_image({"RDD_GUEST_IMAGE": "/no/such"})
    assert failure.value.reason == "InvalidSource"  # no retry


def test_finds_the_installed_guest(tmp_path: Path) -> None:
    assert installed_image({}, tmp_path) is None
    folder = tmp_path / ".local" / "share" / "rdd" / "guest"
    folder.mkdir(parents=True)
    (folder / "image").touch()
    found = installed_image({}, tmp_path)
    assert found is not None
    assert found.location == str(folder / "image")
