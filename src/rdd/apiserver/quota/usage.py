# SPDX-License-Identifier: Apache-2.0
"""Fills the status of ResourceQuotas: their limits and what is used of them.

It is the controller `resourcequota` of Kubernetes, and it runs inside the server instead of
beside it. A controller that counts objects through the API can miss one whose charge it has
already seen, and would then take the charge back; here the objects that are being created are
known (`ResourceQuotas.pending`), so the result is exact.

Usage is counted when a quota changes, when an object that a quota counts is deleted, and when a
charged create fails. The store is observed only while quotas exist, so a server without them has
no overhead; nothing is polled.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from rdd.api.types import Object
from rdd.apiserver.quota.admission import ResourceQuotas
from rdd.apiserver.state.entries import ObjectChange
from rdd.base.backoff import Backoff
from rdd.store.contract import EventType, Store, StoreEvent

log = logging.getLogger("rdd.apiserver.quota")

_AGENT = "kube-controller-manager"
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 60.0


class UsageController:
    """Keeps the statuses of all quotas current."""

    def __init__(self, store: Store, admission: ResourceQuotas) -> None:
        self._store = store
        self._admission = admission
        self._changed = asyncio.Event()
        self._namespaces: set[str] = set()
        """The namespaces to count."""
        self._watched: dict[str, str] = {}
        """Key prefix of counted objects → namespace."""
        self._unobserve: Callable[[], None] | None = None

    async def run(self) -> None:
        """Count after every change, until cancelled."""
        admission = self._admission
        cache = admission.quotas.cache
        cache.listeners.append(self._quotas_changed)
        admission.on_end, admission.refresh = self._mark, self._refresh
        retry = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        try:
            for namespace in list(cache.spaces):
                self._mark(namespace)
            while True:
                await self._changed.wait()
                self._changed.clear()
                namespaces, self._namespaces = self._namespaces, set()
                failed = [name for name in namespaces if not await self._count(name)]
                self._watch()
                if not failed:
                    retry.reset()
                    continue
                self._namespaces.update(failed)
                self._changed.set()
                await asyncio.sleep(retry.next_s())
        finally:
            cache.listeners.remove(self._quotas_changed)
            admission.on_end = admission.refresh = None
            self._stop_observing()

    def _mark(self, namespace: str) -> None:
        self._namespaces.add(namespace)
        self._changed.set()

    # -- changes

    def _quotas_changed(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            self._mark(change.entry.namespace)

    def _watch(self) -> None:
        """Observe the deletions of what quotas count."""
        cache, resources = self._admission.quotas.cache, self._admission.resources
        watched: dict[str, str] = {}
        for namespace in cache.spaces:
            for quota in self._admission.of_namespace(namespace):
                for name in (quota.get("spec") or {}).get("hard") or ():
                    counted = resources.find(name)
                    if counted is not None:
                        watched[f"{counted.prefix}{namespace}/"] = namespace
        self._watched = watched
        if watched and self._unobserve is None:
            self._unobserve = self._store.observe(self._stored)
        elif not watched:
            self._stop_observing()

    def _stop_observing(self) -> None:
        if self._unobserve is not None:
            self._unobserve()
            self._unobserve = None

    def _stored(self, events: Sequence[StoreEvent]) -> None:
        for event in events:
            if event.type is EventType.DELETE:
                namespace = self._watched.get(event.key[: event.key.rindex("/") + 1])
                if namespace is not None:
                    self._mark(namespace)

    # -- counting

    async def _count(self, namespace: str) -> bool:
        """Count the quotas of a namespace; return False if a status could not be written."""
        async with self._admission.lock(namespace):
            return await self._refresh(namespace)

    async def _refresh(self, namespace: str) -> bool:
        """Write the statuses that differ from the usage; the lock MUST be held."""
        admission = self._admission
        is_complete = True
        for quota in admission.of_namespace(namespace):
            status = self._status(quota, namespace)
            if status == (quota.get("status") or {}):
                continue
            error = await admission.write_status(quota, status, agent=_AGENT, depth=1)
            if error is None or error.code == 404:
                continue
            if error.code == 409:
                self._mark(namespace)  # another client has changed the quota
                continue
            name = quota["metadata"]["name"]
            log.warning("the status of quota %s/%s was not written: %s", namespace, name, error)
            is_complete = False
        return is_complete

    def _status(self, quota: Object, namespace: str) -> Object:
        admission = self._admission
        hard = (quota.get("spec") or {}).get("hard") or {}
        used = admission.resources.usage(quota, namespace, admission.pending(namespace))
        found: Object = {}
        if hard:
            found["hard"] = dict(hard)
        if used:
            found["used"] = {name: str(amount) for name, amount in sorted(used.items())}
        return found
