# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Snapshots.

One task per Snapshot makes or restores its content; its end enqueues the key. What is pending is
always visible in the object: without `creationTime` the content is still to be made, with the
annotation `restoreRequested` it is to be restored. A process that starts repeats both, which
every step allows.

Content on disk without a Snapshot, after a reset or a restore of the database, gets one.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.lima.snapshot.disk_snapshots import DiskSnapshots
from rdd.controllers.lima.snapshot.holds import Holds, holder_of
from rdd.controllers.lima.snapshot.reasons import READY, REASONS, RESTORED
from rdd.controllers.lima.snapshot.restoring import Restoring
from rdd.controllers.lima.snapshot.saving import Progress as ProgressReport
from rdd.controllers.lima.snapshot.saving import Saving
from rdd.controllers.object_tasks import ObjectTasks, ProgressWriter
from rdd.host.errors import HostError
from rdd.kinds.limavm import LimaVM
from rdd.kinds.snapshot import Snapshot
from rdd.runtime import (
    CLEANUP,
    Context,
    ObjectKey,
    Result,
    StatusWriter,
    add_finalizer,
    conditions_of,
    find_condition,
    is_deleting,
    remove_finalizer,
    resource_of,
)
from rdd.vm.snapshots import machine
from rdd.vm.snapshots.store import SnapshotStore, StoredSnapshot

log = logging.getLogger("rdd.snapshot")

_RETRY_S = 30.0
_BUSY_S = 0.5
_REMOVAL_RETRY_S = 5.0
_NO_PROGRESS: Object = {"progress": None, "copiedBytes": None, "totalBytes": None}


class VmChanged(NamedTuple):
    """The key for a change of a LimaVM."""

    snapshot: str
    """The Snapshot that holds it; empty if none does."""
    changed: ObjectKey | None = None
    """The LimaVM whose disk has other snapshots inside."""


