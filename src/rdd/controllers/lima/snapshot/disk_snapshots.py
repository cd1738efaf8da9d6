# SPDX-License-Identifier: Apache-2.0
"""Snapshots inside of qcow2 disks that `rdd limavm snapshot` or an older rdd made.

Each gets content on disk, with a hard link to the disk, and so a Snapshot `MACHINE-TAG`. One that
was deleted inside of the disk is removed again. The disks are read when the controller starts, and
when the limavm controller announces a change with an annotation.
"""

import asyncio
import logging
import re
import uuid

from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.lima.snapshot.saving import template_of
from rdd.host.errors import HostError
from rdd.host.usage.disk import usage
from rdd.kinds.limavm import LimaVM
from rdd.runtime import Context
from rdd.vm.drivers.qemu import disks, files
from rdd.vm.instance_dir import InstanceDirectory, InstanceStatus, LimaHome
from rdd.vm.snapshots import machine
from rdd.vm.snapshots.manifest import MachineRecord, Manifest
from rdd.vm.snapshots.store import MACHINES_DIR, NAME_LIMIT, SnapshotStore, StoredSnapshot

log = logging.getLogger("rdd.snapshot")

_UNSAFE = re.compile(r"[^a-z0-9.-]+")


class DiskSnapshots:
    """Compares the disks of machines with the snapshots on disk."""

    def __init__(self, context: Context, env: ControllerEnvironment, store: SnapshotStore) -> None:
        self._client = context.client
        self._home = LimaHome(env.instance.lima_home)
        self._version = env.version
        self._store = store

    async def compare(self, vm: LimaVM) -> tuple[list[StoredSnapshot], list[str]]:
        """Return the new snapshots of a machine, now on disk, and the names of those that are gone.

        Raises HostError if its disk cannot be read.
        """
        directory = self._home.directory(vm.metadata.name)
        disk = directory.path / files.DISK
        if directory.status() is InstanceStatus.UNINITIALIZED or directory.driver != "qemu":
            return [], []
        inside = {one.name: one for one in await disks.snapshots(disk)}
        known, gone = set(), []
        for entry in await asyncio.to_thread(self._store.entries):
            record = entry.manifest.machines.get(directory.name)
            if record is None or record.method != "qcow2":
                continue
            linked = entry.machine(directory.name) / files.DISK
            if not linked.exists() or not linked.samefile(disk):
                continue
            known.add(record.tag)
            if record.tag not in inside:
                gone.append(entry.name)
        new = []
        for tag, one in inside.items():
            name = name_of(directory.name, tag)
            if tag not in known and self._store.path_of(name) is None:
                new.append(await self._add(vm, directory, name, one))
        return new, gone

    async def _add(
        self, vm: LimaVM, directory: InstanceDirectory, name: str, found: disks.Snapshot
    ) -> StoredSnapshot:
        partial = await asyncio.to_thread(self._store.begin, name, directory.path)
        try:
            if partial.stat().st_dev != directory.path.stat().st_dev:
                raise HostError(f'"{partial.parent}" is on another file system than the disk')
            record = MachineRecord(
                driver="qemu",
                method="qcow2",
                tag=found.name,
                template=await template_of(self._client, vm, directory),
                params=dict(vm.spec.params),
            )
            target = partial / MACHINES_DIR / directory.name
            await machine.link(directory, target)
            manifest = Manifest(
                id=str(uuid.uuid4()),
                name=name,
                created=found.created,
                scope={
                    "kind": "LimaVM",
                    "name": directory.name,
                    "namespace": vm.metadata.namespace,
                },
                size_bytes=(await asyncio.to_thread(usage, [partial])).bytes,
                version=self._version,
                machines={directory.name: record},
            )
            return await asyncio.to_thread(self._store.complete, partial, manifest)
        except BaseException:
            await asyncio.to_thread(self._store.discard, partial)
            raise


def name_of(machine_name: str, tag: str) -> str:
    """Return the name of the Snapshot for a snapshot inside of a disk."""
    text = _UNSAFE.sub("-", f"{machine_name}-{tag}".lower())
    return text[:NAME_LIMIT].strip("-.")
