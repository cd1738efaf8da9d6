# SPDX-License-Identifier: Apache-2.0
"""The resources that the server serves, built-in and custom.

A `Resource` is a group, a version and a plural. All versions of a resource
share one `ResourceCache`; built-in kinds are registered at start, custom ones
when their CRD is established. The registry is the only list of resources, so
discovery, dispatch and admission always agree.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.kinds.decoding import BodyDecoder
from rdd.apiserver.kinds.strategy import ResourceDefinition, Strategy, TableColumn
from rdd.apiserver.state import codec
from rdd.apiserver.state.cache import ResourceCache
from rdd.apiserver.state.entries import CacheEntry
from rdd.schema.node import Node

if TYPE_CHECKING:
    from rdd.apiserver.crd.conversion import Converter
    from rdd.schema.openapi.collector import KindCollector

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

Convert = Callable[[Object], Object]


class Resource(ABC):
    """One resource in one version.

    `kinds.resources.BuiltinResource` and `crd.resources.CustomResource` implement what differs
    between built-in and custom resources.
    """

    patch_types: ClassVar[tuple[str, ...]]
    """The media types that PATCH accepts."""
    has_protobuf: ClassVar[bool]
    """Whether its objects can be read as protobuf."""
    is_routed: ClassVar[bool]
    """Whether Kubernetes routes its requests by media type; custom resources are not routed."""

    def __init__(
        self,
        kind: ResourceDefinition,
        *,
        cache: ResourceCache,
        decoder: BodyDecoder,
        verbs: tuple[str, ...] = ALL_VERBS,
        list_kind: str = "",
        columns: tuple[TableColumn, ...] | None = None,
        to_storage: Convert | None = None,
        from_storage: Convert | None = None,
        storage_version: str = "",
        deprecation: str = "",
    ) -> None:
        self.group = kind.group
        self.version = kind.version
        self.api_version = kind.api_version
        self.kind = kind.kind
        self.list_kind = list_kind or kind.kind + "List"
        self.plural = kind.plural
        self.singular = kind.singular
        self.namespaced = kind.namespaced
        self.short_names = kind.short_names
        self.categories = kind.categories
        self.subresources = kind.subresources
        self.definition = kind.definition
        self._node = kind.node
        self.strategy: Strategy = kind.strategy
        self.cache = cache
        self.decoder = decoder
        self.verbs = verbs
        self.columns = columns if columns is not None else kind.strategy.columns
        self.to_storage = to_storage
        self.from_storage = from_storage
        self.storage_version = storage_version or kind.version
        self.deprecation = deprecation
        """Text of the Warning that every use of a deprecated version carries."""
        self.converter: Converter | None = None
        """Converts objects between versions by a webhook."""
        self.is_terminating = False
        """The CRD is being deleted: nothing new is accepted."""
        self.head = codec.head(kind.kind, self.api_version)
        self.path_base = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"

    @property
    def node(self) -> Node:
        """The shape; that of a custom resource is compiled on first use."""
        node = self._node
        if not isinstance(node, Node):
            node = self._node = node()
        return node

    async def convert_entries(self, entries: Sequence[CacheEntry]) -> Sequence[CacheEntry]:
        """Return entries of the cache, converted to this version if a webhook has to."""
        if self.converter is None:
            return entries
        return await self.converter.convert_entries(entries, self.api_version)

    async def store_form(self, obj: Object) -> bytes:
        """Return the stored form of an object of this version."""
        if self.converter is None:
            return self.encode(obj)
        stored, tag = await self.converter.to_storage(obj)
        return codec.encode(stored, tag=tag)

    @property
    @abstractmethod
    def item_head(self) -> bytes:
        """The start of an item of a list, in front of the stored body."""

    @property
    @abstractmethod
    def empty(self) -> Object | None:
        """The default members of a new object; no manager owns them."""

    @abstractmethod
    def unknown_subresource(self, name: str) -> NoReturn:
        """Raise the error of a subresource that does not exist; `name` is that of the object."""

    @abstractmethod
    def go_type(self, *, is_list: bool) -> str:
        """Return the Go type that error messages of Kubernetes name."""

    @abstractmethod
    def collect_openapi(self, collector: "KindCollector") -> None:
        """Add the kind to an OpenAPI document."""

    def unsupported_verb(self, verb: str) -> errors.MethodNotAllowed:
        """Return the error of a verb that a subresource does not have."""
        return errors.MethodNotAllowed()

    def unsupported_patch(self, media: str) -> errors.UnsupportedMediaType:
        """Return the error of a patch type that is not in `patch_types`."""
        return errors.UnsupportedMediaType("415: Unsupported Media Type", details={})

    def list_metadata(self, revision: int, continue_: str, remaining: int) -> dict[str, Any]:
        """Return the metadata of a list."""
        meta: dict[str, Any] = {"resourceVersion": str(revision)}
        if continue_:
            meta["continue"] = continue_
        if remaining:
            meta["remainingItemCount"] = remaining
        return meta

    @property
    def key(self) -> tuple[str, str, str]:
        """Group, version and plural."""
        return self.group, self.version, self.plural

    def full(self, entry: CacheEntry) -> bytes:
        """Return the object of an entry as JSON in this version."""
        if self.from_storage is None:
            return self.head + entry.body
        return self.head + self._converted(entry)

    def parts(self, entry: CacheEntry) -> tuple[bytes, bytes]:
        """Return `full` in two parts; the second one is that of the cache if it can be."""
        return self.head, entry.body if self.from_storage is None else self._converted(entry)

    def item(self, entry: CacheEntry) -> bytes:
        """Return the object as an item of a list (built-in kinds: without kind and apiVersion)."""
        if self.from_storage is None:
            return self.item_head + entry.body
        return self.item_head + self._converted(entry)

    def _converted(self, entry: CacheEntry) -> bytes:
        stored = codec.encode(self.object(entry))
        return codec.with_revision(stored, entry.revision)

    def object(self, entry: CacheEntry) -> Object:
        """Return the object of an entry as a new dict in this version."""
        obj: Object = {"kind": self.kind, "apiVersion": self.api_version, **entry.decode()}
        if self.from_storage is not None:
            obj = self.from_storage(obj)
            obj["kind"], obj["apiVersion"] = self.kind, self.api_version
        return obj

    def encode(self, obj: Object) -> bytes:
        """Return the stored form of an object of this version."""
        if self.to_storage is not None:
            obj = self.to_storage(obj)
        return codec.encode(obj)


class ResourceRegistry:
    """All served resources, by group and version."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str], dict[str, Resource]] = {}
        self._builtin: dict[str, Resource] = {}
        self._builtin_groups: set[str] = set()
        self._versions: dict[str, list[str]] = {}
        self.generation = 0
        """Incremented with every registration; documents derived from the registry depend on it."""
        self._sharing: tuple[int, dict[str, list[Resource]]] = (-1, {})
        self.changed_at: dict[str, int] = {}
        """The generation in which a group last changed."""
        self.on_change: Callable[[], None] | None = None
        """Called when a group version is added or removed."""
        self.on_removal: Callable[[str, str], None] | None = None
        """Called with group and plural when no version of a resource is served any more."""

    def add(self, resource: Resource) -> None:
        """Serve a resource; replace an earlier definition of it."""
        is_new = (resource.group, resource.version) not in self._resources
        self._resources.setdefault((resource.group, resource.version), {})[resource.plural] = (
            resource
        )
        if is_new:
            self._versions.setdefault(resource.group, []).append(resource.version)
        self.generation += 1
        self.changed_at[resource.group] = self.generation
        if is_new and self.on_change is not None:
            self.on_change()

    def add_builtin(self, resource: Resource) -> None:
        """Serve a built-in resource; it is never removed."""
        self.add(resource)
        self._builtin.setdefault(resource.plural, resource)
        self._builtin_groups.add(resource.group)

    def builtin(self, plural: str) -> Resource | None:
        """Return the built-in resource with this name (of the first group that has it)."""
        return self._builtin.get(plural)

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stop serving a resource; a version without resources is removed, too."""
        found = self._resources.get((group, version))
        if found is not None and found.pop(plural, None) is not None:
            self.generation += 1
            self.changed_at[group] = self.generation
            if not found:
                del self._resources[(group, version)]
                self._versions[group].remove(version)
                if not self._versions[group]:
                    del self._versions[group], self.changed_at[group]
                if self.on_change is not None:
                    self.on_change()
            if self.on_removal is not None and not self.serves(group, plural):
                self.on_removal(group, plural)

    def serves(self, group: str, plural: str) -> bool:
        """Return whether any version of a resource is served."""
        return any(plural in self._resources[group, v] for v in self.versions_of(group))

    def get(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource of a group, version and plural."""
        found = self._resources.get((group, version))
        return found.get(plural) if found is not None else None

    def of_version(self, group: str, version: str) -> Iterable[Resource]:
        """Return the resources of one group version."""
        return self._resources.get((group, version), {}).values()

    def has_group(self, group: str) -> bool:
        """Return whether any version of the group is served."""
        return group in self._versions

    def groups(self) -> list[str]:
        """Return all groups."""
        return list(self._versions)

    def versions_of(self, group: str) -> list[str]:
        """Return the served versions of a group."""
        return self._versions.get(group, [])

    def has_builtin_group(self, group: str) -> bool:
        """Return whether the group has built-in kinds; unknown paths below it get a Status."""
        return group in self._builtin_groups

    def has_version(self, group: str, version: str) -> bool:
        return (group, version) in self._resources

    def group_versions(self) -> list[tuple[str, str]]:
        return list(self._resources)

    def all(self) -> list[Resource]:
        """Return all resources in all versions."""
        return [r for found in self._resources.values() for r in found.values()]

    def sharing(self, resource: Resource) -> Sequence[Resource]:
        """Return all resources with the same objects: their versions, also in other groups."""
        generation, found = self._sharing
        if generation != self.generation:
            found = {}
            for r in self.all():
                found.setdefault(r.cache.prefix, []).append(r)
            self._sharing = self.generation, found
        return found.get(resource.cache.prefix, ())

    def by_kind(self, group: str, kind: str, version: str = "") -> Resource | None:
        """Return the resource of a kind; any version unless one is given."""
        for v in [version] if version else self.versions_of(group):
            for r in self.of_version(group, v):
                if r.kind == kind:
                    return r
        return None


def metadata_of(obj: Object) -> dict[str, Any]:
    """Return the metadata of an object; add an empty dict if it has none."""
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = obj["metadata"] = {}
    return found
