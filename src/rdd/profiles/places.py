# SPDX-License-Identifier: Apache-2.0
"""Where the profile of an instance may be.

The system directory is fixed: no variable and no flag moves it. The user's directory follows
from the home directory, like all directories of an instance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rdd.instance import DEFAULT_SUFFIX, NAME_PREFIX, Instance, System

DIRECTORY = "rancher-desktop"
EXTENSIONS = (".yaml", ".json")

_SYSTEM: dict[System, str] = {
    "linux": f"/etc/{DIRECTORY}",
    "darwin": f"/Library/Application Support/{DIRECTORY}",
    "windows": f"C:/ProgramData/{DIRECTORY}",
}
_USER: dict[System, str] = {
    "linux": ".config",
    "darwin": "Library/Preferences",
    "windows": "AppData/Roaming",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A place of a profile: its directory, and its name without extension."""

    directory: Path
    stem: str
    is_system: bool

    def paths(self) -> Iterator[Path]:
        for extension in EXTENSIONS:
            yield self.directory / (self.stem + extension)


@dataclass(frozen=True, slots=True)
class Places:
    """The directories in which the profile of one instance is searched."""

    suffix: str
    system_dir: Path
    user_dir: Path

    @classmethod
    def of(cls, instance: Instance) -> "Places":
        system = instance.system
        return cls(
            instance.suffix, Path(_SYSTEM[system]), instance.home / _USER[system] / DIRECTORY
        )

    def __iter__(self) -> Iterator[Place]:
        """Yield the places in their order; the first with a file decides."""
        own = NAME_PREFIX + self.suffix
        yield Place(self.system_dir, own, is_system=True)
        if self.suffix != DEFAULT_SUFFIX:
            yield Place(self.system_dir, NAME_PREFIX + DEFAULT_SUFFIX, is_system=True)
        yield Place(self.user_dir, own, is_system=False)
