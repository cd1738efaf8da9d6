# SPDX-License-Identifier: Apache-2.0
"""Decoded objects of built-in resources, for components that read them with every request."""

from typing import Any

from rdd.apiserver.resources import ResourceRegistry
from rdd.store.contract import Check


class CachedLister:
    """Lists and gets decoded objects of built-in resources.

    Decoded objects are cached per resource until it changes: rules and policies
    are read with every request and rarely change.
    """

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._decoded: dict[str, tuple[int, dict[tuple[str, str], dict[str, Any]]]] = {}

    def _objects(self, name: str) -> dict[tuple[str, str], dict[str, Any]]:
        resource = self._registry.builtin(name)
        if resource is None:
            return {}
        known = self._decoded.get(name)
        if known is None or known[0] != resource.cache.revision:
            objects = {(e.namespace, e.name): resource.object(e) for e in resource.cache.entries()}
            known = self._decoded[name] = (resource.cache.revision, objects)
        return known[1]

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object by name; it MUST NOT be changed."""
        found = self._registry.builtin(resource)
        if found is None:
            return None
        entry = found.cache.get(namespace, name)
        return found.object(entry) if entry is not None else None

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
        return [o for (ns, _), o in objects.items() if namespace is None or ns == namespace]

    def revision(self, resource: str) -> int:
        """Return the revision of the last change of the resource."""
        found = self._registry.builtin(resource)
        return found.cache.revision if found is not None else 0
