# SPDX-License-Identifier: Apache-2.0
"""A concise client for tests of the HTTP API, on a server without a socket.

`post`, `put`, … check the status and return the decoded body; `refused` makes a
request that must fail and returns the Status.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rdd.api.types import Object
from rdd.apiserver.http.request import User
from rdd.testing import Reply, Server, WatchStream

Body = Object | list[Any] | str | bytes | None

CORE = "/api/v1/namespaces/default"
CONFIG_MAPS = f"{CORE}/configmaps"
SECRETS = f"{CORE}/secrets"
ACCOUNTS = f"{CORE}/serviceaccounts"
EVENTS = f"{CORE}/events"
NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Api:
    """Requests to one server."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def call(self, method: str, path: str, body: Body = None, **options: Any) -> Reply:
        """Make a request and return any response."""
        return await self.server.request(method, path, body, **options)

    async def _done(
        self, expect: int | None, method: str, path: str, body: Body, options: Mapping[str, Any]
    ) -> Any:
        reply = await self.call(method, path, body, **options)
        wanted = (expect,) if expect else (200, 201)
        assert reply.status in wanted, f"{method} {path}: {reply.status} {reply.text}"
        return reply.json()

    async def get(self, path: str, *, expect: int | None = None, **options: Any) -> Any:
        return await self._done(expect, "GET", path, None, options)

    async def post(self, path: str, body: Body, *, expect: int | None = None, **kw: Any) -> Any:
        return await self._done(expect, "POST", path, body, kw)

    async def put(self, path: str, body: Body, *, expect: int | None = None, **kw: Any) -> Any:
        return await self._done(expect, "PUT", path, body, kw)

    async def delete(
        self, path: str, body: Body = None, *, expect: int | None = None, **kw: Any
    ) -> Any:
        return await self._done(expect, "DELETE", path, body, kw)

    async def patch(
        self, path: str, body: Body, kind: str = MERGE, *, expect: int | None = None, **kw: Any
    ) -> Any:
        return await self._done(expect, "PATCH", path, body, {"content_type": kind, **kw})

    async def apply(
        self,
        path: str,
        body: Body,
        manager: str = "tester",
        *,
        force: bool = False,
        expect: int | None = None,
        **kw: Any,
    ) -> Any:
        """Server-side apply."""
        query = {"fieldManager": manager, **({"force": True} if force else {}), **kw}
        return await self.patch(path, body, APPLY, expect=expect, query=query)

    async def refused(
        self, code: int, method: str, path: str, body: Body = None, **options: Any
    ) -> Object:
        """Return the Status of a request that must fail with a code."""
        reply = await self.call(method, path, body, **options)
        assert reply.status == code, f"{method} {path}: {reply.status} {reply.text}"
        status: Object = reply.json()
        assert (status["kind"], status["apiVersion"]) == ("Status", "v1")
        assert (status["status"], status["code"]) == ("Failure", code)
        return status

    async def names(self, path: str, **options: Any) -> list[str]:
        """Return the names in a list."""
        return [o["metadata"]["name"] for o in (await self.get(path, **options))["items"]]

    @asynccontextmanager
    async def watch(self, path: str, **options: Any) -> AsyncIterator[WatchStream]:
        """Open a watch and close it at the end of the block."""
        async with await self.server.watch(path, **options) as stream:
            yield stream

    async def install(self, *crds: Object) -> None:
        """Create CRDs and wait until they are served."""
        await self.server.install(*crds)


def config_map(name: str, data: Object | None = None, **metadata: Any) -> Object:
    obj: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return obj if data is None else {**obj, "data": data}


def secret(name: str, data: Object | None = None, **members: Any) -> Object:
    obj: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **members}
    return obj if data is None else {**obj, "data": data}


def namespace(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def account(name: str, **members: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, **members}


def lease(name: str, spec: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": spec or {},
    }


def role(name: str, rules: list[Any] | None = None, *, kind: str = "Role", **kw: Any) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": rules,
        **kw,
    }


def binding(
    name: str, to: str, *, kind: str = "RoleBinding", to_kind: str = "Role", **kw: Any
) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": to_kind, "name": to},
        **kw,
    }


def event(name: str, **members: Any) -> Object:
    about = {"namespace": "default", "kind": "Thing", "name": "t"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": about,
        **members,
    }


def crd(
    plural: str = "widgets",
    kind: str = "Widget",
    *,
    schema: Object | None = None,
    group: str = "shop.example.com",
    scope: str = "Namespaced",
    versions: list[Object] | None = None,
    names: Object | None = None,
    **version: Any,
) -> Object:
    """Return a CRD with one version `v1`; its `spec` accepts anything unless a schema is given."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    default = {"type": "object", "properties": {"spec": free, "status": free}}
    one = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or default},
        **version,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, **(names or {})},
            "versions": versions or [one],
        },
    }


WIDGETS = "/apis/shop.example.com/v1/namespaces/default/widgets"


def widget(name: str, spec: Any = None, **metadata: Any) -> Object:
    obj: Object = {
        "apiVersion": "shop.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
    }
    return obj if spec is None else {**obj, "spec": spec}


def bare(obj: Object) -> Object:
    """Return an object without the metadata that the server adds."""
    added = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace")
    meta = {k: v for k, v in obj["metadata"].items() if k not in added}
    return {**obj, "metadata": meta}


def causes(status: Object) -> list[tuple[str, str]]:
    """Return the fields and reasons of the causes of a Status."""
    return [(c["field"], c["reason"]) for c in status["details"].get("causes", [])]


def as_user(name: str, *groups: str) -> User:
    return User(name, (*groups, "system:authenticated"))
