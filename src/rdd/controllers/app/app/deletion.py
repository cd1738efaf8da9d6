# SPDX-License-Identifier: Apache-2.0
"""The deletion of an App: the virtual machine first, then the other objects, then the App.

Every pass executes the next step and relies on no earlier one, so the deletion completes
from any state: a booting machine, a terminating one, a crash in between. The engine and
kubernetes controllers get time to remove their contexts and mirrors, so that nothing is left
when the App is gone. The trash keeps its settings.

Invariant: the finalizer is removed last, after every other step has succeeded.
"""

import asyncio
from collections.abc import Sequence

from rdd.api import errors
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.app import deleted_settings, status
from rdd.controllers.app.app.reasons import settled
from rdd.controllers.app.app.settled import ENDED
from rdd.controllers.app.app.status import AppReport, AppStatusWriter
from rdd.host.trash import Trash
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import (
    CLEANUP,
    Context,
    ObjectKey,
    Result,
    conditions_of,
    delete_owned,
    find_condition,
    is_controlled_by,
    is_deleting,
    owned_by,
    remove_finalizer,
    resource_of,
)
from rdd.runtime.types import AnyResource

_POLL_S = 2.0
_OTHERS_S = 30.0
"""The timeout for the cleanup of the engine and of Kubernetes: a dead controller must not block."""


class AppDeletion:
    """Deletes the objects of an App; `vm` is the name of its LimaVM."""

    def __init__(
        self, context: Context, status_writer: AppStatusWriter, instance: Instance, *, vm: str
    ) -> None:
        self._client = context.client
        self._trash = Trash(instance.trash_dirs)
        self._suffix = instance.suffix
        self._status = status_writer
        self._vm = vm
        self._deadline = 0.0

    async def step(self, app: App) -> Result:
        """Execute the next step."""
        if CLEANUP not in app.metadata.finalizers:
            return Result.done()
        namespace = app.spec.namespace
        vm = await self._get(LimaVM, ObjectKey(namespace, self._vm))
        if vm is not None and is_controlled_by(vm, app.raw):
            self._deadline = 0.0
            return await self._delete_machine(app, vm)
        if not await self._is_cleanup_done(app):
            return Result.requeue(_POLL_S)
        await self._delete(CONFIG_MAPS, app, ObjectKey(namespace, self._vm))
        await delete_owned(self._client, app.raw, namespace=namespace)
        await self._delete(NAMESPACES, app, ObjectKey("", namespace))
        await asyncio.to_thread(deleted_settings.keep, self._trash, self._suffix, app)
        await remove_finalizer(self._client, App, app.raw, CLEANUP)
        return Result.done()

    async def _delete_machine(self, app: App, vm: Object) -> Result:
        kept = await remove_finalizer(self._client, LimaVM, vm, owned_by(App.kind))
        if kept is not None and not is_deleting(kept):
            metadata = kept["metadata"]
            try:
                await self._client.delete(
                    resource_of(LimaVM),
                    metadata["name"],
                    namespace=metadata["namespace"],
                    uid=metadata["uid"],
                )
            except errors.NotFound:
                pass
        await self._report(app, status.mirrored(app, LimaVM.of(vm)))
        return Result.requeue(_POLL_S)

    async def _is_cleanup_done(self, app: App) -> bool:
        """Return whether the engine and Kubernetes have cleaned up, or the timeout has passed."""
        conditions = conditions_of(app.raw)
        if all(
            (found := find_condition(conditions, type_)) is None or found["reason"] in ended
            for type_, ended in ENDED.items()
        ):
            return True
        now = asyncio.get_running_loop().time()
        self._deadline = self._deadline or now + _OTHERS_S
        await self._report(app, ())  # without Running, which makes them clean up
        return now >= self._deadline

    async def _report(self, app: App, mirrored: Sequence[Object]) -> None:
        await self._status.write(
            app,
            AppReport(
                settled=settled("Deleting"),
                mirrored=mirrored,
                port=app.status.kubernetes_port,
                driver=app.status.virtual_machine_type,
                passed_over=app.status.passed_over,
            ),
        )

    async def _delete(self, kind: AnyResource, app: App, key: ObjectKey) -> None:
        """Delete an object of the App; foreign objects stay."""
        found = await self._get(kind, key)
        if found is None or is_deleting(found) or not is_controlled_by(found, app.raw):
            return
        try:
            await self._client.delete(resource_of(kind), key.name, namespace=key.namespace)
        except errors.NotFound:
            pass

    async def _get(self, kind: AnyResource, key: ObjectKey) -> Object | None:
        try:
            return await self._client.get(resource_of(kind), key.name, namespace=key.namespace)
        except errors.NotFound:
            return None
