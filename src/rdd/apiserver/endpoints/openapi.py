# SPDX-License-Identifier: Apache-2.0
"""/openapi/v2 and /openapi/v3: the schemas of all resources.

Documents are built on request (kubectl explain, client generators), in a worker
thread because large ones take seconds (a thousand CRDs are 48 MB), and cached as
bytes with their hash until the registry changes. Version 3 is split by group
version and addressed by content hash, so that clients can cache it.
"""

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from rdd.api import mediatypes
from rdd.apiserver.components import Core
from rdd.apiserver.endpoints import version
from rdd.apiserver.http.request import AnyResponse, Request, Response, page_not_found
from rdd.apiserver.resources import Resource, ResourceRegistry

if TYPE_CHECKING:
    from rdd.schema.openapi.collector import KindCollector
    from rdd.schema.openapi.documented_paths import DocumentedPath

_V2_TYPES = (
    "application/json",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)

_V3_TYPES = (
    "application/json",
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
)
"""Documents of version 3 exist as JSON only, which clients of the others accept, too."""


class OpenApiEndpoint:
    """Serves the OpenAPI documents of a registry."""

    def __init__(self, core: Core) -> None:
        self._registry: ResourceRegistry = core.registry
        self._generation = -1
        self._documents: _Documents | None = None

    async def handle(self, request: Request) -> AnyResponse:
        """Handle /openapi/v2, /openapi/v3 and /openapi/v3/<group version>."""
        registry = self._registry
        if self._documents is None or self._generation != registry.generation:
            self._generation = registry.generation
            builtin = {g for g, _ in registry.group_versions() if registry.has_builtin_group(g)}
            self._documents = _Documents(registry.all(), frozenset(builtin))
        documents = self._documents
        parts = request.path.removeprefix("/").split("/")
        # As in Kubernetes, methods do not matter here.
        if parts[1] == "v2":
            return await _v2_response(request, documents) if len(parts) == 2 else page_not_found()
        if len(parts) == 2:
            index = await documents.get("v3")
            # Kubernetes leaves the type to Go, which takes JSON for text.
            return Response(200, index.body, content_type="text/plain; charset=utf-8")
        name = "/".join(parts[2:])
        if name not in documents.names:
            return Response(404, b"", content_type="")
        if not _accepts(request, _V3_TYPES):
            return Response(406, b"", content_type="", headers=[("Vary", "Accept")])
        return _document(request, await documents.get(name), media=mediatypes.JSON)


async def _v2_response(request: Request, documents: "_Documents") -> Response:
    media = _accepts(request, _V2_TYPES)
    if not media:
        return Response(406, b"", content_type="", headers=[("Vary", "Accept")])
    if media == _V2_TYPES[0]:
        return _document(request, await documents.get("v2"), media=media)
    return _document(request, await documents.get("v2.pb"), media=_V2_TYPES[2])


class _Document:
    """An encoded document; its hash is computed once, because that takes 2 ms for a megabyte."""

    __slots__ = ("body", "hash")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.hash = hashlib.sha512(body).hexdigest().upper()


