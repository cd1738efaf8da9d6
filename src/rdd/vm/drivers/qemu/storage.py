# SPDX-License-Identifier: Apache-2.0
"""The disk of a machine: size, snapshots, clones, trimming.

All but `describe` and `trim` need a stopped machine. Restoring a snapshot also discards the
saved memory of a suspended machine: it belongs to the previous state of the disk.
"""

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from rdd.fetch.checkout import link_or_copy
from rdd.host.commands import run_blocking
from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.vm.drivers.protocol import ShellRequest
from rdd.vm.drivers.qemu import disks, files
from rdd.vm.drivers.qemu.disk.guest_disk import TRIM, TRIM_S
from rdd.vm.drivers.qemu.disks import SnapshotError
from rdd.vm.drivers.qemu.programs import run
from rdd.vm.drivers.qemu.shell import shell_command
from rdd.vm.drivers.storage_protocol import StorageInfo
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.template.model import Template

_NAME = re.compile(r"(?![0-9]+$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
NAME_RULE = 'letters, digits, ".", "_" and "-", at most 63, and not digits alone'
_SHARED = (files.IMAGE, files.KERNEL, files.INITRD)


class QemuStorage:
    """Implements `Storage`."""

    def __init__(self, directory: InstanceDirectory) -> None:
        self._directory = directory
        self._disk = directory.path / files.DISK

    async def describe(self) -> StorageInfo:
        disk = await disks.inspect(self._disk)
        image = self._directory.path / files.IMAGE
        return {
            "virtualBytes": disk.virtual_bytes,
            "actualBytes": disk.actual_bytes,
            "imageBytes": image.stat().st_blocks * 512 if image.exists() else 0,
            "suspended": (self._directory.path / files.SUSPENDED).exists(),
            "snapshots": [
                {"name": one.name, "creationTime": one.created}
                for one in await disks.snapshots(self._disk)
            ],
        }

    async def create_snapshot(self, name: str) -> None:
        if not _NAME.fullmatch(name) or name == disks.SUSPEND_TAG:
            raise SnapshotError(f'invalid snapshot name "{name}": allowed are {NAME_RULE}')
        await disks.create_snapshot(self._disk, name)

    async def restore_snapshot(self, name: str) -> None:
        await disks.restore_snapshot(self._disk, name)
        remove(self._directory.path / files.SUSPENDED)
        await disks.discard_memory(self._disk)

    async def delete_snapshot(self, name: str) -> None:
        await disks.delete_snapshot(self._disk, name)

    async def clone_to(self, target: InstanceDirectory) -> None:
        for name in _SHARED:
            if (self._directory.path / name).exists():
                await asyncio.to_thread(
                    link_or_copy, self._directory.path / name, target.path / name
                )
        line = self._directory.path / files.KERNEL_LINE
        if line.exists():
            shutil.copyfile(line, target.path / files.KERNEL_LINE)
        copy = target.path / files.DISK
        await asyncio.to_thread(_copy, self._disk, copy)
        await disks.discard_memory(copy)

    async def trim(self, template: Template, environment: Mapping[str, str]) -> str:
        request = ShellRequest(command=("sudo", "-n", "sh", "-c", TRIM), environment=environment)
        command = shell_command(self._directory, template, request)
        return (await run(*command.argv, timeout_s=TRIM_S)).strip()


def _copy(source: Path, target: Path) -> None:
    """Copy a file; share blocks where the file system can, and keep holes."""
    if shutil.which("cp") is None:
        shutil.copyfile(source, target)
        return
    for options in (["--reflink=auto", "--sparse=always"], ["-c"], []):
        done = run_blocking("cp", *options, source, target, timeout_s=None)
        if done.status == 0:
            return
    raise HostError(f'failed to copy "{source}": {done.errors.strip()}')
