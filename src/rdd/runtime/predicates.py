# SPDX-License-Identifier: Apache-2.0
"""Predicates: filters for changes.

A source ignores a change for which one of its predicates is false. New and deleted objects
pass the predicates that compare, since there is nothing to compare them with.
"""

from collections.abc import Callable
from typing import Any

from rdd.api import selectors
from rdd.runtime.informer import Change

Predicate = Callable[[Change], bool]


def generation_changed(change: Change) -> bool:
    """Match changes of the spec and requests for deletion, but not writes of the status."""
    return _differs(change, "generation") or _differs(change, "deletionTimestamp")


def resource_version_changed(change: Change) -> bool:
    """Match every write of the object, but not repetitions after a relist."""
    return _differs(change, "resourceVersion")


def annotations_changed(change: Change) -> bool:
    """Match additions, changes and removals of annotations."""
    return _differs(change, "annotations")


def labels_changed(change: Change) -> bool:
    """Match additions, changes and removals of labels."""
    return _differs(change, "labels")


def finalizers_changed(change: Change) -> bool:
    """Match additions and removals of finalizers."""
    return _differs(change, "finalizers")


def is_new(change: Change) -> bool:
    """Match new objects."""
    return change.old is None


def is_gone(change: Change) -> bool:
    """Match deleted objects."""
    return change.new is None


def has_labels(selector: str) -> Predicate:
    """Match objects whose new or old labels match a selector."""
    matches = selectors.parse_label_selector(selector).matches

    def predicate(change: Change) -> bool:
        found = (obj for obj in (change.new, change.old) if obj is not None)
        return any(matches(obj["metadata"].get("labels") or {}) for obj in found)

    return predicate


def any_of(*predicates: Predicate) -> Predicate:
    """Match if at least one of the predicates matches."""
    return lambda change: any(predicate(change) for predicate in predicates)


def not_(predicate: Predicate) -> Predicate:
    """Match if the predicate does not."""
    return lambda change: not predicate(change)


def _differs(change: Change, member: str) -> bool:
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    before: Any = old["metadata"].get(member)
    return bool(before != new["metadata"].get(member))
