# SPDX-License-Identifier: Apache-2.0
"""Edits of files that belong to the user and to other programs.

An edit replaces the file atomically and preserves mode, owner and symbolic links (the target
is replaced); an edit without effect writes nothing. Programs that do not lock may write at any
time, so the file is compared right before it is replaced, and the edit is repeated if it
changed in between.

Two locks, by the programs that take part:

    locked_directory    flock on the directory, which leaves no file behind; excludes other
                        instances of rdd only, for files without a locking protocol (Docker's)
    locked_like_kubectl the file `<path>.lock`, which exists during a write: the protocol of
                        kubectl and of every client-go program
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import open_new, read_text, replace

_ATTEMPTS = 10
_LOCK_WAIT_S = 2.0
_LOCK_RETRY_S = 0.02


def edit(path: Path, change: Callable[[str | None], str | None], *, mode: int = 0o600) -> bool:
    """Replace the text of a file by the result of `change`; return whether anything was written.

    `change` gets None if the file does not exist. None or the same text as result means no
    change; it may be called several times. `mode` is for a new file. Missing parent
    directories are created with mode 0700. Raises HostError.
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
    raise HostError(f'"{path}" is changed constantly by another program')


@contextlib.contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Lock a directory against other instances; create it if it does not exist."""
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
    """Lock a kubeconfig; kubectl and client-go programs fail to write while the lock exists."""
    lock = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + wait_s
    while not _lock(lock):
        if time.monotonic() > deadline:
            raise HostError(
                f'"{path}" is locked by another program; if none is running, remove "{lock}"'
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
    """Remove a stale lock of rdd whose process has ended; foreign locks stay."""
    try:
        program, _, pid = lock.read_text().strip().partition(" ")
        if program == "rdd" and pid.isdigit() and not Path("/proc", pid).exists():
            os.kill(int(pid), 0)  # raises ProcessLookupError; systems without /proc need it
    except ProcessLookupError:
        lock.unlink(missing_ok=True)
    except (OSError, ValueError):
        pass


def _destination(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise HostError(f'"{path}" cannot be resolved: {error}') from error


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _replace(target: Path, text: str, before: tuple[int, int, int] | None, mode: int) -> bool:
    """Replace the file if it is still the one that was read; return whether it was."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_new(temporary)
        try:
            _copy_ownership(target, descriptor, mode)
            with os.fdopen(os.dup(descriptor), "wb") as out:
                out.write(text.encode("utf-8", "surrogateescape"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if _stamp(target) != before:
            return False
        replace(temporary, target)
        return True
    except OSError as error:
        raise HostError.from_os(f'write "{target}"', error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _copy_ownership(target: Path, descriptor: int, mode: int) -> None:
    """Copy mode and owner of the old file to the new one."""
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
            pass  # a foreign group: the file stays readable for this user
    os.fchmod(descriptor, old.st_mode & 0o7777)