class SnapshotReconciler:
    """Makes, restores and removes the content of Snapshots."""

    def __init__(self, context: Context, env: ControllerEnvironment) -> None:
        self._context = context
        self._store = SnapshotStore(env.instance.snapshot_dirs)
        self._snapshots = context.cache.of(Snapshot)
        self._vms = context.cache.of(LimaVM)
        self._status = StatusWriter(context, Snapshot)
        self._holds = Holds(context)
        self._saving = Saving(context, env, self._store, self._holds)
        self._disks = DiskSnapshots(context, env, self._store)
        self._restoring = Restoring(context, env, self._holds)
        self._tasks: ObjectTasks[None] = ObjectTasks(context, "snapshot")
        self._restores: set[str] = set()
        """Those whose task is a restore: it is never cancelled, but completed."""
        self._busy = asyncio.Lock()
        """One operation at a time: each uses the whole disk."""

    async def begin(self) -> None:
        """Create a Snapshot for all content on disk that has none."""
        try:
            await asyncio.to_thread(self._store.sweep)
            entries = await asyncio.to_thread(self._store.entries)
        except HostError as error:
            log.warning("%s", error)
            return
        for entry in entries:
            if self._snapshots.get(ObjectKey("", entry.name)) is None:
                await self._adopt(entry)
        for vm in self._vms.list():
            self._context.enqueue(VmChanged("", ObjectKey.of(vm.raw)))

    async def _compare(self, key: ObjectKey) -> Result:
        """Create and remove Snapshots for what is inside of a disk."""
        vm = self._vms.get(key)
        if vm is None:
            return Result.done()
        if self._busy.locked():
            return Result.requeue(_BUSY_S)
        async with self._busy:
            try:
                new, gone = await self._disks.compare(vm)
            except HostError as error:
                log.warning("the snapshots in the disk of %s were not read: %s", key.name, error)
                return Result.done()
            for entry in new:
                await self._adopt(entry)
        for name in gone:
            with contextlib.suppress(errors.NotFound):
                await self._context.client.delete(resource_of(Snapshot), name)
        if names.DISK_SNAPSHOTS_CHANGED in (vm.raw["metadata"].get("annotations") or {}):
            removed = {"metadata": {"annotations": {names.DISK_SNAPSHOTS_CHANGED: None}}}
            with contextlib.suppress(errors.NotFound):
                await self._context.client.patch(
                    resource_of(LimaVM), key.name, removed, namespace=key.namespace
                )
        return Result.done()

    async def _adopt(self, entry: StoredSnapshot) -> None:
        manifest = entry.manifest
        spec: Object = {"scope": dict(manifest.scope)}
        if manifest.description:
            spec["description"] = manifest.description
        annotations = {names.SNAPSHOT_CONTENT: manifest.id}
        try:
            await self._context.client.create(
                resource_of(Snapshot),
                {"metadata": {"name": entry.name, "annotations": annotations}, "spec": spec},
            )
        except errors.AlreadyExists:
            pass
        except errors.ApiError as error:
            log.warning('snapshot "%s" on disk gets no object: %s', entry.name, error)

    async def run(self) -> None:
        """Wait until the controller stops; what is interrupted is repeated by the next process."""
        await self._tasks.run()

    async def reconcile(self, key: ObjectKey | VmChanged) -> Result:
        if isinstance(key, VmChanged):
            await self._holds.changed()
            if key.changed is not None:
                return await self._compare(key.changed)
            if key.snapshot:
                self._context.enqueue(ObjectKey("", key.snapshot))
            return Result.done()
        found = self._snapshots.get(key)
        if found is None or is_deleting(found.raw):
            return await self._end(key, found)
        task = self._tasks.find(key)
        if task is not None:
            if not task.done():
                return Result.done()
            self._restores.discard(key.name)
            if not task.cancelled() and task.exception() is not None:
                log.warning("snapshot %s: %s", key.name, task.exception())
                return Result.requeue(_RETRY_S)
        return await self._next(key, found)

    async def _next(self, key: ObjectKey, found: Snapshot) -> Result:
        raw = await self._context.client.get(resource_of(Snapshot), key.name)
        found = Snapshot.of(raw)
        reason = _reason(found, READY)
        if reason in ("", "Creating"):
            if not found.status.creation_time:
                return await self._make(found)
        elif request := _annotation(found, names.SNAPSHOT_RESTORE):
            if found.status.restore_request == request and _reason(found, RESTORED) != "Restoring":
                await self._finish_restore(found, request, "", "")
            elif reason == "Complete":
                self._tasks.start(key, self._restore(found, request))
                self._restores.add(key.name)
                return Result.done()
            else:
                message = "it has no complete content"
                await self._finish_restore(found, request, "RestoreFailed", message)
        elif reason == "Complete" and self._store.path_of(key.name) is None:
            await self._write(found, "ContentMissing", "its content is not on disk any more")
        await self._holds.release_all(holder_of(key.name))
        return Result.done()

    async def _make(self, found: Snapshot) -> Result:
        name = found.metadata.name
        try:
            present = await asyncio.to_thread(self._store.find, name)
        except HostError as error:
            await self._write(found, "NameInUse", str(error))
            return Result.done()
        if present is not None:
            ids = (str(found.raw["metadata"]["uid"]), _annotation(found, names.SNAPSHOT_CONTENT))
            if present.manifest.id not in ids:
                message = f'"{present.path}" is another snapshot of this name'
                await self._write(found, "NameInUse", message)
            else:
                obj = await add_finalizer(self._context.client, Snapshot, found.raw, CLEANUP)
                await self._complete(Snapshot.of(obj), present)
            await self._holds.release_all(holder_of(name))
            return Result.done()
        if _annotation(found, names.SNAPSHOT_CONTENT):
            await self._write(found, "ContentMissing", "its content is not on disk")
            return Result.done()
        obj = await add_finalizer(self._context.client, Snapshot, found.raw, CLEANUP)
        found = Snapshot.of(obj)
        self._tasks.start(ObjectKey("", name), self._save(found))
        return Result.done()

    async def _save(self, found: Snapshot) -> None:
        async with self._busy:
            try:
                async with self._reported(found, READY, "Creating") as progress:
                    stored = await self._saving.save(found, progress)
            except (HostError, errors.ApiError) as error:
                await self._write(found, "Failed", str(error))
                return
            await self._complete(found, stored)

    async def _complete(self, found: Snapshot, stored: StoredSnapshot) -> None:
        manifest = stored.manifest
        members: Object = {
            "creationTime": timestamps.text(int(manifest.created)),
            "size": manifest.size_bytes,
            "method": manifest.method or None,
            "machines": sorted(manifest.machines) or None,
            "path": str(stored.path),
        }
        await self._write(found, "Complete", members=members)

    async def _restore(self, found: Snapshot, request: str) -> None:
        async with self._busy:
            try:
                async with self._reported(found, RESTORED, "Restoring") as progress:
                    reason, message = "Restored", await self._restored(found, progress)
            except (HostError, errors.ApiError) as error:
                reason, message = "RestoreFailed", str(error)
            # Before the machine continues: what it changes afterwards must not be reverted again.
            await self._finish_restore(found, request, reason, message)
            await self._holds.release_all(holder_of(found.metadata.name))

    async def _restored(self, found: Snapshot, progress: ProgressReport) -> str:
        """Restore the content and return what was done. Raises HostError, ApiError."""
        stored = await asyncio.to_thread(self._store.find, found.metadata.name)
        if stored is None:
            raise HostError("its content is not on disk any more")
        scope = found.raw["spec"]["scope"]
        if stored.manifest.scope != {key: value for key, value in scope.items() if value}:
            # Admission has judged the request by this scope.
            raise HostError("its content is of another scope")
        new_name = _annotation(found, names.SNAPSHOT_RESTORE_AS)
        return await self._restoring.restore(stored, new_name, progress)

    async def _finish_restore(
        self, found: Snapshot, request: str, reason: str, message: str
    ) -> None:
        """Report the outcome, unless that is done, then remove the request."""
        if reason:
            condition = REASONS.condition(RESTORED, reason, message)
            members = {**_NO_PROGRESS, "restoreRequest": request}
            await self._status.write(found.raw, condition, members=members)
        present = await self._context.client.get(resource_of(Snapshot), found.metadata.name)
        if _annotation(Snapshot.of(present), names.SNAPSHOT_RESTORE) == request:
            removed = {names.SNAPSHOT_RESTORE: None, names.SNAPSHOT_RESTORE_AS: None}
            version = present["metadata"]["resourceVersion"]
            await self._context.client.patch(
                resource_of(Snapshot),
                found.metadata.name,
                {"metadata": {"annotations": removed, "resourceVersion": version}},
            )

    async def _end(self, key: ObjectKey, found: Snapshot | None) -> Result:
        task = self._tasks.find(key)
        if task is not None and key.name in self._restores and not task.done():
            return Result.done()
        await self._tasks.cancel(key)
        self._restores.discard(key.name)
        if found is not None:
            if self._busy.locked():
                return Result.requeue(_BUSY_S)  # another operation may use the same disk
            if CLEANUP in found.metadata.finalizers and _reason(found, READY) != "NameInUse":
                try:
                    await self._remove(key.name)
                except HostError as error:
                    await self._write(found, "RemovalPending", str(error))
                    return Result.requeue(_REMOVAL_RETRY_S)
            await remove_finalizer(self._context.client, Snapshot, found.raw, CLEANUP)
        await self._holds.release_all(holder_of(key.name))
        return Result.done()

    async def _remove(self, name: str) -> None:
        async with self._busy:
            try:
                stored = await asyncio.to_thread(self._store.find, name)
            except HostError:
                stored = None  # not readable: it goes as it is
            for saved, record in stored.manifest.machines.items() if stored else ():
                assert stored is not None
                await machine.forget(stored.machine(saved), record)
            await asyncio.to_thread(self._store.remove, name)

    async def _write(
        self, found: Snapshot, reason: str, message: str = "", *, members: Object | None = None
    ) -> None:
        condition = REASONS.condition(READY, reason, message)
        await self._status.write(found.raw, condition, members={**_NO_PROGRESS, **(members or {})})

    @contextlib.asynccontextmanager
    async def _reported(
        self, found: Snapshot, type_: str, reason: str
    ) -> AsyncIterator[ProgressReport]:
        """Provide a function that reports the progress of an operation in the status."""

        async def write(members: Object) -> None:
            await self._status.write(found.raw, REASONS.condition(type_, reason), members=members)

        def report(text: str, done: int, total: int) -> None:
            counted = {"copiedBytes": done or None, "totalBytes": total or None}
            writer.report({"progress": text, **counted})

        writer = ProgressWriter[Object](write)
        writer.report({})
        try:
            yield report
        finally:
            await writer.finish()


def _annotation(found: Snapshot, name: str) -> str:
    return str((found.raw["metadata"].get("annotations") or {}).get(name, ""))


def _reason(found: Snapshot, type_: str) -> str:
    condition = find_condition(conditions_of(found.raw), type_)
    return str((condition or {}).get("reason", ""))
