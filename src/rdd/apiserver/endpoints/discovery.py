# SPDX-License-Identifier: Apache-2.0
"""Discovery of groups, versions and resources.

Documents are derived from the registry, so a CRD is discoverable as soon as it
is served. They are cached until the registry changes; kubectl requests them
with nearly every command. Besides the classic lists the endpoint serves the
aggregated form (apidiscovery.k8s.io), which saves clients a request per group.
Its groups are encoded one by one and kept: a new CRD among a thousand encodes one.
"""

import base64
import hashlib
from typing import Any

import orjson

from rdd.api import errors, names
from rdd.apiserver.components import Core
from rdd.apiserver.http import negotiation, responses
from rdd.apiserver.http.request import AnyResponse, Request, Response, page_not_found
from rdd.apiserver.resources import Resource, ResourceRegistry
from rdd.schema.crd.versions import version_priority

# Groups in the order of Kubernetes' priorities; others (custom ones) follow by name.
_GROUP_ORDER = (
    names.REGISTRATION_GROUP,
    names.EVENTS_GROUP,
    names.AUTHENTICATION_GROUP,
    names.AUTHORIZATION_GROUP,
    names.RBAC_GROUP,
    names.ADMISSION_GROUP,
    names.EXTENSIONS_GROUP,
    names.COORDINATION_GROUP,
)
_SUBRESOURCES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "status": (("get", "patch", "update"), {}),
    "finalize": (("update",), {}),
    "token": (
        ("create",),
        {"group": names.AUTHENTICATION_GROUP, "version": "v1", "kind": "TokenRequest"},
    ),
    "scale": (
        ("get", "patch", "update"),
        {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    ),
}


