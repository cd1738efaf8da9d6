# SPDX-License-Identifier: Apache-2.0
"""Reads tar archives of any origin: in constant memory, and with one kind of error.

The standard library trusts its input. It reads extended headers of any size into memory, follows
chains of them until the stack ends, goes back in the file for a negative size, reads on behind its
end for a large one, keeps a record of every member, and raises whatever the decompressor or a
conversion raises. Here a header that is nested, negative or larger than 64 KiB is an error, members
are forgotten, and every error is a `tarfile.TarError`, or an OSError of the file itself.
"""

import gzip
import lzma
import stat
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Literal, cast

_HEADER_BYTES: Final = 64 << 10
_MAX_BYTES: Final = 1 << 56
_HEADERS = frozenset(
    {
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    }
)
# Of damaged data, in tarfile itself and in the decompressors below it.
_DAMAGES = (
    *(EOFError, ValueError, OverflowError, KeyError, IndexError, AttributeError, TypeError),
    *(lzma.LZMAError, zlib.error, gzip.BadGzipFile),
)


@contextmanager
def open_tar(
    source: Path | IO[bytes], mode: Literal["r:", "r:*", "r|"] = "r:"
) -> Iterator[tarfile.TarFile]:
    """Open an archive. Raises tarfile.TarError, OSError; also for a pipe, which might never end.

    Members are read with `members`, contents with `extractfile`.
    """
    with tar_errors():
        if isinstance(source, Path):
            if not stat.S_ISREG(source.stat().st_mode):
                raise tarfile.ReadError("it is not a file")
            tar = tarfile.open(source, mode, tarinfo=_Member)  # noqa: SIM115 - closed below
        else:
            stream = cast(IO[bytes], _Ending(source)) if mode == "r|" else source
            tar = tarfile.open(fileobj=stream, mode=mode, tarinfo=_Member)  # noqa: SIM115
    with tar:
        yield tar


def members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the rest of the members; none of them is remembered."""
    while (member := next_member(tar)) is not None:
        yield member


def next_member(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    """Return the next member, None at the end. Raises tarfile.TarError, OSError."""
    with tar_errors():
        member = tar.next()
        tar.members.clear()  # type: ignore[attr-defined]
        if member is not None and not 0 <= member.size < _MAX_BYTES:
            raise tarfile.ReadError(f"a member of {member.size} bytes")
        return member


def read_member(tar: tarfile.TarFile, member: tarfile.TarInfo, limit: int) -> bytes:
    """Return the content of a member. Raises tarfile.TarError, OSError; also beyond a limit."""
    with tar_errors():
        if not member.isreg() or member.size > limit:
            raise tarfile.ReadError(f'"{member.name}" is no file of at most {limit} bytes')
        content = tar.extractfile(member)
        assert content is not None  # a regular file
        data = content.read()
        if len(data) != member.size:
            raise tarfile.ReadError("unexpected end of data")
        return data


class _Ending:
    """A stream that has one end: tarfile reads on behind it until it has skipped a member."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._has_ended = False

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if not data and self._has_ended:
            raise EOFError("it ends early")
        self._has_ended = not data
        return data


class _Member(tarfile.TarInfo):
    """A member whose extended headers are limited."""

    def _proc_member(self, archive: Any) -> Any:
        limit = _HEADER_BYTES if self.type in _HEADERS else _MAX_BYTES
        if not 0 <= self.size <= limit:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


@contextmanager
def tar_errors() -> Iterator[None]:
    """Raise tarfile.ReadError for whatever damaged data makes the block raise."""
    try:
        yield
    except tarfile.TarError:
        raise
    except _DAMAGES as error:
        raise tarfile.ReadError(str(error) or type(error).__name__) from error
    except RecursionError:
        raise tarfile.ReadError("its headers are nested") from None
