# SPDX-License-Identifier: Apache-2.0
"""engine: when to be connected to what, and what the App says about it.

The queue has two sorts of keys: the App, which decides about the session, and
the items of the engine, which the session looks at. What changes a mirror from
outside (an action, a deletion, its disappearance) is a reason to look at its
item, and nothing else is: our own writes come back as changes, too.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from rdd.api import errors, timestamps
from rdd.controllers.containers.engine.actions import asks_for_action
from rdd.controllers.containers.engine.backend import Backend
from rdd.controllers.containers.engine.docker_context import DockerContext
from rdd.controllers.containers.engine.endpoints import Link
from rdd.controllers.containers.engine.items import KINDS, MANAGER, backend_of, marks_of
from rdd.controllers.containers.engine.mirrors import Mirrors
from rdd.controllers.containers.engine.moby import Moby
from rdd.controllers.containers.engine.session import Pace, Session
from rdd.engine import EngineFailure
from rdd.kinds.app import App
from rdd.runtime import (
    Change,
    Condition,
    Context,
    ObjectKey,
    Result,
    apply_status,
    find_condition,
    is_deleting,
    is_true,
)
from rdd.runtime.conditions import ConditionStatus

log = logging.getLogger("rdd.engine")

APP = ObjectKey("", "app")
READY = "ContainerEngineReady"
RECONCILING = "Verifying the container engine after controller restart"

FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 10.0

MakeBackend = Callable[[], Backend]


def concerns_the_engine(change: Change) -> bool:
    """Whether a change of a mirror is one that the engine, or we, must answer."""
    new, old = change.new, change.old
    if new is None:
        return True
    if is_deleting(new):
        return old is None or not is_deleting(old)
    if asks_for_action(new):
        return old is None or old["metadata"].get("annotations") != new["metadata"].get(
            "annotations"
        )
    return old is not None and bool(backend_of(old)) and marks_of(old) != marks_of(new)


class EngineReconciler:
    """Connects to the engine of the App while it runs."""

    def __init__(
        self,
        context: Context,
        *,
        backends: dict[str, MakeBackend],
        docker_context: DockerContext,
        link: Link,
        pace: Pace,
    ) -> None:
        self._context = context
        self._apps = context.cache.of(App)
        self._mirrors = Mirrors(context)
        self._backends = backends
        self._docker_context = docker_context
        self._link = link
        self._pace = pace
        self.session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._attempts = 0
        self._retry_at = 0.0

    async def begin(self) -> None:
        """A connection of another process is none of ours."""
        app = self._apps.get(APP)
        if app is not None and is_true(_conditions(app), READY):
            await self._report(app, "Unknown", "Reconciling", RECONCILING)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at the App, or at an item of the engine."""
        if key == APP:
            return await self._look_at_app()
        session = self.session
        if key.namespace not in KINDS or session is None or session.is_over:
            return Result.done()
        wait_s = await session.reconcile(key)
        return Result.done() if wait_s is None else Result.requeue(wait_s)

    async def run(self) -> None:
        """Whatever was started ends with the controller."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._disconnect()
            await self._docker_context.stop()

    async def drain(self) -> None:
        """The engine goes with the daemon: nobody should be led to it any more."""
        await self._disconnect()
        await self._docker_context.withdraw()

    # -- the App

    async def _look_at_app(self) -> Result:
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
        if session is not None and not session.is_over:
            if session.is_synced and self._docker_context.is_decided:
                self._attempts = 0
                problems = (session.problem(), self._docker_context.problem)
                message = "; ".join(filter(None, ("Container engine synced", *problems)))
                await self._report(app, "True", "Connected", message)
            return Result.done()
        return await self._connect(app, *wanted)

    def _is_undecided(self, app: App) -> bool:
        """Whether the machine's state is being found out: mirrors and context wait for it."""
        running = find_condition(_conditions(app), "Running")
        return (
            not app.metadata.deletion_timestamp
            and running is not None
            and running.get("status") == "Unknown"
        )

    def _wanted(self, app: App | None) -> tuple[str, str] | None:
        if app is None or not is_true(_conditions(app), "Running"):
            return None
        name = app.spec.container_engine.name
        return (name, app.spec.namespace) if name in self._backends else None

    async def _stopped(self, app: App | None) -> None:
        self._attempts = 0
        await self._docker_context.withdraw()
        namespace = app.spec.namespace if app is not None else ""
        if self._mirrors.any_left(namespace):
            await self._mirrors.sweep(namespace)
        if app is not None:
            await self._report(app, "False", "Stopped", "Container engine stopped")

    async def _connect(self, app: App, name: str, namespace: str) -> Result:
        loop = asyncio.get_running_loop()
        if loop.time() < self._retry_at:
            return Result.requeue(self._retry_at - loop.time())
        last = self.session
        await self._disconnect()
        if last is not None and not last.is_synced:
            return await self._failed(app, last.why)
        backend = self._backends[name]()
        try:
            await backend.connect()
        except EngineFailure as error:
            await backend.close()
            return await self._failed(app, str(error))
        except BaseException:
            await backend.close()
            raise
        self.session = Session(
            self._context,
            self._mirrors,
            backend,
            namespace=namespace,
            changed=lambda: self._context.enqueue(APP),
            pace=self._pace,
        )
        self._task = loop.create_task(self.session.run(), name="rdd-engine session")
        self._link.backend = name
        self._link.docker = backend.docker if isinstance(backend, Moby) else None
        if name == "moby":
            await self._docker_context.publish(lambda: self._context.enqueue(APP))
        else:
            await self._docker_context.withdraw()
        return Result.done()

    async def _failed(self, app: App, why: str) -> Result:
        pause_s = min(FIRST_RETRY_S * 2.0 ** min(self._attempts, 30), LONGEST_RETRY_S)
        self._attempts += 1
        self._retry_at = asyncio.get_running_loop().time() + pause_s
        await self._report(app, "False", "ConnectFailed", why)
        return Result.requeue(pause_s)

    async def _disconnect(self) -> None:
        self.session, task, self._task = None, self._task, None
        self._link.docker, self._link.backend = None, ""
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _report(self, app: App, status: ConditionStatus, reason: str, message: str) -> None:
        """Say it on the App, at the generation that was looked at."""
        present = _conditions(app)
        wanted = Condition(READY, status, reason, message, app.metadata.generation).to_object(
            present, now=timestamps.now_text(self._context.clock)
        )
        if wanted == find_condition(present, READY):
            return
        try:
            await apply_status(
                self._context.client,
                App,
                APP,
                {"conditions": [wanted]},
                field_manager=MANAGER,
            )
        except errors.NotFound:
            pass  # the App is gone, and with it whoever would read this


def _conditions(app: App) -> Sequence[dict[str, object]]:
    found: Sequence[dict[str, object]] = (app.raw.get("status") or {}).get("conditions") or []
    return found