class DiscoveryEndpoint:
    """Serves /api, /apis and all paths below that are no resources."""

    def __init__(self, core: Core, *, address: str = "") -> None:
        self._registry: ResourceRegistry = core.registry
        self.address = address
        """The host:port that clients should use."""
        self._generation = -1
        self._documents: dict[str, bytes] = {}
        self._encoded: dict[str, tuple[int, bytes]] = {}
        """Group → generation of its last change, and its part of the aggregated form."""

    async def handle(self, request: Request) -> AnyResponse:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._documents.clear()
        parts = request.path.strip("/").split("/")
        if request.method != "GET" and self._document(parts) is not None:
            raise errors.MethodNotAllowed()
        if len(parts) == 1:
            aggregated = _aggregated_version(request.headers.get("Accept", ""))
            if aggregated:
                return self._aggregated(request, parts[0], aggregated)
        document = self._document(parts)
        if document is None:
            if parts[0] == "api" or (len(parts) > 2 and self._registry.has_builtin_group(parts[1])):
                raise errors.NotFound.resource()
            return page_not_found()
        if responses.is_plain(request):
            return Response(200, document)
        fmt = negotiation.negotiate(request)
        if fmt.transform:
            raise negotiation.not_acceptable()
        return responses.value(request, orjson.loads(document), media=fmt.media)

    def _document(self, parts: list[str]) -> bytes | None:
        path = "/".join(parts)
        known = self._documents.get(path)
        if known is None:
            value = self._build(parts)
            if value is None:
                return None
            known = self._documents[path] = orjson.dumps(value) + b"\n"
        return known

    def _build(self, parts: list[str]) -> dict[str, Any] | None:
        if parts[0] == "api":
            if len(parts) == 1:
                return self._core_versions()
            return self._resource_list("", parts[1]) if len(parts) == 2 else None
        if len(parts) == 1:
            groups = [self._group(g) for g in self.groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if len(parts) == 2:
            if not self._registry.has_group(parts[1]):
                return None
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(parts[1])}
        return self._resource_list(parts[1], parts[2]) if len(parts) == 3 else None

    def _core_versions(self) -> dict[str, Any]:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [
                {"clientCIDR": "0.0.0.0/0", "serverAddress": self.address}
            ],
        }

    def groups(self) -> list[str]:
        """Return all groups except the core group, in order of preference."""
        names = {g for g in self._registry.groups() if g}
        known = [g for g in _GROUP_ORDER if g in names]
        return known + sorted(names - set(known))

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group, preferred first."""
        return sorted(self._registry.versions_of(group), key=version_priority, reverse=True)

    def _group(self, group: str) -> dict[str, Any]:
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in self.versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> dict[str, Any] | None:
        if not self._registry.has_version(group, version):
            return None
        resources: list[dict[str, Any]] = []
        for r in self._sorted(group, version):
            resources.append(_api_resource(r))
            resources += [_api_subresource(r, s) for s in _ordered(r.subresources)]
        found: dict[str, Any] = {"kind": "APIResourceList"}
        if group:
            found["apiVersion"] = "v1"
        found["groupVersion"] = f"{group}/{version}" if group else version
        found["resources"] = resources
        return found

    def _sorted(self, group: str, version: str) -> list[Resource]:
        return sorted(self._registry.of_version(group, version), key=lambda r: r.plural)

    # -- aggregated

    def _aggregated(self, request: Request, root: str, version: str) -> Response:
        key = f"{root}?{version}"
        body = self._documents.get(key)
        if body is None:
            groups = [""] if root == "api" else self.groups()
            head = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/%b"' % (
                version.encode()
            )
            items = b",".join([self._encoded_group(g) for g in groups])
            body = b'%b,"metadata":{},"items":[%b]}\n' % (head, items)
            self._documents[key] = body
            self._drop_removed_groups()
        etag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
        headers = [("ETag", etag), ("Vary", "Accept")]
        media = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        if request.headers.get("If-None-Match", "") == etag:
            return Response(304, b"", content_type=media, headers=headers)
        return Response(200, body, content_type=media, headers=headers)

    def _encoded_group(self, group: str) -> bytes:
        changed_at = self._registry.changed_at[group]
        known = self._encoded.get(group)
        if known is None or known[0] != changed_at:
            known = changed_at, orjson.dumps(self._group_discovery(group))
            self._encoded[group] = known
        return known[1]

    def _drop_removed_groups(self) -> None:
        for group in self._encoded.keys() - self._registry.changed_at.keys():
            del self._encoded[group]

    def _group_discovery(self, group: str) -> dict[str, Any]:
        metadata: dict[str, Any] = {"creationTimestamp": None}
        if group:
            metadata = {"name": group, **metadata}
        return {
            "metadata": metadata,
            "versions": [
                {
                    "version": v,
                    "resources": [_resource_discovery(r) for r in self._sorted(group, v)],
                    "freshness": "Current",
                }
                for v in self.versions(group)
            ],
        }


def _aggregated_version(accept: str) -> str:
    """Return the version of aggregated discovery if the client prefers it, otherwise ""."""
    for clause in accept.split(","):
        if "as=APIGroupDiscoveryList" in clause and "g=apidiscovery.k8s.io" in clause:
            for version in ("v2beta1", "v2"):
                if f"v={version};" in clause + ";":
                    return version
        elif clause.strip().startswith(("application/json", "*/*")):
            return ""
    return ""


def _ordered(subresources: tuple[str, ...]) -> list[str]:
    return sorted(subresources, key=lambda s: (s == "scale", s))


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """Return the hash by which clients detect a change of the storage version."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _api_resource(r: Resource) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": r.plural,
        "singularName": r.singular,
        "namespaced": r.namespaced,
        "kind": r.kind,
        "verbs": list(r.verbs),
    }
    if r.short_names:
        found["shortNames"] = list(r.short_names)
    if r.categories:
        found["categories"] = list(r.categories)
    if "get" in r.verbs:
        found["storageVersionHash"] = storage_version_hash(r.group, r.storage_version, r.kind)
    return found


def _api_subresource(r: Resource, name: str) -> dict[str, Any]:
    verbs, response_kind = _SUBRESOURCES[name]
    found: dict[str, Any] = {
        "name": f"{r.plural}/{name}",
        "singularName": "",
        "namespaced": r.namespaced,
    }
    if response_kind:
        found |= {"group": response_kind["group"], "version": response_kind["version"]}
    found |= {"kind": response_kind.get("kind", r.kind), "verbs": list(verbs)}
    return found


def _resource_discovery(r: Resource) -> dict[str, Any]:
    kind = {"group": r.group, "version": r.version, "kind": r.kind}
    found: dict[str, Any] = {
        "resource": r.plural,
        "responseKind": kind,
        "scope": "Namespaced" if r.namespaced else "Cluster",
        "singularResource": r.singular,
        "verbs": list(r.verbs),
    }
    if r.short_names:
        found["shortNames"] = list(r.short_names)
    if r.categories:
        found["categories"] = list(r.categories)
    subresources = []
    for name in _ordered(r.subresources):
        verbs, response_kind = _SUBRESOURCES[name]
        subresources.append(
            {"subresource": name, "responseKind": response_kind or kind, "verbs": list(verbs)}
        )
    if subresources:
        found["subresources"] = subresources
    return found
