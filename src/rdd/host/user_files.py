# SPDX-License-Identifier: Apache-2.0
"""Changing files that belong to the user and to other programs.

A change replaces the file in one step and keeps what else is true of it: mode and
owner stay, a link stays a link (the file it leads to is replaced), a change that
changes nothing writes nothing. Programs that do not lock may write at any time; so
the file is looked at again right before it is replaced, and the change is made anew
if somebody was faster.

Two locks, by who else takes part:

    locked_directory    flock on the directory; nothing is left behind. Holds among
                        ourselves, for files whose owners know no lock (Docker's)
    locked_like_kubectl the file `<path>.lock`, which exists while somebody writes;
                        the protocol of kubectl and of every client-go program
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text

_ATTEMPTS = 10
_LOCK_WAIT_S = 2.0
_LOCK_RETRY_S = 0.02


def edit(path: Path, change: Callable[[str | None], str | None], *, mode: int = 0o600) -> bool:
    """Replace the text of a file by what `change` makes of it; whether anything was written.

    `change` gets None if there is no file, and leaves everything as it is by
    returning None or the same text; it may be called several times. `mode` is for a
    new file. Directories on the way to it are made with mode 0700. Raises HostError.
    """
    target = _destination(path)
    for _ in range(_ATTEMPTS):
        before = _stamp(target)
        text = read_text(target)
        wanted = change(text)
        if wanted is None or wanted == text:
            return False
        if _replace(target, wanted, before, mode):
            return True
    raise HostError(f'"{path}" is being written by another program all the time')


@contextlib.contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Hold the directory against other instances; it is made if it does not exist."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError.from_os(f'open "{directory}"', error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise HostError.from_os(f'lock "{directory}"', error) from error
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_like_kubectl(path: Path, *, wait_s: float = _LOCK_WAIT_S) -> Iterator[None]:
    """Hold a kubeconfig against kubectl and its relatives, which fail while the lock exists."""
    lock = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + wait_s
    while not _lock(lock):
        if time.monotonic() > deadline:
            raise HostError(
                f'"{path}" is locked by another program; '
                f'if none is running, remove "{lock}" and it is tried again'
            )
        time.sleep(_LOCK_RETRY_S)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _lock(lock: Path) -> bool:
    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        _remove_if_abandoned(lock)
        return False
    except OSError as error:
        raise HostError.from_os(f'write "{lock}"', error) from error
    with os.fdopen(descriptor, "w") as out:
        out.write(f"rdd {os.getpid()}\n")
    return True


def _remove_if_abandoned(lock: Path) -> None:
    """Remove a lock of ours whose process was killed; one of others is not ours to judge."""
    try:
        program, _, pid = lock.read_text().strip().partition(" ")
        if program == "rdd" and pid.isdigit() and not Path("/proc", pid).exists():
            os.kill(int(pid), 0)  # where there is no /proc, this knows
    except ProcessLookupError:
        lock.unlink(missing_ok=True)
    except (OSError, ValueError):
        pass


def _destination(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # links that lead to each other
        raise HostError(f'"{path}" leads nowhere: {error}') from error


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _replace(target: Path, text: str, before: tuple[int, int, int] | None, mode: int) -> bool:
    """Put the text in place unless the file is no longer the one that was read."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _take_after(target, descriptor, mode)
            with os.fdopen(os.dup(descriptor), "wb") as out:
                out.write(text.encode("utf-8", "surrogateescape"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if _stamp(target) != before:
            return False
        temporary.replace(target)
        return True
    except OSError as error:
        raise HostError.from_os(f'write "{target}"', error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _take_after(target: Path, descriptor: int, mode: int) -> None:
    """Give the new file the mode and the owner of the old one."""
    try:
        old = target.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, mode)
        return
    own = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (own.st_uid, own.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            pass  # a group that is not ours: the file stays readable for who replaces it
    os.fchmod(descriptor, old.st_mode & 0o7777)
