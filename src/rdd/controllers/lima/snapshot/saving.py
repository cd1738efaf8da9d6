# SPDX-License-Identifier: Apache-2.0
"""Make a snapshot: hold the machines, save them, save the objects or the database."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import orjson

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.base.sizes import binary
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.lima.snapshot import objects
from rdd.controllers.lima.snapshot.holds import Holds, holder_of
from rdd.host.errors import HostError
from rdd.host.files import write_atomically
from rdd.host.usage.disk import usage
from rdd.instance import DATABASE_FILE
from rdd.kinds.app import App
from rdd.kinds.limavm import TEMPLATE_KEY, LimaVM
from rdd.kinds.snapshot import Snapshot
from rdd.runtime import Context, ObjectKey, resource_of
from rdd.vm.drivers.host.state import HostMachineState
from rdd.vm.instance_dir import InstanceDirectory, InstanceStatus, LimaHome
from rdd.vm.snapshots import machine
from rdd.vm.snapshots.manifest import MachineRecord, Manifest
from rdd.vm.snapshots.store import (
    DATABASE_DIR,
    MACHINES_DIR,
    OBJECTS_FILE,
    ORIGIN_FILE,
    SnapshotStore,
    StoredSnapshot,
    index_path,
)

_QEMU_TAG_PREFIX: Final = "snapshot-"
Progress = Callable[[str, int, int], None]
"""Called with a text, and the bytes done and in total; zeros if that is unknown."""


class Saving:
    """Makes the content of Snapshots."""

    def __init__(
        self, context: Context, env: ControllerEnvironment, store: SnapshotStore, holds: Holds
    ) -> None:
        self._client = context.client
        self._vms = context.cache.of(LimaVM)
        self._home = LimaHome(env.instance.lima_home)
        self._instance = env.instance
        self._copy_database = env.copy_database
        self._version = env.version
        self._store = store
        self._holds = holds

    async def save(self, found: Snapshot, progress: Progress) -> StoredSnapshot:
        """Make the content. Raises HostError, and then leaves nothing behind."""
        scope = found.spec.scope
        settings = await self._settings() if scope.kind == "App" else None
        vms = await self._machines(found)
        near = self._home.path if vms else self._instance.dir
        partial = await asyncio.to_thread(self._store.begin, found.metadata.name, near)
        try:
            if scope.kind == "Namespace":
                found_objects = await objects.read(self._client, scope.name)
                text = orjson.dumps(found_objects)
                await asyncio.to_thread(write_atomically, partial / OBJECTS_FILE, text)
            begun = await self._copy_running(vms, partial, progress)
            records = {}
            async with AsyncExitStack() as stack:
                for vm in vms:
                    progress(f"Stopping machine {vm.metadata.name}", 0, 0)
                    holder = holder_of(found.metadata.name)
                    await stack.enter_async_context(self._holds.held(ObjectKey.of(vm.raw), holder))
                created = time.time()
                if scope.kind == "Instance":
                    await self._save_database(found, partial)
                for vm in vms:
                    name = vm.metadata.name
                    target, tag = partial / MACHINES_DIR / name, tag_of(found.metadata.name)
                    records[name] = await self._save(vm, target, tag, begun.get(name), progress)
            manifest = Manifest(
                id=str(found.raw["metadata"]["uid"]),
                name=found.metadata.name,
                created=created,
                scope={key: value for key, value in found.raw["spec"]["scope"].items() if value},
                description=found.spec.description,
                size_bytes=(await asyncio.to_thread(usage, [partial])).bytes,
                version=self._version,
                machines=records,
                settings=settings,
            )
            return await asyncio.to_thread(self._store.complete, partial, manifest)
        except asyncio.CancelledError:
            raise  # the next process removes it, or repeats it
        except BaseException:
            await asyncio.to_thread(self._store.discard, partial)
            raise

    async def _save_database(self, found: Snapshot, partial: Path) -> None:
        """Copy the database, in which this Snapshot has its content already.

        The annotation keeps an instance that this copy is restored to under another name from
        making the snapshot a second time.
        """
        if self._copy_database is None:
            raise HostError(
                "this instance has no database of its own that could be saved: its objects are in "
                "a shared store, or the controller runs outside of the daemon"
            )
        name = found.metadata.name
        await self._annotate(name, str(found.raw["metadata"]["uid"]))
        try:
            (partial / DATABASE_DIR).mkdir(mode=0o700)
            target = partial / DATABASE_DIR / DATABASE_FILE
            await asyncio.to_thread(self._copy_database, target)
            await asyncio.to_thread(
                write_atomically, target.with_name(ORIGIN_FILE), str(self._home.path)
            )
        finally:
            await self._annotate(name, None)

    async def _annotate(self, name: str, content: str | None) -> None:
        patch = {"metadata": {"annotations": {names.SNAPSHOT_CONTENT: content}}}
        await self._client.patch(resource_of(Snapshot), name, patch)

    async def _settings(self) -> Object:
        try:
            app = await self._client.get(resource_of(App), names.APP_NAME)
        except errors.NotFound:
            raise HostError("there is no App to make a snapshot of") from None
        spec: Object = app["spec"]
        return spec

    async def _machines(self, found: Snapshot) -> list[LimaVM]:
        """Return the LimaVMs to save. Raises HostError if one is missing or not created."""
        scope = found.spec.scope
        vms = sorted(self._vms.list(), key=lambda vm: vm.metadata.name)
        if scope.kind == "App":
            own = [vm for vm in vms if vm.metadata.name == names.APP_VM_NAME]
            return [vm for vm in own if self._is_created(vm)]
        if scope.kind == "Instance":
            return [vm for vm in vms if self._is_created(vm)]
        if scope.kind != "LimaVM":
            return []
        for vm in vms:
            if vm.metadata.name == scope.name and vm.metadata.namespace in (
                scope.namespace or vm.metadata.namespace,
            ):
                if not self._is_created(vm):
                    raise HostError(f'machine "{scope.name}" is not created yet')
                return [vm]
        raise HostError(f'there is no LimaVM "{scope.name}"')

    def _is_created(self, vm: LimaVM) -> bool:
        directory = self._home.directory(vm.metadata.name)
        return directory.status() is not InstanceStatus.UNINITIALIZED

    async def _copy_running(
        self, vms: Sequence[LimaVM], partial: Path, progress: Progress
    ) -> dict[str, machine.RunningCopy]:
        """Copy the machines that run and whose blocks cannot be shared, before they are stopped.

        Not those of rootless engines, whose files only RootlessKit can remove.
        """
        begun = {}
        for vm in vms:
            name = vm.metadata.name
            directory, target = self._home.directory(name), partial / MACHINES_DIR / name
            if directory.status() is not InstanceStatus.RUNNING or mode_of(directory) != "root":
                continue
            if await asyncio.to_thread(machine.method_for, directory, partial) != "copy":
                continue
            paths = [directory.path / entry for entry in machine.entries_of(directory.path)]
            total = (await asyncio.to_thread(usage, paths)).bytes
            begun[name] = await machine.copy_running(
                directory,
                target,
                previous=await asyncio.to_thread(self._store.last_copy, name, partial.parent),
                report=_reporting(progress, f"Copying machine {name} while it runs", total),
            )
        return begun

    async def _save(
        self,
        vm: LimaVM,
        target: Path,
        tag: str,
        begun: machine.RunningCopy | None,
        progress: Progress,
    ) -> MachineRecord:
        name = vm.metadata.name
        directory = self._home.directory(name)
        method = await asyncio.to_thread(machine.method_for, directory, target.parents[1])
        template = await template_of(self._client, vm, directory)
        record = MachineRecord(
            driver=directory.driver,
            method=method,
            tag=tag if method == "qcow2" else "",
            mode=mode_of(directory),
            template=template,
            params=dict(vm.spec.params),
        )
        paths = [directory.path / entry for entry in machine.entries_of(directory.path)]
        total = (await asyncio.to_thread(usage, paths)).bytes if method == "copy" else 0
        progress(f"Saving machine {name} ({method})", 0, total)
        partial = target.parents[1]
        previous = await asyncio.to_thread(self._store.last_copy, name, partial.parent)
        index = index_path(partial, name)
        await machine.save(
            directory,
            target,
            record,
            index=index,
            previous=previous,
            begun=begun,
            report=_reporting(progress, f"Copying machine {name}", total),
        )
        return record


async def template_of(client: Client, vm: LimaVM, directory: InstanceDirectory) -> str:
    """Return the template of a LimaVM: that of its ConfigMap, otherwise that on disk."""
    name = vm.status.template_config_map
    if name:
        try:
            found = await client.get(CONFIG_MAPS, name, namespace=vm.metadata.namespace)
            return str((found.get("data") or {}).get(TEMPLATE_KEY, ""))
        except errors.NotFound:
            pass
    return directory.read_lima_yaml() or ""


def tag_of(snapshot: str) -> str:
    """Return the name inside of a disk: one of digits alone would be an id."""
    return f"{_QEMU_TAG_PREFIX}{snapshot}" if snapshot.isdigit() else snapshot


def mode_of(directory: InstanceDirectory) -> str:
    """Return who owns the files of a machine with the driver host: `root` or `rootless`."""
    if directory.driver != "host":
        return ""
    state = HostMachineState.read(directory.path / "host.json")
    return state.mode if state is not None else machine.default_mode()


def _reporting(progress: Progress, title: str, total: int) -> Callable[[int], None]:
    return lambda done: progress(f"{title}: {_share(done, total)}", min(done, total), total)


def _share(done: int, total: int) -> str:
    if not total or not done:
        return binary(total or done)
    return f"{binary(min(done, total))} of {binary(total)} ({min(100, 100 * done // total)}%)"
