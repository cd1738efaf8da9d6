# SPDX-License-Identifier: Apache-2.0
"""Files that are there completely or not at all, also after a power failure.

The content goes to a temporary file in the same directory, is made durable, and
takes its place by a rename; the directory is made durable last. Readers see the
old file or the new one, never a part.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rdd.host.errors import HostError


def write_atomically(
    path: Path, content: str | bytes, *, mode: int = 0o600, durable: bool = True
) -> None:
    """Replace a file in one step. Raises HostError.

    `durable=False` leaves out the waiting for the disk: for files that mean nothing
    after a crash of the machine.
    """
    with _reported(path), _temporary(path, content, mode, durable) as temporary:
        temporary.replace(path)
        if durable:
            _sync_directory(path.parent)


def write_new(path: Path, content: str | bytes, *, mode: int = 0o600, durable: bool = True) -> bool:
    """Create a file in one step unless it exists; whether it was created. Raises HostError."""
    with _reported(path), _temporary(path, content, mode, durable) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        if durable:
            _sync_directory(path.parent)
        return True


def read_text(path: Path) -> str | None:
    """The text of a file; None if there is none. Raises HostError when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")  # line ends as they are
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostError.from_os(f'read "{path}"', error) from error


def remove(path: Path) -> None:
    """Remove a file if it is there. Raises HostError."""
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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            os.fchmod(descriptor, mode)  # the umask must not decide who can read
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


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
