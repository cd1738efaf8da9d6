# SPDX-License-Identifier: Apache-2.0
"""JSON merge patch (RFC 7386) with the semantics of kube-apiserver.

Objects are merged member by member, null removes a member, everything else
replaces. The result shares every part the patch does not touch with the
input; neither input is modified.
"""

from typing import Any

from rdd.api import errors
from rdd.base import goformat


def apply_merge_patch(obj: dict[str, Any], patch: Any, *, strict: bool = True) -> Any:
    """Return the object after the patch.

    `strict` is False under fieldValidation=Ignore, where a list as patch is
    not refused but becomes the result. Raises BadRequest for a patch that is
    not an object.
    """
    try:
        if isinstance(patch, dict):
            return _merge(obj, patch)
        if patch is None or (not strict and not isinstance(patch, list)):
            raise errors.BadRequest("Invalid JSON Patch")
        if strict:
            raise errors.BadRequest(
                f"error decoding patch: json: cannot unmarshal {goformat.json_kind(patch)}"
                " into Go value of type map[string]interface {}"
            )
        return _without_nulls(patch)
    except RecursionError as e:
        raise errors.BadRequest(goformat.TOO_DEEP) from e


def _merge(old: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = old.copy()
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict | list):
            current = merged.get(key)
            if not isinstance(current, dict):
                merged[key] = _without_nulls(value)
            else:
                merged[key] = _merge(current, value) if isinstance(value, dict) else value
        else:
            merged[key] = value
    return merged


def _without_nulls(value: Any) -> Any:
    """Return the value without null members of objects; the value itself if it has none."""
    if isinstance(value, dict):
        pruned = {k: _without_nulls(v) for k, v in value.items() if v is not None}
        changed = len(pruned) != len(value) or any(pruned[k] is not value[k] for k in pruned)
        return pruned if changed else value
    if isinstance(value, list):
        items = [_without_nulls(v) for v in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def create_merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the smallest merge patch from `old` to `new` (`new` must have no null members)."""
    patch: dict[str, Any] = {}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
            continue
        before = old[key]
        if isinstance(before, dict) and isinstance(value, dict):
            below = create_merge_patch(before, value)
            if below:
                patch[key] = below
        elif not same(before, value):
            patch[key] = value
    for key in old:
        if key not in new:
            patch[key] = None
    return patch


def same(a: Any, b: Any) -> bool:
    """Return equality of JSON values, in which true is not 1 (1 and 1.0 are the same number)."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)
