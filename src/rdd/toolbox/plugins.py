# SPDX-License-Identifier: Apache-2.0
"""Links to plugins of the Docker CLI, in the directory where docker finds them.

The directory `cli-plugins` of docker's configuration (DOCKER_CONFIG, else ~/.docker) belongs to the
user. A link in it leads through `bin` of the toolbox, so it follows every change of the version.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path


def plugin_directory(environment: Mapping[str, str], home: Path) -> Path:
    """Return the directory of the user's plugins, existing or not."""
    chosen = environment.get("DOCKER_CONFIG")
    base = Path(chosen) if chosen else home / ".docker"
    return base / "cli-plugins"


def is_link_to(place: Path, program: Path) -> bool:
    """Return whether a plugin is the link to a program of the toolbox."""
    try:
        return place.readlink() == program
    except OSError:
        return False


def links_into(directory: Path, bin_dir: Path) -> Iterator[Path]:
    """Yield the plugins that are links to programs of a toolbox, also to removed ones."""
    for place in sorted(directory.glob("*")):
        if is_link_to(place, bin_dir / place.name):
            yield place
