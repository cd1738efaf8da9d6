# SPDX-License-Identifier: Apache-2.0
"""/openapi/v2 and /openapi/v3: the schemas of all resources.

Documents are built on request (kubectl explain, client generators), in a worker
thread because large ones take tens of milliseconds, and cached as bytes until
the registry changes. Version 3 is split by group version and addressed by
content hash, so that clients can cache it.
"""

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from rdd.api import errors, mediatypes
from rdd.apiserver.components import Core
from rdd.apiserver.endpoints import version
from rdd.apiserver.http.request import AnyResponse, Request, Response
from rdd.apiserver.resources import Resource, ResourceRegistry

if TYPE_CHECKING:
    from rdd.schema.openapi.collector import KindCollector

_V2_TYPES = (
    "application/json",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)


class OpenApiEndpoint:
    """Serves the OpenAPI documents of a registry."""

    def __init__(self, core: Core) -> None:
        self._registry: ResourceRegistry = core.registry
        self._generation = -1
        self._built: dict[str, bytes] = {}

    async def handle(self, request: Request) -> AnyResponse:
        """Handle /openapi/v2, /openapi/v3 and /openapi/v3/<group version>."""
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._built.clear()
        parts = request.path.strip("/").split("/")
        if request.method != "GET":
            if len(parts) > 2 and "/".join(parts[2:]) not in self._group_versions():
                return _not_found()
            raise errors.MethodNotAllowed()
        media = mediatypes.JSON
        if parts[1] == "v2" and len(parts) == 2:
            if _wants_protobuf(request):
                name, media = "v2.pb", _V2_TYPES[2]
            else:
                name, media = "v2", _V2_TYPES[0]
            body = await self._get(name)
        elif parts[1] != "v3":
            return _not_found()
        elif len(parts) == 2:
            body = await self._get("v3")
        else:
            group_version = "/".join(parts[2:])
            if group_version not in self._group_versions():
                return _not_found()
            body = await self._get(group_version)
        etag = f'"{_hash(body)}"'
        headers = [("ETag", etag), ("Vary", "Accept")]
        if request.headers.get("If-None-Match", "") == etag:
            return Response(304, b"", headers=headers)
        return Response(200, body, content_type=media, headers=headers)

    async def _get(self, name: str) -> bytes:
        found = self._built.get(name)
        if found is None:
            resources = self._registry.all()
            generation = self._generation
            found = await asyncio.to_thread(self._build, name, resources)
            if generation == self._generation:
                self._built[name] = found
        return found

    def _group_versions(self) -> dict[str, tuple[str, str]]:
        found = {
            (f"apis/{g}/{v}" if g else f"api/{v}"): (g, v)
            for g, v in self._registry.group_versions()
        }
        found["version"] = ("", "")
        return found

    def _build(self, name: str, resources: list[Resource]) -> bytes:
        if name == "v2":
            return orjson.dumps(_v2(resources))
        if name == "v2.pb":
            from rdd.schema.openapi import protobuf as openapi_protobuf

            return openapi_protobuf.encode(_v2(resources))
        if name == "v3":
            return orjson.dumps(self._index(resources))
        if name == "version":
            return orjson.dumps(_version_document())
        group, version_ = self._group_versions()[name]
        mine = [r for r in resources if (r.group, r.version) == (group, version_)]
        return orjson.dumps(_v3(mine))

    def _index(self, resources: list[Resource]) -> dict[str, Any]:
        paths = {}
        for name in sorted(self._group_versions()):
            found = self._built.get(name)
            if found is None:
                found = self._built[name] = self._build(name, resources)
            url = f"/openapi/v3/{name}?hash={_hash(found)}"
            paths[name] = {"serverRelativeURL": url}
        return {"paths": paths}


def _hash(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()


def _not_found() -> Response:
    return Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")


def _wants_protobuf(request: Request) -> bool:
    """Return whether the client prefers protobuf to JSON; raise NotAcceptable for neither."""
    for clause in (request.headers.get("Accept", "") or "*/*").split(","):
        media = clause.partition(";")[0].strip()
        if media in (_V2_TYPES[0], "*/*", "application/*"):
            return False
        if media in _V2_TYPES:
            return True
    raise errors.NotAcceptable(
        "only the following media types are accepted: " + ", ".join(_V2_TYPES)
    )


def _collect(resources: list[Resource], *, v2: bool) -> "KindCollector":
    from rdd.schema.openapi.collector import KindCollector

    collector = KindCollector(v2=v2)
    for resource in resources:
        resource.collect_openapi(collector)
    return collector


def _v3(resources: list[Resource]) -> dict[str, Any]:
    from rdd.schema.openapi import documents

    found = _collect(resources, v2=False)
    return documents.openapi_v3_document(
        found.kinds, found.definitions(), version=version.KUBERNETES
    )


def _v2(resources: list[Resource]) -> dict[str, Any]:
    from rdd.schema.openapi import documents

    found = _collect(resources, v2=True)
    return documents.openapi_v2_document(
        found.kinds, found.definitions(), version=version.KUBERNETES
    )


def _version_document() -> dict[str, Any]:
    properties = {name: {"type": "string", "default": ""} for name in version.document()}
    name = "io.k8s.apimachinery.pkg.version.Info"
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version.KUBERNETES},
        "paths": {
            "/version/": {
                "get": {
                    "tags": ["version"],
                    "description": "get the version information for this server",
                    "operationId": "getCodeVersion",
                    "responses": {
                        "200": {
                            "description": "OK",
                            "content": {
                                mediatypes.JSON: {
                                    "schema": {"$ref": f"#/components/schemas/{name}"}
                                }
                            },
                        }
                    },
                }
            }
        },
        "components": {"schemas": {name: {"type": "object", "properties": properties}}},
    }
