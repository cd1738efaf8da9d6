# SPDX-License-Identifier: Apache-2.0
"""The state and the components of an API server that every handler uses."""

import time
from collections.abc import Callable

from rdd.api import timestamps
from rdd.apiserver.admission.chain import Chain
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.resources import Resource, ResourceRegistry
from rdd.apiserver.state.cache import ObjectCache
from rdd.apiserver.state.lag import LagBudget
from rdd.apiserver.state.watchers import Watchers
from rdd.store.contract import Store


class Core:
    """The context of request handlers: store, cache, registry, admission and watchers."""

    def __init__(
        self,
        store: Store,
        cache: ObjectCache,
        registry: ResourceRegistry,
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
        self.lag = LagBudget()
        """What all watchers together have not read."""
        self.rbac: RbacAuthorizer | None = None
        """Prevents privilege escalation: users can only grant what they have; None: no check."""

    def now_text(self) -> str:
        """Return the current time in the format of metadata."""
        return timestamps.now_text(self.clock)

    def watchers_of(self, resource: Resource) -> Watchers:
        """Return the open watches of a resource version."""
        found = self.watchers.get(resource.key)
        if found is None:
            found = self.watchers[resource.key] = Watchers(resource, self.lag)
        return found

    def end_watches(self, resource: Resource) -> None:
        """Close the watches of a resource version that changes or is removed."""
        found = self.watchers.pop(resource.key, None)
        if found is not None:
            found.close()
