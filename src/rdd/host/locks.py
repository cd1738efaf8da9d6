# SPDX-License-Identifier: Apache-2.0
"""Exclusive locks on files that can be handed over to another process.

The lock (flock) belongs to the open file, not to a process: a program can acquire it, start
another one that inherits the open file, and close its own. The lock has moved without ever
being free. The kernel releases it when the last holder ends, in whatever way.

The holder may remove the lock file together with its directory. A process that waited would
then hold a lock on a file without a name. Invariant: a lock is held only if its path still
refers to the locked file.
"""

import fcntl
import os
from pathlib import Path

from rdd.host.errors import HostError


class FileLock:
    """A lock that is held; created by `try_acquire` and `adopt`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def try_acquire(cls, path: Path) -> "FileLock | None":
        """Acquire the lock if it is free, otherwise return None. Raises HostError."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise HostError.from_os(f'open lock file "{path}"', error) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_file_of(path, descriptor):
                    return cls(path, descriptor)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except OSError as error:
                os.close(descriptor)
                raise HostError.from_os(f'lock "{path}"', error) from error
            os.close(descriptor)  # removed meanwhile: lock the new file

    @classmethod
    def adopt(cls, path: Path, descriptor: int) -> "FileLock":
        """Return the lock that was inherited as an open file. Raises HostError if it is not one."""
        try:
            if not _is_file_of(path, descriptor):
                raise HostError(f'descriptor {descriptor} is not the lock file "{path}"')
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no effect if it is held
            os.set_inheritable(descriptor, False)
        except OSError as error:
            raise HostError.from_os(f'take over the lock "{path}"', error) from error
        return cls(path, descriptor)

    def release(self) -> None:
        """Close the file: the lock is free unless a child has inherited it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> "FileLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _is_file_of(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
