# SPDX-License-Identifier: Apache-2.0
"""What users ask for on a mirror: an action on a container, or its deletion.

An action must not be carried out twice because we crashed in between: a second
restart interrupts, a second stop may hit what somebody has started since. So
the order is

    1. note in an annotation that the action begins, and the state of the container
    2. have the engine do it
    3. write the outcome to `status.lastAction`
    4. remove both annotations, unless another action was asked for meanwhile

After a crash the note is found. If the outcome is written, only step 4 is left.
If the state is no longer the noted one, the engine has done it. Otherwise it
has not, and the action is carried out now.
"""

import logging
from typing import Any, Final, get_args

import orjson

from rdd.api import errors, timestamps
from rdd.api.types import Object
from rdd.controllers.containers.engine.backend import Backend
from rdd.controllers.containers.engine.items import KINDS, MANAGER
from rdd.controllers.containers.engine.mirrors import Mirrors
from rdd.engine import Conflict, EngineError, NotFound
from rdd.kinds.container import ACTION, Action, Container
from rdd.kinds.image import Image
from rdd.runtime import Condition, Context, ObjectKey, is_deleting, remove_finalizer, resource_of
from rdd.runtime.conditions import set_condition
from rdd.runtime.finalizers import MIRROR, finalizers_of

log = logging.getLogger("rdd.engine")

DISPATCHED: Final = "engine.rancherdesktop.io/dispatched"
"""The annotation that an action has begun."""
ACTIONS: Final[tuple[str, ...]] = get_args(Action)


class InUse(Exception):
    """Something cannot be removed because something else uses it; the text is the engine's."""


def asks_for_action(obj: Object) -> bool:
    """Whether an action waits, or what is left of one."""
    annotations = obj["metadata"].get("annotations") or {}
    return ACTION in annotations or DISPATCHED in annotations


def asks_for_removal(obj: Object) -> bool:
    """Whether the engine is to remove what a mirror stands for."""
    return is_deleting(obj) and MIRROR in finalizers_of(obj)


class Requests:
    """Carries out what is asked for on mirrors."""

    def __init__(self, context: Context, mirrors: Mirrors, backend: Backend) -> None:
        self._context = context
        self._client = context.client
        self._mirrors = mirrors
        self._backend = backend

    def is_needed(self, item: ObjectKey, namespace: str) -> bool:
        """Whether anything is asked for on the mirrors of an item."""
        return any(
            asks_for_removal(obj) or asks_for_action(obj)
            for obj in self._mirrors.of(item, namespace)
        )

    async def serve(self, item: ObjectKey, namespace: str) -> None:
        """Do what is asked for on the mirrors of an item.

        Raises EngineFailure, ApiError, or InUse if a removal has to wait; it holds up none of
        the others, such as that of another tag of an image.
        """
        in_use: InUse | None = None
        for obj in self._mirrors.of(item, namespace):
            if asks_for_removal(obj):
                try:
                    await self._remove(item, obj)
                except InUse as held:
                    in_use = held
            elif asks_for_action(obj):
                await self._act(item, obj)
        if in_use is not None:
            raise in_use

    # -- deletion

    async def _remove(self, item: ObjectKey, obj: Object) -> None:
        kind = KINDS[item.namespace]
        if obj.get("status"):  # otherwise nobody knows what it stands for
            try:
                await self._backend.remove(item, obj)
            except NotFound:
                pass
            except Conflict as conflict:
                await self._say_in_use(item, obj, conflict.message)
                raise InUse(conflict.message) from conflict
        await remove_finalizer(self._client, kind, obj, MIRROR)

    async def _say_in_use(self, item: ObjectKey, obj: Object, message: str) -> None:
        self._context.events.event(obj, "Warning", "InUse", message, action="Delete")
        if KINDS[item.namespace] is not Image:
            return

        def change(status: Object) -> Object:
            conditions = set_condition(
                status.get("conditions"),
                Condition("Removed", "False", "InUse", message),
                now=timestamps.now_text(self._context.clock),
            )
            return {**status, "conditions": conditions}

        await self._mirrors.write_status(Image, obj, change)

    # -- actions

    async def _act(self, item: ObjectKey, obj: Object) -> None:
        annotations = obj["metadata"]["annotations"]
        action = annotations.get(ACTION)
        if action not in ACTIONS:
            await self._forget(obj, action)
            return
        note = _note(annotations.get(DISPATCHED), action)
        last = (obj.get("status") or {}).get("lastAction") or {}
        if note and last.get("observedAt") == note["observedAt"] and last["action"] == action:
            await self._forget(obj, action)
            return
        error = ""
        try:
            state = await self._backend.state(item)
            if not note:
                note = {"action": action, "observedAt": self._now(), "state": state}
                obj = await self._annotate(obj, note)
            if state == note["state"]:
                await self._backend.act(item, action)
        except EngineError as refusal:
            error = refusal.message
            note = note or {"observedAt": self._now()}
        outcome: Object = {
            "action": action,
            "state": "Failed" if error else "Succeeded",
            "observedAt": note["observedAt"],
            "completedAt": self._now(),
        }
        if error:
            outcome["error"] = error
        try:
            obj = await self._mirrors.write_status(
                Container, obj, lambda status: {**status, "lastAction": outcome}
            )
            await self._forget(obj, action)
        except errors.NotFound:
            pass  # it was removed meanwhile

    async def _annotate(self, obj: Object, note: Object) -> Object:
        metadata = obj["metadata"]
        patch = {
            # Somebody may have thought better of it.
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {DISPATCHED: orjson.dumps(note).decode()},
        }
        return await self._client.patch(
            resource_of(Container),
            metadata["name"],
            {"metadata": patch},
            namespace=metadata["namespace"],
            field_manager=MANAGER,
        )

    async def _forget(self, obj: Object, action: str | None) -> None:
        """Remove the annotations, the action's only if it is still this one."""
        metadata = obj["metadata"]
        annotations = metadata["annotations"]
        operations: list[Object] = []
        if action is not None:
            path = _pointer(ACTION)
            operations += [
                {"op": "test", "path": path, "value": action},
                {"op": "remove", "path": path},
            ]
        if DISPATCHED in annotations:
            operations.append({"op": "remove", "path": _pointer(DISPATCHED)})
        resource, name = resource_of(Container), metadata["name"]
        namespace = metadata["namespace"]
        try:
            await self._client.patch(
                resource, name, operations, namespace=namespace, type_="json", field_manager=MANAGER
            )
        except errors.NotFound:
            pass
        except (errors.Invalid, errors.BadRequest):
            # Another action was asked for, or this one taken back: only our note goes.
            patch = {"metadata": {"annotations": {DISPATCHED: None}}}
            await self._client.patch(
                resource, name, patch, namespace=namespace, field_manager=MANAGER
            )

    def _now(self) -> str:
        return timestamps.now_text(self._context.clock)


def _pointer(annotation: str) -> str:
    return "/metadata/annotations/" + annotation.replace("~", "~0").replace("/", "~1")


def _note(text: str | None, action: str) -> Object | None:
    """The note about an action; None if there is none, or one about another action."""
    try:
        found: Any = orjson.loads(text or "null")
        if found["action"] == action and found["observedAt"] and isinstance(found["state"], str):
            return dict(found)
    except (ValueError, KeyError, TypeError):
        pass
    return None
