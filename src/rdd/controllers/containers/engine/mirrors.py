# SPDX-License-Identifier: Apache-2.0
"""The objects that stand for the engine's things: made, kept as they should be, let go.

The server takes no status when an object is created, so a new mirror is two
writes. A crash between them leaves a mirror without a status; the next sync
finds that it differs from what it should be and writes it. All writes are
conditional: the cache may be a moment behind, and others may put an action or
a deletion on a mirror at any time. One that was overtaken is made again from
what is there now.

The status has one writer, which is this; conditions and the outcome of the last
action are parts of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from rdd.api import errors, timestamps
from rdd.api.mergepatch import create_merge_patch
from rdd.api.types import Object
from rdd.controllers.containers.container_conditions import changes, container_conditions
from rdd.controllers.containers.engine.items import (
    BACKEND,
    CONTAINERS,
    IMAGES,
    ITEM,
    KINDS,
    MANAGER,
    TAG,
    Mirror,
    backend_of,
    by_item,
    by_tag,
    is_mirror,
    item_of,
)
from rdd.kinds.kind import Kind
from rdd.runtime import Context, ObjectKey, is_deleting, remove_finalizer, resource_of
from rdd.runtime.finalizers import MIRROR, finalizers_of, is_stale_owner

_ATTEMPTS = 10
_AT_ONCE = 16
"""Objects swept at the same time: enough to share commits."""


class NotOurs(Exception):
    """An object of somebody else has the name of a mirror."""


class Mirrors:
    """The mirrors of one namespace of the API."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._client = context.client
        self._informers = {plural: context.cache.informer(kind) for plural, kind in KINDS.items()}
        for informer in self._informers.values():
            informer.add_index(ITEM, by_item)
        self._informers[IMAGES].add_index(TAG, by_tag)

    # -- reading

    def of(self, item: ObjectKey, namespace: str) -> list[Object]:
        """The mirrors of an item."""
        found = self._informers[item.namespace].by_index(ITEM, item.name)
        return [obj for obj in found if obj["metadata"].get("namespace") == namespace]

    def items(self, namespace: str) -> set[ObjectKey]:
        """Everything that has a mirror."""
        return {
            ObjectKey(plural, str((obj["metadata"].get("annotations") or {}).get(ITEM, "")))
            for plural, informer in self._informers.items()
            for obj in informer.list(namespace=namespace)
            if backend_of(obj)
        }

    def losing_tags(
        self, item: ObjectKey, mirrors: Sequence[Mirror], namespace: str
    ) -> set[ObjectKey]:
        """Other images with mirrors of the same tags: a tag belongs to one image at a time."""
        informer = self._informers[item.namespace]
        return {
            ObjectKey(item.namespace, other)
            for mirror in mirrors
            for obj in informer.by_index(TAG, mirror.status.get("repoTag", ""))
            if obj["metadata"].get("namespace") == namespace
            and (other := item_of(obj))
            and other != item.name
        }

    def any_left(self, namespace: str) -> bool:
        """Whether there is a mirror, in all namespaces if none is given."""
        return any(
            backend_of(obj)
            for informer in self._informers.values()
            for obj in informer.list(namespace=namespace)
        )

    # -- writing

    async def settle(
        self, item: ObjectKey, wanted: Sequence[Mirror], *, namespace: str, backend: str
    ) -> None:
        """Have exactly these mirrors of an item, as they should be. Raises ApiError, NotOurs."""
        present = {obj["metadata"]["name"]: obj for obj in self.of(item, namespace)}
        for mirror in wanted:
            obj = present.pop(mirror.name, None)
            if obj is None:
                # It may exist without our label or annotation.
                key = ObjectKey(namespace, mirror.name)
                obj = self._informers[item.namespace].get(key)
            if obj is None:
                obj = await self._create(item, mirror, namespace, backend)
            obj = await self._claim(item, obj, mirror, backend)
            await self._write_status(obj, mirror)
        for obj in present.values():
            await self.let_go(KINDS[item.namespace], obj)

    async def let_go(self, kind: type[Kind], obj: Object) -> None:
        """Remove a mirror without asking the engine for anything."""
        left = await remove_finalizer(self._client, kind, obj, MIRROR)
        if left is None or is_deleting(left):
            return
        metadata = left["metadata"]
        try:
            await self._client.delete(
                resource_of(kind),
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )
        except errors.NotFound:
            pass

    async def sweep(self, namespace: str = "") -> None:
        """Remove all mirrors, of one namespace or of all; namespaces of the engine come last.

        Raises the first refusal after everything has been tried.
        """
        for plural in reversed(KINDS):
            kind = KINDS[plural]
            found = [
                obj for obj in self._informers[plural].list(namespace=namespace) if backend_of(obj)
            ]
            await _all(found, partial(self.let_go, kind))
            if found:
                await self._until_gone(plural, found)

    async def write_status(
        self, kind: type[Kind], obj: Object, change: Callable[[Object], Object]
    ) -> Object:
        """The object with the status that `change` makes of its present one.

        Raises NotFound if it is gone. `change` MUST NOT change its argument.
        """
        resource = resource_of(kind)
        metadata = obj["metadata"]
        for _ in range(_ATTEMPTS):
            present = obj.get("status") or {}
            difference = create_merge_patch(present, change(present))
            if not difference:
                return obj
            version = obj["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "status": difference}
            try:
                return await self._client.patch(
                    resource,
                    metadata["name"],
                    patch,
                    namespace=metadata["namespace"],
                    subresource="status",
                    field_manager=MANAGER,
                )
            except errors.Conflict as conflict:
                if is_stale_owner(conflict):
                    raise
                obj = await self._client.get(
                    resource, metadata["name"], namespace=metadata["namespace"]
                )
        raise errors.Conflict.of(
            resource.plural, resource.group, metadata["name"], "others write it all the time"
        )

    # -- inside

    async def _create(
        self, item: ObjectKey, mirror: Mirror, namespace: str, backend: str
    ) -> Object:
        resource = resource_of(mirror.kind)
        metadata: Object = {
            "name": mirror.name,
            "namespace": namespace,
            "labels": {BACKEND: backend},
            "annotations": {ITEM: item.name},
        }
        if mirror.finalizers:
            metadata["finalizers"] = mirror.finalizers
        try:
            return await self._client.create(
                resource, {"metadata": metadata}, field_manager=MANAGER
            )
        except errors.AlreadyExists:
            return await self._client.get(resource, mirror.name, namespace=namespace)

    async def _claim(self, item: ObjectKey, obj: Object, mirror: Mirror, backend: str) -> Object:
        """The object with our marks, all of which others may have taken away."""
        for _ in range(_ATTEMPTS):
            metadata = obj["metadata"]
            if not is_mirror(obj):
                raise NotOurs(
                    f"{mirror.kind.kind} {metadata['namespace']}/{metadata['name']} "
                    "exists and was not made by the engine controller"
                )
            patch: Object = {}
            if backend_of(obj) != backend:
                patch["labels"] = {BACKEND: backend}
            if (metadata.get("annotations") or {}).get(ITEM) != item.name:
                patch["annotations"] = {ITEM: item.name}
            # The server accepts no new finalizer on an object that is being deleted.
            if mirror.finalizers and MIRROR not in finalizers_of(obj) and not is_deleting(obj):
                patch["finalizers"] = [*finalizers_of(obj), MIRROR]
            if not patch:
                return obj
            patch["resourceVersion"] = metadata["resourceVersion"]
            resource, name = resource_of(mirror.kind), metadata["name"]
            namespace = metadata["namespace"]
            try:
                return await self._client.patch(
                    resource,
                    name,
                    {"metadata": patch},
                    namespace=namespace,
                    field_manager=MANAGER,
                )
            except errors.Conflict as conflict:
                if is_stale_owner(conflict):
                    raise
                obj = await self._client.get(resource, name, namespace=namespace)
        return obj

    async def _write_status(self, obj: Object, mirror: Mirror) -> None:
        if not mirror.has_status:
            return
        is_container = mirror.kind is KINDS[CONTAINERS]
        before = (obj.get("status") or {}).get("conditions")

        def change(present: Object) -> Object:
            kept = {name: present[name] for name in _KEPT if name in present}
            status = {**mirror.status, **kept}
            if is_container:
                status["conditions"] = container_conditions(
                    present.get("conditions"),
                    mirror.status["status"],
                    oom_killed=mirror.oom_killed,
                    now=timestamps.now_text(self._context.clock),
                )
            return status

        written = await self.write_status(mirror.kind, obj, change)
        if is_container and before and written is not obj:
            for note in changes(before, written["status"]["conditions"]):
                self._context.events.event(written, "Normal", "ConditionChanged", note)

    async def _until_gone(self, plural: str, swept: Sequence[Object]) -> None:
        """Return when the cache has seen what was swept go; finalizers of others may keep it."""
        informer = self._informers[plural]
        for obj in swept:
            key = ObjectKey.of(obj)
            for _ in range(_ATTEMPTS):
                left = informer.get(key)
                if left is None or is_deleting(left) or not backend_of(left):
                    break
                await asyncio.sleep(0.01)


_KEPT = ("conditions", "lastAction")
"""Members of a status that the engine does not know."""


async def _all(objects: Iterable[Object], do: Callable[[Object], Awaitable[None]]) -> None:
    """Do something to many objects, some at a time; the first failure is raised at the end."""
    left = iter(objects)
    failures: list[Exception] = []

    async def work() -> None:
        for obj in left:
            try:
                await do(obj)
            except Exception as error:
                failures.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
    if failures:
        raise failures[0]
