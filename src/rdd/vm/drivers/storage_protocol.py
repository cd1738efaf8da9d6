# SPDX-License-Identifier: Apache-2.0
"""The optional capabilities of drivers and providers that concern the disk of a machine."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypedDict, runtime_checkable

if TYPE_CHECKING:
    from rdd.vm.instance_dir import InstanceDirectory
    from rdd.vm.template.model import Template


class SnapshotInfo(TypedDict):
    """A snapshot in the form of the API."""

    name: str
    creationTime: float
    """Seconds since the epoch."""


class StorageInfo(TypedDict):
    """Size and snapshots of a disk in the form of the API."""

    virtualBytes: int
    actualBytes: int
    imageBytes: int
    suspended: bool
    snapshots: list[SnapshotInfo]


class Storage(Protocol):
    """The disk of one machine. All but `describe` and `trim` need a stopped machine."""

    async def describe(self) -> StorageInfo:
        """Return size and snapshots. Raises HostError."""

    async def create_snapshot(self, name: str) -> None:
        """Save the present state of the disk. Raises HostError."""

    async def restore_snapshot(self, name: str) -> None:
        """Revert the disk to a snapshot. Raises HostError."""

    async def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot. Raises HostError."""

    async def clone_to(self, target: "InstanceDirectory") -> None:
        """Copy the disk and its snapshots to another machine. Raises HostError."""

    async def trim(self, template: "Template", environment: Mapping[str, str]) -> str:
        """Discard unused blocks in the running guest; return its output. Raises HostError."""


@runtime_checkable
class HasStorage(Protocol):
    """Capability of a provider: its machines have a disk of their own, with snapshots."""

    def storage(self, directory: "InstanceDirectory") -> Storage:
        """Return the disk of a machine."""


@runtime_checkable
class GrowsDisk(Protocol):
    """Capability of a `Driver`: the disk of its running machine can grow."""

    async def grow_disk(self, size_bytes: int) -> None:
        """Grow disk and file system. Raises HostError; a larger disk then takes a restart."""
