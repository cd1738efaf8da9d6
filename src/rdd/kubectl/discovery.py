# SPDX-License-Identifier: Apache-2.0
"""What resources a server has, and which one a word means.

Discovery is two documents (the aggregated form, Kubernetes 1.27 and later); a
server without them is asked group by group. A word is looked up by kubectl's
rules: `plural`, `singular`, `kind` or a short name, alone, with a group (or the
start of one) behind a dot, or as `plural.version.group`. A full name wins over a
short name, an earlier group over a later one, the preferred version over others.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from rdd.kubectl.connection import Connection
from rdd.kubectl.failures import CtlError, NoSuchResource, ServerError

_ACCEPT = ",".join(
    [
        *(
            f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            for version in ("v2", "v2beta1")
        ),
        "application/json",
    ]
)
_SAFE = ":@!$&'()*+,;=~"  # names of roles contain colons


class Resource(NamedTuple):
    """One resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """`v1`, or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`roles.rbac.authorization.k8s.io`, or just the plural in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def printed_kind(self) -> str:
        """`role.rbac.authorization.k8s.io`, as messages and `-o name` show a kind."""
        kind = self.kind.lower()
        return f"{kind}.{self.group}" if self.group else kind

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object, or of a collection."""
        path = f"/apis/{self.group}" if self.group else "/api"
        path += f"/{self.version}"
        if self.is_namespaced and namespace:
            path += f"/namespaces/{quote(namespace, safe=_SAFE)}"
        path += f"/{self.plural}"
        if name:
            path += "/" + quote(name, safe=_SAFE)
        return f"{path}/{subresource}" if subresource else path


class Discovery:
    """The resources of a server, in its order of preference."""

    def __init__(self, found: Sequence[Resource], group_versions: Sequence[str]) -> None:
        self.all = tuple(found)
        self.group_versions = tuple(group_versions)

    def preferred(self) -> list[Resource]:
        """Each resource once, in the version its group prefers."""
        found: dict[tuple[str, str], Resource] = {}
        for resource in self.all:
            found.setdefault((resource.group, resource.plural), resource)
        return list(found.values())

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of objects with this apiVersion and kind."""
        for resource in self.all:
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def find(self, word: str) -> Resource:
        """The resource that a word means. Raises NoSuchResource."""
        name, _, rest = word.lower().partition(".")
        version, _, group = rest.partition(".")
        for resource in self._named(name):
            if rest and resource.version == version and resource.group == group:
                return resource
        for resource in self._named(name):
            if not rest or resource.group == rest:
                return resource
        for resource in self._named(name):
            if resource.group.startswith(rest):
                return resource
        raise NoSuchResource(name)

    def _named(self, name: str) -> Iterator[Resource]:
        full = [r for r in self.all if name in (r.plural, r.singular, r.kind.lower())]
        return iter(full or [r for r in self.all if name in r.short_names])

    def category(self, name: str) -> list[Resource]:
        """The resources in a category such as `all`."""
        return [r for r in self.preferred() if name in r.categories]


def discover(api: Connection) -> Discovery:
    """Ask a server what it has."""
    resources: list[Resource] = []
    group_versions: list[str] = []
    for root in ("/api", "/apis"):
        try:
            document = api.get(root, accept=_ACCEPT)
        except ServerError as error:
            if error.code == 404:
                continue
            raise
        if document.get("kind") != "APIGroupDiscoveryList":
            _one_by_one(api, root, document, resources, group_versions)
            continue
        for group in document.get("items") or ():
            name = (group.get("metadata") or {}).get("name", "")
            for version in group.get("versions") or ():
                group_versions.append(f"{name}/{version['version']}" if name else "v1")
                resources += _aggregated(name, version)
    return Discovery(resources, group_versions)


def _aggregated(group: str, version: dict[str, Any]) -> Iterator[Resource]:
    for found in version.get("resources") or ():
        kind = (found.get("responseKind") or {}).get("kind", "")
        yield Resource(
            group,
            version["version"],
            found["resource"],
            kind,
            found.get("scope") == "Namespaced",
            found.get("singularResource", "") or kind.lower(),
            tuple(found.get("shortNames") or ()),
            tuple(found.get("verbs") or ()),
            tuple(found.get("categories") or ()),
            tuple(s["subresource"] for s in found.get("subresources") or ()),
        )


def _one_by_one(
    api: Connection,
    root: str,
    document: dict[str, Any],
    resources: list[Resource],
    group_versions: list[str],
) -> None:
    """The old form of discovery: one document per group and version."""
    if root == "/api":
        names = [("", str(v)) for v in document.get("versions") or ()]
    else:
        names = []
        for group in document.get("groups") or ():
            preferred = (group.get("preferredVersion") or {}).get("version", "")
            versions = [v["version"] for v in group.get("versions") or ()]
            versions.sort(key=lambda v: v != preferred)
            names += [(group["name"], version) for version in versions]
    for group_name, version in names:
        where = f"/apis/{group_name}/{version}" if group_name else f"/api/{version}"
        try:
            found = api.get(where).get("resources") or []
        except ServerError:
            continue  # a server behind this one is down; the others still count
        group_versions.append(f"{group_name}/{version}" if group_name else version)
        for item in found:
            if "/" in item["name"]:
                continue
            prefix = item["name"] + "/"
            resources.append(
                Resource(
                    group_name,
                    version,
                    item["name"],
                    item["kind"],
                    bool(item.get("namespaced")),
                    item.get("singularName") or item["kind"].lower(),
                    tuple(item.get("shortNames") or ()),
                    tuple(item.get("verbs") or ()),
                    tuple(item.get("categories") or ()),
                    tuple(
                        other["name"].removeprefix(prefix)
                        for other in found
                        if other["name"].startswith(prefix)
                    ),
                )
            )


def no_match(kind: str, api_version: str) -> CtlError:
    """The error for an object of a kind the server does not have."""
    return CtlError(f'no matches for kind "{kind}" in version "{api_version}"')
