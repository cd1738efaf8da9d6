# SPDX-License-Identifier: Apache-2.0
"""The manifest of a snapshot: what it contains, `manifest.json` beside its content."""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically

FILE = "manifest.json"
FORMAT = 1
"""The newest format that this version reads; it is raised when an older one cannot read it."""
_NEVER = 253_402_300_800
"""The year 10000, which no timestamp can express."""
_MOST_BYTES = 1 << 60


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """One saved machine; its files are in `machines/NAME`."""

    driver: str
    method: str
    """`reflink`, `copy` or `qcow2`."""
    tag: str = ""
    """With qcow2: the snapshot inside of the disk that has the state."""
    mode: str = ""
    """With the driver host: `root` or `rootless`, the owner of its files."""
    template: str = ""
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a snapshot contains."""

    id: str
    """The uid of the Snapshot that made it; a copy on another instance keeps it."""
    name: str
    created: float
    """When the state was, in seconds since 1970."""
    scope: Mapping[str, str]
    """`kind`, `name` and `namespace`, as in the Snapshot."""
    description: str = ""
    size_bytes: int = 0
    """Size of the content; blocks that are shared with a machine count, too."""
    version: str = ""
    """The version of rdd that made it."""
    system: str = field(default_factory=lambda: f"{platform.system()}/{platform.machine()}")
    machines: Mapping[str, MachineRecord] = field(default_factory=dict)
    settings: Mapping[str, Any] | None = None
    """The spec of the App."""
    format: int = FORMAT

    @property
    def method(self) -> str:
        """How the machines were saved; empty without one."""
        return ", ".join(sorted({record.method for record in self.machines.values()}))

    def to_text(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def parse(cls, text: str, source: str) -> "Manifest":
        """Return the manifest in a text. Raises HostError for any other text."""
        try:
            data = json.loads(text)
            found_format = data["format"]
            if not isinstance(found_format, int) or found_format < 1:
                raise ValueError(f"format {found_format!r}")
            if found_format > FORMAT:
                raise HostError(
                    f"{source} has the format {found_format} of a newer rdd "
                    f"({data.get('version') or 'unknown version'}); this one reads up to "
                    f"{FORMAT}: update rdd"
                )
            machines = {
                _plain(name): MachineRecord(**_texts(record, "params"))
                for name, record in data.pop("machines").items()
            }
            scope = {str(key): str(value) for key, value in data.pop("scope").items()}
            manifest = cls(machines=machines, scope=scope, **data)
            _check(manifest)
            return manifest
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise HostError(f"{source} has no valid manifest: {error}") from error

    @classmethod
    def read(cls, directory: Path) -> "Manifest | None":
        """Return the manifest of a snapshot; None if there is none. Raises HostError."""
        text = read_text(directory / FILE)
        return None if text is None else cls.parse(text, f'"{directory}"')

    def write(self, directory: Path) -> None:
        """Write it. Raises HostError."""
        write_atomically(directory / FILE, self.to_text())


def _check(manifest: Manifest) -> None:
    for value in (manifest.id, manifest.name, manifest.description, manifest.version):
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a text")
    if type(manifest.created) not in (int, float) or not 0 <= manifest.created < _NEVER:
        raise ValueError(f"{manifest.created!r} is not a time")
    if type(manifest.size_bytes) is not int or not 0 <= manifest.size_bytes < _MOST_BYTES:
        raise ValueError(f"{manifest.size_bytes!r} is not a size")
    if not isinstance(manifest.settings, dict | None):
        raise ValueError("settings are not an object")


def _plain(name: str) -> str:
    """Return a name that is one component of a path."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"the name {name!r} is not one of a machine")
    return name


def _texts(record: Mapping[str, Any], mapping: str) -> dict[str, Any]:
    for key, value in record.items():
        if not isinstance(value, dict if key == mapping else str):
            raise ValueError(f"{key} has the value {value!r}")
    return dict(record)
