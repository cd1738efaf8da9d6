# SPDX-License-Identifier: Apache-2.0
"""The patches of client-side apply, from three states of an object.

    original   last applied configuration (an annotation of the object)
    modified   configuration to apply
    current    state on the server

Fields that differ between current and modified are set; fields of original that
are missing in modified are removed; all other fields have other owners and stay.

Custom resources get a JSON merge patch. Built-in kinds get a strategic merge
patch, which also merges lists, by the merge keys in the server's schemas.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from rdd.api.mergepatch import create_merge_patch, same
from rdd.api.types import Object
from rdd.kubectl.openapi import OpenApi, Schema
from rdd.kubectl.session import compact

_ORDER = "$setElementOrder"
_DELETE_LIST = "$deleteFromPrimitiveList"
_RETAIN = "$retainKeys"

# Members without a patch strategy in every kind: they need no schema.
_PLAIN = frozenset(("metadata", "annotations", "labels", "data", "binaryData", "stringData"))


def json_merge_patch(original: Object, modified: Object, current: Object) -> Object:
    """Return the three-way patch for a custom resource."""
    changes = _filter_nulls(create_merge_patch(current, modified), keeps_nulls=False)
    removals = _filter_nulls(create_merge_patch(original, modified), keeps_nulls=True)
    return _merged(removals, changes)


def _filter_nulls(patch: Object, *, keeps_nulls: bool) -> Object:
    found: Object = {}
    for key, value in patch.items():
        if value is None:
            if keeps_nulls:
                found[key] = None
        elif isinstance(value, dict):
            inner = _filter_nulls(value, keeps_nulls=keeps_nulls)
            if inner or (not keeps_nulls and not value):
                found[key] = inner
        elif not keeps_nulls:
            found[key] = value
    return found


def _merged(first: Object, second: Object) -> Object:
    """Combine two merge patches; the second wins."""
    result = dict(first)
    for key, value in second.items():
        before = result.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        result[key] = _merged(before, value) if both and isinstance(before, dict) else value
    return result


class SchemaNode:
    """The schema of a value, as far as patches need it; empty for unknown parts."""

    def __init__(self, openapi: OpenApi, schema: Schema | Callable[[], Schema]) -> None:
        self._openapi = openapi
        self._source = schema

    @property
    def _schema(self) -> Schema:
        # The document is fetched only when a patch depends on it.
        if callable(self._source):
            self._source = self._source()
        return self._openapi.resolved(self._source)

    def member(self, name: str) -> "SchemaNode":
        """Return the schema of a member."""

        def find() -> Schema:
            schema = self._schema
            found = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties")
            return found if isinstance(found, dict) else {}

        return SchemaNode(self._openapi, find)

    @property
    def item(self) -> "SchemaNode":
        """The schema of the items of a list."""
        return SchemaNode(self._openapi, lambda: self._schema.get("items") or {})

    @property
    def strategies(self) -> tuple[str, ...]:
        """How a value is patched: `merge`, `replace`, `retainKeys`."""
        return tuple(str(self._schema.get("x-kubernetes-patch-strategy") or "").split(","))

    @property
    def merge_key(self) -> str:
        """The member that identifies the items of a merged list of objects."""
        return str(self._schema.get("x-kubernetes-patch-merge-key") or "")


class _Mode(NamedTuple):
    deletes: bool  # remove fields that are missing in the new state
    changes: bool  # set new and changed fields


_CHANGES = _Mode(deletes=False, changes=True)
_DELETIONS = _Mode(deletes=True, changes=False)
_BOTH = _Mode(deletes=True, changes=True)


def strategic_patch(
    original: Object, modified: Object, current: Object, node: SchemaNode
) -> Object:
    """Return the three-way patch for a built-in kind."""
    changes = _diff(current, modified, node, _CHANGES)
    removals = _diff(original, modified, node, _DELETIONS)
    return _combined(removals, changes, node)


def strategic_diff(old: Object, new: Object, node: SchemaNode) -> Object:
    """Return the patch from one state of a built-in kind to another."""
    return _diff(old, new, node, _BOTH)


def _diff(old: Object, new: Object, node: SchemaNode, mode: _Mode) -> Object:
    patch: Object = {}
    for key, value in new.items():
        before = old.get(key)
        if key not in old or type(before) is not type(value):
            if mode.changes:
                patch[key] = value
        elif same(before, value):
            continue
        elif isinstance(value, dict) and isinstance(before, dict):
            if inner := _diff_objects(before, value, node.member(key), mode, key in _PLAIN):
                patch[key] = inner
        elif isinstance(value, list) and isinstance(before, list):
            _diff_lists(patch, key, before, value, node.member(key), mode)
        elif mode.changes:
            patch[key] = value
    if mode.deletes:
        patch |= {key: None for key in old if key not in new}
    return patch


def _diff_objects(
    old: Object, new: Object, node: SchemaNode, mode: _Mode, is_plain: bool
) -> Object:
    if is_plain:
        return _diff(old, new, node, mode)
    strategies = node.strategies
    if "replace" in strategies:
        return new if mode.changes else {}
    inner = _diff(old, new, node, mode)
    if "retainKeys" in strategies and inner:
        inner[_RETAIN] = sorted(new)
    return inner


def _diff_lists(
    patch: Object, key: str, old: list[Any], new: list[Any], node: SchemaNode, mode: _Mode
) -> None:
    if "merge" not in node.strategies:
        if mode.changes:
            patch[key] = new
        return
    if not old:
        if mode.changes and new:
            patch[key] = new
        return
    sample = (new or old)[0]
    if isinstance(sample, dict):
        merge_key = node.merge_key
        items = _diff_items(old, new, node, mode)
        is_same_order = [o.get(merge_key) for o in old] == [n.get(merge_key) for n in new]
        if items:
            patch[key] = items
        if new and (items or (mode.changes and not is_same_order)):
            patch[f"{_ORDER}/{key}"] = [{merge_key: n.get(merge_key)} for n in new]
        return
    added = [v for v in new if v not in old] if mode.changes else []
    removed = [v for v in old if v not in new] if mode.deletes else []
    if added:
        patch[key] = added
    if removed:
        patch[f"{_DELETE_LIST}/{key}"] = removed
    if new and (added or removed):
        patch[f"{_ORDER}/{key}"] = new


def _diff_items(old: list[Any], new: list[Any], node: SchemaNode, mode: _Mode) -> list[Object]:
    merge_key = node.merge_key
    before = {compact(item.get(merge_key)): item for item in old}
    after = {compact(item.get(merge_key)): item for item in new}
    items: list[Object] = []
    for identity, item in after.items():
        if identity not in before:
            if mode.changes:
                items.append(item)
            continue
        inner = _diff(before[identity], item, node.item, mode)
        if inner:
            items.append({**inner, merge_key: item.get(merge_key)})
    if mode.deletes:
        items += [
            {"$patch": "delete", merge_key: item.get(merge_key)}
            for identity, item in before.items()
            if identity not in after
        ]
    return items


def _combined(first: Object, second: Object, node: SchemaNode) -> Object:
    """Combine two strategic patches of the same object; the second wins."""
    result = dict(first)
    for key, value in second.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            result[key] = _combined(before, value, node.member(key))
        elif isinstance(before, list) and isinstance(value, list) and not key.startswith("$"):
            order = second.get(f"{_ORDER}/{key}") or first.get(f"{_ORDER}/{key}") or []
            result[key] = _combined_lists(before, value, node.member(key), order)
        else:
            result[key] = value
    return result


def _combined_lists(
    first: list[Any], second: list[Any], node: SchemaNode, order: list[Any]
) -> list[Any]:
    merge_key = node.merge_key
    if "merge" not in node.strategies or not merge_key:
        return second
    items = {compact(item.get(merge_key)): item for item in first}
    for item in second:
        identity = compact(item.get(merge_key))
        before = items.get(identity)
        items[identity] = _combined(before, item, node.item) if before is not None else item
    # The server requires the items in $setElementOrder; deletions come last.
    places = {compact(item.get(merge_key)): place for place, item in enumerate(order)}
    return [items[key] for key in sorted(items, key=lambda key: places.get(key, len(places)))]
