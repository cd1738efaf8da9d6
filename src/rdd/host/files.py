# SPDX-License-Identifier: Apache-2.0
"""Atomic and durable file writes, also across a power failure.

The content is written to a temporary file in the same directory, synced, and renamed; the
directory is synced last. Readers see the old file or the new one, never a part.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rdd.host.errors import HostError


def open_new(path: Path, mode: int = 0o600) -> int:
    """Create a file for writing and return its descriptor. Raises OSError.

    The file is always a new one of ours: in a directory that others can write, neither a link
    that was laid in the way nor a file of another user is opened. A file of that name that a
    crashed process left is removed first.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, mode)


def replace(temporary: Path, path: Path) -> None:
    """Rename a finished file to its final name. Raises OSError, also if that is a device.

    Root could otherwise replace `/dev/null` or the link `/dev/stdout`, for all programs.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
    temporary.replace(path)


def write_atomically(
    path: Path, content: str | bytes, *, mode: int = 0o600, durable: bool = True
) -> None:
    """Replace a file atomically. Raises HostError.

    `durable=False` skips the sync, for files that are invalid after a crash of the machine.
    """
    with _reported(path), _temporary(path, content, mode, durable) as temporary:
        replace(temporary, path)
        if durable:
            sync_directory(path.parent)


def write_new(path: Path, content: str | bytes, *, mode: int = 0o600, durable: bool = True) -> bool:
    """Create a file atomically; return False if it exists. Raises HostError."""
    with _reported(path), _temporary(path, content, mode, durable) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        if durable:
            sync_directory(path.parent)
        return True


def read_text(path: Path) -> str | None:
    """Return the text of a file, or None if it does not exist. Raises HostError."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")  # line ends are kept
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostError.from_os(f'read "{path}"', error) from error


def remove(path: Path) -> None:
    """Remove a file if it exists. Raises HostError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise HostError.from_os(f'remove "{path}"', error) from error


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostError.from_os(f'write "{path}"', error) from error


@contextlib.contextmanager
def _temporary(path: Path, content: str | bytes, mode: int, durable: bool) -> Iterator[Path]:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        descriptor = open_new(temporary, mode)
        try:
            os.fchmod(descriptor, mode)  # regardless of the umask
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
