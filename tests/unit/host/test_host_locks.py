# SPDX-License-Identifier: Apache-2.0
"""Locks are exclusive and inheritable, and cope with a removed lock file."""

import os
import sys
from pathlib import Path

import pytest
from tests.programs import PIPE, start_program

from rdd.host.errors import HostError
from rdd.host.locks import FileLock


def test_lock_is_exclusive(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = FileLock.try_acquire(path)
    assert first is not None
    assert FileLock.try_acquire(path) is None
    first.release()
    first.release()
    second = FileLock.try_acquire(path)
    assert second is not None
    with second:
        assert FileLock.try_acquire(path) is None


def test_child_keeps_the_lock_after_its_parent_released_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock.try_acquire(path)
    assert lock is not None
    command = [sys.executable, "-c", "input()"]
    with start_program(command, stdin=PIPE, pass_fds=[lock.descriptor]) as child:
        lock.release()
        assert FileLock.try_acquire(path) is None
        child.communicate("\n")
    again = FileLock.try_acquire(path)
    assert again is not None
    again.release()


def test_adopted_lock_is_not_inherited_further(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock.try_acquire(path)
    assert lock is not None
    os.set_inheritable(lock.descriptor, True)
    adopted = FileLock.adopt(path, lock.descriptor)
    assert not os.get_inheritable(adopted.descriptor)
    adopted.release()


def test_foreign_descriptor_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    other = (tmp_path / "other").open("w")
    with other, pytest.raises(HostError, match="is not the lock file"):
        FileLock.adopt(path, other.fileno())
    with pytest.raises(HostError, match="Bad file descriptor"):
        FileLock.adopt(path, 999)


def test_lock_of_a_removed_file_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    old = FileLock.try_acquire(path)
    assert old is not None
    path.unlink()
    new = FileLock.try_acquire(path)
    assert new is not None
    assert FileLock.try_acquire(path) is None
    old.release()
    new.release()


def test_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="failed to open lock file"):
        FileLock.try_acquire(tmp_path / "no" / "lock")
