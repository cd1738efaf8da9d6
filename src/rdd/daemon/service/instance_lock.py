# SPDX-License-Identifier: Apache-2.0
"""The lock of an instance, which makes its daemon the only one.

The file is in a directory of the user (mode 0700) outside of the directories of every instance. So
it survives their removal: a daemon that still runs without its directory keeps its lock, and a
start waits until that daemon has ended.

Daemons up to version 0.1 lock a file in the instance directory. While that one is locked, the lock
is not acquired either.
"""

import contextlib

from rdd.host.directories import make_own_dir
from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.host.locks import FileLock
from rdd.instance import Instance


def try_acquire(instance: Instance) -> FileLock | None:
    """Acquire the lock if it is free, otherwise return None. Raises HostError."""
    make_own_dir(instance.lock_file.parent)
    try:
        lock = FileLock.try_acquire(instance.lock_file)
    except HostError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None  # the last deletion removed the directory concurrently
        raise
    if lock is None:
        return None
    try:
        if not _is_held_by_old_daemon(instance):
            return lock
    except BaseException:
        lock.release()
        raise
    lock.release()
    return None


def discard(instance: Instance) -> None:
    """Remove the files of a lock that this process holds: its instance is deleted."""
    remove(instance.lock_file)
    with contextlib.suppress(OSError):  # other instances have their locks there
        instance.lock_file.parent.rmdir()


def _is_held_by_old_daemon(instance: Instance) -> bool:
    if not instance.old_lock_file.exists():
        return False
    try:
        old = FileLock.try_acquire(instance.old_lock_file)
    except HostError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return False  # removed with its directory
        raise
    if old is None:
        return True
    with old:
        remove(instance.old_lock_file)
    return False
