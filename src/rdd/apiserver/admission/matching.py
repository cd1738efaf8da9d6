# SPDX-License-Identifier: Apache-2.0
"""The selection of one write by labels and names, after the rules have been evaluated.

A `CriteriaIndex` holds the compiled webhooks (or policies) of all configurations. It returns, per
operation, resource and subresource, the ones whose rules match. The result is cached, so a write
that no webhook selects costs one dictionary lookup.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from rdd.api import errors
from rdd.api.selectors import LabelSelector
from rdd.api.types import Object
from rdd.apiserver.admission.chain import CREATE, UPDATE, AdmissionAttributes
from rdd.apiserver.admission.rules import Criteria, NarrowedCriteria
from rdd.apiserver.resources import Resource, ResourceRegistry
from rdd.apiserver.state.cache import ResourceCache

T = TypeVar("T")

_NO_LABELS: dict[str, str] = {}
_MAX_CACHED = 10_000
"""Triples of operation, resource and subresource; 200 CRDs have about 2,000."""


class Matcher:
    """Matches the labels and the name of a write."""

    def __init__(self, namespaces: ResourceCache) -> None:
        self._namespaces = namespaces

    def target(
        self, narrowed: NarrowedCriteria, attributes: AdmissionAttributes, obj: Object | None
    ) -> Resource | None:
        """Return the version in which a selected write is shown; None if it is not selected.

        `obj` is the current state of the new object. Raises NotFound if the namespace whose
        labels are needed does not exist, InternalError if a selector cannot be parsed.
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

    def selects_any(
        self, candidates: Iterable[tuple[T, NarrowedCriteria]], attributes: AdmissionAttributes
    ) -> bool:
        """Return whether the criteria of any candidate select the write."""
        return any(
            self.target(narrowed, attributes, attributes.object) is not None
            for _, narrowed in candidates
        )

    def _selects_namespace(
        self, selector: LabelSelector, attributes: AdmissionAttributes, obj: Object | None
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
    """Return whether a resource is that of namespaces; a namespace counts as inside itself."""
    return resource.plural == "namespaces" and not resource.group


def _selects_object(
    selector: LabelSelector, attributes: AdmissionAttributes, obj: Object | None
) -> bool:
    if attributes.subresource == "scale":
        return selector.matches(_NO_LABELS)  # a Scale has no labels of the scaled object
    return _selects(selector, obj) or _selects(selector, attributes.old_object)


def _selects(selector: LabelSelector, obj: Object | None) -> bool:
    if obj is None:
        return False
    meta = obj.get("metadata")
    return selector.matches((meta.get("labels") or _NO_LABELS) if meta else _NO_LABELS)


def _never(_: object) -> bool:
    return False


class CriteriaIndex(Generic[T]):
    """Compiled items with their criteria, in the order in which they take effect.

    `applies_always` selects the items that see exempt writes, too (`admission/exemption.py`).
    """

    def __init__(
        self,
        registry: ResourceRegistry,
        items: Iterable[tuple[T, Criteria]],
        *,
        applies_always: Callable[[T], bool] = _never,
    ) -> None:
        self._registry = registry
        self._applies_always = applies_always
        self._items = tuple(items)
        self._generation = registry.generation
        self._cached: dict[tuple[str, Resource, str], tuple[tuple[T, NarrowedCriteria], ...]] = {}

    def candidates(self, attributes: AdmissionAttributes) -> tuple[tuple[T, NarrowedCriteria], ...]:
        """Return the items whose rules select the write; labels and names remain to be checked."""
        if self._generation != self._registry.generation:
            # A new version of a CRD can be equivalent to a version that rules name.
            self._generation = self._registry.generation
            self._cached.clear()
        key = attributes.operation, attributes.resource, attributes.subresource
        found = self._cached.get(key)
        if found is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            found = self._cached[key] = tuple(
                (item, narrowed)
                for item, criteria in self._items
                if (narrowed := criteria.narrow(self._registry, *key)) is not None
            )
        if found and attributes.is_exempt:
            return tuple(pair for pair in found if self._applies_always(pair[0]))
        return found
