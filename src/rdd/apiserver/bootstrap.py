# SPDX-License-Identifier: Apache-2.0
"""The default objects of a server: namespaces, default roles, APIService objects.

They are written through the ordinary pipeline as the server itself,
concurrently, so that one group commit makes all of them durable.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from rdd.api import names
from rdd.api.types import Object
from rdd.apiserver.auth import bootstrap_policy
from rdd.apiserver.auth.authorizer import Lister
from rdd.apiserver.http.request import SYSTEM, AnyResponse, Request, Response
from rdd.apiserver.resources import ResourceRegistry

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
    writes += _api_service_writes(handle, lister, registry)
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


def _api_service_writes(
    handle: Handle, lister: Lister, registry: ResourceRegistry
) -> list[Awaitable[Any]]:
    wanted = {f"{v}.{g}": (g, v) for g, v in registry.group_versions()}
    existing = {o["metadata"]["name"]: o for o in lister.list("apiservices")}
    found: list[Awaitable[Any]] = [
        _add_api_service(handle, g, v) for name, (g, v) in wanted.items() if name not in existing
    ]
    for name, obj in existing.items():
        labels = obj["metadata"].get("labels") or {}
        if name not in wanted and _MANAGED_LABEL in labels:
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

    def __init__(self, handle: Handle, lister: Lister, registry: ResourceRegistry) -> None:
        self._handle = handle
        self._lister = lister
        self._registry = registry
        self._changed = asyncio.Event()
        registry.on_change = self._changed.set

    async def run(self) -> None:
        """Synchronise after every change of the registry, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            writes = _api_service_writes(self._handle, self._lister, self._registry)
            if writes:
                await asyncio.gather(*writes, return_exceptions=True)
