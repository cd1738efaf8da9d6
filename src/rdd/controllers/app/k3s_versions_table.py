# SPDX-License-Identifier: Apache-2.0
"""The k3s releases that this version of rdd lists; `k3s_releases` adds those of the publisher.

A release is listed in full (`v1.32.11+k3s3`), because k3s publishes some Kubernetes versions
only as a later build. Users specify the bare version (`1.32.11`), a channel (`stable`),
which is resolved to its current version, or any release in full (`1.36.1+k3s1`).
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

RELEASES: Final = (
    "v1.32.0+k3s1", "v1.32.1+k3s1", "v1.32.2+k3s1", "v1.32.3+k3s1", "v1.32.4+k3s1",
    "v1.32.5+k3s1", "v1.32.6+k3s1", "v1.32.7+k3s1", "v1.32.8+k3s1", "v1.32.9+k3s1",
    "v1.32.10+k3s1", "v1.32.11+k3s3", "v1.32.12+k3s1", "v1.32.13+k3s1",
    "v1.33.0+k3s1", "v1.33.1+k3s1", "v1.33.2+k3s1", "v1.33.3+k3s1", "v1.33.4+k3s1",
    "v1.33.5+k3s1", "v1.33.6+k3s1", "v1.33.7+k3s3", "v1.33.8+k3s1", "v1.33.9+k3s1",
    "v1.33.10+k3s1",
    "v1.34.1+k3s1", "v1.34.2+k3s1", "v1.34.3+k3s3", "v1.34.4+k3s1", "v1.34.5+k3s1",
    "v1.34.6+k3s1",
    "v1.35.0+k3s3", "v1.35.1+k3s1", "v1.35.2+k3s1", "v1.35.3+k3s1",
)  # fmt: skip
"""Every supported release, oldest first."""


def bare(release: str) -> str:
    """Return `1.32.11` for `v1.32.11+k3s3`."""
    return release.removeprefix("v").partition("+")[0]


VERSIONS: Final[Mapping[str, str]] = MappingProxyType({bare(full): full for full in RELEASES})
"""The release of each version."""

CHANNELS: Final[Mapping[str, str]] = MappingProxyType({
    "latest": "1.35.3",
    "stable": "1.34.6",
    "1.32": "1.32.13",
    "1.33": "1.33.10",
    "1.34": "1.34.6",
    "1.35": "1.35.3",
})  # fmt: skip
"""The version of each channel."""

DEFAULT_CHANNEL: Final = "stable"


_FULL: Final = re.compile(r"v?([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\+k3s[0-9]{1,3})")


def release_of(version: str) -> str:
    """Return the release of a version, listed or written in full; empty for any other text."""
    full = _FULL.fullmatch(version)
    return f"v{full[1]}" if full else VERSIONS.get(version, "")


def label_of(version: str) -> str:
    """Return a version as the value of a label."""
    return version.replace("+", "-")
