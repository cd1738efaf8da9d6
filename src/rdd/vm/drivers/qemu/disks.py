# SPDX-License-Identifier: Apache-2.0
"""Disks of stopped machines: create, inspect, grow, snapshot.

A machine's disk is a qcow2 overlay on its image, which is shared and never written to. Snapshots
are internal to the overlay: they are instant and take only the space of the differences. All
operations use `qemu-img`, which refuses to modify the disk of a running machine.

The format of a file is always explicit, never probed: a guest that writes a header to a raw disk
must not change its format.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from rdd.host.errors import HostError
from rdd.vm.drivers.qemu.programs import run

SUSPEND_TAG = "rdd-suspend"
_QCOW2_MAGIC = b"QFI\xfb"
_ISO_MAGIC = (32769, b"CD001")


class SnapshotError(HostError):
    """The snapshot does not exist, exists already or has an invalid name."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A named state of a disk."""

    name: str
    created: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class DiskInfo:
    format: str
    virtual_bytes: int
    """The size in the guest."""
    actual_bytes: int
    """The space on this host."""
    backing: str
    snapshots: tuple[Snapshot, ...]


def image_format(path: Path) -> str:
    """Return `qcow2` or `raw`. Raises HostError for an unsupported image."""
    try:
        with path.open("rb") as file:
            if file.read(4) == _QCOW2_MAGIC:
                return "qcow2"
            file.seek(_ISO_MAGIC[0])
            if file.read(5) == _ISO_MAGIC[1]:
                raise HostError(f'"{path}" is an ISO image: the qemu driver needs a disk image')
    except OSError as error:
        raise HostError.from_os(f'read "{path}"', error) from error
    return "raw"


async def inspect(path: Path, format_: str = "qcow2") -> DiskInfo:
    """Return the properties of a disk. Raises HostError if it is damaged or missing."""
    text = await run("qemu-img", "info", "--force-share", "--output=json", "-f", format_, path)
    data = json.loads(text)
    return DiskInfo(
        format_,
        int(data["virtual-size"]),
        int(data.get("actual-size", 0)),
        str(data.get("backing-filename", "")),
        tuple(
            Snapshot(str(one["name"]), one["date-sec"] + one.get("date-nsec", 0) / 1e9)
            for one in data.get("snapshots", ())
        ),
    )


async def create_overlay(image: Path, disk: Path, size_bytes: int) -> None:
    """Create a machine's disk, at least as large as its image. Raises HostError."""
    format_ = image_format(image)
    base = await inspect(image, format_)
    if base.backing:
        raise HostError(f'"{image}" is incomplete: it depends on "{base.backing}"')
    size = max(size_bytes, base.virtual_bytes)
    # A relative name: the directory can be moved as a whole.
    await run(
        "qemu-img",
        *("create", "-q", "-f", "qcow2", "-o", "lazy_refcounts=on"),
        *("-b", image.name, "-F", format_, disk, str(size)),
    )


async def grow(disk: Path, size_bytes: int) -> bool:
    """Grow a disk; return whether it changed. Raises HostError, also for a smaller size."""
    now = (await inspect(disk)).virtual_bytes
    if size_bytes < now:
        raise HostError(f'"{disk}" has {now} bytes and cannot shrink to {size_bytes}')
    if size_bytes == now:
        return False
    await run("qemu-img", "resize", "-q", "-f", "qcow2", disk, str(size_bytes))
    return True


async def snapshots(disk: Path) -> list[Snapshot]:
    """Return the snapshots of users, oldest first. Raises HostError."""
    found = (await inspect(disk)).snapshots
    return sorted((one for one in found if one.name != SUSPEND_TAG), key=lambda one: one.created)


async def create_snapshot(disk: Path, name: str) -> None:
    """Save the present state under a name. Raises SnapshotError, HostError."""
    if name in [one.name for one in (await inspect(disk)).snapshots]:
        raise SnapshotError(f'snapshot "{name}" already exists')
    await run("qemu-img", "snapshot", "-q", "-c", name, disk)


async def restore_snapshot(disk: Path, name: str) -> None:
    """Revert to a snapshot; newer changes are lost. Raises SnapshotError, HostError."""
    await _check_exists(disk, name)
    await run("qemu-img", "snapshot", "-q", "-a", name, disk)


async def delete_snapshot(disk: Path, name: str) -> None:
    """Delete a snapshot. Raises SnapshotError, HostError."""
    await _check_exists(disk, name)
    await run("qemu-img", "snapshot", "-q", "-d", name, disk)


async def discard_memory(disk: Path) -> None:
    """Remove the saved memory from a disk. Idempotent. Raises HostError."""
    if SUSPEND_TAG in [one.name for one in (await inspect(disk)).snapshots]:
        await run("qemu-img", "snapshot", "-q", "-d", SUSPEND_TAG, disk)


async def _check_exists(disk: Path, name: str) -> None:
    names = [one.name for one in await snapshots(disk)]
    if name not in names:
        existing = ", ".join(names) or "none"
        raise SnapshotError(f'snapshot "{name}" does not exist; existing snapshots: {existing}')
