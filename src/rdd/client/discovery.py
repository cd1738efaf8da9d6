# SPDX-License-Identifier: Apache-2.0
"""The resources of a server, from its discovery documents.

Discovery has an aggregated form, two documents in all however many groups there
are (Kubernetes 1.27 and later), and a legacy form with one document per group
and version. This module only parses: `rdd.client.aio` and `rdd.client.blocking`
fetch. The result is an immutable snapshot.

`ServerResources.find` looks a word up by the rules of kubectl: `plural`,
`singular`, `kind` or a short name, alone, with a group (or a prefix of one)
behind a dot, or as `plural.version.group`. A full name wins over a short name, an
earlier group over a later one, the preferred version over others.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from rdd.api.mediatypes import JSON
from rdd.api.types import Object
from rdd.client.resources import ApiResource

ROOTS = ("/api", "/apis")
AGGREGATED = ",".join(
    f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)
"""Accept header for aggregated documents."""


class GroupVersion(NamedTuple):
    """One version of a group and its resources."""

    group: str
    version: str
    resources: tuple[ApiResource, ...]
    is_stale: bool = False  # served by another server, which is down

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class ServerResources:
    """The resources of a server at one time, in the server's order of preference."""

    def __init__(
        self, versions: Iterable[GroupVersion], *, documents: tuple[bytes, ...] = ()
    ) -> None:
        versions = tuple(versions)
        self.documents = documents
        """What was parsed; the same bytes mean the same resources."""
        self.all: tuple[ApiResource, ...] = tuple(r for v in versions for r in v.resources)
        """Every resource in every version, the preferred version of a group first."""
        self.group_versions = tuple(v.api_version for v in versions)
        self.stale = tuple(v.api_version for v in versions if v.is_stale)
        """Group versions whose resources may be out of date."""

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str], ApiResource]:
        return {(r.api_version, r.kind): r for r in reversed(self.all)}

    def by_kind(self, api_version: str, kind: str) -> ApiResource | None:
        """Return the resource of the objects with this apiVersion and kind."""
        return self._by_kind.get((api_version, kind))

    def preferred(self) -> dict[tuple[str, str], ApiResource]:
        """Return each resource once, by group and plural, in its group's preferred version."""
        found: dict[tuple[str, str], ApiResource] = {}
        for resource in self.all:
            found.setdefault((resource.group, resource.plural), resource)
        return found

    def category(self, name: str) -> list[ApiResource]:
        """Return the resources in a category such as `all`."""
        return [r for r in self.preferred().values() if name in r.categories]

    def find(self, word: str) -> ApiResource | None:
        """Return the resource that a user means by a word, or None."""
        name, _, rest = word.lower().partition(".")
        version, _, group = rest.partition(".")
        named = [r for r in self.all if name in (r.plural, r.singular, r.kind.lower())]
        named = named or [r for r in self.all if name in r.short_names]
        for resource in named:
            if rest and resource.version == version and resource.group == group:
                return resource
        for resource in named:
            if not rest or resource.group == rest:
                return resource
        return next((r for r in named if r.group.startswith(rest)), None)


def is_aggregated(document: Object) -> bool:
    """Return whether a document of one of the ROOTS has the aggregated form."""
    return document.get("kind") == "APIGroupDiscoveryList"


def parse_aggregated(document: Object) -> Iterator[GroupVersion]:
    """Return the contents of an aggregated document."""
    for item in document.get("items") or ():
        group = (item.get("metadata") or {}).get("name", "")
        for version in item.get("versions") or ():
            yield GroupVersion(
                group,
                version["version"],
                tuple(_aggregated(group, version)),
                is_stale=version.get("freshness", "Current") != "Current",
            )


def _aggregated(group: str, version: Object) -> Iterator[ApiResource]:
    for found in version.get("resources") or ():
        kind = (found.get("responseKind") or {}).get("kind", "")
        yield ApiResource(
            group,
            version["version"],
            found["resource"],
            kind,
            namespaced=found.get("scope") == "Namespaced",
            verbs=tuple(found.get("verbs") or ()),
            subresources=tuple(s["subresource"] for s in found.get("subresources") or ()),
            singular=found.get("singularResource") or kind.lower(),
            short_names=tuple(found.get("shortNames") or ()),
            categories=tuple(found.get("categories") or ()),
        )


def legacy_versions(root: Object) -> list[tuple[str, str]]:
    """Return groups and versions of a legacy root document, preferred versions first."""
    if "groups" not in root:
        return [("", str(version)) for version in root.get("versions") or ()]
    found: list[tuple[str, str]] = []
    for group in root["groups"] or ():
        preferred = (group.get("preferredVersion") or {}).get("version", "")
        versions = [v["version"] for v in group.get("versions") or ()]
        versions.sort(key=lambda version: version != preferred)
        found += [(group["name"], version) for version in versions]
    return found


def parse_legacy(group: str, version: str, document: Object) -> GroupVersion:
    """Return the contents of an APIResourceList."""
    items: list[Object] = document.get("resources") or []
    resources = []
    for item in items:
        if "/" in item["name"]:
            continue
        prefix = item["name"] + "/"
        resources.append(
            ApiResource(
                group,
                version,
                item["name"],
                item["kind"],
                namespaced=bool(item.get("namespaced")),
                verbs=tuple(item.get("verbs") or ()),
                subresources=tuple(
                    other["name"].removeprefix(prefix)
                    for other in items
                    if other["name"].startswith(prefix)
                ),
                singular=item.get("singularName") or item["kind"].lower(),
                short_names=tuple(item.get("shortNames") or ()),
                categories=tuple(item.get("categories") or ()),
            )
        )
    return GroupVersion(group, version, tuple(resources))
