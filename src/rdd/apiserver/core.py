# SPDX-License-Identifier: Apache-2.0
"""What every handler needs: the state and the collaborators of one API server."""

import time
from collections.abc import Callable

from rdd.api import timestamps
from rdd.apiserver.admission.types import Chain
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.resources import Registry, Resource
from rdd.apiserver.state.cache import ObjectCache
from rdd.apiserver.state.watchers import Watchers
from rdd.store.contract import Store

MAX_OBJECT_BYTES = 1_572_864  # 1.5 MiB, etcd's default and so what Kubernetes users know


class Core:
    """The parts of an API server that handle requests to resources."""

    def __init__(
        self,
        store: Store,
        cache: ObjectCache,
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
