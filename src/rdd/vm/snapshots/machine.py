# SPDX-License-Identifier: Apache-2.0
"""Save a stopped machine, and restore it.

What is saved is its directory without the files of its processes and logs. Where the file system
shares blocks (reflink) a copy takes no time and no space. Elsewhere the disk of a virtual machine
gets a snapshot inside of its qcow2 file, and the saved directory a hard link to that file: it
keeps the snapshot when the machine is deleted. Everything else is copied, most of it while the
machine still runs (`unchanged`).

A restore prepares the whole directory beside the machine and exchanges both in one step. Only a
disk that is still the one with the snapshot inside is reverted in place; that can be repeated.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rdd.fetch.checkout import link_or_copy
from rdd.host.errors import FailureReason, HostError
from rdd.host.exchange import exchange
from rdd.host.files import remove
from rdd.host.tree_copy import copy_entries, flush, shares_blocks
from rdd.host.tree_removal import remove_tree
from rdd.vm import reserve
from rdd.vm.drivers.qemu import disks, files
from rdd.vm.instance_dir import SOCKET_DIR, TEMPORARY_SUFFIXES, InstanceDirectory
from rdd.vm.snapshots import unchanged
from rdd.vm.snapshots.manifest import MachineRecord
from rdd.vm.snapshots.store import StoredSnapshot

log = logging.getLogger("rdd.snapshot")

_CLOCK_NS = 1_000_000_000  # times of files are those of a coarser clock
RESTORING = ".restoring"  # suffix of the directory that a restore prepares
_NOT_SAVED = {
    *(SOCKET_DIR, "ha.lock", "host.json", "host.ended", "host.run", "docker-proxy"),
    reserve.NAME,
}
_IMMUTABLE = (files.IMAGE, files.KERNEL, files.INITRD)
"""Files that are never written: hard links of the cache."""

Report = Callable[[int], None]


def entries_of(directory: Path) -> list[str]:
    """Return the names of the files and directories that a snapshot saves."""
    try:
        found = sorted(path.name for path in directory.iterdir())
    except OSError as error:
        raise HostError.from_os(f'list "{directory}"', error) from error
    return [
        name
        for name in found
        if name not in _NOT_SAVED
        and not name.endswith((*TEMPORARY_SUFFIXES, ".log"))
        and not name.startswith((".rdd-probe-", "ssh."))
    ]


def method_for(directory: InstanceDirectory, root: Path) -> str:
    """Return how a machine would be saved below `root`: `reflink`, `qcow2` or `copy`. Blocking."""
    if shares_blocks(directory.path, root):
        return "reflink"
    has_disk = directory.driver == "qemu" and (directory.path / files.DISK).exists()
    is_linkable = has_disk and _is_same_device(directory.path, root)
    return "qcow2" if is_linkable else "copy"


@dataclass(frozen=True, slots=True)
class RunningCopy:
    """What a copy of a running machine was made of."""

    index: unchanged.Index
    flushed_ns: int
    """When everything that had been written before was on the disk, since 1970."""


async def copy_running(
    directory: InstanceDirectory,
    target: Path,
    *,
    previous: StoredSnapshot | None = None,
    report: Report,
) -> RunningCopy:
    """Copy a machine while it runs, so that `save` only has to copy what changes meanwhile.

    Raises HostError if the disk is full. What cannot be copied now, such as files that vanish, is
    left to `save`.
    """
    _make(target)
    flushed_ns = time.time_ns() - _CLOCK_NS
    await flush(directory.path)
    names = _copied(directory)
    now = await asyncio.to_thread(unchanged.index_of, directory.path, names)
    present = await asyncio.to_thread(_link_unchanged, directory, now, target, previous)
    try:
        await _copy(directory, names, target, present, report)
    except HostError as error:
        if error.reason is FailureReason.DISK_FULL:
            raise
        log.debug("copied while it runs: %s", error)
    return RunningCopy(now, flushed_ns)


async def save(
    directory: InstanceDirectory,
    target: Path,
    record: MachineRecord,
    *,
    index: Path | None = None,
    previous: StoredSnapshot | None = None,
    begun: RunningCopy | None = None,
    report: Report,
) -> None:
    """Save a stopped machine to a new directory, as `record` describes. Raises HostError.

    A copy keeps an `index`, by which files that are the same as in a `previous` copy are linked.
    It may have `begun` in that directory while the machine ran.
    """
    if begun is None:
        _make(target)
    names, linked, present = _copied(directory), _linked(directory), 0
    if record.method == "qcow2":
        linked.append(files.DISK)
        names = [name for name in names if name not in (files.DISK, files.SUSPENDED)]
    elif index is not None:
        now = await asyncio.to_thread(unchanged.index_of, directory.path, names)
        await asyncio.to_thread(unchanged.write_index, index, now)
        if begun is None:
            present = await asyncio.to_thread(_link_unchanged, directory, now, target, previous)
        else:
            source, before, flushed_ns = directory.path, begun.index, begun.flushed_ns
            present = await asyncio.to_thread(
                unchanged.drop_changed, target, source, before, now, flushed_ns
            )
    await _copy(directory, names, target, present, report)
    for name in linked:
        _link(directory.path / name, target / name)
    if record.method == "qcow2":
        disk = directory.path / files.DISK
        if record.tag in [one.name for one in (await disks.inspect(disk)).snapshots]:
            await disks.delete_snapshot(disk, record.tag)  # left by a crash
        await disks.create_snapshot(disk, record.tag)
    await flush(target)
    if not _is_same_device(target, directory.path):
        await flush(directory.path)  # so that later changes of mapped files change their times


def _is_same_device(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


def _linked(directory: InstanceDirectory) -> list[str]:
    return [name for name in entries_of(directory.path) if name in _IMMUTABLE]


def _copied(directory: InstanceDirectory) -> list[str]:
    return [name for name in entries_of(directory.path) if name not in _IMMUTABLE]


async def _copy(
    directory: InstanceDirectory, names: list[str], target: Path, present: int, report: Report
) -> None:
    """Copy what is not there yet; `present` is the size of what is."""
    report(present)
    await copy_entries(
        directory.path,
        names,
        target,
        completes=True,
        flushes=False,
        report=lambda done: report(present + done),
    )


def _link_unchanged(
    directory: InstanceDirectory,
    now: unchanged.Index,
    target: Path,
    previous: StoredSnapshot | None,
) -> int:
    """Link what a previous copy of a machine has; return the size of that."""
    if previous is None:
        return 0
    before = unchanged.read_index(previous.index(directory.name))
    return unchanged.link_unchanged(previous.machine(directory.name), before, now, target)


async def link(directory: InstanceDirectory, target: Path) -> None:
    """Save a machine whose disk has the state inside already; it may run. Raises HostError."""
    _make(target)
    names = entries_of(directory.path)
    linked = [name for name in names if name in (*_IMMUTABLE, files.DISK)]
    copied = [name for name in names if name not in linked and name != files.SUSPENDED]
    await copy_entries(directory.path, copied, target)
    for name in linked:
        _link(directory.path / name, target / name)
    await flush(target)


async def forget(source: Path, record: MachineRecord) -> None:
    """Remove from a disk what a snapshot has inside of it. Raises HostError."""
    disk = source / files.DISK
    if record.method != "qcow2" or not disk.exists() or disk.stat().st_nlink < 2:
        return  # the last link: the whole file goes
    if record.tag in [one.name for one in (await disks.inspect(disk)).snapshots]:
        try:
            await disks.delete_snapshot(disk, record.tag)
        except HostError as error:  # qemu-img refuses while the emulator has the disk
            raise HostError(
                f"it is inside of a disk that is in use, and is removed when that machine stops: "
                f"{error}"
            ) from error


async def materialize(
    source: Path, record: MachineRecord, target: Path, *, report: Report
) -> MachineRecord:
    """Copy a saved machine to a new directory, independent of all others. Raises HostError.

    Returns the record of the copy: without a snapshot inside of its disk.
    """
    _make(target)
    names = entries_of(source)
    linked = [name for name in names if name in _IMMUTABLE]
    copied = [name for name in names if name not in linked]
    await copy_entries(source, copied, target, report=report)
    for name in linked:
        link_or_copy(source / name, target / name)
    if record.method == "qcow2":
        disk = target / files.DISK
        await disks.restore_snapshot(disk, record.tag)
        for one in (await disks.inspect(disk)).snapshots:
            if one.name == disks.SUSPEND_TAG:
                await disks.discard_memory(disk)
            else:
                await disks.delete_snapshot(disk, one.name)
        record = replace(record, method="copy", tag="")
    await flush(target)
    return record


async def create_from(stored: StoredSnapshot, saved: str, directory: InstanceDirectory) -> None:
    """Create an instance from a saved machine. Raises HostError, and then leaves nothing behind."""
    record = stored.manifest.machines.get(saved)
    if record is None:
        raise HostError(f'the snapshot "{stored.name}" has no machine "{saved}"')
    directory.check_socket_paths(record.driver)
    staging = directory.creation_dir  # a crash leaves this to `lifecycle.delete.sweep`
    discard(staging)
    try:
        await materialize(stored.machine(saved), record, staging, report=lambda _: None)
        staging.rename(directory.path)
    except OSError as error:
        discard(staging)
        raise HostError.from_os(f'create directory "{directory.path}"', error) from error
    except BaseException:
        with contextlib.suppress(HostError):
            discard(staging)
        raise


async def restore(
    source: Path, record: MachineRecord, directory: InstanceDirectory, *, report: Report
) -> Path | None:
    """Put a stopped machine back into a saved state; it must exist.

    Returns the directory with what was there before, for the caller to keep or remove; None if
    there is none. Raises HostError, and then nothing has changed. It can be repeated after a
    crash at any point.
    """
    staging = staging_of(directory)
    if _is_same_disk(source, record, directory):
        disk = directory.path / files.DISK
        await disks.restore_snapshot(disk, record.tag)
        remove(directory.path / files.SUSPENDED)
        await disks.discard_memory(disk)
        await _copy_small_files(source, directory.path)
        return None
    discard(staging)
    try:
        await materialize(source, record, staging, report=report)
        exchange(staging, directory.path)
    except BaseException:
        with contextlib.suppress(HostError):
            discard(staging)
        raise
    return staging


def default_mode() -> str:
    """Return the mode of an engine that this user starts."""
    return "root" if os.geteuid() == 0 else "rootless"


def check_mode(record: MachineRecord) -> None:
    """Raise HostError if the owners of the saved files are not those that this user can give."""
    if record.mode and record.mode != default_mode():
        raise HostError(
            f"the engine of the saved machine ran {_as(record.mode)}, here it runs "
            f"{_as(default_mode())}: the owners of its files differ"
        )


def _as(mode: str) -> str:
    return "as root" if mode == "root" else "rootless"


def staging_of(directory: InstanceDirectory) -> Path:
    """Return the directory beside a machine that a restore prepares."""
    return directory.path.with_name(f".{directory.name}{RESTORING}")


def discard(path: Path) -> None:
    """Remove what a restore has prepared or replaced. Idempotent. Raises HostError."""
    try:
        if path.exists():
            remove_tree(path)
    except OSError as error:
        raise HostError.from_os(f'remove "{error.filename or path}"', error) from error


def _is_same_disk(source: Path, record: MachineRecord, directory: InstanceDirectory) -> bool:
    """Return whether the machine still has the disk with the snapshot inside."""
    if record.method != "qcow2":
        return False
    try:
        return (source / files.DISK).samefile(directory.path / files.DISK)
    except OSError:
        return False


async def _copy_small_files(source: Path, target: Path) -> None:
    """Copy what a machine has beside its disk, such as its template."""
    for name in entries_of(source):
        if name not in (*_IMMUTABLE, files.DISK) and (source / name).is_file():
            partial = target / f"{name}.tmp"
            shutil.copy2(source / name, partial)
            partial.replace(target / name)
    await flush(target)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, which only immutable files can be on
        link_or_copy(source, target)


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise HostError.from_os(f'create directory "{path}"', error) from error