class _Documents:
    """The documents of one state of the registry, which may change while a thread builds."""

    def __init__(self, resources: list[Resource], builtin_groups: frozenset[str]) -> None:
        from rdd.schema.openapi import documented_paths

        self._resources = resources
        self._builtin_groups = builtin_groups
        self._group_versions = {
            (f"apis/{r.group}/{r.version}" if r.group else f"api/{r.version}"): (r.group, r.version)
            for r in resources
        }
        self._singles: dict[str, DocumentedPath] = {
            found.name: found for found in documented_paths.of_server(sorted(builtin_groups))
        }
        """Paths with a document of their own, by the name of the document."""
        self.names = self._group_versions.keys() | self._singles.keys()
        """The names of documents of version 3."""
        self._built: dict[str, _Document] = {}

    async def get(self, name: str) -> _Document:
        """Return a document: one of `names`, the index `v3`, `v2` or `v2.pb`."""
        found = self._built.get(name)
        return await asyncio.to_thread(self._build, name) if found is None else found

    def _build(self, name: str) -> _Document:
        found = self._built.get(name)
        if found is None:
            found = self._built[name] = _Document(self._made(name))
        return found

    def _made(self, name: str) -> bytes:
        from rdd.schema.openapi import documented_paths

        if name == "v2":
            return _dumps(self._v2())
        if name == "v2.pb":
            from rdd.schema.openapi import protobuf as openapi_protobuf

            return openapi_protobuf.encode(self._v2())
        if name == "v3":
            return orjson.dumps(self._index())
        if single := self._singles.get(name):
            return orjson.dumps(_v3([], others={single.path: single.item_v3()}))
        group, version_ = self._group_versions[name]
        mine = [r for r in self._resources if (r.group, r.version) == (group, version_)]
        others = {}
        if group in self._builtin_groups:
            listed = documented_paths.resources_of(group, version_)
            others[listed.path] = listed.item_v3()
        return orjson.dumps(_v3(mine, others=others))

    def _v2(self) -> dict[str, Any]:
        from rdd.schema.openapi import documented_paths, documents

        found = _collect(self._resources, v2=True)
        listed = [
            documented_paths.resources_of(g, v)
            for g, v in self._group_versions.values()
            if g in self._builtin_groups
        ]
        others = {p.path: p.item_v2() for p in [*self._singles.values(), *listed]}
        definitions = {**found.definitions(), **_version_definition()}
        return documents.openapi_v2_document(
            found.kinds, definitions, others=others, version=version.KUBERNETES
        )

    def _index(self) -> dict[str, Any]:
        paths = {}
        for name in sorted(self.names):
            url = f"/openapi/v3/{name}?hash={self._build(name).hash}"
            paths[name] = {"serverRelativeURL": url}
        return {"paths": paths}


def _dumps(document: dict[str, Any]) -> bytes:
    """Encode a document member by member.

    One call for everything would hold the interpreter lock, and with it the event loop, for
    a hundred milliseconds.
    """
    parts: list[bytes] = []  # joined once: a copy of 48 MB takes 20 ms
    for name, value in document.items():
        parts.append(b"%b%b:" % (b"," if parts else b"{", orjson.dumps(name)))
        if not isinstance(value, dict) or not value:
            parts.append(orjson.dumps(value))
            continue
        separator = b"{"
        for member, inner in value.items():
            parts += (separator, orjson.dumps(member), b":", orjson.dumps(inner))
            separator = b","
        parts.append(b"}")
    parts.append(b"}")
    return b"".join(parts)


def _document(request: Request, document: _Document, *, media: str) -> Response:
    etag = f'"{document.hash}"'
    headers = [("ETag", etag), ("Vary", "Accept")]
    if request.headers.get("If-None-Match", "") == etag:
        return Response(304, b"", headers=headers)
    return Response(200, document.body, content_type=media, headers=headers)


def _accepts(request: Request, offered: tuple[str, ...]) -> str:
    """Return the first media type that the client accepts; empty if there is none."""
    for clause in (request.headers.get("Accept", "") or "*/*").split(","):
        media = clause.partition(";")[0].strip()
        if media in ("*/*", "application/*"):
            return offered[0]
        if media in offered:
            return media
    return ""


def _collect(resources: list[Resource], *, v2: bool) -> "KindCollector":
    from rdd.schema.openapi.collector import KindCollector

    collector = KindCollector(v2=v2)
    for resource in resources:
        resource.collect_openapi(collector)
    return collector


def _v3(resources: list[Resource], *, others: dict[str, Any]) -> dict[str, Any]:
    from rdd.schema.openapi import documents

    found = _collect(resources, v2=False)
    definitions = {**found.definitions(), **_version_definition()}
    return documents.openapi_v3_document(
        found.kinds, definitions, others=others, version=version.KUBERNETES
    )


def _version_definition() -> dict[str, Any]:
    from rdd.schema.openapi import documented_paths

    properties = {name: {"type": "string", "default": ""} for name in version.document()}
    required = [
        *("major", "minor", "gitVersion", "gitCommit", "gitTreeState"),
        *("buildDate", "goVersion", "compiler", "platform"),
    ]
    return {
        documented_paths.VERSION_INFO: {
            "description": "Info contains versioning information. how we'll want to distribute "
            "that information.",
            "type": "object",
            "properties": properties,
            "required": required,
        }
    }
