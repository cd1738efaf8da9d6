# SPDX-License-Identifier: Apache-2.0
"""Comparing, merging and cutting values by their shape.

The operations of structured-merge-diff on plain JSON values. All walks start
with the cheapest test (identity, equality, leaf shape) because the comparison
runs in every write; results share unchanged parts with their inputs, and no
input is modified.

Absence and null differ: functions document where they accept "absent"; null is
a value, which counts as an empty object or list where the shape has parts.
"""

from collections.abc import Callable, Sequence
from typing import Any

from rdd.api.fieldset import LEAF, FieldSet, element_text
from rdd.api.mergepatch import same
from rdd.api.shapes import DEDUCED, ItemError, Shape, item_key
from rdd.base import goformat

_ABSENT: Any = object()

Comparison = tuple[FieldSet | None, FieldSet | None]
"""Fields added or modified, and fields removed; None where there are none."""


def all_fields(shape: Shape, value: Any) -> FieldSet:
    """Return every path in a value that appears or disappears, the containers included."""
    if shape.granular and type(value) is dict and value:
        members, element = shape.members or {}, shape.element or DEDUCED
        out: FieldSet = {".": LEAF}
        for name, below in value.items():
            declared = members.get(name)
            if declared is None:
                out["f:" + name] = LEAF if element.leaf else all_fields(element, below)
            else:
                key, sub = declared
                out[key] = LEAF if sub.leaf else all_fields(sub, below)
        return out
    if shape.associative and type(value) is list and value:
        item = shape.item or DEDUCED
        out = {".": LEAF}
        for below in value:
            key = item_key(shape, below)
            # Duplicate items are indistinguishable and owned as a whole.
            out[key] = LEAF if key in out or item.leaf else all_fields(item, below)
        return out
    return LEAF


def compare(shape: Shape, old: Any, new: Any) -> Comparison:
    """Return how two values that both exist and are not equal differ."""
    if shape.leaf:
        return LEAF, None
    if shape.granular and _is(old, dict) and _is(new, dict):
        return compare_objects(shape, old or {}, new or {}) if old or new else (LEAF, None)
    if shape.associative and _is(old, list) and _is(new, list):
        return _compare_lists(shape, old or [], new or []) if old or new else (LEAF, None)
    # The type changed: the parts of the old value go, those of the new one come.
    gone = {k: v for k, v in all_fields(shape, old).items() if k != "."}
    return all_fields(shape, new), gone or None


def _is(value: Any, kind: type) -> bool:
    return value is None or type(value) is kind


def compare_objects(
    shape: Shape, old: dict[str, Any], new: dict[str, Any], ignore: frozenset[str] = frozenset()
) -> Comparison:
    """Return how two objects differ in their members, except those to be ignored."""
    members, element = shape.members or {}, shape.element or DEDUCED
    changed: FieldSet = {}
    removed: FieldSet = {}
    for name, after in new.items():
        before = old.get(name, _ABSENT)
        if before is after or name in ignore:
            continue
        declared = members.get(name)
        key, sub = ("f:" + name, element) if declared is None else declared
        if before == after and (not sub.mixed or same(before, after)):
            continue
        if before is _ABSENT:
            changed[key] = LEAF if sub.leaf else all_fields(sub, after)
        elif sub.leaf:
            changed[key] = LEAF
        else:
            come, gone = compare(sub, before, after)
            if come is not None:
                changed[key] = come
            if gone is not None:
                removed[key] = gone
    for name in old:
        if name not in new and name not in ignore:
            declared = members.get(name)
            key, sub = ("f:" + name, element) if declared is None else declared
            removed[key] = LEAF if sub.leaf else all_fields(sub, old[name])
    return changed or None, removed or None


