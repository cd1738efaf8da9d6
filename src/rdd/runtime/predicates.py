# SPDX-License-Identifier: Apache-2.0
"""Which changes are worth a look.

A predicate answers for one change; a controller skips a change to which any of
its predicates says no. New and vanished objects pass those that compare, since
there is nothing to compare them with.
"""

from collections.abc import Callable
from typing import Any

from rdd.api import selectors
from rdd.runtime.informer import Change

Predicate = Callable[[Change], bool]


def generation_changed(change: Change) -> bool:
    """The desired state has changed, or the deletion was asked for: no writes of status."""
    return _differs(change, "generation") or _differs(change, "deletionTimestamp")


def resource_version_changed(change: Change) -> bool:
    """The object was written; after a relist others may be told again."""
    return _differs(change, "resourceVersion")


def annotations_changed(change: Change) -> bool:
    """An annotation was added, changed or removed."""
    return _differs(change, "annotations")


def labels_changed(change: Change) -> bool:
    """A label was added, changed or removed."""
    return _differs(change, "labels")


def finalizers_changed(change: Change) -> bool:
    """A finalizer was added or removed."""
    return _differs(change, "finalizers")


def is_new(change: Change) -> bool:
    """The object was not known before."""
    return change.old is None


def is_gone(change: Change) -> bool:
    """The object does not exist any more."""
    return change.new is None


def has_labels(selector: str) -> Predicate:
    """The object matches a label selector now, or did before."""
    matches = selectors.parse_label_selector(selector).matches

    def predicate(change: Change) -> bool:
        found = (obj for obj in (change.new, change.old) if obj is not None)
        return any(matches(obj["metadata"].get("labels") or {}) for obj in found)

    return predicate


def any_of(*predicates: Predicate) -> Predicate:
    """At least one of them holds."""
    return lambda change: any(predicate(change) for predicate in predicates)


def not_(predicate: Predicate) -> Predicate:
    """It does not hold."""
    return lambda change: not predicate(change)


def _differs(change: Change, member: str) -> bool:
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    before: Any = old["metadata"].get(member)
    return bool(before != new["metadata"].get(member))
