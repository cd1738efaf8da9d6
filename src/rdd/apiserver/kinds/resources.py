# SPDX-License-Identifier: Apache-2.0
"""Built-in kinds as resources of the server."""

from typing import TYPE_CHECKING, NoReturn

from rdd.api import errors, mediatypes, names
from rdd.api.types import Object
from rdd.apiserver.kinds.builtin_strategy import BuiltinStrategy
from rdd.apiserver.kinds.decoding import TypedDecoder
from rdd.apiserver.kinds.strategy import ResourceDefinition
from rdd.apiserver.resources import Resource
from rdd.apiserver.state.cache import ObjectCache

if TYPE_CHECKING:
    from rdd.schema.openapi.collector import KindCollector

# Kubernetes stores these groups under /registry/<group>/<plural>, all others under the plural.
_STORED_BY_GROUP = frozenset({names.EXTENSIONS_GROUP, names.REGISTRATION_GROUP})


class BuiltinResource(Resource):
    """One version of a built-in kind."""

    patch_types = (
        mediatypes.JSON_PATCH,
        mediatypes.MERGE_PATCH,
        mediatypes.STRATEGIC_MERGE_PATCH,
        mediatypes.APPLY_PATCH,
    )
    has_protobuf = True
    is_routed = True
    _empty: Object | None = None

    @property
    def item_head(self) -> bytes:
        """Items have neither kind nor apiVersion."""
        return b"{"

    @property
    def empty(self) -> Object | None:
        """The members that a new object has by itself; no manager owns them.

        Kubernetes compares Go structs: members that are structs themselves (`spec`) and those
        that are always printed exist before anything is set.
        """
        if self._empty is None:
            self._empty = self.decoder.decode({}, [])
        return self._empty

    def unknown_subresource(self, name: str) -> NoReturn:
        """Raise the Status of an unknown resource."""
        raise errors.NotFound.resource()

    def go_type(self, *, is_list: bool) -> str:
        """Return the internal type, which is that of the stored group."""
        strategy = self.strategy
        assert isinstance(strategy, BuiltinStrategy)
        group = strategy.storage[0] if strategy.storage else self.group
        package = group.partition(".")[0] or "core"
        return f"*{package}.{self.list_kind if is_list else self.kind}"

    def collect_openapi(self, collector: "KindCollector") -> None:
        """Add the kind to the documents; its definitions are those of its shape."""
        collector.add_builtin(self, self.verbs)


def make_resource(definition: ResourceDefinition, cache: ObjectCache) -> BuiltinResource:
    """Make the resource of a built-in kind."""
    strategy = definition.strategy
    assert isinstance(strategy, BuiltinStrategy)
    own = (definition.group, definition.plural)
    group, plural = strategy.storage or own
    below = f"{group}/{plural}" if group in _STORED_BY_GROUP else plural
    is_foreign = strategy.storage is not None and strategy.storage != own
    return BuiltinResource(
        definition,
        cache=cache.resource(f"/registry/{below}/", namespaced=definition.namespaced),
        decoder=TypedDecoder(definition.kind, definition.api_version, definition.definition),
        verbs=strategy.verbs,
        to_storage=strategy.to_storage if is_foreign else None,
        from_storage=strategy.from_storage if is_foreign else None,
    )
