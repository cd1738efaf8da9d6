# SPDX-License-Identifier: Apache-2.0
"""engine: connects to the engine of the App, and reports the connection in its conditions.

The queue has two types of keys: the App, which decides about the session, and
the items of the engine, which the session reconciles. An item is enqueued when
another client changes a mirror (an action, a deletion, its disappearance) and for
no other change: the controller's own writes arrive as changes, too.
"""

import asyncio
import logging
from collections.abc import Callable

from rdd.api import errors, names
from rdd.base.backoff import Backoff
from rdd.controllers.containers.engine.actions import has_action
from rdd.controllers.containers.engine.backend import Backend
from rdd.controllers.containers.engine.docker_context import DockerContext
from rdd.controllers.containers.engine.endpoints import EngineHandle
from rdd.controllers.containers.engine.items import MANAGER, EngineItem, backend_of, marks_of
from rdd.controllers.containers.engine.mirrors import Mirrors
from rdd.controllers.containers.engine.moby import MobyBackend
from rdd.controllers.containers.engine.reasons import READY, REASONS
from rdd.controllers.containers.engine.session import EngineSession, SyncSettings
from rdd.engine import EngineFailure
from rdd.kinds.app import App
from rdd.runtime import (
    Change,
    Context,
    ObjectKey,
    Result,
    StatusWriter,
    conditions_of,
    find_condition,
    is_deleting,
    is_true,
)
from rdd.vm.problem import ENGINE_HUNG, GUEST_HUNG

log = logging.getLogger("rdd.engine")

APP = ObjectKey("", names.APP_NAME)

FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 10.0

_HANGS = (ENGINE_HUNG, GUEST_HUNG)

MakeBackend = Callable[[], Backend]


def is_request(change: Change) -> bool:
    """Return whether the engine controller must act on a change of a mirror."""
    new, old = change.new, change.old
    if new is None:
        return True
    if is_deleting(new):
        return old is None or not is_deleting(old)
    if has_action(new):
        return old is None or old["metadata"].get("annotations") != new["metadata"].get(
            "annotations"
        )
    return old is not None and bool(backend_of(old)) and marks_of(old) != marks_of(new)


def _hang(app: App) -> str:
    """Return the report that the engine or the guest hangs; empty without one."""
    found = find_condition(conditions_of(app.raw), names.DEGRADED) or {}
    return str(found.get("message")) if found.get("reason") in _HANGS else ""


def paused_message(app: App) -> str:
    """Return the message about a paused machine; empty while it runs."""
    found = find_condition(conditions_of(app.raw), names.PAUSED) or {}
    return str(found.get("message")) if found.get("status") == "True" else ""


