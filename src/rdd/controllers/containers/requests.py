# SPDX-License-Identifier: Apache-2.0
"""Requests: objects that ask the engine for one operation.

    Complete=False, Failed=False     pending or in progress
    Complete=True                    succeeded
    Failed=True                      failed; the message has the reason

The controller deletes a request ten minutes after its end. Each request runs in a
task of its own, so a slow registry does not delay the others; deleting the object
cancels the task. After a crash an unfinished request runs again, so an executor
MUST be idempotent: it has to find what it created before.

Requests wait for the engine: an image that is requested while the machine starts
is pulled once the engine is connected.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client import Unreachable
from rdd.controllers.containers.request_reasons import COMPLETE, FAILED, request_conditions
from rdd.engine import Docker, EngineError, EngineFailure, EngineUnreachable
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.kinds.kind import Kind
from rdd.runtime import (
    Context,
    Controller,
    ObjectKey,
    Result,
    StatusWriter,
    Webhook,
    conditions_of,
    find_condition,
    is_deleting,
    is_true,
    maps,
    resource_of,
    watch,
)
from rdd.runtime.passthrough import Handler
from rdd.runtime.sources import Source

log = logging.getLogger("rdd.engine")

KEPT_S: Final = 600.0
"""How long a finished request is kept."""
_REPORT_S = 0.5
_RETRY_S = 2.0
_APP = ObjectKey("", names.APP_NAME)


class RequestFailed(Exception):
    """A request failed: a reason for programs, a message for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


Report = Callable[[Object], Awaitable[None]]
"""Writes members of the status, such as progress; frequent calls are throttled."""

Executor = Callable[[Object, Report], Awaitable[Object]]
"""Executes a request and returns further members of its status.

Raises RequestFailed or EngineFailure.
"""


class RequestKey(NamedTuple):
    """The queue key of an object in a controller with several kinds."""

    kind: str
    """The plural."""
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def object_key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


def request_keys(kind: type[Kind], obj: Object) -> Iterable[RequestKey]:
    """Return the queue key of an object."""
    return (RequestKey(kind.plural, *ObjectKey.of(obj)),)


def is_finished(obj: Object) -> bool:
    """Return whether a request has succeeded or failed."""
    conditions = conditions_of(obj)
    return is_true(conditions, COMPLETE) or is_true(conditions, FAILED)


def request_controller(
    kind: type[Kind],
    requests: Sequence[type[Kind]],
    reconciler: Callable[[Context], "RequestReconciler"],
    *,
    mirrors: Source,
    webhooks: Callable[[Context], Sequence[Webhook]],
    passthroughs: Mapping[str, Handler] | None = None,
) -> Controller:
    """Create the controller of a mirrored kind and of the requests for it."""
    kinds: tuple[type[Kind], ...] = (App, kind, *requests)
    return Controller(
        kind.kind.lower(),
        reconciler,
        sources=(
            watch(App),
            mirrors,
            *(maps(request, partial(request_keys, request)) for request in requests),
        ),
        definitions=tuple(map(definition_of, kinds)),
        webhooks=webhooks,
        passthroughs=passthroughs or {},
    )


@dataclass(frozen=True, slots=True)
class _RunningRequest:
    uid: str
    task: "asyncio.Task[None]"


