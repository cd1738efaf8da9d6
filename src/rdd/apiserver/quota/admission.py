# SPDX-License-Identifier: Apache-2.0
"""ResourceQuota: rejects the creation of objects above the limits of a namespace.

As in Kubernetes, a quota is enforced with the numbers of its status. A create first adds its
object to `status.used` of every quota that limits it, then stores the object; both are ordinary
commits, so `used` is visible and durable. Charges of one namespace are made one after another, so
concurrent creates cannot pass a limit together. A dry run is checked and not charged.

A charge stays even if the create fails afterwards. `UsageController` of `quota/usage.py`
corrects that and subtracts deleted objects; until a create has ended its object is pending
and counts as existing. Invariant: `used` is never smaller than the number of admitted objects.

On a store that several servers share, a server does not see the pending objects of another one.
There the charge is part of the transaction that creates the object (`Request.charge`), and a usage
that was counted is written only if no create was charged since: the count and the quota are of the
same revision. So the usage is exact without pending objects.

Writes that the daemon needs to start are exempt (`admission/exemption.py`) and are counted later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

import orjson

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.admission.chain import CREATE, AdmissionAttributes
from rdd.apiserver.http.request import SYSTEM, AnyResponse, Request, Response
from rdd.apiserver.quota import counts
from rdd.apiserver.quota.counts import Amounts, CountedResources
from rdd.apiserver.resources import Resource, ResourceRegistry
from rdd.apiserver.state.cache import ResourceCache
from rdd.store.contract import Put

_ATTEMPTS = 10
"""Other clients may write the status, too; each of their writes costs one attempt."""

Handle = Callable[[Request], Awaitable[AnyResponse]]
Pending = tuple[ResourceCache, str]
"""The objects of a resource and the name of one that is being created."""


class ResourceQuotas:
    """The admission plugin ResourceQuota."""

    def __init__(self, registry: ResourceRegistry, *, is_shared: bool = False) -> None:
        self._is_shared = is_shared
        found = registry.builtin("resourcequotas")
        assert found is not None
        self.quotas = found
        self._spaces = found.cache.spaces
        self.resources = CountedResources(registry)
        self.handle: Handle | None = None
        """Set by the server: statuses are written through the ordinary pipeline."""
        self.refresh: Callable[[str], Awaitable[object]] | None = None
        """Fills the statuses of a namespace whose lock is held; set by the usage controller."""
        self.on_end: Callable[[str], None] | None = None
        """Called with the namespace when a charged create has ended."""
        self._pending: dict[str, list[Pending]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -- the plugin

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        return (
            not mutating
            and bool(self._spaces)
            and attributes.operation == CREATE
            and attributes.namespace in self._spaces
            and not attributes.subresource
            and not attributes.is_exempt
            and counts.is_counted(attributes.resource)
        )

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Do nothing."""

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Charge the quotas of the namespace, or raise Forbidden."""
        namespace = attributes.namespace
        async with self.lock(namespace):
            charges = await self._charges(attributes)
            if attributes.dry_run or not charges:
                return
            if self._is_shared:
                attributes.request.charge = lambda: self._operations(attributes)
                return
            created = (attributes.resource.cache, attributes.name)
            self._pending.setdefault(namespace, []).append(created)
            attributes.on_end = lambda: self._end(namespace, created)
            charged: set[str] = set()
            for _ in range(_ATTEMPTS):
                rest = [c for c in charges if c[0]["metadata"]["uid"] not in charged]
                if await self._charge(attributes.request, rest, charged):
                    return
                charges = await self._charges(attributes)
        raise errors.Conflict.of(self.quotas.plural, "", rest[0][0]["metadata"]["name"])

    # -- shared with the usage controller

    def lock(self, namespace: str) -> asyncio.Lock:
        """Return the lock that every write of a usage holds."""
        found = self._locks.get(namespace)
        if found is None:
            found = self._locks[namespace] = asyncio.Lock()
        return found

    def pending(self, namespace: str) -> list[Pending]:
        """Return the charged creates that have not ended."""
        return self._pending.get(namespace, [])

    def of_namespace(self, namespace: str) -> list[Object]:
        """Return the quotas of a namespace, ordered by name."""
        return [self.quotas.object(e) for e in self.quotas.cache.entries(namespace)]

    async def write_status(
        self, quota: Object, status: Object, *, agent: str, depth: int
    ) -> errors.ApiError | None:
        """Replace the status of a quota as it was read; return the error."""
        assert self.handle is not None
        meta = quota["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/resourcequotas/{meta['name']}/status"
        answer = await self.handle(
            Request(
                "PUT",
                path,
                headers={"User-Agent": agent, "Content-Type": "application/json"},
                body=orjson.dumps({**quota, "status": status}),
                user=SYSTEM,
                depth=depth,
            )
        )
        assert isinstance(answer, Response)
        if answer.status < 300:
            return None
        found: dict[str, Any] = orjson.loads(answer.body)
        return errors.ApiError(
            found.get("message", ""), code=answer.status, reason=found.get("reason", "")
        )

    # -- charges

    def _end(self, namespace: str, created: Pending) -> None:
        self._pending[namespace].remove(created)
        if not self._pending[namespace]:
            del self._pending[namespace]
        if self.on_end is not None and created[0].get(namespace, created[1]) is None:
            self.on_end(namespace)

    async def _charges(self, attributes: AdmissionAttributes) -> list[tuple[Object, Amounts]]:
        """Return the quotas to charge with their new usage. Raises Forbidden."""
        quotas = self._matching(attributes)
        if self.refresh is not None and any(_unknown(attributes.resource, q) for q in quotas):
            await self.refresh(attributes.namespace)
            quotas = self._matching(attributes)
        return [(quota, _charged(attributes, quota)) for quota in quotas]

    def _matching(self, attributes: AdmissionAttributes) -> list[Object]:
        return [
            quota
            for quota in self.of_namespace(attributes.namespace)
            if not counts.has_scopes(quota)
            and counts.requested(attributes.resource, counts.parse(_status(quota).get("hard")))
        ]

    def _operations(self, attributes: AdmissionAttributes) -> list[Put]:
        """Return the writes that charge the quotas as they are now. Raises Forbidden."""
        cache, found = self.quotas.cache, []
        for quota in self._matching(attributes):
            used = _charged(attributes, quota)
            status = {**_status(quota), "used": {name: str(used[name]) for name in used}}
            meta = quota["metadata"]
            found.append(
                Put(
                    cache.key(meta["namespace"], meta["name"]),
                    self.quotas.encode({**quota, "status": status}),
                    int(meta["resourceVersion"]),
                )
            )
        return found

    async def _charge(
        self, request: Request, charges: list[tuple[Object, Amounts]], charged: set[str]
    ) -> bool:
        """Write the usages and record the charged uids; return False if a quota has changed."""
        for quota, used in charges:
            status = {**_status(quota), "used": {name: str(used[name]) for name in used}}
            error = await self.write_status(
                quota, status, agent="kube-apiserver", depth=request.depth + 1
            )
            if error is not None:
                if error.code in (404, 409):
                    return False
                raise error
            charged.add(quota["metadata"]["uid"])
        return True


def _status(quota: Object) -> Object:
    return quota.get("status") or {}


def _unknown(resource: Resource, quota: Object) -> Amounts:
    """Return the limits on a resource whose usage has never been counted."""
    used = _status(quota).get("used") or {}
    wanted = counts.requested(resource, counts.parse(_status(quota).get("hard")))
    return {name: wanted[name] for name in wanted if name not in used}


def _charged(attributes: AdmissionAttributes, quota: Object) -> Amounts:
    """Return the usage with one more object. Raises Forbidden above a limit."""
    name = quota["metadata"]["name"]
    unknown = _unknown(attributes.resource, quota)
    if unknown:
        listed = ",".join(sorted(unknown))
        raise _forbidden(attributes, f"status unknown for quota: {name}, resources: {listed}")
    hard, used = counts.parse(_status(quota).get("hard")), counts.parse(_status(quota).get("used"))
    delta = counts.requested(attributes.resource, hard)
    charged = {**used, **{key: used[key] + amount for key, amount in delta.items()}}
    exceeded = [key for key in delta if hard[key] < charged[key]]
    if exceeded:
        shown = [counts.text({key: of[key] for key in exceeded}) for of in (delta, used, hard)]
        raise _forbidden(
            attributes,
            "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(name, *shown),
        )
    return charged


def _forbidden(attributes: AdmissionAttributes, why: str) -> errors.Forbidden:
    resource = attributes.resource
    return errors.Forbidden.to_object(resource.plural, resource.group, attributes.name, why)
