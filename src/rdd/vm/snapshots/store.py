# SPDX-License-Identifier: Apache-2.0
"""The snapshots of one instance on disk.

They are outside of the directories of the instance, so a reset or a deletion keeps them, and
beside the database, so restoring that keeps newer ones:

    <root>/NAME/manifest.json        what it is (`Manifest`)
    <root>/NAME/machines/MACHINE/…   the files of a machine, without those of its processes
    <root>/NAME/index/MACHINE.json   what a copy of a machine was made of (`unchanged`)
    <root>/NAME/objects.json         the objects of a namespace
    <root>/NAME/db/state.db          the database of a whole instance
    <root>/NAME/db/origin            where its machines were
    <root>/.creating-NAME/           not complete yet
    <root>/.removing-NAME/           being removed

A snapshot is on the file system of what it saves if one of the roots is, because only there
blocks can be shared. A crash leaves a `.creating-NAME` that `sweep` removes, never half a snapshot:
the last step is a rename, after everything is on the disk.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.host.directories import make_own_dir
from rdd.host.errors import HostError
from rdd.host.tree_removal import remove_tree
from rdd.vm.snapshots.manifest import Manifest

NAME_LIMIT = 63
NAME_RULE = (
    f'lower-case letters, digits, "-" and ".", beginning and ending with a letter or digit, '
    f"at most {NAME_LIMIT} characters"
)
MACHINES_DIR = "machines"
OBJECTS_FILE = "objects.json"
DATABASE_DIR = "db"
INDEX_DIR = "index"
ORIGIN_FILE = "origin"
_CREATING, _REMOVING = ".creating-", ".removing-"
_is_name = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?").fullmatch


class SnapshotExists(HostError):
    """There is a snapshot of this name."""


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A complete snapshot on disk."""

    path: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        return self.path.name

    def machine(self, name: str) -> Path:
        """Return the directory with the files of a saved machine."""
        return self.path / MACHINES_DIR / name

    def index(self, name: str) -> Path:
        """Return where a copy of a machine keeps what it was made of."""
        return index_path(self.path, name)


class SnapshotStore:
    """The snapshots of an instance. `roots` are on different file systems, or alternatives."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(roots)

    def root_for(self, path: Path) -> Path:
        """Return the root for a snapshot of what is at a path: on its file system if one is."""
        device = _device(path)
        return next((root for root in self._roots if _device(root) == device), self._roots[0])

    def entries(self) -> list[StoredSnapshot]:
        """Return all complete snapshots that this version can read, by age."""
        found = []
        for path in self._children():
            if _is_name(path.name):
                with contextlib.suppress(HostError):
                    manifest = Manifest.read(path)
                    if manifest is not None:
                        found.append(StoredSnapshot(path, manifest))
        return sorted(found, key=lambda entry: entry.manifest.created)

    def last_copy(self, machine: str, root: Path) -> StoredSnapshot | None:
        """Return the newest copy of a machine below a root that was made here."""
        for entry in reversed(self.entries()):
            if entry.path.parent == root and entry.index(machine).exists():
                return entry
        return None

    def names(self) -> list[str]:
        """Return the names of all complete snapshots, readable or not."""
        return sorted(path.name for path in self._children() if _is_name(path.name))

    def path_of(self, name: str) -> Path | None:
        """Return the directory of a complete snapshot, readable or not; None without one."""
        check_name(name)
        return next((root / name for root in self._roots if (root / name).is_dir()), None)

    def find(self, name: str) -> StoredSnapshot | None:
        """Return a complete snapshot. Raises HostError if its manifest is not readable."""
        path = self.path_of(name)
        if path is None:
            return None
        manifest = Manifest.read(path)
        if manifest is None:
            raise HostError(f'"{path}" has no manifest: it is no snapshot')
        return StoredSnapshot(path, manifest)

    def begin(self, name: str, near: Path) -> Path:
        """Return a new directory for the content of a snapshot of what is at `near`.

        Raises HostError.
        """
        if self.path_of(name) is not None:
            raise SnapshotExists(f'there is a snapshot "{name}" already')
        for root in self._roots:
            _remove(root / f"{_CREATING}{name}")
        root = self.root_for(near)
        make_own_dir(root)
        partial = root / f"{_CREATING}{name}"
        try:
            partial.mkdir(mode=0o700)
        except OSError as error:
            raise HostError.from_os(f'create directory "{partial}"', error) from error
        return partial

    def complete(self, partial: Path, manifest: Manifest) -> StoredSnapshot:
        """Give a directory its name, once its content is on the disk. Raises HostError."""
        manifest.write(partial)
        final = partial.with_name(partial.name.removeprefix(_CREATING))
        try:
            partial.rename(final)
        except OSError as error:
            raise HostError.from_os(f'create the snapshot "{final}"', error) from error
        return StoredSnapshot(final, manifest)

    def discard(self, partial: Path) -> None:
        """Remove an incomplete snapshot. Raises HostError."""
        _remove(partial)

    def remove(self, name: str) -> None:
        """Remove a snapshot, complete or not. Idempotent. Raises HostError."""
        path = self.path_of(name)
        for root in self._roots:
            _remove(root / f"{_CREATING}{name}")
            _remove(root / f"{_REMOVING}{name}")
        if path is not None:
            target = path.with_name(f"{_REMOVING}{name}")
            try:
                path.rename(target)
            except OSError as error:
                raise HostError.from_os(f'remove "{path}"', error) from error
            _remove(target)
        self.remove_empty_roots()

    def sweep(self) -> None:
        """Complete interrupted removals. Raises HostError."""
        for path in self._children():
            if path.name.startswith(_REMOVING):
                _remove(path)

    def remove_all(self) -> None:
        """Remove all snapshots, complete or not. Raises HostError."""
        for path in self._children():
            _remove(path)
        self.remove_empty_roots()

    def remove_empty_roots(self) -> None:
        """Remove the directories of an instance without snapshots."""
        for root in self._roots:
            for path in (root, root.parent):
                with contextlib.suppress(OSError):
                    path.rmdir()

    def _children(self) -> Iterator[Path]:
        for root in self._roots:
            with contextlib.suppress(OSError):
                yield from sorted(root.iterdir())


def index_path(snapshot: Path, machine: str) -> Path:
    """Return where a snapshot keeps what its copy of a machine was made of."""
    return snapshot / INDEX_DIR / f"{machine}.json"


def check_name(name: str) -> None:
    """Raise HostError unless `name` is valid for a snapshot."""
    if not _is_name(name) or len(name) > NAME_LIMIT:
        raise HostError(f'invalid name "{name}" of a snapshot: allowed are {NAME_RULE}')


def _device(path: Path) -> int:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path.stat().st_dev


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # another process removes it
    except OSError as error:
        raise HostError.from_os(f'remove "{error.filename or path}"', error) from error
