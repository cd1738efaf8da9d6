# SPDX-License-Identifier: Apache-2.0
"""Decoded objects of built-in resources, for components that read them with every request."""

from typing import Any

from rdd.apiserver.resources import ResourceRegistry
from rdd.apiserver.state.entries import CacheEntry
from rdd.store.contract import Check

_Decoded = dict[tuple[str, str], tuple[CacheEntry, dict[str, Any]]]
"""Objects by namespace and name, with the entry that they were decoded from."""

_KEPT = frozenset(("roles", "clusterroles"))
"""Resources whose objects stay decoded after they were read by name; Secrets do not."""
_MAX_READ = 256


class CachedLister:
    """Lists and gets decoded objects of built-in resources.

    Rules and policies are read with every request and rarely change. A decoded object is the same
    one until its entry changes: a change of one of many large roles decodes that one only.
    """

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._listed: dict[str, tuple[int, _Decoded]] = {}
        """All objects of a resource, with its revision."""
        self._read: dict[str, _Decoded] = {}
        """Objects that were read by name."""

    def _objects(self, name: str) -> _Decoded:
        resource = self._registry.builtin(name)
        if resource is None:
            return {}
        revision, before = self._listed.get(name, (-1, {}))
        if revision == resource.cache.revision:
            return before
        objects: _Decoded = {}
        for entry in resource.cache.entries():
            key = entry.namespace, entry.name
            known = before.get(key)
            is_same = known is not None and known[0] is entry
            objects[key] = known if is_same and known else (entry, resource.object(entry))
        self._listed[name] = resource.cache.revision, objects
        return objects

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object by name; it MUST NOT be changed."""
        found = self._registry.builtin(resource)
        if found is None:
            return None
        entry = found.cache.get(namespace, name)
        if entry is None:
            return None
        if resource not in _KEPT:
            return found.object(entry)
        read = self._read.setdefault(resource, {})
        known = read.get((namespace, name))
        if known is None or known[0] is not entry:
            if len(read) >= _MAX_READ:
                read.clear()
            known = read[namespace, name] = entry, found.object(entry)
        return known[1]

    def unchanged(self, resource: str, obj: dict[str, Any]) -> Check:
        """Return the Check that makes a commit fail if an object has changed since it was read."""
        found = self._registry.builtin(resource)
        assert found is not None
        metadata = obj["metadata"]
        key = found.cache.key(metadata.get("namespace") or "", metadata["name"])
        return Check(key, int(metadata["resourceVersion"]))

    def list(self, resource: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return all objects of a resource; they MUST NOT be changed."""
        objects = self._objects(resource)
        return [o for (ns, _), (_, o) in objects.items() if namespace is None or ns == namespace]

    def revision(self, resource: str) -> int:
        """Return the revision of the last change of the resource."""
        found = self._registry.builtin(resource)
        return found.cache.revision if found is not None else 0
