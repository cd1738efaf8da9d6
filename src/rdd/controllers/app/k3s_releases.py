# SPDX-License-Identifier: Apache-2.0
"""The k3s releases that are known: those of this version of rdd, and what the publisher lists.

The publisher's list of channels is read by a URLMonitor. Only stable releases that are not older
than the oldest shipped one are taken from it, and channels of the names that are known. The
result is in the ConfigMap `k3s-versions`, from which admission reads it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rdd.controllers.app import k3s_versions_table as table
from rdd.toolbox.catalogue import Catalogue, version_key

_MAX_RELEASES: Final = 500
"""A longer list is not one of k3s."""


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases by version, and versions by channel."""

    versions: Mapping[str, str]
    channels: Mapping[str, str]

    @classmethod
    def shipped(cls) -> "Releases":
        """Return the releases of this version of rdd."""
        return cls(table.VERSIONS, table.CHANNELS)

    @classmethod
    def with_published(cls, text: str) -> "Releases":
        """Return the shipped releases and those of the publisher's list; damage is ignored."""
        found = dict(_channels(text))
        oldest = version_key(table.RELEASES[0])
        listed = Catalogue.shipped().tool("k3s").find_versions(text)
        versions = dict(table.VERSIONS)
        for version in listed[-_MAX_RELEASES:]:
            bare = table.bare(version)
            # The newest build of a version is the last one; a shipped one stays.
            if version_key(version) >= oldest and bare not in table.VERSIONS:
                versions[bare] = f"v{version}"
        channels = dict(table.CHANNELS)
        for name, version in found.items():
            bare = table.bare(version)
            is_known = name in channels or _is_minor(name)
            if is_known and bare in versions and _is_newer(bare, channels.get(name, "0")):
                channels[name] = bare
        return cls(versions, channels)

    @classmethod
    def of_config_map(cls, data: Mapping[str, str]) -> "Releases":
        """Return the published releases; the shipped ones if the ConfigMap is damaged."""
        try:
            versions, channels = (json.loads(data[key]) for key in ("versions", "channels"))
        except (KeyError, ValueError):
            return cls.shipped()
        if not (_is_text_map(versions) and _is_text_map(channels)):
            return cls.shipped()
        valid = {name: one for name, one in versions.items() if table.release_of(one)}
        return cls({**valid, **table.VERSIONS}, {**table.CHANNELS, **channels})

    def to_data(self) -> dict[str, str]:
        """Return the keys of the ConfigMap."""
        return {"versions": _json(self.versions), "channels": _json(self.channels)}

    def resolve(self, version: str) -> str:
        """Return the version of a channel, and the full release of one that is not shipped."""
        bare = self.channels.get(version.removeprefix("v"), version)
        if bare in table.VERSIONS or bare not in self.versions:
            return bare
        return self.versions[bare].removeprefix("v")


def _channels(text: str) -> Iterator[tuple[str, str]]:
    """Yield the channels of the publisher's list, without those of old or unstable releases."""
    try:
        listed = json.loads(text)["data"]
        for one in listed:
            name, latest = one["name"], one.get("latest") or ""
            if isinstance(name, str) and table.release_of(str(latest)):
                yield name.removeprefix("v"), str(latest)
    except (ValueError, KeyError, TypeError, AttributeError):
        return


def _is_minor(name: str) -> bool:
    """Return whether a channel is that of a minor version which is not older than the shipped."""
    parts = name.split(".")
    is_version = len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts)
    return is_version and version_key(name) >= version_key(table.RELEASES[0])[:2]


def _is_newer(version: str, other: str) -> bool:
    return version_key(version) > version_key(other)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _json(known: Mapping[str, str]) -> str:
    return json.dumps(dict(known), sort_keys=True, separators=(",", ":"))
