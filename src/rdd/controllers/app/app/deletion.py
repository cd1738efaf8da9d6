# SPDX-License-Identifier: Apache-2.0
"""The end of an App: the virtual machine first, then what is left, then the App itself.

Every look does what is due and relies on nothing it has done before, so it completes from
any state: a machine that is booting, one that is terminating already, a crash in between.
The finalizer goes last, and only after everything else has answered; an error ends the
look, never the waiting. Who has published something for the machine (contexts, mirrors) is
given the time to take it back, so that nothing is left when the App is gone.
"""

import asyncio
from collections.abc import Sequence

from rdd.api import errors
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.app import status
from rdd.controllers.app.app.reasons import SETTLED, said
from rdd.controllers.app.app.settled import ENDED
from rdd.controllers.app.app.status import Report, Reporter
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import (
    CLEANUP,
    Context,
    ObjectKey,
    Result,
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
"""How long the engine and Kubernetes may take; a controller that is dead holds up nobody."""


class Deletion:
    """Removes what an App has made; `vm` is the name of its LimaVM."""

    def __init__(self, context: Context, reporter: Reporter, *, vm: str) -> None:
        self._client = context.client
        self._reporter = reporter
        self._vm = vm
        self._given_up_at = 0.0

    async def step(self, app: App) -> Result:
        """Do what is due."""
        if CLEANUP not in app.metadata.finalizers:
            return Result.done()
        namespace = app.spec.namespace
        vm = await self._get(LimaVM, ObjectKey(namespace, self._vm))
        if vm is not None and is_controlled_by(vm, app.raw):
            self._given_up_at = 0.0
            return await self._machine(app, vm)
        if not await self._have_others_ended(app):
            return Result.requeue(_POLL_S)
        await self._delete(CONFIG_MAPS, app, ObjectKey(namespace, self._vm))
        await delete_owned(self._client, app.raw, namespace=namespace)
        await self._delete(NAMESPACES, app, ObjectKey("", namespace))
        await remove_finalizer(self._client, App, app.raw, CLEANUP)
        return Result.done()

    async def _machine(self, app: App, vm: Object) -> Result:
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
        await self._say(app, status.mirrored(app, LimaVM.of(vm)))
        return Result.requeue(_POLL_S)

    async def _have_others_ended(self, app: App) -> bool:
        """Whether the engine and Kubernetes have taken back what they published."""
        conditions = status.conditions_of(app)
        if all(
            (found := find_condition(conditions, type_)) is None or found["reason"] in ended
            for type_, ended in ENDED.items()
        ):
            return True
        now = asyncio.get_running_loop().time()
        self._given_up_at = self._given_up_at or now + _OTHERS_S
        await self._say(app, ())  # without a machine, which is what they go by
        return now >= self._given_up_at

    async def _say(self, app: App, mirrored: Sequence[Object]) -> None:
        await self._reporter.write(
            app,
            Report(
                settled=said(SETTLED, "Deleting"),
                mirrored=mirrored,
                port=app.status.kubernetes_port,
                driver=app.status.virtual_machine_type,
            ),
        )

    async def _delete(self, kind: AnyResource, app: App, key: ObjectKey) -> None:
        """Delete an object of the App; one of somebody else stays."""
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
