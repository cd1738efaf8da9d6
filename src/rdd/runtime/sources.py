# SPDX-License-Identifier: Apache-2.0
"""Sources: the resources that a controller watches, and the keys that a change maps to.

    watch(Demo)                                the kind itself: the key of the object
    owns(CONFIG_MAPS, Demo)                    children: the key of their controller
    maps(SECRETS, lambda secret: [...])        any other mapping

Each takes predicates, all of which must match. Predicates run on decoded objects; a selector
keeps the others out of the cache.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rdd.api.types import Object
from rdd.runtime.informer import Change
from rdd.runtime.owners import controller_of
from rdd.runtime.predicates import Predicate
from rdd.runtime.types import AnyResource, ObjectKey, QueueKey, resource_of

Mapper = Callable[[Object], Iterable[QueueKey]]
"""Return the keys to reconcile when an object has changed."""


@dataclass(frozen=True, slots=True)
class Source:
    """One watched resource of a controller."""

    resource: AnyResource
    to_keys: Mapper
    predicates: tuple[Predicate, ...] = ()
    namespace: str = ""
    label_selector: str = ""
    metadata_only: bool = False
    field_selector: str = ""

    def keys(self, change: Change) -> set[QueueKey]:
        """Return the keys that the old and the new object of a change map to."""
        if not all(predicate(change) for predicate in self.predicates):
            return set()
        objects = (obj for obj in (change.old, change.new) if obj is not None)
        return {key for obj in objects for key in self.to_keys(obj)}


def watch(
    kind: AnyResource,
    *predicates: Predicate,
    namespace: str = "",
    label_selector: str = "",
    metadata_only: bool = False,
) -> Source:
    """Watch the kind that a controller reconciles."""
    return Source(kind, _own_key, predicates, namespace, label_selector, metadata_only)


def owns(
    child: AnyResource,
    owner: AnyResource,
    *predicates: Predicate,
    label_selector: str = "",
    field_selector: str = "",
    metadata_only: bool = False,
) -> Source:
    """Watch children and reconcile the owner that controls them."""
    kind = resource_of(owner)

    def to_keys(obj: Object) -> Iterable[ObjectKey]:
        reference = controller_of(obj)
        if reference is None or reference["kind"] != kind.kind:
            return
        if reference["apiVersion"].rpartition("/")[0] == kind.group:
            namespace = obj["metadata"].get("namespace") or "" if kind.namespaced else ""
            yield ObjectKey(namespace, reference["name"])

    return Source(child, to_keys, predicates, "", label_selector, metadata_only, field_selector)


def maps(
    resource: AnyResource,
    to_keys: Mapper,
    *predicates: Predicate,
    namespace: str = "",
    label_selector: str = "",
    metadata_only: bool = False,
) -> Source:
    """Watch another resource; `to_keys` maps old and new objects to keys."""
    return Source(resource, to_keys, predicates, namespace, label_selector, metadata_only)


def _own_key(obj: Object) -> Iterable[ObjectKey]:
    return (ObjectKey.of(obj),)