def _compare_lists(shape: Shape, old: list[Any], new: list[Any]) -> Comparison:
    item = shape.item or DEDUCED
    before, after = _grouped(shape, old), _grouped(shape, new)
    changed: FieldSet = {}
    removed: FieldSet = {}
    for key, items in after.items():
        were = before.get(key)
        if were == items and (not item.mixed or same(were, items)):
            continue
        if were is None or (len(were) > 1 and len(items) == 1):
            changed[key] = all_fields(item, items[0]) if len(items) == 1 else LEAF
            if were is not None:
                removed[key] = LEAF
        elif len(were) == 1 and len(items) == 1:
            come, gone = compare(item, were[0], items[0])
            if come is not None:
                changed[key] = come
            if gone is not None:
                removed[key] = gone
        else:
            changed[key] = LEAF
            if len(were) == 1:
                removed[key] = all_fields(item, were[0])
    for key, items in before.items():
        if key not in after:
            removed[key] = all_fields(item, items[0]) if len(items) == 1 else LEAF
    return changed or None, removed or None


def _grouped(shape: Shape, items: list[Any]) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for item in items:
        out.setdefault(item_key(shape, item), []).append(item)
    return out


def to_set(shape: Shape, value: Any) -> FieldSet | None:
    """Return what applying a value claims: leaves, list items and undeclared members.

    None for nothing.

    Declared members are not claimed themselves, only what is in them, unless
    they are null or an empty object.
    """
    if shape.granular and type(value) is dict:
        members, element = shape.members or {}, shape.element or DEDUCED
        out: FieldSet = {}
        for name, below in value.items():
            declared = members.get(name)
            key, sub = ("f:" + name, element) if declared is None else declared
            if sub.leaf or below is None or below == {}:
                out[key] = LEAF
                continue
            claimed = to_set(sub, below)
            if declared is None:
                claimed = _with_self(claimed)
            if claimed is not None:
                out[key] = claimed
        return out or None
    if shape.associative and type(value) is list:
        item = shape.item or DEDUCED
        out = {}
        for below in value:
            key = item_key(shape, below)
            twice = key in out
            out[key] = LEAF if twice or item.leaf else _with_self(to_set(item, below))
        return out or None
    return LEAF if value is not None or not (shape.granular or shape.associative) else None


def _with_self(fields: FieldSet | None) -> FieldSet:
    return fields if fields and "." in fields else {".": LEAF, **fields} if fields else LEAF


def merge(shape: Shape, old: Any, new: Any) -> Any:
    """Return `new` merged into `old` (both exist).

    Parts of `old` that `new` does not mention stay.
    """
    if old is new or shape.leaf:
        return new
    if shape.granular and _is(old, dict) and _is(new, dict):
        if not old or not new:
            return old or new
        members, element = shape.members or {}, shape.element or DEDUCED
        out = old.copy()
        for name, after in new.items():
            if name in old:
                declared = members.get(name)
                after = merge(element if declared is None else declared[1], old[name], after)
            out[name] = after
        return out
    if shape.associative and _is(old, list) and _is(new, list):
        return _merge_lists(shape, old, new) if old and new else old or new
    return new


def _merge_lists(shape: Shape, old: list[Any], new: list[Any]) -> list[Any]:
    """Return the merged list: shared items in the order of `new`, others near their neighbours."""
    item = shape.item or DEDUCED
    old_keys, new_keys = [item_key(shape, i) for i in old], [item_key(shape, i) for i in new]
    before: dict[str, Any] = {}
    for key, value in zip(old_keys, old, strict=True):
        # Items that occur twice are not merged with, only replaced.
        before[key] = None if key in before else value
    after = dict(zip(new_keys, new, strict=True))
    shared = [key for key in new_keys if key in before]
    done: set[str] = set()
    out: list[Any] = []

    def take(key: str) -> None:
        done.add(key)
        known = before.get(key)
        out.append(after[key] if known is None else merge(item, known, after[key]))
        if shared and shared[0] == key:
            shared.pop(0)

    i = j = 0
    while i < len(old_keys) or j < len(new_keys):
        if i < len(old_keys) and j < len(new_keys):
            key = old_keys[i]
            if key == new_keys[j]:
                take(key)
                i, j = i + 1, j + 1
                continue
            if key in after and shared and shared[0] != key:
                i += 1
                continue
        if i < len(old_keys):
            key = old_keys[i]
            if key not in after:
                out.append(old[i])
                i += 1
                continue
            if key in done:
                i += 1
        if j < len(new_keys):
            take(new_keys[j])
            j += 1
    return out


