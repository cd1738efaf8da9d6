# SPDX-License-Identifier: Apache-2.0
"""Write the status of an object.

`StatusWriter` writes conditions and other status members and is what controllers use. It
sends nothing when nothing changes, keeps transition times, and has two modes:

    StatusWriter(context, LimaVM)                             read, modify, write; a conflict
                                                              is retried on the new object
    StatusWriter(context, App, field_manager="engine")        server-side apply: the writer owns
                                                              exactly the part that it writes,
                                                              next to other writers

    self._status = StatusWriter(context, Demo, on_transition=record_transition(context))
    …
    await self._status.write(demo.raw, REASONS.condition("Ready", "Processing"),
                             members={"processedCount": 3})

Three functions below it write a complete status:

    patch_status    one writer: the difference to the object that was read, under an
                    optimistic lock; Conflict if the object has changed since
    update_status   several writers: read, modify, write; conflicts are retried
    apply_status    each writer owns its part: server-side apply
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rdd.api import errors, timestamps
from rdd.api.conditions import (
    Condition,
    conditions_of,
    remove_condition,
    set_condition,
)
from rdd.api.mergepatch import create_merge_patch
from rdd.api.types import Object
from rdd.client import Client
from rdd.runtime.controller import Context
from rdd.runtime.finalizers import is_stale_owner
from rdd.runtime.types import AnyResource, ObjectKey, resource_of

_ATTEMPTS = 20


async def patch_status(
    client: Client,
    resource: AnyResource,
    obj: Object,
    status: Object,
    *,
    is_locked: bool = True,
) -> Object:
    """Write a status unless the object already has it; return the object.

    `is_locked` makes the write fail with Conflict if the object has changed since it was read.
    """
    difference = create_merge_patch(obj.get("status") or {}, status)
    if not difference and "status" in obj:
        return obj
    patch: Object = {"status": difference}
    metadata = obj["metadata"]
    if is_locked:
        patch["metadata"] = {"resourceVersion": metadata["resourceVersion"]}
    return await client.patch(
        resource_of(resource),
        metadata["name"],
        patch,
        namespace=metadata.get("namespace") or "",
        subresource="status",
    )


async def update_status(
    client: Client,
    resource: AnyResource,
    key: ObjectKey,
    change: Callable[[Object], Object],
    *,
    known: Object | None = None,
) -> Object:
    """Write the status that `change` derives from the current object; retry on conflict.

    `change` MUST NOT modify its argument; it may be called several times. `known` saves the
    first read. NotFound if the object does not exist; Conflict after 20 attempts, and at once
    if the process no longer owns the controller.
    """
    served = resource_of(resource)
    attempt = 0
    while True:
        obj = known or await client.get(served, key.name, namespace=key.namespace)
        known = None
        try:
            return await patch_status(client, served, obj, change(obj))
        except errors.Conflict as conflict:
            attempt += 1
            if attempt == _ATTEMPTS or is_stale_owner(conflict):
                raise


async def apply_status(
    client: Client,
    resource: AnyResource,
    key: ObjectKey,
    status: Object,
    *,
    field_manager: str,
    force: bool = True,
) -> Object:
    """Make this field manager's part of the status exactly the given one."""
    served = resource_of(resource)
    metadata = {"name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return await client.apply(
        served,
        {"metadata": metadata, "status": status},
        field_manager=field_manager,
        force=force,
        subresource="status",
    )


Members = Mapping[str, Any] | Callable[[Object], Mapping[str, Any]]

OnTransition = Callable[[Object, Condition], None]
"""Called after a write for each condition whose status or reason has changed."""


def record_transition(
    context: Context, *, types: Collection[str] = (), warnings: Collection[str] = ()
) -> OnTransition:
    """Return a callback that records an event `ConditionChanged`.

    `types` limits it to these condition types. The event is a warning if the reason ends with
    "Failed" or is one of `warnings`.
    """

    def record(obj: Object, condition: Condition) -> None:
        if types and condition.type not in types:
            return
        is_warning = condition.reason.endswith("Failed") or condition.reason in warnings
        context.events.event(
            obj,
            "Warning" if is_warning else "Normal",
            "ConditionChanged",
            f"{condition.type}={condition.status}: {condition.message} ({condition.reason})",
        )

    return record


class StatusWriter:
    """Writes conditions and other status members of the objects of one kind.

    With a `field_manager` it uses server-side apply, otherwise it reads, modifies and writes.
    `has_generation` adds the generation of the given object to each condition.
    """

    def __init__(
        self,
        context: Context,
        resource: AnyResource,
        *,
        field_manager: str = "",
        has_generation: bool = True,
        on_transition: OnTransition | None = None,
    ) -> None:
        self._context = context
        self._resource = resource_of(resource)
        self._field_manager = field_manager
        self._has_generation = has_generation
        self._on_transition = on_transition

    async def write(
        self,
        obj: Object,
        *conditions: Condition | Object,
        remove: Collection[str] = (),
        members: Members | None = None,
    ) -> Object:
        """Set conditions and members; return the new object, or `obj` if nothing changes.

        `obj` is the object that the reconciler decided on: its generation is the observed one.
        A condition given as an object is written unchanged (mirrored from another object).
        `remove` lists condition types that must not exist. `members` are further members of
        the status, or a function that derives them from the current object; None removes one.
        NotFound if the object does not exist.
        """
        generation = (obj["metadata"].get("generation") or 0) if self._has_generation else 0
        wanted = [c.at(generation) if isinstance(c, Condition) else c for c in conditions]
        now = timestamps.now_text(self._context.clock)
        before = obj

        def merge(current: Object) -> Object:
            nonlocal before
            before = current
            status = dict(current.get("status") or {})
            merged = set_condition(status.get("conditions"), *wanted, now=now)
            merged = remove_condition(merged, *remove)
            if merged or "conditions" in status:
                status["conditions"] = merged
            return _with_members(status, current, members)

        key = ObjectKey.of(obj)
        client = self._context.client
        if not self._field_manager:
            after = await update_status(client, self._resource, key, merge, known=obj)
        elif merge(obj) == (obj.get("status") or {}):
            return obj
        else:
            present = conditions_of(obj)
            own = [c.to_object(present, now=now) if isinstance(c, Condition) else c for c in wanted]
            part = _with_members({"conditions": own} if own else {}, obj, members)
            after = await apply_status(
                client, self._resource, key, part, field_manager=self._field_manager
            )
        if self._on_transition is not None:
            old = conditions_of(before)
            for condition in wanted:
                if isinstance(condition, Condition) and condition.is_transition(old):
                    self._on_transition(after, condition)
        return after


def _with_members(status: Object, obj: Object, members: Members | None) -> Object:
    status.update(members(obj) if callable(members) else members or {})
    return {name: value for name, value in status.items() if value is not None}
