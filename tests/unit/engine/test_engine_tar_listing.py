# SPDX-License-Identifier: Apache-2.0
"""Entries of tar streams in all forms, in pieces of any size."""

import io
import tarfile
from collections.abc import AsyncIterator

import pytest

from rdd.engine.tar_listing import MalformedTar, TarEntry, TarStream

NAMES = ("a", "d/" + "n" * 120, "é" * 100, "x" * 300, "back\\slash", "new\nline")


def archive(form: int) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as tar:
        for i, name in enumerate(NAMES):
            info = tarfile.TarInfo(name)
            info.size = i * 300
            info.mtime = 1_700_000_000 + i
            tar.addfile(info, io.BytesIO(bytes(info.size)))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "y" * 200
        tar.addfile(link)
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    return target.getvalue()


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def entries(data: bytes, size: int) -> list[TarEntry]:
    stream = TarStream(pieces(data, size))
    found = []
    while (entry := await stream.next()) is not None:
        found.append(entry)
    return found


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
@pytest.mark.parametrize("size", [1, 7, 512, 100_000])
async def test_entries(form: int, size: int) -> None:
    found = await entries(archive(form), size)
    files = [entry for entry in found if entry.type == "file"]
    assert [entry.name for entry in files] == list(NAMES)
    assert [entry.size for entry in files] == [i * 300 for i in range(len(NAMES))]
    assert [int(entry.modified) for entry in files][:2] == [1_700_000_000, 1_700_000_001]
    link, folder = found[-2:]
    assert (link.type, link.target) == ("symlink", "y" * 200)
    assert folder.type == "directory"


async def test_content_of_an_entry() -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for text in (b"one", b"two" * 1000):
            info = tarfile.TarInfo("f")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    stream = TarStream(pieces(target.getvalue(), 100))
    first = await stream.next()
    assert first is not None
    assert b"".join([piece async for piece in stream.content(first)]) == b"one"
    second = await stream.next()
    assert second is not None
    assert b"".join([piece async for piece in stream.content(second)]) == b"two" * 1000
    assert await stream.next() is None


@pytest.mark.parametrize("data", [b"no tar " * 100, bytes(511) + b"x"], ids=["text", "checksum"])
async def test_rejects_what_is_no_tar(data: bytes) -> None:
    with pytest.raises(MalformedTar):
        await entries(data, 100)


async def test_truncated_streams_end() -> None:
    data = archive(tarfile.PAX_FORMAT)
    for size in (0, 100, 512, 700, 3000):
        assert len(await entries(data[:size], 64)) <= len(NAMES)


def extended(*records: tuple[str, str]) -> bytes:
    """Return a pax header and a file that it describes."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("a")
        info.pax_headers = dict(records)
        tar.addfile(info)
    return target.getvalue()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("size", text) for text in ("-1", "x", "1e3", "9" * 5000, str(1 << 70))),
        *(("mtime", text) for text in ("x", "nan", "inf", "-inf", "1e999")),
    ],
)
async def test_malformed_numbers_are_refused(key: str, value: str) -> None:
    with pytest.raises(MalformedTar):
        await entries(extended((key, value)), 512)


async def test_time_before_the_epoch_is_one() -> None:
    assert [one.modified for one in await entries(extended(("mtime", "-5.5")), 512)] == [-5.5]


async def test_many_short_records_are_not_copied_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    # 200,000 of them took 20 s: the rest was copied for each.
    records = b"6 a=b\n" * 170_000
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(records)
    file = tarfile.TarInfo("a").tobuf()
    copied = 0

    class Counted(bytes):
        def __getitem__(self, index: object) -> bytes:  # type: ignore[override]
            nonlocal copied
            found = super().__getitem__(index)  # type: ignore[call-overload]
            copied += len(found) if isinstance(index, slice) else 0
            return Counted(found) if len(found) > 512 else found

    extension = TarStream._extension_data

    async def counted(stream: TarStream, info: tarfile.TarInfo) -> bytes:
        return Counted(await extension(stream, info))

    monkeypatch.setattr(TarStream, "_extension_data", counted)
    data = info.tobuf() + records + bytes(-len(records) % 512) + file + bytes(1024)
    (found,) = await entries(data, 1 << 20)
    assert found.name == "a"
    assert copied < 40 * len(records)
