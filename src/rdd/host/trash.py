# SPDX-License-Identifier: Apache-2.0
"""The trash: directories that a deletion keeps for a week.

An entry is a directory of the trash with the deleted directories and `entry.json`, which
describes them. Nothing is ever copied: the trash is on the file system of the directories, and
a rename puts them there and back. What is on another file system cannot be kept.

Every step is one rename, so a crash loses nothing: an entry is filled as `.adding-ID` and then
gets its name, `.removing-ID` is being removed, and `sweep` completes both. Paths that must not be
kept, such as keys, are removed before the entry gets its name.
"""

import contextlib
import errno
import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.host.directories import make_own_dir, make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.host.tree_removal import remove_tree

KEEP_S = 7 * 86_400.0
"""An entry is removed after this time."""

_LEAST_FREE_BYTES = 5 << 30
_LEAST_FREE_SHARE = 0.1  # of a small file system
_ENTRY = "entry.json"
_ADDING, _REMOVING = ".adding-", ".removing-"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """Directories that were deleted together."""

    path: Path
    instance: str
    """The suffix of the instance."""
    kind: str
    """`machine`, `settings`, or `instance`: a database with its machines."""
    name: str
    """The name of the machine, or of the instance."""
    deleted_at: float
    items: tuple[str, ...]
    """The directories, relative to the entry: `db`, `lima/NAME`."""
    details: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def expires_at(self) -> float:
        return self.deleted_at + KEEP_S


