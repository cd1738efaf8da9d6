# SPDX-License-Identifier: Apache-2.0
"""The files of Kubernetes that rdd fetches for a machine: the k3s program and its images.

    <cache>/k3s/<release>/k3s-airgap-images-<arch>.tar.zst    the images of the cluster itself
    <cache>/k3s/<release>/k3s                                 the program

Invariant: the images come first, so a program means that a release is complete. Releases stay
there side by side, which makes switching between them a matter of seconds. Machines of all types
use these files; no guest fetches k3s itself. The time of the last use is that of the directory.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.user_cache import cache_directory
from rdd.vm.drivers.protocol import ProgramSource

_IMAGES = "k3s-airgap-images-*"
_REMOVED = ".removed-"
_USE_S = 3600.0
"""A use is recorded once an hour: the controllers look often."""


@dataclass(frozen=True, slots=True)
class Release:
    """The files of one release, complete or not."""

    name: str
    directory: Path
    users: tuple[str, ...] = ()
    """Who needs it."""

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(path for path in self.directory.glob("*") if path.is_file()))

    @property
    def size_bytes(self) -> int:
        """Disk space without that of files which the rest of the cache has, too."""
        found = [path.stat() for path in self.files]
        return sum(status.st_blocks * 512 for status in found if status.st_nlink == 1)

    @property
    def used_at(self) -> float:
        try:
            return self.directory.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    @property
    def is_in_use(self) -> bool:
        return bool(self.users)

    def remove(self) -> None:
        """Remove the release at once, so that no half of it is ever seen. Raises HostError."""
        gone = self.directory.with_name(f"{_REMOVED}{os.getpid()}-{self.name}")
        try:
            with contextlib.suppress(FileNotFoundError):
                self.directory.rename(gone)
            for left in self.directory.parent.glob(f"{_REMOVED}*"):
                shutil.rmtree(left)
        except OSError as error:
            raise HostError.from_os(f'remove "{self.directory}"', error) from error


def releases(environment: Mapping[str, str]) -> list[Release]:
    """Return all releases, complete or not, by name."""
    try:
        found = sorted(releases_directory(environment).iterdir())
    except OSError:
        return []
    return [
        Release(path.name, path)
        for path in found
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    ]


def releases_directory(environment: Mapping[str, str]) -> Path:
    """Return the directory of all releases, existing or not."""
    home = Path(environment.get("HOME") or "/")
    return cache_directory(environment, home) / "k3s"


def release_directory(release: str, environment: Mapping[str, str]) -> Path:
    """Return the directory of a release, existing or not."""
    return releases_directory(environment) / release


def program_of(release: str, environment: Mapping[str, str]) -> Path:
    """Return the path of the program of a release, existing or not."""
    return release_directory(release, environment) / "k3s"


def images_of(release: str, environment: Mapping[str, str]) -> Path | None:
    """Return the archive with the images of a release; None if it is missing."""
    return next(release_directory(release, environment).glob(_IMAGES), None)


def has_program(release: str, environment: Mapping[str, str]) -> bool:
    """Return whether a release is complete, and record that it is used."""
    if not release or not os.access(program_of(release, environment), os.X_OK):
        return False
    directory = release_directory(release, environment)
    with contextlib.suppress(OSError):  # a read-only cache can be used, too
        if time.time() - directory.stat().st_mtime > _USE_S:
            os.utime(directory)
    return True


def missing_files(release: str, environment: Mapping[str, str]) -> tuple[ProgramSource, ...]:
    """Return the files of a release to fetch, in their order; empty if it is complete."""
    from rdd.toolbox.catalogue import Catalogue, platform_of

    if not release or has_program(release, environment):
        return ()
    system = os.uname()
    try:
        files = (
            Catalogue.shipped()
            .tool("k3s")
            .files(release.removeprefix("v"), platform_of(system.sysname, system.machine))
        )
    except HostError:  # not a release, or none for this platform
        return ()
    directory = release_directory(release, environment)
    found = [
        ProgramSource(
            name=f"{file.name if file.content == 'images' else 'k3s'} {release}",
            url=file.url,
            checksum_url=file.checksum_url,
            digest=file.digest,
            path=directory / (file.name if file.content == "images" else "k3s"),
            is_program=file.content != "images",
        )
        for file in files
    ]
    return tuple(sorted(found, key=lambda source: source.is_program))


def missing_release(release: str, environment: Mapping[str, str]) -> str:
    """Return why a guest cannot run a release; empty if it can."""
    return "" if has_program(release, environment) else f"k3s {release} is not installed"
