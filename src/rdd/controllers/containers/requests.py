# SPDX-License-Identifier: Apache-2.0
"""The life of a request: an object that asks the engine for something, once.

    Complete=False, Failed=False     it waits, or is being carried out
    Complete=True                    it was carried out
    Failed=True                      it could not be, and the message says why

Ten minutes after its end a request is removed. It is carried out in a task of
its own, so a slow registry holds up nobody; deleting the object ends the task.
After a crash a request that has not ended is carried out again, so what carries
it out MUST find what it had made before.

Requests wait for the engine: who asks for an image while the machine starts
gets it when it has.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rdd.api import errors, timestamps
from rdd.api.types import Object
from rdd.client import Unreachable
from rdd.engine import EngineError, EngineFailure
from rdd.engine import Unreachable as EngineGone
from rdd.kinds.app import App
from rdd.kinds.kind import Kind
from rdd.runtime import (
    AdmissionRequest,
    Condition,
    Context,
    Denied,
    ObjectKey,
    Result,
    find_condition,
    is_deleting,
    is_true,
    resource_of,
    set_condition,
    update_status,
)
from rdd.runtime.conditions import ConditionStatus

log = logging.getLogger("rdd.engine")

KEPT_S: Final = 600.0
"""How long a request that has ended can be seen."""
_REPORT_S = 0.5
_RETRY_S = 2.0
_APP = ObjectKey("", "app")


class RequestFailed(Exception):
    """A request cannot be carried out: a reason for programs, a message for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


Report = Callable[[Object], Awaitable[None]]
"""Writes members of the status, such as progress; more often than needed is harmless."""

Carry = Callable[[Object, Report], Awaitable[Object]]
"""Carries out a request and returns further members of its status.

Raises RequestFailed or EngineFailure.
"""


def request_key(kind: type[Kind], obj: Object) -> Iterable[ObjectKey]:
    """The key of a request in the queue of a controller with several kinds."""
    metadata = obj["metadata"]
    return (ObjectKey(metadata["namespace"], f"{kind.plural}/{metadata['name']}"),)


def has_ended(obj: Object) -> bool:
    """Whether a request was carried out or failed."""
    conditions = (obj.get("status") or {}).get("conditions")
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def is_unchanged(request: AdmissionRequest[Any]) -> bool:
    """Whether a write changes nothing but metadata. Raises Denied if it changes what is asked for.

    A request is carried out once, and the rules for new ones were kept when it was made.
    """
    if request.old is None:
        return False
    if request.object.raw.get("spec") != request.old.raw.get("spec"):
        raise Denied("spec is immutable: make another request")
    return True


@dataclass(frozen=True, slots=True)
class Running:
    """A request that is being carried out."""

    uid: str
    task: "asyncio.Task[None]"