class Trash:
    """The trash of a user. `roots` are its possible directories, on different file systems."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(roots)

    def can_keep(self, path: Path) -> bool:
        """Return whether a directory would be kept: same file system, and space is not short."""
        root = self._root_for(path)
        return root is not None and not is_space_short(root)

    def add(
        self,
        items: Mapping[str, Path],
        *,
        instance: str,
        kind: str,
        name: str,
        without: Sequence[str] = (),
        details: Mapping[str, str] | None = None,
    ) -> TrashEntry | None:
        """Move directories to the trash; None if no directory of the trash can take them.

        `items` has their paths by the relative path in the entry; missing ones are omitted. An
        entry without any, of `details` alone, is kept where the trash can be created.
        `without` are paths relative to the entry that are removed, `details` is kept with it.
        Raises HostError; what was moved is then moved back.
        """
        present = {key: path for key, path in items.items() if path.is_dir()}
        if not present and (items or not details):
            return None
        roots = {self._root_for(path) for path in present.values()}
        if not present:
            roots.add(next((root for root in self._roots if root.parent.is_dir()), None))
        root = roots.pop()
        if roots or root is None:
            return None
        now = time.time()
        description = {
            "instance": instance,
            "kind": kind,
            "name": name,
            "deletedAt": now,
            "items": sorted(present),
            "without": list(without),
            "details": dict(details or {}),
        }
        make_own_dir(root)
        partial = _make_partial(root, now, instance, name)
        try:
            write_atomically(partial / _ENTRY, json.dumps(description) + "\n")
            if not _move_all(present, partial):
                _discard(partial)
                return None
        except BaseException:
            _discard(partial)
            raise
        return _complete(partial)

    def describe(self, entry: TrashEntry, details: Mapping[str, str]) -> None:
        """Add details to an entry. Raises HostError."""
        try:
            description = json.loads(read_text(entry.path / _ENTRY) or "null")
            description["details"] = {**(description.get("details") or {}), **details}
        except (ValueError, TypeError, AttributeError) as error:
            raise HostError(f'"{entry.path / _ENTRY}" is damaged: {error}') from error
        write_atomically(entry.path / _ENTRY, json.dumps(description) + "\n")

    def entries(self) -> list[TrashEntry]:
        """Return all entries, the newest first."""
        found = []
        for path in self._children():
            if not path.name.startswith(".") and (entry := _read(path)) is not None:
                found.append(entry)
        return sorted(found, key=lambda entry: entry.deleted_at, reverse=True)

    def find(self, entry_id: str) -> TrashEntry | None:
        """Return the entry with this id."""
        return next((entry for entry in self.entries() if entry.id == entry_id), None)

    def take(self, entry: TrashEntry, targets: Mapping[str, Path]) -> None:
        """Move the directories of an entry to `targets` and drop the entry. Raises HostError.

        Fails without changes if a target exists or is on another file system.
        """
        moved: list[tuple[Path, Path]] = []
        for item, target in targets.items():
            source = entry.path / item
            try:
                if target.exists():
                    raise HostError(f'"{target}" exists')
                make_private_dir(target.parent)
                source.rename(target)
            except (OSError, HostError) as error:
                for back, origin in moved:
                    back.rename(origin)
                if isinstance(error, OSError):
                    raise HostError.from_os(f'restore "{target}"', error) from error
                raise
            moved.append((target, source))
        self.remove(entry)

    def remove(self, entry: TrashEntry) -> None:
        """Free the space of an entry. Raises HostError."""
        _remove(entry.path)
        self._remove_empty_roots()

    def purge(self) -> list[TrashEntry]:
        """Remove what is older than a week, and the oldest entries while space is short.

        Completes what a crash interrupted. Raises HostError.
        """
        self.sweep()
        now, removed = time.time(), []
        for entry in reversed(self.entries()):
            if now >= entry.expires_at or is_space_short(entry.path):
                self.remove(entry)
                removed.append(entry)
        return removed

    def sweep(self) -> None:
        """Complete interrupted additions and removals. Raises HostError."""
        for path in self._children():
            if path.name.startswith(_REMOVING):
                _remove(path)
            elif path.name.startswith(_ADDING) and not _is_fresh(path):
                if any(child.name != _ENTRY for child in path.iterdir()):
                    _complete(path)
                else:
                    _remove(path)
        self._remove_empty_roots()

    def _children(self) -> Iterator[Path]:
        for root in self._roots:
            with contextlib.suppress(OSError):
                yield from sorted(root.iterdir())

    def _root_for(self, path: Path) -> Path | None:
        device = _device(path)
        return next((root for root in self._roots if _device(root) == device), None)

    def _remove_empty_roots(self) -> None:
        for root in self._roots:
            with contextlib.suppress(OSError):
                root.rmdir()


def is_space_short(path: Path) -> bool:
    """Return whether the file system of a path has too little space to keep what was deleted."""
    try:
        found = shutil.disk_usage(_existing(path))
    except OSError:
        return False
    return found.free < min(_LEAST_FREE_BYTES, found.total * _LEAST_FREE_SHARE)


def _existing(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _device(path: Path) -> int:
    return _existing(path).stat().st_dev


def _make_partial(root: Path, now: float, instance: str, name: str) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    label = _UNSAFE.sub("-", f"{instance}-{name}" if name != instance else instance)
    for number in range(1, 10_000):
        entry_id = f"{label}-{stamp}{f'-{number}' if number > 1 else ''}"
        path = root / f"{_ADDING}{entry_id}"
        if (root / entry_id).exists():
            continue
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise HostError.from_os(f'create directory "{path}"', error) from error
        return path
    raise HostError(f'the trash "{root}" has too many entries')


def _move_all(items: Mapping[str, Path], partial: Path) -> bool:
    """Rename directories into an entry; False, and all are back, if that is impossible."""
    moved: list[tuple[Path, Path]] = []
    for item, source in items.items():
        target = partial / item
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            source.rename(target)
        except OSError as error:
            for origin, place in moved:
                place.rename(origin)
            if error.errno == errno.EXDEV:  # a mount point: the device number does not show it
                return False
            raise HostError.from_os(f'move "{source}" to the trash', error) from error
        moved.append((source, target))
    return True


def _complete(partial: Path) -> TrashEntry | None:
    final = partial.with_name(partial.name.removeprefix(_ADDING))
    try:
        description = json.loads(read_text(partial / _ENTRY) or "{}")
        for item in description.get("without") or ():
            path = partial / item
            if path.is_dir() and not path.is_symlink():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)
        partial.rename(final)
    except FileNotFoundError:
        pass  # another process has completed it
    except (OSError, ValueError, TypeError) as error:
        raise HostError(f'failed to move "{final.name}" to the trash: {error}') from error
    return _read(final)


def _read(path: Path) -> TrashEntry | None:
    """Return the entry of a directory; None for anything else."""
    try:
        data = json.loads(read_text(path / _ENTRY) or "null")
        return TrashEntry(
            path,
            str(data["instance"]),
            str(data["kind"]),
            str(data["name"]),
            float(data["deletedAt"]),
            tuple(map(str, data["items"])),
            {str(key): str(value) for key, value in (data.get("details") or {}).items()},
        )
    except (HostError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_fresh(path: Path) -> bool:
    """Return whether another process may still fill this entry."""
    try:
        return time.time() - path.stat().st_mtime < 60
    except OSError:
        return True


def _discard(partial: Path) -> None:
    """Remove an entry into which nothing was moved."""
    with contextlib.suppress(OSError):
        for path in partial.iterdir():
            if path.name != _ENTRY:
                path.rmdir()  # fails if it has content: `sweep` completes the entry
        (partial / _ENTRY).unlink(missing_ok=True)
        partial.rmdir()


def _remove(path: Path) -> None:
    target = path
    try:
        if not path.name.startswith(_REMOVING):
            target = path.with_name(f"{_REMOVING}{path.name}")
            path.rename(target)
        remove_tree(target)
    except FileNotFoundError:
        pass  # another process removes it
    except OSError as error:
        raise HostError.from_os(f'remove "{error.filename or target}"', error) from error
