# SPDX-License-Identifier: Apache-2.0
"""What every handler needs: the state and the collaborators of one API server."""

import time
from collections.abc import Callable
from typing import Any

from rdd.api import timestamps
from rdd.apiserver.admission.types import Chain
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.resources import Registry, Resource
from rdd.apiserver.state.cache import Cache
from rdd.apiserver.state.watchers import Watchers
from rdd.store.contract import Check, Store

MAX_OBJECT_BYTES = 1_572_864  # 1.5 MiB, etcd's default and so what Kubernetes users know


class Core:
    """The parts of an API server that handle requests to resources."""

    def __init__(
        self,
        store: Store,
        cache: Cache,
        registry: Registry,
        *,
        admission: Chain,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.cache = cache
        self.registry = registry
        self.admission = admission
        self.clock = clock
        self.watchers: dict[tuple[str, str, str], Watchers] = {}
        self.watch_count = 0
        self.rbac: RbacAuthorizer | None = None
        """Checks that nobody grants what they do not have; None: nobody is checked."""

    def now_text(self) -> str:
        """The current time as metadata carries it."""
        return timestamps.now_text(self.clock)

    def watchers_of(self, resource: Resource) -> Watchers:
        """The open watches of a resource version."""
        found = self.watchers.get(resource.key)
        if found is None:
            found = self.watchers[resource.key] = Watchers(resource)
        return found

    def end_watches(self, resource: Resource) -> None:
        """Close the watches of a resource version that changes or goes away."""
        found = self.watchers.pop(resource.key, None)
        if found is not None:
            found.close()


class CachedLister:
    """Decoded objects of built-in resources, straight from the cache.

    Decoding is remembered per resource until something in it changes: rules
    and policies are read with every request and changed rarely.
    """

    def __init__(self, registry: Registry) -> None:
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
        """An object by name; it MUST NOT be changed."""
        found = self._registry.builtin(resource)
        if found is None:
            return None
        entry = found.cache.get(namespace, name)
        return found.object(entry) if entry is not None else None

    def unchanged(self, resource: str, obj: dict[str, Any]) -> Check:
        """What makes a commit fail unless an object is still as it was got."""
        found = self._registry.builtin(resource)
        assert found is not None
        metadata = obj["metadata"]
        key = found.cache.key(metadata.get("namespace") or "", metadata["name"])
        return Check(key, int(metadata["resourceVersion"]))

    def list(self, resource: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """All objects of a resource; they MUST NOT be changed."""
        objects = self._objects(resource)
        return [o for (ns, _), o in objects.items() if namespace is None or ns == namespace]

    def revision(self, resource: str) -> int:
        """The revision of the last change of the resource."""
        found = self._registry.builtin(resource)
        return found.cache.revision if found is not None else 0
