# SPDX-License-Identifier: Apache-2.0
"""Base of controllers that keep one object in every namespace: create, repair, recreate."""

import asyncio
from contextlib import aclosing

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource, Client
from rdd.client.resources import NAMESPACES
from rdd.controllers.builtin.handled_queue import HandledQueue

FIELD_MANAGER = "kube-controller-manager"
WORKERS = 5


class PerNamespaceController:
    """Keeps one object in every active namespace; subclasses define its name and content."""

    name = ""
    resource: ApiResource
    object_name = ""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.synced = asyncio.Event()
        self.queue = HandledQueue(self.name, self._sync, workers=WORKERS)

    def desired(self, existing: Object | None) -> Object | None:
        """Return the wanted object without name and namespace; None if nothing is to change."""
        return {} if existing is None else None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(), name=f"rdd-{self.name}-queue")
            group.create_task(self._watch_namespaces(), name=f"rdd-{self.name}-namespaces")
            group.create_task(self._watch_objects(), name=f"rdd-{self.name}-objects")

    async def _watch_namespaces(self) -> None:
        changes = self._client.list_and_watch(
            NAMESPACES, metadata_only=True, keep=lambda _, body: b'"deletionTimestamp":' not in body
        )
        async with aclosing(changes):
            async for event in changes:
                if event.type == "SYNCED":
                    self.synced.set()
                elif event.type == "ADDED":
                    metadata = event.object["metadata"]
                    if not metadata.get("deletionTimestamp"):
                        self.queue.add(metadata["name"])

    async def _watch_objects(self) -> None:
        changes = self._client.list_and_watch(
            self.resource, field_selector=f"metadata.name={self.object_name}"
        )
        listed: set[str] | None = None
        present: set[str] = set()
        async with aclosing(changes):
            async for event in changes:
                if event.type == "RELIST":
                    listed = set()
                    continue
                if event.type == "SYNCED":
                    assert listed is not None
                    for namespace in present - listed:
                        self.queue.add(namespace)
                    present, listed = listed, None
                    continue
                namespace = event.object["metadata"]["namespace"]
                if event.type == "DELETED":
                    present.discard(namespace)
                    self.queue.add(namespace)
                    continue
                (present if listed is None else listed).add(namespace)
                if self.desired(event.object) is not None:
                    self.queue.add(namespace)

    async def _sync(self, namespace: str) -> None:
        try:
            existing = await self._client.get(self.resource, self.object_name, namespace=namespace)
        except errors.NotFound:
            await self._create(namespace)
            return
        wanted = self.desired(existing)
        if wanted is not None and not existing["metadata"].get("deletionTimestamp"):
            await self._client.update(
                self.resource,
                {
                    **existing,
                    **wanted,
                    "metadata": {**existing["metadata"], **wanted.get("metadata", {})},
                },
                field_manager=FIELD_MANAGER,
            )

    async def _create(self, namespace: str) -> None:
        try:
            found = await self._client.get(NAMESPACES, namespace, metadata_only=True)
            if found["metadata"].get("deletionTimestamp"):
                return
            wanted = self.desired(None) or {}
            metadata = {
                **wanted.get("metadata", {}),
                "name": self.object_name,
                "namespace": namespace,
            }
            await self._client.create(
                self.resource, {**wanted, "metadata": metadata}, field_manager=FIELD_MANAGER
            )
        except (errors.NotFound, errors.AlreadyExists):
            return  # the namespace was deleted, or another writer was faster
        except errors.Forbidden as error:
            if not error.has_cause(names.NAMESPACE_TERMINATING):
                raise
