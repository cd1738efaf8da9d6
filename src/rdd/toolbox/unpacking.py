# SPDX-License-Identifier: Apache-2.0
"""Take programs out of what publishers offer: an archive, or the program itself.

An archive is untrusted although its digest is right: a digest may be that of a broken or hostile
file. It is read once, as a stream, and only the wanted members are written, under the names of
the catalogue, never under those of the archive. It is rejected as a whole if it has anything
besides files and directories (links, devices), or a path that is absolute or leads upwards.

The cost is bounded by the size of the file: an archive may not expand to more than 20 times its
size (programs compress to about a third).
"""

import gzip
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final, cast

from rdd.fetch.cache import write_errors
from rdd.fetch.checkout import copy
from rdd.fetch.expansion import compression
from rdd.fetch.tar_reading import members, open_tar
from rdd.host.errors import HostError
from rdd.host.files import open_new
from rdd.toolbox.errors import BrokenArchive

_EXPANSION: Final = 20
_LEAST_BYTES: Final = 16 << 20  # a small archive may be mostly zeros
_CHUNK_BYTES: Final = 1 << 20
_XZ_MEMORY_BYTES: Final = 256 << 20
_MODE: Final = 0o755


def unpack(
    source: Path,
    programs: Mapping[str, str],
    directory: Path,
    *,
    name: str,
    optional: Collection[str] = frozenset(),
) -> None:
    """Write the programs of a file into a directory. Blocking. Raises HostError.

    `programs` has the name of each program by its member; an empty member is the file itself.
    `name` is the file's name at its publisher, for messages.
    """
    if "" in programs:
        copy(source, directory / programs[""], mode=_MODE)
        return
    missing = set(programs)
    try:
        with _tar(source, name) as tar:
            for member in members(tar):
                _check(member, name)
                path = str(PurePosixPath(member.name))
                if path not in missing:
                    continue
                if not member.isreg():
                    raise BrokenArchive(name, f'"{path}" is not a file')
                _write(tar, member, directory / programs[path])
                missing.discard(path)
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, ValueError) as error:
        raise BrokenArchive(name, f"it is damaged: {error}") from error
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise BrokenArchive(name, f"it is damaged: {error}") from error
        raise HostError.from_os(f'read "{source}"', error) from error
    if absent := sorted(missing - set(optional)):
        raise BrokenArchive(name, f"it does not contain {', '.join(absent)}")


class _Bounded:
    """A stream that ends with an error after a number of bytes."""

    def __init__(self, stream: IO[bytes], limit: int, name: str) -> None:
        self._stream = stream
        self._left = limit
        self._limit = limit
        self._name = name

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise BrokenArchive(self._name, f"it expands to more than {self._limit} bytes")
        return data


@contextmanager
def _tar(source: Path, name: str) -> Iterator[tarfile.TarFile]:
    limit = max(_LEAST_BYTES, _EXPANSION * source.stat().st_size)
    with _opened(source, name) as stream:
        bounded = cast(IO[bytes], _Bounded(stream, limit, name))
        with open_tar(bounded, "r|") as tar:
            yield tar


@contextmanager
def _opened(source: Path, name: str) -> Iterator[IO[bytes]]:
    match compression(source):
        case "gzip":
            with gzip.open(source, "rb") as stream:
                yield cast(IO[bytes], stream)
        case "xz":
            with source.open("rb") as file:
                yield cast(IO[bytes], _XzStream(file))
        case "":
            with source.open("rb") as file:
                yield file
        case other:
            raise BrokenArchive(name, f"the compression {other} is not supported (gzip, xz)")


class _XzStream:
    """Decompressed xz with a limit on the memory that the file can demand."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._xz = lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES)

    def read(self, size: int) -> bytes:
        while not self._xz.eof:
            fed = self._file.read(_CHUNK_BYTES // 16) if self._xz.needs_input else b""
            if self._xz.needs_input and not fed:
                raise EOFError("it ends early")
            if data := self._xz.decompress(fed, max_length=size):
                return data
        return b""


def _check(member: tarfile.TarInfo, name: str) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise BrokenArchive(name, f'the path "{member.name}" leads out of it')
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise BrokenArchive(name, f'"{member.name}" is neither a file nor a directory')


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = tar.extractfile(member)
    assert content is not None  # a regular file
    with write_errors(target):
        descriptor = open_new(target, _MODE)
        with os.fdopen(descriptor, "wb") as output:
            shutil.copyfileobj(content, output, _CHUNK_BYTES)
            output.flush()
            os.fchmod(descriptor, _MODE)
            os.fsync(descriptor)
