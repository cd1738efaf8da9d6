# SPDX-License-Identifier: Apache-2.0
"""Whether one write is selected: what rules leave open are labels and names.

An `Index` holds the compiled webhooks (or policies) of all configurations and
answers, per operation, resource and subresource, which of them can be
concerned. The answer is remembered, so a write that concerns nobody costs one
dictionary lookup.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from rdd.api import errors
from rdd.api.selectors import LabelSelector
from rdd.api.types import Object
from rdd.apiserver.admission.rules import Criteria, Narrowed
from rdd.apiserver.admission.types import CREATE, UPDATE, Attributes
from rdd.apiserver.resources import Registry, Resource
from rdd.apiserver.state.cache import ResourceCache

T = TypeVar("T")

_NO_LABELS: dict[str, str] = {}
_MAX_REMEMBERED = 10_000
"""Triples of operation, resource and subresource; 200 CRDs have about 2,000."""


class Matcher:
    """Looks at the labels and the name of a write."""

    def __init__(self, namespaces: ResourceCache) -> None:
        self._namespaces = namespaces

    def target(
        self, narrowed: Narrowed, attributes: Attributes, obj: Object | None
    ) -> Resource | None:
        """The version in which a selected write is shown, None if it is not selected.

        `obj` is the present state of the new object. Raises NotFound if the
        namespace whose labels matter does not exist, InternalError if a selector
        cannot be read.
        """
        if narrowed.problem:
            raise errors.InternalError.because(narrowed.problem)
        selector = narrowed.namespaces
        if not selector.is_empty and not self._selects_namespace(selector, attributes, obj):
            return None
        selector = narrowed.objects
        if not selector.is_empty and not _selects_object(selector, attributes, obj):
            return None
        name = attributes.name
        if name in narrowed.excluded_names:
            return None
        for target in narrowed.targets:
            if not target.names or name in target.names:
                return target.resource
        return None

    def _selects_namespace(
        self, selector: LabelSelector, attributes: Attributes, obj: Object | None
    ) -> bool:
        if is_namespace(attributes.resource):
            if attributes.operation in (CREATE, UPDATE) and not attributes.subresource:
                return _selects(selector, obj)
            name = attributes.name
        elif attributes.namespace:
            name = attributes.namespace
        else:
            return True  # cluster-scoped objects are never exempt
        entry = self._namespaces.get("", name)
        if entry is None:
            raise errors.NotFound.of("namespaces", "", name)
        return selector.matches(entry.labels)


def is_namespace(resource: Resource) -> bool:
    """Whether a resource is that of namespaces, which count as being in themselves."""
    return resource.plural == "namespaces" and not resource.group


def _selects_object(selector: LabelSelector, attributes: Attributes, obj: Object | None) -> bool:
    if attributes.subresource == "scale":
        return selector.matches(_NO_LABELS)  # a Scale does not show the labels of what it scales
    return _selects(selector, obj) or _selects(selector, attributes.old_object)


def _selects(selector: LabelSelector, obj: Object | None) -> bool:
    if obj is None:
        return False
    meta = obj.get("metadata")
    return selector.matches((meta.get("labels") or _NO_LABELS) if meta else _NO_LABELS)


class Index(Generic[T]):
    """Compiled items with their criteria, in the order in which they take effect."""

    def __init__(self, registry: Registry, items: Iterable[tuple[T, Criteria]]) -> None:
        self._registry = registry
        self._items = tuple(items)
        self._generation = registry.generation
        self._known: dict[tuple[str, Resource, str], tuple[tuple[T, Narrowed], ...]] = {}

    def candidates(self, attributes: Attributes) -> tuple[tuple[T, Narrowed], ...]:
        """The items whose rules select the write; labels and names are still to be looked at."""
        if self._generation != self._registry.generation:
            # A new version of a CRD can be equivalent to one that rules name.
            self._generation = self._registry.generation
            self._known.clear()
        key = attributes.operation, attributes.resource, attributes.subresource
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            found = self._known[key] = tuple(
                (item, narrowed)
                for item, criteria in self._items
                if (narrowed := criteria.narrow(self._registry, *key)) is not None
            )
        return found
