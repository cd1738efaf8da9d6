# SPDX-License-Identifier: Apache-2.0
"""Decompression of images: xz, gzip, bzip2 with the standard library, zstd with its program.

The first bytes of a file determine its format, not its name. Blocks of zeros become holes: disk
images are mostly empty, and a hole costs neither space nor time.

Python's library supports zstd only from 3.14 on; distributions that use zstd have the program,
so rdd needs no dependency for it.
"""

import bz2
import errno
import gzip
import lzma
import os
import shutil
import subprocess
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from rdd.fetch.cache import write_errors
from rdd.fetch.locks import Cancelled
from rdd.host.errors import HostError
from rdd.host.spawn import popen

_MAGIC = {
    b"\xfd7zXZ\x00": "xz",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
}
_CHUNK_BYTES = 1 << 20
_ZERO_BLOCK = bytes(64 << 10)  # holes consist of whole file system blocks


def compression(path: Path) -> str:
    """Return xz, gzip, zstd or bzip2; empty for an uncompressed file. Raises OSError."""
    if not path.is_file():  # a pipe would block
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    with path.open("rb") as file:
        head = file.read(6)
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")


def expand(source: Path, target: Path, *, cancelled: threading.Event) -> None:
    """Decompress a file into another one. Raises HostError; Cancelled after `cancelled`.

    A failure removes the target. Blocking: call it in a thread.
    """
    kind = compression(source)
    try:
        with write_errors(target), target.open("wb") as output, _opened(source, kind) as stream:
            output.truncate(_copy(stream, output, cancelled))
    except (lzma.LZMAError, zlib.error, EOFError, ValueError, gzip.BadGzipFile) as error:
        target.unlink(missing_ok=True)
        raise HostError(
            f'"{source}" is damaged and cannot be decompressed ({kind}): {error}'
        ) from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _copy(stream: IO[bytes], output: IO[bytes], cancelled: threading.Event) -> int:
    size = 0
    while chunk := stream.read(_CHUNK_BYTES):
        if cancelled.is_set():
            raise Cancelled
        view = memoryview(chunk)
        for start in range(0, len(chunk), len(_ZERO_BLOCK)):
            block = view[start : start + len(_ZERO_BLOCK)]
            if block == _ZERO_BLOCK[: len(block)]:
                output.seek(len(block), os.SEEK_CUR)
            else:
                output.write(block)
        size += len(chunk)
    return size


@contextmanager
def opened(source: Path) -> Iterator[IO[bytes]]:
    """Open a file that may be compressed, and yield its decompressed content."""
    kind = compression(source)
    if not kind:
        with source.open("rb") as file:
            yield file
        return
    with _opened(source, kind) as stream:
        yield stream


@contextmanager
def _opened(source: Path, kind: str) -> Iterator[IO[bytes]]:
    if kind == "zstd":
        with _zstd(source) as stream:
            yield stream
        return
    if kind == "xz":
        with lzma.open(source, "rb") as xz_file:
            yield xz_file
    elif kind == "gzip":
        with gzip.open(source, "rb") as gzip_file:
            yield cast(IO[bytes], gzip_file)
    else:
        with bz2.open(source, "rb") as bz2_file:
            yield bz2_file


@contextmanager
def _zstd(source: Path) -> Iterator[IO[bytes]]:
    program = shutil.which("zstd")
    if program is None:
        raise HostError(f'"{source.name}" is compressed with zstd: install the program zstd')
    process = popen(
        [program, "--decompress", "--stdout", "--quiet", str(source)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield process.stdout
        process.stdout.close()
        message = process.stderr.read().decode(errors="replace").strip()
        if process.wait() != 0:
            raise ValueError(message or f"zstd ended with exit status {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
