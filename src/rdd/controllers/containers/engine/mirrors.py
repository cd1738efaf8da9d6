# SPDX-License-Identifier: Apache-2.0
"""The mirror objects: creates, updates and deletes them.

The server ignores the status in a create request, so a new mirror takes two
writes. A crash between them leaves a mirror without a status; the next sync
detects the difference and writes it. All writes are conditional: the cache may
lag behind, and other clients may add an action or a deletion at any time. A
write that loses the race is recomputed from the present object.

Invariant: this class is the only writer of the status of mirrors; conditions
and the outcome of the last action are parts of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from rdd.api import errors, names, timestamps
from rdd.api.conditions import set_condition
from rdd.api.mergepatch import create_merge_patch
from rdd.api.types import Object
from rdd.controllers.containers.container_conditions import condition_changes, container_conditions
from rdd.controllers.containers.engine.items import (
    BACKEND,
    IMAGES,
    ITEM,
    KINDS,
    MANAGER,
    TAG,
    EngineItem,
    Mirror,
    backend_of,
    index_by_item,
    index_by_tag,
    is_mirror,
)
from rdd.kinds.container import Container
from rdd.kinds.image import Image
from rdd.kinds.kind import Kind
from rdd.runtime import Context, ObjectKey, is_deleting, remove_finalizer, resource_of
from rdd.runtime.finalizers import finalizers_of, is_stale_owner

_ATTEMPTS = 10
_MAX_CONCURRENT = 16
"""Objects deleted concurrently by `delete_all`: enough to share commits."""


class NameCollision(Exception):
    """An object that this controller did not create has the name of a mirror."""


class Mirrors:
    """Reads and writes mirrors."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._client = context.client
        self._informers = {plural: context.cache.informer(kind) for plural, kind in KINDS.items()}
        for informer in self._informers.values():
            informer.add_index(ITEM, index_by_item)
        self._informers[IMAGES].add_index(TAG, index_by_tag)

    # -- reading

    def of(self, item: EngineItem, namespace: str) -> list[Object]:
        """Return the mirrors of an item."""
        found = self._informers[item.kind].by_index(ITEM, item.id)
        return [obj for obj in found if obj["metadata"].get("namespace") == namespace]

    def items(self, namespace: str) -> set[EngineItem]:
        """Return the items of all mirrors."""
        return {
            EngineItem.of(KINDS[plural], obj)
            for plural, informer in self._informers.items()
            for obj in informer.list(namespace=namespace)
            if backend_of(obj)
        }

    def losing_tags(
        self, item: EngineItem, mirrors: Sequence[Mirror], namespace: str
    ) -> set[EngineItem]:
        """Return other images with mirrors of the same tags: a tag belongs to one image only."""
        found = {
            EngineItem.of(Image, obj)
            for mirror in mirrors
            for obj in self._informers[IMAGES].by_index(TAG, mirror.status.get("repoTag", ""))
            if obj["metadata"].get("namespace") == namespace
        }
        return {other for other in found if other.name and other != item}

    def exist(self, namespace: str) -> bool:
        """Return whether any mirror exists; an empty namespace means all namespaces."""
        return any(
            backend_of(obj)
            for informer in self._informers.values()
            for obj in informer.list(namespace=namespace)
        )

    # -- writing

    async def apply(
        self, item: EngineItem, wanted: Sequence[Mirror], *, namespace: str, backend: str
    ) -> None:
        """Create, update and delete mirrors until an item has exactly the wanted ones.

        Raises ApiError or NameCollision.
        """
        present = {obj["metadata"]["name"]: obj for obj in self.of(item, namespace)}
        for mirror in wanted:
            obj = present.pop(mirror.name, None)
            if obj is None:
                # It may exist without the label or the annotation.
                key = ObjectKey(namespace, mirror.name)
                obj = self._informers[item.kind].get(key)
            if obj is None:
                obj = await self._create(item, mirror, namespace, backend)
            obj = await self._mark(item, obj, mirror, backend)
            await self._write_status(obj, mirror)
        for obj in present.values():
            await self._delete(KINDS[item.kind], obj)

    async def _delete(self, kind: type[Kind], obj: Object) -> None:
        """Delete a mirror without removing its item from the engine."""
        left = await remove_finalizer(self._client, kind, obj, names.MIRROR_FINALIZER)
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

    async def delete_all(self, namespace: str = "") -> None:
        """Delete all mirrors; ContainerNamespaces last. An empty namespace means all namespaces.

        Raises the first failure after every object has been tried.
        """
        for plural in reversed(KINDS):
            kind = KINDS[plural]
            found = [
                obj for obj in self._informers[plural].list(namespace=namespace) if backend_of(obj)
            ]
            await _for_each(found, partial(self._delete, kind))
            if found:
                await self._wait_until_gone(plural, found)

    async def write_status(
        self, kind: type[Kind], obj: Object, change: Callable[[Object], Object]
    ) -> Object:
        """Replace the status by the one that `change` computes, and return the object.

        Raises NotFound if it is gone. `change` MUST NOT modify its argument.
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
            resource.plural, resource.group, metadata["name"], "too many concurrent writes"
        )

    # -- internals

    async def _create(
        self, item: EngineItem, mirror: Mirror, namespace: str, backend: str
    ) -> Object:
        resource = resource_of(mirror.kind)
        metadata: Object = {
            "name": mirror.name,
            "namespace": namespace,
            "labels": {BACKEND: backend},
            "annotations": {ITEM: item.id},
        }
        if mirror.finalizers:
            metadata["finalizers"] = mirror.finalizers
        try:
            return await self._client.create(
                resource, {"metadata": metadata}, field_manager=MANAGER
            )
        except errors.AlreadyExists:
            return await self._client.get(resource, mirror.name, namespace=namespace)

    async def _mark(self, item: EngineItem, obj: Object, mirror: Mirror, backend: str) -> Object:
        """Restore label, annotation and finalizer, which other clients may have removed."""
        for _ in range(_ATTEMPTS):
            metadata = obj["metadata"]
            if not is_mirror(obj):
                raise NameCollision(
                    f"{mirror.kind.kind} {metadata['namespace']}/{metadata['name']} "
                    "exists and does not belong to the engine controller"
                )
            patch: Object = {}
            if backend_of(obj) != backend:
                patch["labels"] = {BACKEND: backend}
            if (metadata.get("annotations") or {}).get(ITEM) != item.id:
                patch["annotations"] = {ITEM: item.id}
            # The server accepts no new finalizer on an object that is being deleted.
            if (
                mirror.finalizers
                and names.MIRROR_FINALIZER not in finalizers_of(obj)
                and not is_deleting(obj)
            ):
                patch["finalizers"] = [*finalizers_of(obj), names.MIRROR_FINALIZER]
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
        is_container = mirror.kind is Container
        before = (obj.get("status") or {}).get("conditions")

        def change(present: Object) -> Object:
            kept = {name: present[name] for name in _KEPT if name in present}
            status = {**mirror.status, **kept}
            if is_container:
                status["conditions"] = set_condition(
                    present.get("conditions"),
                    *container_conditions(mirror.status["status"], oom_killed=mirror.oom_killed),
                    now=timestamps.now_text(self._context.clock),
                )
            return status

        written = await self.write_status(mirror.kind, obj, change)
        if is_container and before and written is not obj:
            for note in condition_changes(before, written["status"]["conditions"]):
                self._context.events.event(written, "Normal", "ConditionChanged", note)

    async def _wait_until_gone(self, plural: str, deleted: Sequence[Object]) -> None:
        """Wait until the cache shows the deletions; foreign finalizers may keep an object."""
        informer = self._informers[plural]
        for obj in deleted:
            key = ObjectKey.of(obj)
            for _ in range(_ATTEMPTS):
                left = informer.get(key)
                if left is None or is_deleting(left) or not backend_of(left):
                    break
                await asyncio.sleep(0.01)


_KEPT = ("conditions", "lastAction")
"""Members of a status that do not come from the engine."""


async def _for_each(objects: Iterable[Object], do: Callable[[Object], Awaitable[None]]) -> None:
    """Process objects concurrently and raise the first failure at the end."""
    remaining = iter(objects)
    failures: list[Exception] = []

    async def work() -> None:
        for obj in remaining:
            try:
                await do(obj)
            except Exception as error:
                failures.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(_MAX_CONCURRENT):
            group.create_task(work())
    if failures:
        raise failures[0]