class EngineReconciler:
    """Connects to the engine of the App while it runs."""

    def __init__(
        self,
        context: Context,
        *,
        backends: dict[str, MakeBackend],
        docker_context: DockerContext,
        handle: EngineHandle,
        settings: SyncSettings,
    ) -> None:
        self._context = context
        self._apps = context.cache.of(App)
        self._status = StatusWriter(context, App, field_manager=MANAGER)
        self._mirrors = Mirrors(context)
        self._backends = backends
        self._docker_context = docker_context
        self._handle = handle
        self._settings = settings
        self.session: EngineSession | None = None
        handle.is_paused = self._is_paused
        self._task: asyncio.Task[None] | None = None
        self._backoff = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S)
        self._retry_at = 0.0

    async def begin(self) -> None:
        """Revert the condition of an earlier process: its connection ended with it."""
        app = self._apps.get(APP)
        if app is not None and is_true(conditions_of(app.raw), READY):
            await self._report(app, "Reconciling")

    async def reconcile(self, key: ObjectKey | EngineItem) -> Result:
        """Reconcile the App, or an item of the engine."""
        if not isinstance(key, EngineItem):
            return await self._reconcile_app() if key == APP else Result.done()
        session = self.session
        if session is None or session.is_over:
            return Result.done()
        retry_s = await session.reconcile(key)
        return Result.done() if retry_s is None else Result.requeue(retry_s)

    async def run(self) -> None:
        """Wait until the controller stops, and stop the session with it."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._disconnect()
            await self._docker_context.stop()

    async def drain(self) -> None:
        """Remove the Docker context: the engine stops with the daemon."""
        await self._disconnect()
        await self._docker_context.withdraw()

    # -- the App

    async def _reconcile_app(self) -> Result:
        app = self._apps.get(APP)
        if app is not None and self._is_undecided(app):
            return Result.done()
        wanted = self._wanted(app)
        session = self.session
        if session is not None and (session.backend.name, session.namespace) != wanted:
            await self._disconnect()
            session = None
        if app is None or wanted is None:
            await self._stopped(app)
            return Result.done()
        if paused := paused_message(app):
            # Nothing is asked; the mirrors answer. Connections continue with the machine.
            await self._report(app, "Paused", paused)
            return Result.done()
        if hang := _hang(app):
            # Connections to it stay open and silent; they continue with it.
            await self._report(app, "NotResponding", hang)
            return Result.done()
        if session is not None and not session.is_over:
            if session.is_synced and self._docker_context.is_decided:
                self._backoff.reset()
                problems = (session.problem(), self._docker_context.problem)
                message = "; ".join(filter(None, ("Container engine synced", *problems)))
                await self._report(app, "Connected", message)
            return Result.done()
        return await self._connect(app, *wanted)

    def _is_undecided(self, app: App) -> bool:
        """Return whether the state of the machine is unknown: mirrors and context wait for it."""
        running = find_condition(conditions_of(app.raw), names.RUNNING)
        return (
            not app.metadata.deletion_timestamp
            and running is not None
            and running.get("status") == "Unknown"
        )

    def _wanted(self, app: App | None) -> tuple[str, str] | None:
        if app is None or not is_true(conditions_of(app.raw), names.RUNNING):
            return None
        name = app.spec.container_engine.name
        return (name, app.spec.namespace) if name in self._backends else None

    def _is_paused(self) -> bool:
        app = self._apps.get(APP)
        return app is not None and bool(paused_message(app))

    async def _stopped(self, app: App | None) -> None:
        self._backoff.reset()
        await self._docker_context.withdraw()
        namespace = app.spec.namespace if app is not None else ""
        if self._mirrors.exist(namespace):
            await self._mirrors.delete_all(namespace)
        if app is not None:
            await self._report(app, "Stopped")

    async def _connect(self, app: App, name: str, namespace: str) -> Result:
        loop = asyncio.get_running_loop()
        if loop.time() < self._retry_at:
            return Result.requeue(self._retry_at - loop.time())
        last = self.session
        await self._disconnect()
        if last is not None and not last.is_synced:
            return await self._failed(app, last.failure)
        backend = self._backends[name]()
        try:
            await backend.connect()
        except EngineFailure as error:
            await backend.close()
            return await self._failed(app, str(error))
        except BaseException:
            await backend.close()
            raise
        self.session = EngineSession(
            self._context,
            self._mirrors,
            backend,
            namespace=namespace,
            changed=lambda: self._context.enqueue(APP),
            settings=self._settings,
            is_paused=self._is_paused,
        )
        self._task = loop.create_task(self.session.run(), name="rdd-engine session")
        self._handle.backend = name
        if isinstance(backend, MobyBackend):
            self._handle.docker, self._handle.reader = backend.for_clients, backend.docker
        if name == "moby":
            await self._docker_context.publish(lambda: self._context.enqueue(APP))
        else:
            await self._docker_context.withdraw()
        return Result.done()

    async def _failed(self, app: App, message: str) -> Result:
        latest = self._apps.get(APP)
        if latest is not None and (paused := paused_message(latest)):
            # A suspended guest ends the connection; that may be seen before the condition.
            await self._report(latest, "Paused", paused)
            return Result.done()
        retry_s = self._backoff.next_s()
        self._retry_at = asyncio.get_running_loop().time() + retry_s
        await self._report(app, "ConnectFailed", message)
        return Result.requeue(retry_s)

    async def _disconnect(self) -> None:
        self.session, task, self._task = None, self._task, None
        self._handle.docker, self._handle.reader, self._handle.backend = None, None, ""
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _report(self, app: App, reason: str, message: str = "") -> None:
        """Write the condition for the generation of `app`."""
        try:
            await self._status.write(app.raw, REASONS.condition(READY, reason, message))
        except errors.NotFound:
            pass  # the App is gone
