# SPDX-License-Identifier: Apache-2.0
"""Restore a snapshot: into the same machine, or as another one.

Everything that can refuse is asked first: the types of the machines, and the API server by a dry
run. Then the machine is held and exchanged, and the objects are written. All steps can be
repeated, and the caller ends the hold after it has reported the outcome: after a crash the next
process repeats them while the machine is still held, so no machine ever runs with half of a state.
"""

import asyncio
import logging
from collections.abc import Callable

import orjson

from rdd.api import errors, names
from rdd.api.mergepatch import create_merge_patch
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.lima.limavm.templates import copy_name
from rdd.controllers.lima.snapshot import objects
from rdd.controllers.lima.snapshot.holds import Holds, holder_of
from rdd.host.errors import HostError
from rdd.host.trash import Trash
from rdd.kinds.app import App
from rdd.kinds.limavm import TEMPLATE_KEY, LimaVM
from rdd.runtime import Context, ObjectKey, controller_of, resource_of
from rdd.vm.instance_dir import InstanceDirectory, InstanceStatus, InvalidName, LimaHome, check_name
from rdd.vm.machine_trash import MachineTrash
from rdd.vm.snapshots import machine
from rdd.vm.snapshots.manifest import MachineRecord
from rdd.vm.snapshots.store import OBJECTS_FILE, StoredSnapshot

log = logging.getLogger("rdd.snapshot")

_LIMAVMS, _APPS = resource_of(LimaVM), resource_of(App)
_KEPT_SETTINGS = ("running", "namespace")
"""Whether it runs is not part of a state, and the namespace of an App cannot change."""

Progress = Callable[[str, int, int], None]