def remove(shape: Shape, value: Any, fields: FieldSet) -> Any:
    """Return the value without the paths of a set.

    None where nothing of an object or list is left.
    """
    if type(value) is dict and shape.members is not None:
        out: dict[str, Any] = {}
        for name, below in value.items() if shape.granular else ():
            cut = fields.get("f:" + name)
            if cut is None:
                out[name] = below
            elif cut and "." not in cut:
                out[name] = remove(shape.member(name) or DEDUCED, below, cut)
        return out or None
    if type(value) is list and shape.list_kind:
        item = shape.item or DEDUCED
        items = []
        for below in value if shape.associative else ():
            cut = fields.get(item_key(shape, below))
            if cut is None:
                items.append(below)
            elif cut and "." not in cut:
                items.append(remove(item, below, cut))
        return items or None
    return value if shape.scalar else None


def validate(shape: Shape, value: Any) -> list[str]:
    """Return why a value does not have a shape, as structured-merge-diff words it.

    Empty if it has.
    """
    problems: list[str] = []
    _validate(shape, value, "", problems)
    return problems


def aggregate(problems: Sequence[str]) -> str:
    """Return several problems of one object as one message."""
    if len(problems) == 1:
        return problems[0]
    return "\n".join(["errors:", *(f"  {p}" for p in problems)])


def _validate(shape: Shape, value: Any, path: str, problems: list[str]) -> None:
    if value is None:
        return
    if type(value) is dict and shape.members is not None:
        for name, below in value.items():
            sub = shape.member(name)
            if sub is None:
                problems.append(f"{path}.{name}: field not declared in schema")
                return
            _validate(sub, below, f"{path}.{name}", problems)
    elif type(value) is list and shape.list_kind:
        _validate_list(shape, value, path, problems)
    else:
        problem = _type_problem(shape, value)
        if problem:
            problems.append(f"{path}: {problem}" if path else problem)


def _validate_list(shape: Shape, value: list[Any], path: str, problems: list[str]) -> None:
    item = shape.item or DEDUCED
    seen: set[str] = set()
    for i, below in enumerate(value):
        text = f"[{i}]"
        if shape.associative:
            try:
                key = item_key(shape, below)
            except ItemError as e:
                problems.append(f"{path}: element {i}: {e}")
                return
            text = element_text(key)
            if key in seen:
                problems.append(f"{path}: duplicate entries for key {text}")
            seen.add(key)
        _validate(item, below, path + text, problems)


def _type_problem(shape: Shape, value: Any) -> str:
    scalar = not isinstance(value, dict | list)
    if scalar and shape.scalar and _SCALARS[shape.scalar](value):
        return ""
    got = f"&{{{goformat.plain(value)}}}"
    if shape.members is not None and not (scalar and shape.scalar):
        return f"expected map, got {got}"
    match shape.scalar:
        case "numeric":
            return f"expected numeric (int or float), got {goformat.type_name(value)}"
        case "string":
            return (
                f"expected string, got &value.valueUnstructured{{Value:{goformat.syntax(value)}}}"
            )
        case "boolean":
            return f"expected boolean, got {got}"
        case "untyped":
            return f"expected any scalar, got {got}"
    return f"expected list, got {got}"


_SCALARS: dict[str, Callable[[Any], bool]] = {
    "numeric": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "untyped": lambda v: True,
}
