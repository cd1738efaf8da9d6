# SPDX-License-Identifier: Apache-2.0
"""The graph of owners and dependents for the garbage collector.

It has two sorts of objects: those with owner references, and those being deleted with a
finalizer about their dependents. All others are only strings in references. The module does
no I/O, and the graph may be stale: before a deletion the collector reads the objects from the
server. So a stale entry costs one unnecessary read.

Every change returns the uids to process because of it.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rdd.api import names
from rdd.client.resources import ApiResource


class Reference(NamedTuple):
    """An owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool
    """blockOwnerDeletion: the owner's foreground deletion waits for this dependent."""


class DependencyNode:
    """A dependent, or an object whose deletion affects dependents."""

    __slots__ = (
        "deletes_dependents",
        "is_deleting",
        "name",
        "namespace",
        "orphans_dependents",
        "owners",
        "resource",
        "uid",
    )

    def __init__(self, uid: str, resource: ApiResource, namespace: str, name: str) -> None:
        self.uid = uid
        self.resource = resource
        self.namespace = namespace
        self.name = name
        self.owners: tuple[Reference, ...] = ()
        self.is_deleting = False
        self.deletes_dependents = False
        """It is being deleted in the foreground: its dependents are deleted first."""
        self.orphans_dependents = False
        """It is being deleted, and its dependents are kept."""

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.qualified} {place}{self.name}"


class OwnerGraph:
    """The graph of owners and dependents."""

    def __init__(self) -> None:
        self.nodes: dict[str, DependencyNode] = {}
        self.deleted: dict[str, str] = {}
        """Uid → namespace of deleted objects that still have dependents."""
        self.in_foreground: set[str] = set()
        """Uids of objects whose dependents are being deleted first."""
        self._dependents: dict[str, dict[str, DependencyNode]] = {}

    def dependents(self, uid: str) -> list[DependencyNode]:
        """Return the objects that refer to this one as an owner."""
        return list(self._dependents.get(uid, {}).values())

    def blockers(self, uid: str) -> list[DependencyNode]:
        """Return the dependents that block the foreground deletion of this object."""
        return [
            node
            for node in self._dependents.get(uid, {}).values()
            if any(r.uid == uid and r.blocks for r in node.owners)
        ]

    def of_resource(self, resource: ApiResource) -> set[str]:
        """Return the uids of a resource in the graph."""
        key = (resource.group, resource.plural)
        return {
            node.uid
            for node in self.nodes.values()
            if (node.resource.group, node.resource.plural) == key
        }

    def owned_by_kind(self, group: str, kind: str) -> list[str]:
        """Return the uids of objects with an owner of a kind, in any version."""
        return [
            node.uid
            for node in self.nodes.values()
            if any(r.kind == kind and _group(r.api_version) == group for r in node.owners)
        ]

    def observe(self, resource: ApiResource, metadata: dict[str, Any]) -> list[str]:
        """Update the graph with the state of an existing object."""
        uid = metadata["uid"]
        node = self.nodes.get(uid)
        references = metadata.get("ownerReferences") or ()
        is_deleting = bool(metadata.get("deletionTimestamp"))
        finalizers: Sequence[str] = (metadata.get("finalizers") or ()) if is_deleting else ()
        foreground, orphan = (
            names.FOREGROUND_FINALIZER in finalizers,
            names.ORPHAN_FINALIZER in finalizers,
        )
        if not (references or foreground or orphan):
            return self._drop(node) if node is not None else []
        if node is None:
            namespace = sys.intern(metadata.get("namespace") or "")
            node = self.nodes[uid] = DependencyNode(uid, resource, namespace, metadata["name"])
        affected = self._set_owners(node, references)
        node.is_deleting = is_deleting
        if orphan and not node.orphans_dependents:
            affected.append(uid)
        node.orphans_dependents = orphan
        if foreground and not node.deletes_dependents:
            affected += [*self._dependents.get(uid, ()), uid]
        node.deletes_dependents = foreground
        (self.in_foreground.add if foreground else self.in_foreground.discard)(uid)
        return affected

    def remove(self, uid: str, namespace: str) -> list[str]:
        """Update the graph with the deletion of an object."""
        affected = list(self._dependents.get(uid, ()))
        if affected:
            self.deleted[uid] = namespace
        node = self.nodes.get(uid)
        return affected + self._drop(node) if node is not None else affected

    def drop_resource(self, resource: ApiResource) -> None:
        """Drop the objects of a resource that is no longer watched; they are not deleted."""
        for uid in self.of_resource(resource):
            self._drop(self.nodes[uid])

    def _drop(self, node: DependencyNode) -> list[str]:
        affected = self._set_owners(node, ())
        del self.nodes[node.uid]
        self.in_foreground.discard(node.uid)
        return affected

    def _set_owners(self, node: DependencyNode, references: Iterable[dict[str, Any]]) -> list[str]:
        before = node.owners
        after = tuple(self._reference(r) for r in references)
        if before == after:
            return []
        node.owners = after
        # Owners that this object no longer blocks.
        waiting = [
            old.uid
            for old in before
            if old.uid in self.in_foreground
            and old.blocks
            and not any(new.uid == old.uid and new.blocks for new in after)
        ]
        kept = {r.uid for r in after}
        earlier = {r.uid for r in before}
        for uid in earlier - kept:
            found = self._dependents[uid]
            found.pop(node.uid, None)
            if not found:
                del self._dependents[uid]
                self.deleted.pop(uid, None)
        for uid in kept - earlier:
            self._dependents.setdefault(uid, {})[node.uid] = node
        return [*waiting, node.uid] if kept - earlier else waiting

    def _reference(self, found: dict[str, Any]) -> Reference:
        made = Reference(
            sys.intern(found["apiVersion"]),
            sys.intern(found["kind"]),
            found["name"],
            found["uid"],
            bool(found.get("blockOwnerDeletion")),
        )
        # Dependents of one owner share the Reference object.
        for sibling in self._dependents.get(made.uid, {}).values():
            for shared in sibling.owners:
                if shared == made:
                    return shared
            break
        return made


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
