# SPDX-License-Identifier: Apache-2.0
"""Who owns whom, as far as the garbage collector needs to know.

Only two sorts of objects are kept: those with owner references, and those
being deleted with a finalizer that concerns their dependents. All others are
strings in somebody's reference. Nothing here does I/O, and nothing here is the
truth: before anything is deleted the collector looks at the objects
themselves. So an entry that is a little out of date costs a look, no more.

Every change returns the uids that deserve a look because of it.
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


class Node:
    """An object that is a dependent, or whose deletion concerns dependents."""

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
        """It is being deleted in the foreground: its dependents go first."""
        self.orphans_dependents = False
        """It is being deleted, and its dependents shall stay."""

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.qualified} {place}{self.name}"


class Ownership:
    """The graph of owners and dependents."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.gone: dict[str, str] = {}
        """Uid → namespace of deleted objects that still have dependents."""
        self.in_foreground: set[str] = set()
        """Uids of objects whose dependents are being deleted first."""
        self._dependents: dict[str, dict[str, Node]] = {}

    def dependents(self, uid: str) -> list[Node]:
        """The objects that name this one as an owner."""
        return list(self._dependents.get(uid, {}).values())

    def blockers(self, uid: str) -> list[Node]:
        """The dependents that the foreground deletion of this object waits for."""
        return [
            node
            for node in self._dependents.get(uid, {}).values()
            if any(r.uid == uid and r.blocks for r in node.owners)
        ]

    def of_resource(self, resource: ApiResource) -> set[str]:
        """The uids known of a resource."""
        key = (resource.group, resource.plural)
        return {
            node.uid
            for node in self.nodes.values()
            if (node.resource.group, node.resource.plural) == key
        }

    def owned_by_kind(self, group: str, kind: str) -> list[str]:
        """The uids of objects with an owner of a kind, in whatever version."""
        return [
            node.uid
            for node in self.nodes.values()
            if any(r.kind == kind and _group(r.api_version) == group for r in node.owners)
        ]

    def observe(self, resource: ApiResource, metadata: dict[str, Any]) -> list[str]:
        """Take over the state of an object that exists."""
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
            node = self.nodes[uid] = Node(uid, resource, namespace, metadata["name"])
        look = self._set_owners(node, references)
        node.is_deleting = is_deleting
        if orphan and not node.orphans_dependents:
            look.append(uid)
        node.orphans_dependents = orphan
        if foreground and not node.deletes_dependents:
            look += [*self._dependents.get(uid, ()), uid]
        node.deletes_dependents = foreground
        (self.in_foreground.add if foreground else self.in_foreground.discard)(uid)
        return look

    def remove(self, uid: str, namespace: str) -> list[str]:
        """Take over that an object does not exist any more."""
        look = list(self._dependents.get(uid, ()))
        if look:
            self.gone[uid] = namespace
        node = self.nodes.get(uid)
        return look + self._drop(node) if node is not None else look

    def forget(self, resource: ApiResource) -> None:
        """Drop all objects of a resource that is no longer followed; nobody is gone thereby."""
        for uid in self.of_resource(resource):
            self._drop(self.nodes[uid])

    def _drop(self, node: Node) -> list[str]:
        look = self._set_owners(node, ())
        del self.nodes[node.uid]
        self.in_foreground.discard(node.uid)
        return look

    def _set_owners(self, node: Node, references: Iterable[dict[str, Any]]) -> list[str]:
        before = node.owners
        after = tuple(self._reference(r) for r in references)
        if before == after:
            return []
        node.owners = after
        # Owners that wait for this object, and do so no longer.
        waiting = [
            old.uid
            for old in before
            if old.uid in self.in_foreground
            and old.blocks
            and not any(new.uid == old.uid and new.blocks for new in after)
        ]
        kept = {r.uid for r in after}
        known = {r.uid for r in before}
        for uid in known - kept:
            found = self._dependents[uid]
            found.pop(node.uid, None)
            if not found:
                del self._dependents[uid]
                self.gone.pop(uid, None)
        for uid in kept - known:
            self._dependents.setdefault(uid, {})[node.uid] = node
        return [*waiting, node.uid] if kept - known else waiting

    def _reference(self, found: dict[str, Any]) -> Reference:
        made = Reference(
            sys.intern(found["apiVersion"]),
            sys.intern(found["kind"]),
            found["name"],
            found["uid"],
            bool(found.get("blockOwnerDeletion")),
        )
        # Dependents of one owner share their reference to it.
        for sibling in self._dependents.get(made.uid, {}).values():
            for known in sibling.owners:
                if known == made:
                    return known
            break
        return made


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
