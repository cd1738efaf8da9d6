# SPDX-License-Identifier: Apache-2.0
"""Which resources a server has: kinds to resources and back.

Discovery is read in its aggregated form, two documents in all however many
groups there are (Kubernetes has it since 1.27). The result is a snapshot;
whoever wants to follow a server discovers again, which costs next to nothing
when nothing has changed: the same bytes give the same snapshot object.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from rdd.client.resources import ApiResource

ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


class ServerResources:
    """The resources of a server at one time."""

    def __init__(self, documents: tuple[bytes, ...]) -> None:
        self.documents = documents
        self.all: tuple[ApiResource, ...]
        """Every resource in every version, the preferred version of a group first."""
        self.stale: tuple[str, ...]
        """Group versions whose own server could not be asked; what is known of them is old."""
        found: list[ApiResource] = []
        stale: list[str] = []
        for document in documents:
            for group in orjson.loads(document).get("items") or ():
                name = group["metadata"].get("name", "")
                for version in group.get("versions") or ():
                    found += _resources(name, version)
                    if version.get("freshness", "Current") != "Current":
                        stale.append(f"{name}/{version['version']}" if name else version["version"])
        self.all, self.stale = tuple(found), tuple(stale)
        self._by_kind = {(r.api_version, r.kind): r for r in reversed(found)}

    def by_kind(self, api_version: str, kind: str) -> ApiResource | None:
        """The resource of the objects with this apiVersion and kind."""
        return self._by_kind.get((api_version, kind))

    def preferred(self) -> dict[tuple[str, str], ApiResource]:
        """Each resource once, by group and plural, in the version its group prefers."""
        found: dict[tuple[str, str], ApiResource] = {}
        for r in self.all:
            found.setdefault((r.group, r.plural), r)
        return found

    def find(self, text: str) -> ApiResource | None:
        """What a person calls a resource: plural, singular, short name, `plural.group`, …

        `plural.version.group` picks a version; otherwise the preferred one is taken.
        """
        wanted, _, rest = text.lower().partition(".")
        for r in self.all:
            if wanted in (r.plural, r.singular, r.kind.lower(), *r.short_names) and rest in (
                "",
                r.group,
                f"{r.version}.{r.group}" if r.group else r.version,
            ):
                return r
        return None


def _resources(group: str, version: dict[str, Any]) -> Iterator[ApiResource]:
    for found in version.get("resources") or ():
        yield ApiResource(
            group,
            version["version"],
            found["resource"],
            (found.get("responseKind") or {}).get("kind", ""),
            namespaced=found.get("scope") == "Namespaced",
            verbs=tuple(found.get("verbs") or ()),
            subresources=tuple(s["subresource"] for s in found.get("subresources") or ()),
            singular=found.get("singularResource", ""),
            short_names=tuple(found.get("shortNames") or ()),
            categories=tuple(found.get("categories") or ()),
        )
