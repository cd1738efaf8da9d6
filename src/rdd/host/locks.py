# SPDX-License-Identifier: Apache-2.0
"""Exclusive locks on files, held by a process and whoever inherits them.

The lock (flock) belongs to the open file, not to a process: a program can take it,
start another one with the open file, and close its own: the lock has moved without
ever being free. The system releases it when the last holder ends, however it ends.

The lock file may be removed with its directory by the one who holds the lock. Who
waited for it would then hold a lock on a file nobody can find; so a lock counts
only if the path still leads to the locked file.
"""

import fcntl
import os
from pathlib import Path

from rdd.host.errors import HostError


class FileLock:
    """A lock that is held; `try_acquire` and `adopt` make one."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def try_acquire(cls, path: Path) -> "FileLock | None":
        """Take the lock if it is free; None if somebody has it. Raises HostError."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise HostError.from_os(f'open lock file "{path}"', error) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _leads_to(path, descriptor):
                    return cls(path, descriptor)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except OSError as error:
                os.close(descriptor)
                raise HostError.from_os(f'lock "{path}"', error) from error
            os.close(descriptor)  # removed meanwhile: take the new one

    @classmethod
    def adopt(cls, path: Path, descriptor: int) -> "FileLock":
        """Hold a lock that was inherited as an open file. Raises HostError if it is none."""
        try:
            if not _leads_to(path, descriptor):
                raise HostError(f'descriptor {descriptor} is not the lock file "{path}"')
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no change if it is ours
            os.set_inheritable(descriptor, False)
        except OSError as error:
            raise HostError.from_os(f'take over the lock "{path}"', error) from error
        return cls(path, descriptor)

    def release(self) -> None:
        """Close the file: others may take the lock, unless a child has it too."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> "FileLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