class RequestReconciler:
    """Carries out requests of some kinds; the keys are those of `request_key`."""

    def __init__(self, context: Context, kinds: Mapping[type[Kind], Carry]) -> None:
        self._context = context
        self._kinds = {kind.plural: (kind, carry) for kind, carry in kinds.items()}
        self._informers = {kind.plural: context.cache.informer(kind) for kind in kinds}
        self._apps = context.cache.of(App)
        self._running: dict[ObjectKey, Running] = {}

    async def run(self) -> None:
        """End what is being carried out when the controller ends."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """End what is being carried out."""
        running = [found.task for found in self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def waiting(self) -> Iterable[ObjectKey]:
        """The keys of all requests that have not ended."""
        for plural, informer in self._informers.items():
            for obj in informer.list():
                if not has_ended(obj):
                    yield from request_key(self._kinds[plural][0], obj)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Begin, end, or remove a request; or look at all, if the key is the App's."""
        if key == _APP:
            for waiting in self.waiting():
                self._context.enqueue(waiting)
            return Result.done()
        plural, _, name = key.name.partition("/")
        kind, carry = self._kinds[plural]
        obj = self._informers[plural].get(ObjectKey(key.namespace, name))
        running = self._running.get(key)
        if running is not None and (
            obj is None or is_deleting(obj) or obj["metadata"]["uid"] != running.uid
        ):
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
            running = None
        if obj is None or is_deleting(obj) or running is not None:
            return Result.done()
        if has_ended(obj):
            return await self._expire(kind, obj)
        return await self._begin(key, kind, carry, obj)

    async def _begin(self, key: ObjectKey, kind: type[Kind], carry: Carry, obj: Object) -> Result:
        problem = self._engine_problem()
        if problem is not None:
            reason, message = problem
            is_final = reason == "NotSupported"
            await self._write(kind, obj, {}, "Failed" if is_final else "", reason, message)
            return Result.done()
        task = asyncio.get_running_loop().create_task(
            self._carry(key, kind, carry, obj), name=f"rdd-request {key}"
        )
        self._running[key] = Running(obj["metadata"]["uid"], task)
        return Result.done()

    def _engine_problem(self) -> tuple[str, str] | None:
        """Why nothing can be asked of the engine; None if it can."""
        app = self._apps.get(_APP)
        if app is None:
            return "WaitingForEngine", "There is no App yet"
        conditions = (app.raw.get("status") or {}).get("conditions")
        ready = find_condition(conditions, "ContainerEngineReady")
        if ready is None or ready.get("status") != "True":
            why = (ready or {}).get("message") or "it has not reported yet"
            return "WaitingForEngine", f"Waiting for the container engine: {why}"
        name = app.spec.container_engine.name
        if name != "moby":
            return "NotSupported", f"Requests are not supported by the engine {name}"
        return None

    async def _carry(self, key: ObjectKey, kind: type[Kind], carry: Carry, obj: Object) -> None:
        loop = asyncio.get_running_loop()
        reported_at = 0.0

        async def report(members: Object) -> None:
            nonlocal reported_at
            if loop.time() - reported_at >= _REPORT_S:
                await self._write(kind, obj, members, "", "InProgress", "")
                reported_at = loop.time()

        try:
            try:
                members = await carry(obj, report)
            except EngineGone as error:
                # Not its fault: it is carried out when the engine is back.
                await self._write(kind, obj, {}, "", "WaitingForEngine", str(error))
                loop.call_later(_RETRY_S, self._context.enqueue, key)
            except EngineError as error:
                await self._write(kind, obj, {}, "Failed", _reason(error), error.message)
            except EngineFailure as error:
                await self._write(kind, obj, {}, "Failed", "EngineError", str(error))
            except RequestFailed as error:
                await self._write(kind, obj, {}, "Failed", error.reason, str(error))
            else:
                await self._write(kind, obj, members, "Complete", "Completed", "")
        except (errors.ApiError, Unreachable) as error:
            log.warning("the outcome of %s was not written: %s", key, error)
            loop.call_later(_RETRY_S, self._context.enqueue, key)
        finally:
            del self._running[key]
        self._context.enqueue(key)

    async def _write(
        self, kind: type[Kind], obj: Object, members: Object, end: str, reason: str, message: str
    ) -> None:
        now = timestamps.now_text(self._context.clock)

        def change(present: Object) -> Object:
            status = present.get("status") or {}
            conditions = status.get("conditions")
            for type_ in ("Complete", "Failed"):
                value: ConditionStatus = "True" if type_ == end else "False"
                conditions = set_condition(
                    conditions,
                    Condition(
                        type_, value, reason, message, present["metadata"].get("generation") or 0
                    ),
                    now=now,
                )
            return {**status, **members, "conditions": conditions}

        try:
            await update_status(self._context.client, kind, ObjectKey.of(obj), change)
        except errors.NotFound:
            pass  # nobody waits for it any more

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
            pass  # gone, or another one of the same name
        return Result.done()


def _ended_at(obj: Object) -> float:
    for type_ in ("Complete", "Failed"):
        found: Any = find_condition(obj["status"]["conditions"], type_)
        if found is not None and found["status"] == "True":
            return float(timestamps.parse(found["lastTransitionTime"])[0])
    return 0.0


def _reason(error: EngineError) -> str:
    return {404: "NotFound", 409: "Conflict", 400: "Invalid"}.get(error.status, "EngineError")