class Restoring:
    """Restores the content of Snapshots."""

    def __init__(self, context: Context, env: ControllerEnvironment, holds: Holds) -> None:
        self._client = context.client
        self._vms = context.cache.of(LimaVM)
        self._home = LimaHome(env.instance.lima_home)
        self._trash = MachineTrash(Trash(env.instance.trash_dirs), env.instance.suffix)
        self._holds = holds

    async def restore(self, stored: StoredSnapshot, new_name: str, progress: Progress) -> str:
        """Restore a snapshot, or create a LimaVM from it; return what was done.

        The machine stays held for the caller. Raises HostError or ApiError, and then nothing has
        changed.
        """
        kind = stored.manifest.scope.get("kind", "")
        if kind == "Instance":
            raise HostError(
                "the control plane is stopped while its database is exchanged, which only the "
                f"command can do: rdd snapshot restore {stored.name}"
            )
        if kind == "Namespace":
            return await self._restore_namespace(stored, new_name)
        if new_name:
            return await self._create_machine(stored, _only_machine(stored), new_name)
        if kind == "App":
            return await self._restore_app(stored, progress)
        if kind == "LimaVM":
            return await self._restore_machine(stored, progress)
        raise HostError(f"this version cannot restore a snapshot of the scope {kind or 'unknown'}")

    async def _restore_app(self, stored: StoredSnapshot, progress: Progress) -> str:
        settings = dict(stored.manifest.settings or {})
        record = stored.manifest.machines.get(names.APP_VM_NAME)
        try:
            app = await self._client.get(_APPS, names.APP_NAME)
        except errors.NotFound:
            return await self._create_app(stored, settings, record)
        for name in _KEPT_SETTINGS:
            settings.pop(name, None)
            if name in app["spec"]:
                settings[name] = app["spec"][name]
        patch = {"spec": create_merge_patch(app["spec"], settings)}
        await self._client.patch(_APPS, names.APP_NAME, patch, dry_run=True)
        if record is None:
            await self._client.patch(_APPS, names.APP_NAME, patch)
            return "the settings have been restored"
        vm = self._find(names.APP_VM_NAME)
        if vm is None:
            raise HostError("the App has no machine to restore into yet; `rdd status` shows why")
        self._check(vm, record)
        holder = holder_of(stored.name)
        await self._holds.acquire(ObjectKey.of(vm.raw), holder)
        await self._exchange(stored, vm.metadata.name, record, progress)
        progress("Restoring the settings", 0, 0)
        await self._client.patch(_APPS, names.APP_NAME, patch)
        return "the settings and the machine have been restored"

    async def _restore_namespace(self, stored: StoredSnapshot, new_name: str) -> str:
        try:
            data = await asyncio.to_thread((stored.path / OBJECTS_FILE).read_bytes)
            saved = orjson.loads(data)
        except (OSError, ValueError) as error:
            raise HostError(f'"{stored.path}" is damaged: {error}') from error
        name = new_name or stored.manifest.scope.get("name", "")
        return await objects.write(self._client, name, saved)

    async def _restore_machine(self, stored: StoredSnapshot, progress: Progress) -> str:
        name = _only_machine(stored)
        record = stored.manifest.machines[name]
        vm = self._find(name)
        if vm is None:
            return await self._create_machine(stored, name, name)
        self._check(vm, record)
        namespace, copy = vm.metadata.namespace, copy_name(name)
        is_own = controller_of(vm.raw) is None  # the App renders that of its machine
        template: Object = {"data": {TEMPLATE_KEY: record.template}}
        params: Object = {"spec": {"params": _params_patch(vm, record)}}
        if is_own:
            await self._client.patch(CONFIG_MAPS, copy, template, namespace=namespace, dry_run=True)
        await self._holds.acquire(ObjectKey.of(vm.raw), holder_of(stored.name))
        await self._exchange(stored, name, record, progress)
        if is_own:
            await self._client.patch(CONFIG_MAPS, copy, template, namespace=namespace)
            await self._client.patch(_LIMAVMS, name, params, namespace=namespace)
        return f'machine "{name}" has been restored'

    async def _exchange(
        self, stored: StoredSnapshot, name: str, record: MachineRecord, progress: Progress
    ) -> None:
        directory = self._home.directory(name)
        progress(f"Restoring machine {name}", 0, 0)
        replaced = await machine.restore(
            stored.machine(name),
            record,
            directory,
            report=lambda done: progress(f"Restoring machine {name}", done, 0),
        )
        if replaced is not None:
            kept = InstanceDirectory(replaced)
            try:
                if not await asyncio.to_thread(self._trash.keep, kept, name=name):
                    await asyncio.to_thread(machine.discard, replaced)
            except HostError as error:
                log.warning("what the restore of %s replaced was not removed: %s", name, error)

    async def _create_app(
        self, stored: StoredSnapshot, settings: Object, record: MachineRecord | None
    ) -> str:
        annotations = {}
        settings["running"] = False
        if record is not None:
            if self._home.directory(names.APP_VM_NAME).exists():
                raise HostError(f'there is a machine "{names.APP_VM_NAME}" that no App owns')
            machine.check_mode(record)
            annotations[names.RESTORE_FROM] = names.RESTORE_SNAPSHOT_PREFIX + stored.name
            settings["virtualMachine"] = {
                **(settings.get("virtualMachine") or {}),
                "type": record.driver,
            }
        await self._client.create(
            _APPS,
            {"metadata": {"name": names.APP_NAME, "annotations": annotations}, "spec": settings},
        )
        return "the App has been created from it"

    async def _create_machine(self, stored: StoredSnapshot, source: str, name: str) -> str:
        """Create a LimaVM whose instance is a copy of a saved machine."""
        record = stored.manifest.machines[source]
        try:
            check_name(name)
        except InvalidName as error:
            raise HostError(str(error)) from error
        if self._find(name) is not None or self._home.directory(name).exists():
            raise HostError(f'there is a machine "{name}" already')
        if name == names.APP_VM_NAME:
            raise HostError(f'"{name}" is the machine of the App; choose another name')
        machine.check_mode(record)
        namespace = stored.manifest.scope.get("namespace") or names.DEFAULT_NAMESPACE
        metadata: Object = {"name": name, "namespace": namespace}
        vm: Object = {
            "metadata": {
                **metadata,
                "annotations": {
                    names.RESTORE_FROM: f"{names.RESTORE_SNAPSHOT_PREFIX}{stored.name}/{source}",
                    names.DRIVER: record.driver,
                },
            },
            "spec": {"running": False, "templateRef": {"name": name}},
        }
        if record.params:
            vm["spec"]["params"] = dict(record.params)
        await self._client.create(
            CONFIG_MAPS, {"metadata": metadata, "data": {TEMPLATE_KEY: record.template}}
        )
        try:
            await self._client.create(_LIMAVMS, vm)
        finally:  # the controller has its own copy
            await self._client.delete(CONFIG_MAPS, name, namespace=namespace)
        return f'machine "{name}" has been created from it'

    def _find(self, name: str) -> LimaVM | None:
        return next((vm for vm in self._vms.list() if vm.metadata.name == name), None)

    def _check(self, vm: LimaVM, record: MachineRecord) -> None:
        """Raise HostError unless a saved machine can replace the one of a LimaVM."""
        directory = self._home.directory(vm.metadata.name)
        if directory.status() is InstanceStatus.UNINITIALIZED:
            raise HostError(f'machine "{vm.metadata.name}" is not created yet')
        if directory.driver != record.driver:
            raise HostError(
                f"the saved machine is of the type {record.driver}, "
                f'"{vm.metadata.name}" of the type {directory.driver}'
            )
        machine.check_mode(record)


def _only_machine(stored: StoredSnapshot) -> str:
    found = list(stored.manifest.machines)
    if len(found) != 1:
        raise HostError(f"the snapshot has {len(found)} machines; only one can be restored so")
    return found[0]


def _params_patch(vm: LimaVM, record: MachineRecord) -> Object:
    present = dict(vm.spec.params)
    return {**dict.fromkeys(present), **record.params}
