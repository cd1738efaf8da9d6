# SPDX-License-Identifier: Apache-2.0
"""Archives that an engine sends: the files of a container as a tar stream."""

import io
import tarfile
from collections.abc import AsyncIterator

from tests.fuzz.target import Loop, Target

from rdd.engine.tar_listing import MalformedTar, TarStream

LOOP = Loop()
MOST_BYTES = 1 << 16


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 700):
        yield data[start : start + 700]


async def _read(data: bytes) -> None:
    stream = TarStream(_pieces(data))
    try:
        while (entry := await stream.next()) is not None:
            assert entry.size >= 0
            if entry.size < MOST_BYTES:
                async for piece in stream.content(entry):
                    assert piece
    except MalformedTar as error:
        assert str(error)


def _seed(form: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name in ("a", "d/" + "x" * 120, "ü"):
            entry = tarfile.TarInfo(name)
            entry.size = 5
            tar.addfile(entry, io.BytesIO(b"hello"))
        link = tarfile.TarInfo("l")
        link.type, link.linkname = tarfile.SYMTYPE, "../a" * 40
        tar.addfile(link)
    return buffer.getvalue()


TARGETS = (
    Target(
        "archive",
        lambda data: LOOP.run(_read(data)),
        [_seed(tarfile.GNU_FORMAT), _seed(tarfile.PAX_FORMAT)],
        (b"\x80" + b"\xff" * 11, b"L", b"K", b"x", b"g", b"ustar\0", b"99 path=", b"\0" * 512),
    ),
)