class RequestReconciler:
    """Executes requests of several kinds, with a client of the engine that it closes."""

    def __init__(
        self, context: Context, docker: Docker, executors: Mapping[type[Kind], Executor]
    ) -> None:
        self._context = context
        self._docker = docker
        self._kinds = {kind.plural: (kind, execute) for kind, execute in executors.items()}
        self._informers = {kind.plural: context.cache.informer(kind) for kind in executors}
        self._apps = context.cache.of(App)
        self._running: dict[RequestKey, _RunningRequest] = {}
        self._finished: dict[RequestKey, str] = {}
        """UIDs of requests whose outcome is written, until the cache shows it."""

    async def run(self) -> None:
        """Wait until the controller stops, then cancel the requests in progress."""
        try:
            await asyncio.Event().wait()
        finally:
            running = [found.task for found in self._running.values()]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._docker.close()

    async def reconcile(self, key: ObjectKey | RequestKey) -> Result:
        """Start, cancel or delete a request; the key of the App means all unfinished ones."""
        if not isinstance(key, RequestKey):
            self._enqueue_unfinished()
            return Result.done()
        kind, execute = self._kinds[key.kind]
        obj = self._informers[key.kind].get(key.object_key)
        running = self._running.get(key)
        if running is not None and (
            obj is None or is_deleting(obj) or obj["metadata"]["uid"] != running.uid
        ):
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
            running = None
        if obj is None or is_deleting(obj):
            self._finished.pop(key, None)
            return Result.done()
        if running is not None:
            return Result.done()
        if is_finished(obj):
            self._finished.pop(key, None)
            return await self._expire(kind, obj)
        if self._finished.get(key) == obj["metadata"]["uid"]:
            return Result.done()  # the cache is behind; its next event comes here again
        return await self._start(key, kind, execute, obj)

    def _enqueue_unfinished(self) -> None:
        for plural, informer in self._informers.items():
            for obj in informer.list():
                if not is_finished(obj):
                    for key in request_keys(self._kinds[plural][0], obj):
                        self._context.enqueue(key)

    async def _start(
        self, key: RequestKey, kind: type[Kind], execute: Executor, obj: Object
    ) -> Result:
        problem = self._engine_problem()
        if problem is not None:
            await self._write(kind, obj, {}, *problem)
            return Result.done()
        task = asyncio.get_running_loop().create_task(
            self._execute(key, kind, execute, obj), name=f"rdd-request {key}"
        )
        self._running[key] = _RunningRequest(obj["metadata"]["uid"], task)
        return Result.done()

    def _engine_problem(self) -> tuple[str, str] | None:
        """Return why the engine cannot execute requests, as reason and message; None if it can."""
        app = self._apps.get(_APP)
        if app is None:
            return "WaitingForEngine", "The App does not exist yet"
        ready = find_condition(conditions_of(app.raw), names.ENGINE_READY)
        if ready is None or ready.get("status") != "True":
            message = (ready or {}).get("message") or "no status yet"
            return "WaitingForEngine", f"Waiting for the container engine: {message}"
        name = app.spec.container_engine.name
        if name != "moby":
            return "NotSupported", f"Requests are not supported by the engine {name}"
        return None

    async def _execute(
        self, key: RequestKey, kind: type[Kind], execute: Executor, obj: Object
    ) -> None:
        loop = asyncio.get_running_loop()
        latest, reported_at = obj, 0.0
        has_ended = True

        async def report(members: Object) -> None:
            nonlocal latest, reported_at
            if loop.time() - reported_at >= _REPORT_S:
                latest = await self._write(kind, latest, members, "InProgress")
                reported_at = loop.time()

        try:
            try:
                members = await execute(obj, report)
            except EngineUnreachable as error:
                # The request is not at fault: it runs again when the engine is back.
                await self._write(kind, latest, {}, "WaitingForEngine", str(error))
                loop.call_later(_RETRY_S, self._context.enqueue, key)
                has_ended = False
            except EngineError as error:
                await self._write(kind, latest, {}, _reason(error), error.message)
            except EngineFailure as error:
                await self._write(kind, latest, {}, "EngineError", str(error))
            except RequestFailed as error:
                await self._write(kind, latest, {}, error.reason, str(error))
            else:
                await self._write(kind, latest, members, "Completed")
            if has_ended:
                self._finished[key] = obj["metadata"]["uid"]
        except (errors.ApiError, Unreachable) as error:
            log.warning("cannot write the outcome of %s: %s", key, error)
            loop.call_later(_RETRY_S, self._context.enqueue, key)
        finally:
            del self._running[key]
        self._context.enqueue(key)

    async def _write(
        self, kind: type[Kind], obj: Object, members: Object, reason: str, message: str = ""
    ) -> Object:
        writer = StatusWriter(self._context, kind)
        try:
            return await writer.write(obj, *request_conditions(reason, message), members=members)
        except errors.NotFound:
            return obj  # deleted meanwhile

    async def _expire(self, kind: type[Kind], obj: Object) -> Result:
        left_s = KEPT_S - (self._context.clock() - _ended_at(obj))
        if left_s > 0:
            return Result.requeue(left_s)
        metadata = obj["metadata"]
        try:
            await self._context.client.delete(
                resource_of(kind),
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )
        except (errors.NotFound, errors.Conflict):
            pass  # deleted, or replaced by another one of the same name
        return Result.done()


def _ended_at(obj: Object) -> float:
    for found in conditions_of(obj):
        if found["type"] in (COMPLETE, FAILED) and found["status"] == "True":
            return float(timestamps.parse(found["lastTransitionTime"])[0])
    return 0.0


def _reason(error: EngineError) -> str:
    return {404: "NotFound", 409: "Conflict", 400: "Invalid"}.get(error.status, "EngineError")
