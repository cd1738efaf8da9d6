# SPDX-License-Identifier: Apache-2.0
"""Hand a cached file out: as a link that is never written, or as a copy of its own.

A copy shares the blocks of the entry where the file system can (reflink), never its inode:
writing to it must not change what others get from the cache.
"""

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

from rdd.fetch.cache import write_errors

_FICLONE = 0x40049409  # ioctl of Linux: share the blocks of another file


def link_or_copy(source: Path, target: Path) -> None:
    """Create a hard link to a cache entry, or a copy on another file system. Read-only."""
    with write_errors(target):
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
            target.chmod(0o444)


def copy(source: Path, target: Path, *, mode: int = 0o644) -> None:
    """Create a writable copy; nothing incomplete is ever visible under its name. Blocking.

    Raises HostError, also if the target exists.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    with write_errors(target):
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with contextlib.suppress(FileNotFoundError):
                partial.unlink()
            descriptor = os.open(partial, flags, mode)
            try:
                with source.open("rb") as file:
                    _fill(file.fileno(), descriptor)
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.link(partial, target)  # fails if the target exists
        finally:
            partial.unlink(missing_ok=True)


def _fill(source: int, target: int) -> None:
    try:
        fcntl.ioctl(target, _FICLONE, source)
        return
    except OSError:
        pass  # another file system, or one without reflinks
    remaining = os.fstat(source).st_size
    while remaining and (copied := os.sendfile(target, source, None, min(remaining, 1 << 30))):
        remaining -= copied
