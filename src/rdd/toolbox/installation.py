# SPDX-License-Identifier: Apache-2.0
"""The tools of one instance: several versions of each, one of them on PATH.

    versions/<tool>/<version>/      the programs of a version, and their record
    versions/<tool>/current         link to the version in use; engines have none
    bin/<program>                   links through `current`, for PATH
    .staging-<pid>/                 a version being installed
    .lock                           held by whoever changes something

Invariant: a version is complete or missing. It is assembled in a staging directory, synced, and
renamed; the next change removes what a crash left. Another version is put to use by renaming
one link. The programs are copies of the cache's files, with shared blocks where the file system
can, so that neither an eviction nor a write to one changes the other.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rdd.fetch.digests import Digest
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import read_text, sync_directory, write_atomically
from rdd.host.locks import FileLock
from rdd.toolbox.catalogue import CatalogueFile, Tool, sorted_versions

RECORD: Final = "installed.json"
_VERSIONS, _BIN, _CURRENT = "versions", "bin", "current"
_STAGING = ".staging-"
_LOCK_TIMEOUT_S = 120.0
_LOCK_POLL_S = 0.1
ON_PATH: Final = ("command", "cli-plugin")
"""Roles of tools whose programs are linked into `bin`."""


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file of a version, verified, in the cache."""

    file: CatalogueFile
    path: Path
    digest: Digest


@dataclass(frozen=True, slots=True)
class InstalledVersion:
    """One complete version of a tool."""

    tool: str
    version: str
    directory: Path
    programs: tuple[str, ...]
    size_bytes: int
    is_current: bool
    """Its programs are those in `bin`."""


class Toolbox:
    """The tools below one directory. Everything blocks and raises HostError."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def bin_dir(self) -> Path:
        """Return the directory for PATH."""
        return self.root / _BIN

    def directory(self, tool: str, version: str) -> Path:
        """Return the directory of a version, existing or not."""
        return self.root / _VERSIONS / tool / version

    def find(self, tool: str, version: str) -> InstalledVersion | None:
        """Return an installed version; None if it is missing or has lost a program."""
        directory = self.directory(tool, version)
        try:
            record = json.loads(read_text(directory / RECORD) or "null")
            programs: Mapping[str, int] = record["programs"]
            sizes = {name: (directory / name).stat().st_size for name in programs}
        except (OSError, ValueError, TypeError, KeyError, HostError):
            return None
        if sizes != programs:
            return None
        return InstalledVersion(
            tool,
            version,
            directory,
            tuple(sorted(programs)),
            sum(sizes.values()),
            self.current(tool) == version,
        )

    def installed(self, tool: str = "") -> list[InstalledVersion]:
        """Return all complete versions, of one tool or of all."""
        found = []
        for directory in sorted((self.root / _VERSIONS).glob(tool or "*")):
            names = [entry.name for entry in directory.glob("*") if entry.name != _CURRENT]
            for version in sorted_versions(names):
                if (one := self.find(directory.name, version)) is not None:
                    found.append(one)
        return found

    def current(self, tool: str) -> str:
        """Return the version in use; empty if there is none."""
        try:
            return (self.root / _VERSIONS / tool / _CURRENT).readlink().name
        except OSError:
            return ""

    def install(self, tool: Tool, version: str, files: Sequence[FetchedFile]) -> InstalledVersion:
        """Install a version from verified files, and put a tool for PATH to use.

        A version that is already complete is not replaced. Raises HostError; nothing is then
        changed.
        """
        with self._changing():
            if self.find(tool.name, version) is None:
                self._assemble(tool, version, files)
            if tool.role in ON_PATH:
                self._select(tool.name, version)
            found = self.find(tool.name, version)
            assert found is not None  # just assembled
            return found

    def select(self, tool: str, version: str) -> None:
        """Put an installed version to use."""
        with self._changing():
            self._select(tool, version)

    def remove(self, tool: str, version: str) -> None:
        """Remove a version; of the remaining ones the newest is then in use."""
        with self._changing():
            was_current = self.current(tool) == version
            directory = self.directory(tool, version)
            doomed = self.root / f"{_STAGING}{os.getpid()}"
            with _reported(f'remove "{directory}"'), contextlib.suppress(FileNotFoundError):
                directory.rename(doomed)  # at once, so that no half of it is ever seen
            _remove_tree(doomed)
            rest = [one.version for one in self.installed(tool)]
            if was_current and rest:
                self._select(tool, rest[-1])
            elif was_current:
                with _reported(f'remove the links of "{tool}"'):
                    (self.root / _VERSIONS / tool / _CURRENT).unlink(missing_ok=True)
                    self._drop_links(tool, keep=())
            with contextlib.suppress(OSError):
                (self.root / _VERSIONS / tool).rmdir()

    def _assemble(self, tool: Tool, version: str, files: Sequence[FetchedFile]) -> None:
        from rdd.toolbox.unpacking import unpack  # the daemon rarely needs it

        staging = self.root / f"{_STAGING}{os.getpid()}"
        make_private_dir(staging)
        try:
            for one in files:
                file = one.file
                if file.content == "programs":
                    unpack(one.path, file.programs, staging, name=file.name, optional=file.optional)
            sizes = {path.name: path.stat().st_size for path in staging.iterdir()}
            record: dict[str, Any] = {
                "tool": tool.name,
                "version": version,
                "programs": dict(sorted(sizes.items())),
                "files": {one.file.url: str(one.digest) for one in files},
                "installed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            write_atomically(staging / RECORD, json.dumps(record, indent=1) + "\n", mode=0o644)
            target = self.directory(tool.name, version)
            make_private_dir(target.parent)
            _remove_tree(target)  # one that has lost a program
            with _reported(f'create "{target}"'):
                staging.rename(target)
                sync_directory(target.parent)
        finally:
            _remove_tree(staging)

    def _select(self, tool: str, version: str) -> None:
        found = self.find(tool, version)
        if found is None:
            raise HostError(f"{tool} {version} is not installed")
        make_private_dir(self.bin_dir)
        with _reported(f'put {tool} {version} to use in "{self.root}"'):
            _link(Path(version), self.root / _VERSIONS / tool / _CURRENT)
            for program in found.programs:
                _link(Path("..", _VERSIONS, tool, _CURRENT, program), self.bin_dir / program)
            self._drop_links(tool, keep=found.programs)

    def _drop_links(self, tool: str, *, keep: tuple[str, ...]) -> None:
        for path in self.bin_dir.glob("*"):
            is_ours = path.is_symlink() and path.readlink().parts[1:3] == (_VERSIONS, tool)
            if is_ours and path.name not in keep:
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock, and remove what a crashed process left."""
        make_private_dir(self.root)
        path = self.root / ".lock"
        end = time.monotonic() + _LOCK_TIMEOUT_S
        while (lock := FileLock.try_acquire(path)) is None:
            if time.monotonic() > end:
                raise HostError(f'another process is changing "{self.root}"')
            time.sleep(_LOCK_POLL_S)
        with lock:
            for left in self.root.glob(f"{_STAGING}*"):
                _remove_tree(left)
            yield


def _link(target: Path, path: Path) -> None:
    """Create or replace a symbolic link atomically. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


def _remove_tree(path: Path) -> None:
    """Remove a directory if it exists."""
    with _reported(f'remove "{path}"'), contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


@contextlib.contextmanager
def _reported(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostError.from_os(action, error) from error
