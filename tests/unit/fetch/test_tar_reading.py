# SPDX-License-Identifier: Apache-2.0
"""Archives that are made to break their reader are refused by each of them, with one error."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rdd.cli.commands.engine.volume_archive import _check_archive
from rdd.cli.commands.package.images import _normalise
from rdd.cli.framework.errors import CommandError
from rdd.engine.image_archives import _read_names
from rdd.fetch.cache import Cache
from rdd.fetch.packages import opened_package
from rdd.fetch.tar_reading import members, open_tar, read_member
from rdd.fetch.transport import import_entries
from rdd.host.errors import HostError
from rdd.toolbox.unpacking import unpack
from rdd.vm.snapshots.archive import Archive


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.type = kind
    data = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    if size >= 0:
        info.size = size
        return info.tobuf(tarfile.GNU_FORMAT)
    data[124:136] = size.to_bytes(12, "big", signed=True)
    data[148:156] = b"%06o\0 " % sum(data[:148] + b" " * 8 + data[156:])
    return bytes(data)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def extended(record: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return header("x", len(record), kind) + padded(record)


def pax(key: bytes, value: bytes) -> bytes:
    text = b" %b=%b\n" % (key, value)
    size = len(text) + 2
    size = len(text) + len(str(size))
    return b"%d%b" % (len(text) + len(str(size)), text)


END = bytes(1024)
FILE = header("a", 3) + padded(b"abc")
HOSTILE = {
    "nested headers": extended(pax(b"path", b"a")) * 3000 + FILE + END,
    "nested long names": extended(b"a" * 200 + b"\0", b"L") * 3000 + FILE + END,
    "negative size": FILE + header("b", -1024) + END,
    "negative header": header("x", -1024, tarfile.XHDTYPE) + FILE + END,
    "going back": FILE + extended(pax(b"size", b"-2048")) + header("b") + END,
    "size beyond the file": FILE + header("b", 1 << 40),
    "size beyond every file": FILE + header("b", 1 << 70) + END,
    "large header": header("x", 1 << 20, tarfile.XHDTYPE) + bytes(1 << 20) + FILE + END,
    "large long name": header("x", 1 << 20, b"L") + b"a" * (1 << 20) + FILE + END,
    "size that is no number": extended(pax(b"size", b"9" * 5000)) + FILE + END,
    "sparse map": extended(pax(b"GNU.sparse.map", b"1,,2")) + FILE + END,
    "sparse size": extended(pax(b"GNU.sparse.size", b"x")) + FILE + END,
    "record without an end": extended(b"999999999 path=a\n") + FILE + END,
    "record of length 0": extended(b"0 path=a\n") + FILE + END,
    "link": header("manifest.json", 0, tarfile.SYMTYPE) + END,
    "hard link": header("rdd-snapshot.json", 0, tarfile.LNKTYPE) + END,
    "device": header("manifest.json", 0, tarfile.CHRTYPE) + END,
    "garbage": bytes(range(256)) * 64,
    "empty": b"",
    "xz that ends": lzma.compress(FILE + END)[:-20],
    "xz that is damaged": lzma.compress(bytes(range(256)) * 900)[:200] + bytes(2000),
    "xz of much memory": lzma.compress(
        FILE + END, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 64 << 20}]
    )[:-9],
    "gzip that ends": gzip.compress(FILE + END)[:-9],
    "gzip that is damaged": gzip.compress(os.urandom(9000))[:4000] + bytes(2000),
    "bzip2 that ends": bz2.compress(FILE + END)[:-9],
    "nested JSON": header("manifest.json", 100_000) + padded(b"[" * 100_000) + END,
    "nested JSON of a snapshot": header("rdd-snapshot.json", 100_000)
    + padded(b"[" * 100_000)
    + END,
}


def read_package(path: Path, cache: Cache) -> None:
    with opened_package(path) as package:
        package.add_to(cache, "linux/amd64")


def read_volume(path: Path, _: Cache) -> None:
    _check_archive(path)


READERS: dict[str, Callable[[Path, Cache], object]] = {
    "package": read_package,
    "export of the cache": lambda path, cache: import_entries(cache, path),
    "snapshot": lambda path, _: Archive(path).verify(),
    "tool": lambda path, cache: unpack(path, {"wanted": "w"}, cache.root, name="n"),
    "images": lambda path, _: _read_names(path),
    "volume": read_volume,
    "exported image": lambda path, cache: _normalise(path, cache.root / "normal"),
}
# Harmless for a reader that takes every member, or leaves them to docker.
HARMLESS = {
    *("link", "hard link", "device", "nested JSON", "nested JSON of a snapshot"),
    *("record without an end", "size that is no number"),
}
ACCEPTED = {"volume": HARMLESS, "exported image": HARMLESS}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    (tmp_path / "cache").mkdir()
    return Cache(tmp_path / "cache")


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("reader", READERS)
def test_hostile_archive_is_refused_by_every_reader(
    reader: str, hostile: str, cache: Cache, tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    path.write_bytes(HOSTILE[hostile])
    if hostile in ACCEPTED.get(reader, ()):
        READERS[reader](path, cache)
        return
    with pytest.raises((HostError, CommandError)) as caught:
        READERS[reader](path, cache)
    assert "archive" in str(caught.value) or '"n"' in str(caught.value)


@pytest.mark.parametrize("reader", READERS)
def test_pipe_is_refused_by_every_reader(reader: str, cache: Cache, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    os.mkfifo(path)
    with pytest.raises((HostError, CommandError)):
        READERS[reader](path, cache)


def test_members_are_forgotten_and_contents_bounded(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(FILE * 3000 + END)
    with open_tar(path) as tar:
        for member in members(tar):
            assert read_member(tar, member, 3) == b"abc"
            with pytest.raises(tarfile.ReadError, match="at most 2 bytes"):
                read_member(tar, member, 2)
            assert not tar.members  # type: ignore[attr-defined]


def test_stream_is_read_once() -> None:
    with open_tar(io.BytesIO(FILE * 2 + END), "r|") as tar:
        assert [read_member(tar, member, 9) for member in members(tar)] == [b"abc"] * 2
