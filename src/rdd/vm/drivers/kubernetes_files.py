# SPDX-License-Identifier: Apache-2.0
"""The files of Kubernetes that rdd fetches for a machine: the k3s program and its images.

    <cache>/k3s/<release>/k3s-airgap-images-<arch>.tar.zst    the images of the cluster itself
    <cache>/k3s/<release>/k3s                                 the program

Invariant: the images come first, so a program means that a release is complete. Releases stay
there side by side, which makes switching between them a matter of seconds. Machines of all types
use these files; no guest fetches k3s itself.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.user_cache import cache_directory
from rdd.vm.drivers.protocol import ProgramSource

_IMAGES = "k3s-airgap-images-*"


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
    """Return whether a release is complete."""
    return bool(release) and os.access(program_of(release, environment), os.X_OK)


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
