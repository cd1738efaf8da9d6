# SPDX-License-Identifier: Apache-2.0
"""The default objects of a server: namespaces, default roles, APIService objects.

They are written through the ordinary pipeline as the server itself,
concurrently, so that one group commit makes all of them durable.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from rdd.api import names, timestamps
from rdd.api.conditions import Condition, conditions_of, set_condition
from rdd.api.types import Object
from rdd.apiserver.auth import bootstrap_policy
from rdd.apiserver.auth.authorizer import Lister
from rdd.apiserver.http.request import SYSTEM, AnyResponse, Request, Response
from rdd.apiserver.resources import ResourceRegistry
from rdd.apiserver.state.entries import DELETED, ObjectChange

NAMESPACES = (names.DEFAULT_NAMESPACE, names.KUBE_SYSTEM_NAMESPACE, names.KUBE_PUBLIC_NAMESPACE)
_RBAC = f"/apis/{names.RBAC_GROUP}/v1"
_API_SERVICES = f"/apis/{names.REGISTRATION_GROUP}/v1/apiservices"
_MANAGED_LABEL = "kube-aggregator.kubernetes.io/automanaged"

log = logging.getLogger("rdd.apiserver.bootstrap")

Handle = Callable[[Request], Awaitable[AnyResponse]]


class BootstrapFailed(Exception):
    """A default object could not be written."""


async def call(handle: Handle, method: str, path: str, obj: Object | None = None) -> Object:
    """Make a request as the server itself; raise BootstrapFailed unless it succeeds."""
    request = Request(
        method,
        path,
        headers={"User-Agent": "kube-apiserver"},
        body=orjson.dumps(obj) if obj is not None else b"",
        user=SYSTEM,
    )
    answer = await handle(request)
    assert isinstance(answer, Response)
    value: Object = orjson.loads(answer.body)
    if answer.status >= 300 and not (method == "POST" and answer.status == 409):
        raise BootstrapFailed(f"{method} {path}: {value.get('message')}")
    return value


async def bootstrap(handle: Handle, lister: Lister, registry: ResourceRegistry) -> None:
    """Write the missing default objects.

    A failure (a user's webhook that is down, for example) is logged and retried at the next
    start: the server must start so that the user can fix it.
    """
    writes: list[Awaitable[Any]] = [
        call(handle, "POST", "/api/v1/namespaces", _namespace(name))
        for name in NAMESPACES
        if lister.get("namespaces", "", name) is None
    ]
    for change in bootstrap_policy.reconcile(lister):
        writes.append(_apply(handle, change))
    writes += _api_service_writes(handle, registry)
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, BootstrapFailed):
            log.error("a default object could not be written: %s", outcome)
        elif isinstance(outcome, BaseException):
            raise outcome


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def _apply(handle: Handle, change: bootstrap_policy.PolicyChange) -> None:
    path = f"{_RBAC}/{change.resource}"
    one = f"{path}/{change.obj['metadata']['name']}"
    if change.action == "update":
        await call(handle, "PUT", one, change.obj)
        return
    if change.action == "replace":
        await call(handle, "DELETE", one)
    await call(handle, "POST", path, change.obj)


# -- APIService objects


def api_service(group: str, version: str) -> Object:
    """Return the APIService of a group version that this server serves."""
    name = f"{version}.{group}"
    is_builtin = not group or group.endswith(".k8s.io")
    spec: Object = {"group": group} if group else {}
    spec |= {
        "version": version,
        "groupPriorityMinimum": 18000 if not group else 17000 if is_builtin else 1000,
        "versionPriority": 1 if not group else 15 if is_builtin else 100,
    }
    return {
        "apiVersion": f"{names.REGISTRATION_GROUP}/v1",
        "kind": "APIService",
        "metadata": {"name": name, "labels": {_MANAGED_LABEL: "onstart" if is_builtin else "true"}},
        "spec": spec,
    }


def _api_service_writes(handle: Handle, registry: ResourceRegistry) -> list[Awaitable[Any]]:
    wanted = {f"{v}.{g}": (g, v) for g, v in registry.group_versions()}
    resource = registry.get(names.REGISTRATION_GROUP, "v1", "apiservices")
    # Entries, not objects: with a thousand CRDs this runs a thousand times.
    existing = {e.name: e for e in resource.cache.entries()} if resource is not None else {}
    found: list[Awaitable[Any]] = [
        _add_api_service(handle, g, v) for name, (g, v) in wanted.items() if name not in existing
    ]
    for name, entry in existing.items():
        if name not in wanted and _MANAGED_LABEL in entry.labels:
            found.append(call(handle, "DELETE", f"{_API_SERVICES}/{name}"))
    return found


async def _add_api_service(handle: Handle, group: str, version: str) -> None:
    obj = await call(handle, "POST", _API_SERVICES, api_service(group, version))
    if obj.get("kind") != "APIService":
        return  # created concurrently
    created = obj["metadata"].get("creationTimestamp")
    obj["status"] = {
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": created,
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
        ]
    }
    await call(handle, "PUT", f"{_API_SERVICES}/{obj['metadata']['name']}/status", obj)


class ApiServices:
    """Synchronises the APIService objects with the served group versions."""

    def __init__(self, handle: Handle, registry: ResourceRegistry) -> None:
        self._handle = handle
        self._registry = registry
        self._changed = asyncio.Event()
        self._foreign: set[str] = set()
        """Changed objects of other servers, whose condition may be wrong."""
        resource = registry.get(names.REGISTRATION_GROUP, "v1", "apiservices")
        assert resource is not None
        self._resource = resource
        resource.cache.listeners.append(self._note)
        registry.on_change = self._changed.set

    def _note(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            if change.type != DELETED and b'"service":' in change.entry.body:
                self._foreign.add(change.entry.name)
                self._changed.set()

    async def run(self) -> None:
        """Synchronise after every change of the registry or an object, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            writes = _api_service_writes(self._handle, self._registry)
            writes += [self._set_condition(name) for name in self._foreign]
            self._foreign = set()
            if writes:
                await asyncio.gather(*writes, return_exceptions=True)

    async def _set_condition(self, name: str) -> None:
        """Report an APIService of another server as unavailable: there are no Services here."""
        entry = self._resource.cache.get("", name)
        if entry is None:
            return
        obj = self._resource.object(entry)
        service = obj["spec"].get("service")
        if not service:
            return
        where = f'service/{service.get("name", "")} in "{service.get("namespace", "")}"'
        missing = Condition("Available", "False", "ServiceNotFound", f"{where} is not present")
        before = conditions_of(obj)
        conditions = set_condition(before, missing, now=timestamps.now_text())
        if conditions is not before:
            obj["status"] = {**(obj.get("status") or {}), "conditions": conditions}
            await call(self._handle, "PUT", f"{_API_SERVICES}/{name}/status", obj)
