# SPDX-License-Identifier: Apache-2.0
"""Finds and reads the file of a profile.

A file of the system counts only if no user but root can have written it: it and its
directory belong to root and are not writable by others, and the file is no link. Everything
else that has the name is an error, never skipped, because the next place would then decide.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from rdd.profiles.places import Place, Places

MAX_BYTES = 128 * 1024
_ROOT = 0
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)  # a pipe must not block
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

Signature = tuple[object, ...]


class Unreadable(Exception):
    """A file that has the name of a profile cannot be one; the text has the reason."""

    def __init__(self, path: Path, reason: str, *, is_system: bool) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason
        self.is_system = is_system


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """The file of a profile."""

    path: Path
    data: bytes
    is_system: bool


def signature(places: Places) -> Signature:
    """Return a value that changes with the files in the places; two calls if there are none."""
    seen: list[object] = []
    directories: dict[Path, bool] = {}
    for place in places:
        exists = directories.get(place.directory)
        if exists is None:
            mark = _mark(place.directory)
            exists = directories[place.directory] = mark is not None
            seen.append(mark)
        if exists:
            seen.extend(map(_mark, place.paths()))
    return tuple(seen)


def find(places: Places) -> ProfileFile | None:
    """Return the file that applies; None without one. Raises Unreadable."""
    for place in places:
        if place.is_system and not _is_trusted_directory(place.directory):
            continue
        found = [path for path in place.paths() if _exists(path, place)]
        if len(found) > 1:
            names = " and ".join(f'"{path.name}"' for path in found)
            raise _unreadable(place, found[0], f"{names} both exist: delete one of them")
        if found:
            return ProfileFile(found[0], _read(found[0], place), place.is_system)
    return None


def read_any(path: Path) -> ProfileFile:
    """Return a file that is in none of the places, to check it. Raises Unreadable."""
    place = Place(path.parent, path.stem, is_system=False)
    return ProfileFile(path, _read(path, place), is_system=False)


def _mark(path: Path) -> object:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.errno
    # A link of the user's may lead to a file that changes.
    if stat.S_ISLNK(found.st_mode):
        try:
            target = path.stat()
        except OSError as error:
            return error.errno
        return _parts(found), _parts(target)
    return _parts(found)


def _parts(found: os.stat_result) -> tuple[int, ...]:
    return (
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns,
        found.st_mode, found.st_uid,
    )  # fmt: skip


def _is_trusted_directory(path: Path) -> bool:
    """Return whether the directory exists. Raises Unreadable if others could have filled it."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Unreadable(path, _reason(error), is_system=True) from error
    reason = ""
    if not stat.S_ISDIR(found.st_mode):
        reason = "is not a directory"
    elif reason := _owner_problem(found):
        pass
    if reason:
        raise Unreadable(path, reason, is_system=True)
    return True


def _exists(path: Path, place: Place) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except NotADirectoryError as error:
        if not place.is_system:  # a file in the place of the user's directory holds no profile
            return False
        raise _unreadable(place, path, _reason(error)) from error
    except OSError as error:
        raise _unreadable(place, path, _reason(error)) from error
    return True


def _read(path: Path, place: Place) -> bytes:
    try:
        descriptor = os.open(path, _FLAGS | (_NO_FOLLOW if place.is_system else 0))
    except OSError as error:
        if place.is_system and path.is_symlink():
            raise _unreadable(place, path, "is a link: a regular file is needed") from error
        raise _unreadable(place, path, f"cannot be read: {_reason(error)}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise _unreadable(place, path, f"is {kind}: a regular file is needed")
        if place.is_system and (reason := _owner_problem(found)):
            raise _unreadable(place, path, reason)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(place, path, f"cannot be read: {_reason(error)}") from error
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise _unreadable(place, path, f"is larger than {MAX_BYTES // 1024} KiB")
    return data


def _owner_problem(found: os.stat_result) -> str:
    if os.name != "posix":
        return ""
    if found.st_uid != _ROOT:
        return f"belongs to the user {found.st_uid}, not to root: chown it to root"
    if found.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(found.st_mode)
        return f"is writable by others than root (mode {mode:04o}): chmod it to go-w"
    return ""


def _unreadable(place: Place, path: Path, reason: str) -> Unreadable:
    return Unreadable(path, reason, is_system=place.is_system)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
