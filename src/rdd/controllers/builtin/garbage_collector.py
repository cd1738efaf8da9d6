# SPDX-License-Identifier: Apache-2.0
"""Garbage collection: the deletion of dependents with their owners.

- *Background*: an object whose owners do not exist is deleted.
- *Foreground*: an owner with the finalizer `foregroundDeletion` is kept until the dependents
  that block it are deleted; they are deleted in the foreground, too.
- *Orphan*: an owner with the finalizer `orphan` is kept until no dependent refers to it; the
  references are removed.

The rules are those of Kubernetes, including references that are dropped when other owners
remain, and cycles that are broken by unblocking. `OwnerGraph` returns the uids to process;
the collector then reads the object and its owners from the server, and deletes with uid and
resourceVersion as preconditions. The finalizers of owners are removed only while all resources
are synced (`Monitors.is_complete`): a resource that cannot be listed may have dependents.

Most objects and most writes do not affect ownership. They are filtered by the encoded object
(`_is_relevant`), without decoding it and without waking a task; so a million objects without
owners cost the collector a search in their bytes at start and nothing afterwards.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from rdd.api import errors, fieldselectors, names
from rdd.client import ApiResource, Client, Event
from rdd.client.aio import Propagation
from rdd.controllers.builtin import events
from rdd.controllers.builtin.handled_queue import HandledQueue
from rdd.controllers.builtin.monitors import GroupKind, Monitors
from rdd.controllers.builtin.owner_graph import DependencyNode, OwnerGraph, Reference

log = logging.getLogger("rdd.controllers.builtin")

FIELD_MANAGER = "kube-controller-manager"
COMPONENT = "garbage-collector-controller"
WORKERS = 20
MAX_PRESENT = 1000
_PATCH_ATTEMPTS = 5

Metadata = dict[str, Any]


class _Invalid(Exception):
    """A cluster-scoped object has a namespaced owner; a retry cannot fix that."""


class _UnknownKind(Exception):
    """An owner is of a kind that is not served, so its existence cannot be checked."""


class GarbageCollector:
    """The controller `gc`."""

    name = "gc"

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self.synced = asyncio.Event()
        self.graph = OwnerGraph()
        self.queue = HandledQueue(self.name, self._process, workers=WORKERS)
        self._monitors = Monitors(
            client,
            keep=self._is_relevant,
            on_event=self._event,
            on_removed=self.graph.drop_resource,
            on_deleted=self._look_again,
            on_change=self._resources_changed,
            on_complete=self._complete,
        )
        self._unlisted: dict[tuple[str, str], set[str]] = {}
        self._known: set[tuple[str, str]] = set()
        """Resources that have been listed before."""
        self._present: dict[str, tuple[str, str, str, str]] = {}
        """Cache of existing owners: uid → apiVersion, kind, namespace and name."""
        self._recheck = 0
        """Number of calls of `_look_again`: a read that began before the last one is stale."""
        self._unseen: set[str] = set()
        """Nodes that the last list did not have: deleted, or no longer relevant."""
        self._incomplete: set[str] = set()
        self._unresolved: set[str] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._monitors.run(), name="rdd-gc-monitors")
            group.create_task(self.queue.run(), name="rdd-gc-queue")

    # -- events

    def _is_relevant(self, type_: str, body: bytes) -> bool:
        return (
            b'"ownerReferences":[' in body
            or b'"deletionTimestamp":' in body
            or type_ == "DELETED"
            # An object that has lost its references has none; it may have blocked an owner.
            or bool(self.graph.in_foreground)
        )

    def _event(self, resource: ApiResource, event: Event) -> None:
        key = (resource.group, resource.plural)
        if event.type == "RELIST":
            self._unlisted[key] = self.graph.of_resource(resource)
        elif event.type == "SYNCED":
            self._listed(resource, self._unlisted.pop(key, set()))
        else:
            metadata = event.object["metadata"]
            if event.type == "DELETED":
                self._removed(metadata["uid"], metadata.get("namespace") or "")
                return
            if key in self._unlisted:
                self._unlisted[key].discard(metadata["uid"])
            self._enqueue(self.graph.observe(resource, metadata))

    def _listed(self, resource: ApiResource, missing: set[str]) -> None:
        # Deleted, or without owners now; the object itself shows which.
        self._unseen |= missing & self.graph.nodes.keys()
        self._enqueue(list(missing))
        key = (resource.group, resource.plural)
        if key not in self._known:
            self._known.add(key)
            return
        # Owners that have no owners are not in the graph: any of them may have been deleted.
        self._look_again((resource.group, resource.kind))

    def _look_again(self, kind: GroupKind) -> None:
        """Process the dependents of all objects of a kind."""
        self._recheck += 1
        for uid in self.graph.owned_by_kind(*kind):
            for reference in self.graph.nodes[uid].owners:
                self._present.pop(reference.uid, None)
            self.queue.add(uid)

    def _removed(self, uid: str, namespace: str) -> None:
        self._unseen.discard(uid)
        self._present.pop(uid, None)
        self._enqueue(self.graph.remove(uid, namespace))

    def _removed_node(self, node: DependencyNode) -> None:
        self._removed(node.uid, node.namespace)

    def _enqueue(self, uids: list[str]) -> None:
        for uid in uids:
            self.queue.add(uid)

    def _resources_changed(self) -> None:
        uids, self._unresolved = self._unresolved, set()
        self._enqueue(list(uids))

    def _complete(self) -> None:
        self.synced.set()
        uids, self._incomplete = self._incomplete, set()
        self._enqueue(list(uids))

    # -- processing

    async def _process(self, uid: str) -> None:
        node = self.graph.nodes.get(uid)
        if node is None or not (uid in self._unseen or self._needs_processing(node)):
            self._unseen.discard(uid)
            return
        metadata = await self._metadata(node.resource, node.namespace, node.name)
        if metadata is None or metadata["uid"] != uid:
            self._removed_node(node)
            return
        self._unseen.discard(uid)
        # The watch may be stale.
        self._enqueue(self.graph.observe(node.resource, metadata))
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or ()
            if names.ORPHAN_FINALIZER in finalizers:
                await self._orphan_dependents(node, metadata)
            elif names.FOREGROUND_FINALIZER in finalizers:
                await self._delete_dependents(node, metadata)
            return
        if metadata.get("ownerReferences"):
            await self._collect(node, metadata)

    def _needs_processing(self, node: DependencyNode) -> bool:
        if node.is_deleting:
            return node.deletes_dependents or node.orphans_dependents
        return not all(self._is_present(r, node) for r in node.owners)

    def _is_present(self, reference: Reference, node: DependencyNode) -> bool:
        seen = self._present.get(reference.uid)
        if seen is None or reference.uid in self.graph.in_foreground:
            return False
        api_version, kind, namespace, name = seen
        return (api_version, kind, name) == reference[:3] and namespace in ("", node.namespace)

    async def _metadata(self, resource: ApiResource, namespace: str, name: str) -> Metadata | None:
        try:
            found = await self._client.get(resource, name, namespace=namespace, metadata_only=True)
        except errors.NotFound:
            return None
        metadata: Metadata = found["metadata"]
        return metadata

    # -- dependents of owners

    async def _collect(self, node: DependencyNode, metadata: Metadata) -> None:
        """Decide about an object by the state of its owners."""
        references = metadata["ownerReferences"]
        solid, dangling, waiting = [], [], []
        try:
            for found in references:
                reference = Reference(
                    found["apiVersion"], found["kind"], found["name"], found["uid"], False
                )
                owner = await self._owner(reference, node)
                if owner is None:
                    dangling.append(reference.uid)
                elif owner.get("deletionTimestamp") and names.FOREGROUND_FINALIZER in (
                    owner.get("finalizers") or ()
                ):
                    waiting.append(reference.uid)
                else:
                    solid.append(reference.uid)
        except _Invalid:
            return
        except _UnknownKind:
            self._unresolved.add(node.uid)
            return
        if solid:
            if dangling or waiting:
                kept = [r for r in references if r["uid"] in solid]
                await self._set_references(node, metadata, kept)
            return
        finalizers = metadata.get("finalizers") or ()
        policy: Propagation = "Background"
        if waiting and self.graph.dependents(node.uid):
            if any(d.deletes_dependents for d in self.graph.dependents(node.uid)):
                # A cycle: this object blocks an owner that is one of its dependents.
                unblocked = [{**r, "blockOwnerDeletion": False} for r in references]
                metadata = await self._set_references(node, metadata, unblocked)
            policy = "Foreground"
        elif names.ORPHAN_FINALIZER in finalizers:
            policy = "Orphan"
        elif names.FOREGROUND_FINALIZER in finalizers:
            policy = "Foreground"
        await self._delete(node, metadata, policy)

    async def _owner(self, reference: Reference, node: DependencyNode) -> Metadata | None:
        """Return the metadata of an owner, or None if it does not exist."""
        was_in = self.graph.deleted.get(reference.uid)
        if was_in is not None and (node.namespace or not was_in):
            return None
        group = reference.api_version.rpartition("/")[0]
        if (group, reference.kind) in self._monitors.deleted_kinds:
            return None
        resource = await self._monitors.resolve(reference.api_version, reference.kind)
        if resource is None:
            raise _UnknownKind
        if resource.namespaced and not node.namespace:
            await self._report_invalid(reference, node)
            raise _Invalid
        namespace = node.namespace if resource.namespaced else ""
        recheck = self._recheck
        metadata = await self._metadata(resource, namespace, reference.name)
        if metadata is None or metadata["uid"] != reference.uid:
            if resource.namespaced and await self._is_elsewhere(resource, reference):
                await self._report_invalid(reference, node)
            return None
        # The owner may have been deleted during the read: then this object is in the queue again,
        # and a cached owner would end that pass before it reads.
        if reference.uid not in self.graph.deleted and recheck == self._recheck:
            while len(self._present) >= MAX_PRESENT:
                del self._present[next(iter(self._present))]
            seen = (reference.api_version, reference.kind, namespace, reference.name)
            self._present[reference.uid] = seen
        return metadata

    async def _is_elsewhere(self, resource: ApiResource, reference: Reference) -> bool:
        name = fieldselectors.escape(reference.name)
        found = await self._client.list(
            resource, field_selector=f"metadata.name={name}", metadata_only=True
        )
        return any(o["metadata"]["uid"] == reference.uid for o in found.items)

    async def _report_invalid(self, reference: Reference, node: DependencyNode) -> None:
        await events.warn(
            self._client,
            involved=events.ObjectReference(
                node.resource, namespace=node.namespace, name=node.name, uid=node.uid
            ),
            reason="OwnerRefInvalidNamespace",
            message=(
                f"ownerRef [{reference.api_version}/{reference.kind}, namespace: "
                f"{node.namespace}, name: {reference.name}, uid: {reference.uid}] "
                f'does not exist in namespace "{node.namespace}"'
            ),
            component=COMPONENT,
            clock=self._clock,
        )

    async def _delete(self, node: DependencyNode, metadata: Metadata, policy: Propagation) -> None:
        log.debug("gc: deleting %s (%s)", node, policy)
        try:
            await self._client.delete(
                node.resource,
                node.name,
                namespace=node.namespace,
                propagation_policy=policy,
                uid=node.uid,
                resource_version=metadata["resourceVersion"],
            )
        except errors.NotFound:
            self._removed_node(node)

    # -- owners of dependents

    async def _delete_dependents(self, node: DependencyNode, metadata: Metadata) -> None:
        blockers = self.graph.blockers(node.uid)
        if blockers:
            self._enqueue([b.uid for b in blockers if not b.deletes_dependents])
        elif self._monitors.is_complete:
            await self._remove_finalizer(node, metadata, names.FOREGROUND_FINALIZER)
        else:
            self._incomplete.add(node.uid)

    async def _orphan_dependents(self, node: DependencyNode, metadata: Metadata) -> None:
        if not self._monitors.is_complete:
            self._incomplete.add(node.uid)
            return
        dependents = self.graph.dependents(node.uid)
        for start in range(0, len(dependents), WORKERS):
            some = dependents[start : start + WORKERS]
            outcomes = await asyncio.gather(
                *(self._release(dependent, node.uid) for dependent in some), return_exceptions=True
            )
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome
        await self._remove_finalizer(node, metadata, names.ORPHAN_FINALIZER)

    async def _release(self, dependent: DependencyNode, owner_uid: str) -> None:
        """Remove an object's references to one owner."""
        for _ in range(_PATCH_ATTEMPTS):
            metadata = await self._metadata(dependent.resource, dependent.namespace, dependent.name)
            if metadata is None or metadata["uid"] != dependent.uid:
                self._removed_node(dependent)
                return
            references = metadata.get("ownerReferences") or []
            kept = [r for r in references if r["uid"] != owner_uid]
            if len(kept) == len(references):
                self._enqueue(self.graph.observe(dependent.resource, metadata))
                return
            try:
                await self._set_references(dependent, metadata, kept)
                return
            except errors.Conflict:
                continue
        raise errors.Conflict.of(
            dependent.resource.plural, dependent.resource.group, dependent.name
        )

    # -- writing

    async def _set_references(
        self, node: DependencyNode, metadata: Metadata, references: list[dict[str, Any]]
    ) -> Metadata:
        return await self._patch(node, metadata, {"ownerReferences": references or None})

    async def _remove_finalizer(
        self, node: DependencyNode, metadata: Metadata, finalizer: str
    ) -> None:
        kept = [f for f in metadata.get("finalizers") or () if f != finalizer]
        await self._patch(node, metadata, {"finalizers": kept or None})

    async def _patch(self, node: DependencyNode, metadata: Metadata, change: Metadata) -> Metadata:
        """Change metadata unless the object has changed meanwhile."""
        pinned = {"uid": node.uid, "resourceVersion": metadata["resourceVersion"]}
        try:
            answer = await self._client.patch(
                node.resource,
                node.name,
                {"metadata": {**pinned, **change}},
                namespace=node.namespace,
                field_manager=FIELD_MANAGER,
            )
        except errors.NotFound:
            self._removed_node(node)
            return metadata
        changed: Metadata = answer["metadata"]
        self._enqueue(self.graph.observe(node.resource, changed))
        return changed
