# SPDX-License-Identifier: Apache-2.0
"""A server with webhooks: helpers to configure them and to send requests."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from rdd.api.types import Object
from rdd.apiserver.http.request import Request, Response, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.http.exchange import parse_query
from rdd.store.memory import MemoryStore

Behaviour = Callable[[Object, Request], Awaitable[Object]]

ADMIN = User("admin", ("system:masters",))
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
HERE = "https://127.0.0.1:1/run-1"
"""The prefix of webhooks in this process."""


class Reply:
    """A response with its parsed body."""

    def __init__(self, response: Response, request: Request) -> None:
        self.status = response.status
        self.body: Object = orjson.loads(response.body)
        self.warnings = [v for k, v in response.headers or () if k == "Warning"]
        self.annotations = request.audit_annotations

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


def respond(review: Object, **response: Any) -> Object:
    """Return the AdmissionReview that responds to another one."""
    return {
        "kind": "AdmissionReview",
        "apiVersion": review["apiVersion"],
        "response": {"uid": review["request"]["uid"], "allowed": True, **response},
    }


def patch_of(*operations: Object) -> Object:
    """Return the members of a response that carry a JSON patch."""
    return {
        "patchType": "JSONPatch",
        "patch": base64.b64encode(orjson.dumps(operations)).decode(),
    }


def add(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


class World:
    """One server and the webhooks in its process."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.calls: list[tuple[str, Object]] = []
        """Webhooks in the order of their calls, with the received request."""

    @classmethod
    async def open(cls, **options: Any) -> "World":
        return cls(await open_server(MemoryStore(), ServerOptions(**options)))

    def hook(self, name: str, behaviour: Behaviour | None = None, **response: Any) -> Object:
        """Register a webhook and return its clientConfig."""

        async def handle(review: Object, request: Request) -> Object:
            self.calls.append((name, review["request"]))
            if behaviour is not None:
                return await behaviour(review, request)
            return respond(review, **response)

        self.server.endpoints.register(f"{HERE}/{name}", handle)
        return {"url": f"{HERE}/{name}"}

    def seen(self, name: str) -> list[Object]:
        return [request for called, request in self.calls if called == name]

    @property
    def order(self) -> list[str]:
        return [name for name, _ in self.calls]

    async def call(
        self,
        method: str,
        path: str,
        obj: Any = None,
        *,
        query: str = "",
        media: str = "application/json",
        user: User = ADMIN,
        depth: int = 0,
    ) -> Reply:
        request = Request(
            method,
            path,
            query=parse_query(query),
            headers={"Content-Type": media, "User-Agent": "test"},
            body=orjson.dumps(obj) if obj is not None else b"",
            user=user,
            depth=depth,
        )
        response = await self.server.handle(request)
        assert isinstance(response, Response)
        return Reply(response, request)

    async def make(self, path: str, obj: Object) -> Object:
        """Create an object that must be accepted."""
        reply = await self.call("POST", path, obj)
        assert reply.status == 201, reply.body
        return reply.body

    async def config_map(self, name: str = "a", *, query: str = "", **members: Any) -> Reply:
        labels = members.pop("labels", None)
        meta = {"name": name} | ({"labels": labels} if labels else {})
        return await self.call("POST", CONFIG_MAPS, {"metadata": meta, **members}, query=query)

    async def configure(self, kind: str, name: str, *hooks: Object) -> None:
        """Install a webhook configuration of a kind, "mutating" or "validating"."""
        found = f"{kind.capitalize()}WebhookConfiguration"
        obj = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": found,
            "metadata": {"name": name},
            "webhooks": list(hooks),
        }
        await self.make(f"{REGISTRATION}/{found.lower()}s", obj)

    async def mutating(self, name: str, *hooks: Object) -> None:
        await self.configure("mutating", name, *hooks)

    async def validating(self, name: str, *hooks: Object) -> None:
        await self.configure("validating", name, *hooks)

    async def crd(self, *versions: str, **spec: Any) -> str:
        """Install widgets.example.com in some versions; return the path of the first collection."""
        schema = {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "x": {"type": "integer"},
                        "replicas": {"type": "integer"},
                        "o": {
                            "type": "object",
                            "properties": {"d": {"type": "string", "default": "dd"}},
                        },
                    },
                },
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            },
        }
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        await self.make(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.com"},
                "spec": {
                    "group": "example.com",
                    "scope": "Namespaced",
                    "names": {"plural": "widgets", "kind": "Widget"},
                    "versions": [
                        {
                            "name": version,
                            "served": True,
                            "storage": position == 0,
                            "schema": {"openAPIV3Schema": schema},
                            "subresources": {"status": {}, "scale": scale},
                        }
                        for position, version in enumerate(versions)
                    ],
                    **spec,
                },
            },
        )
        await self.server.custom.settled()
        return f"/apis/example.com/{versions[0]}/namespaces/default/widgets"


def webhook(name: str, client: Object, **members: Any) -> Object:
    """Return a webhook for configmaps; arguments override its members."""
    operations = members.pop("operations", ["*"])
    resources = members.pop("resources", ["configmaps"])
    group = members.pop("group", "")
    versions = members.pop("versions", ["*"])
    rule = {
        "apiGroups": [group],
        "apiVersions": versions,
        "operations": operations,
        "resources": resources,
    }
    return {
        "name": f"{name}.example.com",
        "clientConfig": client,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **members,
    }
