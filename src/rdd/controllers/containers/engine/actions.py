# SPDX-License-Identifier: Apache-2.0
"""Requests on mirrors: an action on a container, or the deletion of an item.

An action must not run twice because of a crash: a second restart interrupts the
container, a second stop may hit a process started since. So the order is

    1. record in an annotation that the action begins, and the state of the container
    2. let the engine perform it
    3. write the outcome to `status.lastAction`
    4. remove both annotations, unless another action was requested meanwhile

After a crash the annotation is present. If the outcome is written, only step 4
remains. If the state differs from the recorded one, the engine has performed the
action. Otherwise it has not, and the action runs now.
"""

import logging
from typing import Any, Final, get_args

import orjson

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.controllers.containers.engine.backend import Backend
from rdd.controllers.containers.engine.items import IMAGES, KINDS, MANAGER, EngineItem
from rdd.controllers.containers.engine.mirrors import Mirrors
from rdd.engine import EngineConflict, EngineError, EngineNotFound
from rdd.kinds.container import Action, Container
from rdd.kinds.image import Image
from rdd.runtime import Condition, Context, is_deleting, remove_finalizer, resource_of
from rdd.runtime.conditions import set_condition
from rdd.runtime.finalizers import finalizers_of

log = logging.getLogger("rdd.engine")

DISPATCHED: Final = f"{names.ENGINE_PREFIX}/dispatched"
"""The annotation that records a started action."""
ACTIONS: Final[tuple[str, ...]] = get_args(Action)


class ItemInUse(Exception):
    """An item cannot be removed because another one uses it; the text is the engine's."""


def has_action(obj: Object) -> bool:
    """Return whether a mirror has an action that is pending or not cleaned up."""
    annotations = obj["metadata"].get("annotations") or {}
    return names.ACTION in annotations or DISPATCHED in annotations


def has_removal(obj: Object) -> bool:
    """Return whether the engine must remove the item of a mirror."""
    return is_deleting(obj) and names.MIRROR_FINALIZER in finalizers_of(obj)


class MirrorRequests:
    """Executes the requests on mirrors."""

    def __init__(self, context: Context, mirrors: Mirrors, backend: Backend) -> None:
        self._context = context
        self._client = context.client
        self._mirrors = mirrors
        self._backend = backend

    def is_needed(self, item: EngineItem, namespace: str) -> bool:
        """Return whether a mirror of an item has a request."""
        return any(has_removal(obj) or has_action(obj) for obj in self._mirrors.of(item, namespace))

    async def execute(self, item: EngineItem, namespace: str) -> None:
        """Execute the requests on the mirrors of an item.

        Raises EngineFailure, ApiError, or ItemInUse if a removal has to wait. A removal that
        waits does not block the others, such as that of another tag of an image.
        """
        in_use: ItemInUse | None = None
        for obj in self._mirrors.of(item, namespace):
            if has_removal(obj):
                try:
                    await self._remove(item, obj)
                except ItemInUse as error:
                    in_use = error
            elif has_action(obj):
                await self._act(item, obj)
        if in_use is not None:
            raise in_use

    # -- deletion

    async def _remove(self, item: EngineItem, obj: Object) -> None:
        kind = KINDS[item.kind]
        if obj.get("status"):  # without a status it has never been matched to an item
            try:
                await self._backend.remove(item, obj)
            except EngineNotFound:
                pass
            except EngineConflict as conflict:
                await self._report_in_use(item, obj, conflict.message)
                raise ItemInUse(conflict.message) from conflict
        await remove_finalizer(self._client, kind, obj, names.MIRROR_FINALIZER)

    async def _report_in_use(self, item: EngineItem, obj: Object, message: str) -> None:
        self._context.events.event(obj, "Warning", "InUse", message, action="Delete")
        if item.kind != IMAGES:
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

    async def _act(self, item: EngineItem, obj: Object) -> None:
        annotations = obj["metadata"]["annotations"]
        action = annotations.get(names.ACTION)
        if action not in ACTIONS:
            await self._clean_up(obj, action)
            return
        record = _record(annotations.get(DISPATCHED), action)
        last = (obj.get("status") or {}).get("lastAction") or {}
        if record and last.get("observedAt") == record["observedAt"] and last["action"] == action:
            await self._clean_up(obj, action)
            return
        error = ""
        try:
            state = await self._backend.state(item)
            if not record:
                record = {"action": action, "observedAt": self._now(), "state": state}
                obj = await self._annotate(obj, record)
            if state == record["state"]:
                await self._backend.act(item, action)
        except EngineError as failure:
            error = failure.message
            record = record or {"observedAt": self._now()}
        outcome: Object = {
            "action": action,
            "state": "Failed" if error else "Succeeded",
            "observedAt": record["observedAt"],
            "completedAt": self._now(),
        }
        if error:
            outcome["error"] = error
        try:
            obj = await self._mirrors.write_status(
                Container, obj, lambda status: {**status, "lastAction": outcome}
            )
            await self._clean_up(obj, action)
        except errors.NotFound:
            pass  # removed meanwhile

    async def _annotate(self, obj: Object, record: Object) -> Object:
        metadata = obj["metadata"]
        patch = {
            # Invariant: no action starts that was withdrawn meanwhile.
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {DISPATCHED: orjson.dumps(record).decode()},
        }
        return await self._client.patch(
            resource_of(Container),
            metadata["name"],
            {"metadata": patch},
            namespace=metadata["namespace"],
            field_manager=MANAGER,
        )

    async def _clean_up(self, obj: Object, action: str | None) -> None:
        """Remove the annotations; that of the action only if it is unchanged."""
        metadata = obj["metadata"]
        annotations = metadata["annotations"]
        operations: list[Object] = []
        if action is not None:
            path = _pointer(names.ACTION)
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
            # Another action was requested, or this one withdrawn: remove only the record.
            patch = {"metadata": {"annotations": {DISPATCHED: None}}}
            await self._client.patch(
                resource, name, patch, namespace=namespace, field_manager=MANAGER
            )

    def _now(self) -> str:
        return timestamps.now_text(self._context.clock)


def _pointer(annotation: str) -> str:
    return "/metadata/annotations/" + annotation.replace("~", "~0").replace("/", "~1")


def _record(text: str | None, action: str) -> Object | None:
    """Return the record of an action; None if it is missing or of another action."""
    try:
        found: Any = orjson.loads(text or "null")
        if found["action"] == action and found["observedAt"] and isinstance(found["state"], str):
            return dict(found)
    except (ValueError, KeyError, TypeError):
        pass
    return None
