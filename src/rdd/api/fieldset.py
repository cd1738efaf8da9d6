# SPDX-License-Identifier: Apache-2.0
"""Sets of fields in their wire form.

A set is the nested dict of FieldsV1 itself, so that encoding and decoding cost
nothing:

    {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {"f:a": {}}}}

A key is a path element: `f:` a member, `k:` an item of a list map by its keys,
`v:` an item of a set by its value, `i:` a list item by its index. Below it
`{}` marks the path as a member of the set; otherwise "." does, and the other keys are
longer paths. The root has no ".": a whole object has no owner.

Sets MUST NOT be modified: operations share subtrees with their operands, and
return an operand itself where nothing changes, which callers use to notice it.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from rdd.api.shapes import DEDUCED, Shape, key_json
from rdd.base import govalue

FieldSet = dict[str, Any]

LEAF: FieldSet = {}
"""Marks a path without longer ones; shared by all sets."""


class BadFields(Exception):
    """Something that claims to be FieldsV1 is not."""


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return paths in a or b; `a` itself if it contains b."""
    out = a
    for key, below in b.items():
        mine = a.get(key)
        both = below if mine is None else _union(mine, below)
        if both is not mine:
            if out is a:
                out = a.copy()
            out[key] = both
    return out


def _union(a: FieldSet, b: FieldSet) -> FieldSet:
    if a is b or (not b and (not a or "." in a)):
        return a
    if not b:
        return {".": LEAF, **a}
    if not a:
        return b if "." in b else {".": LEAF, **b}
    return union(a, b)


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return paths in a and not in b (longer paths stay); `a` itself if nothing goes."""
    out = a
    for key, below in b.items():
        if key in a and key != ".":
            mine = a[key]
            left = _difference(mine, below)
            if left is not mine:
                if out is a:
                    out = a.copy()
                if left is None:
                    del out[key]
                else:
                    out[key] = left
    return out


def _difference(a: FieldSet, b: FieldSet) -> FieldSet | None:
    """Return the same below one path element; None if nothing is left."""
    gone = not b or "." in b
    if not a:
        return None if gone else a
    left = difference(a, b)
    if gone and "." in left:
        left = left.copy() if left is a else left
        del left["."]
        return left or None
    if left is a:
        return a
    if not left:
        return None
    return LEAF if len(left) == 1 and "." in left else left


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return paths in both."""
    if len(b) < len(a):
        a, b = b, a
    out: FieldSet = {}
    for key, below in a.items():
        other = b.get(key)
        if other is None or key == ".":
            continue
        common = intersection(below, other) if below and other else {}
        member = (not below or "." in below) and (not other or "." in other)
        if common:
            out[key] = {".": LEAF, **common} if member else common
        elif member:
            out[key] = LEAF
    return out


def with_named_members(fields: FieldSet, shape: Shape | None) -> FieldSet:
    """Return the set with every declared member it reaches into as a path of its own.

    A set does not list `spec` when it has `spec.x` and spec is a declared
    member; removing the last of its parts must remove it nevertheless.
    """
    out: FieldSet = {}
    for key, below in fields.items():
        if not below:
            out[key] = below
            continue
        sub, named = _below(shape, key)
        deeper = with_named_members(below, sub)
        out[key] = {".": LEAF, **deeper} if named and "." not in deeper else deeper
    return out


def _below(shape: Shape | None, key: str) -> tuple[Shape | None, bool]:
    """Return the shape a path element leads to, and whether it is a declared member."""
    if shape is None:
        return None, False
    if key.startswith("f:"):
        declared = shape.members.get(key[2:]) if shape.members is not None else None
        return (declared[1], True) if declared is not None else (shape.element, False)
    return (shape.item if key.startswith("k:") else None), False


def reconcile(fields: FieldSet, shape: Shape) -> FieldSet:
    """Return the set under a schema in which objects or lists have become atomic; often itself.

    Who owned a part of what is atomic now owns all of it.
    """
    if shape is DEDUCED:
        return fields
    out = fields
    for key, below in fields.items():
        if not below or key == ".":
            continue
        sub, _ = _below(shape, key)
        if sub is None:
            continue
        new = LEAF if sub.atomic else below if sub.leaf else reconcile(below, sub)
        if new is not below:
            if out is fields:
                out = fields.copy()
            out[key] = new
    return out


def paths(fields: FieldSet) -> Iterator[str]:
    """Return the paths as text, `.spec.ports[name="a"].port`, in structured-merge-diff's order."""
    return _paths(fields, "")


def _paths(fields: FieldSet, prefix: str) -> Iterator[str]:
    keys = sorted((k for k in fields if k != "."), key=_order)
    texts = {key: prefix + element_text(key) for key in keys}
    for key in keys:
        if not fields[key] or "." in fields[key]:
            yield texts[key]
    for key in keys:
        if fields[key]:
            yield from _paths(fields[key], texts[key])


_KIND_ORDER = {"f": 0, "k": 1, "v": 2, "i": 3}


def _order(key: str) -> tuple[Any, ...]:
    kind, rest = key[0], key[2:]
    if kind == "f":
        return 0, rest
    value = orjson.loads(rest)
    if kind == "k":
        return 1, tuple((name, *_value_order(value[name])) for name in sorted(value))
    return (_KIND_ORDER[kind], *_value_order(value))


def _value_order(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return 2, str(value)
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, govalue.json_text(value))


def element_text(key: str) -> str:
    """Return a path element as messages show it: `.name`, `[name="a"]`, `[="x"]`, `[0]`."""
    kind, rest = key[0], key[2:]
    if kind == "f":
        return f".{rest}"
    value = orjson.loads(rest)
    if kind == "k":
        return "[" + ",".join(f"{k}={govalue.value(value[k])}" for k in sorted(value)) + "]"
    return f"[={govalue.value(value)}]" if kind == "v" else f"[{value}]"


def decode(fields: Any) -> FieldSet:
    """Return FieldsV1 from outside as a set in canonical form. Raises BadFields."""
    if fields is None:
        return {}
    try:
        return {k: v for k, v in _decode(fields).items() if k != "."}
    except RecursionError as e:
        raise BadFields("nested too deeply") from e


def _decode(fields: Any) -> FieldSet:
    if not isinstance(fields, dict):
        raise BadFields("expected an object")
    out: FieldSet = {}
    for key, below in fields.items():
        if key == ".":
            out["."] = LEAF
            continue
        element = _decode_element(key)
        if element is not None:
            out[element] = _decode(below)
    return LEAF if len(out) == 1 and "." in out else out


def _decode_element(key: str) -> str | None:
    """Return the canonical form of a path element; None for a kind that is not known (yet)."""
    if len(key) < 2 or key[1] != ":":
        raise BadFields(f"missing colon: {key}")
    kind, rest = key[0], key[2:]
    if kind not in _KIND_ORDER:
        return None
    if kind == "f":
        return key
    try:
        value = orjson.loads(rest)
    except orjson.JSONDecodeError as e:
        raise BadFields(str(e)) from e
    if kind == "k":
        if not isinstance(value, dict):
            raise BadFields(f"not an object: {rest}")
        return "k:{" + ",".join(f'"{k}":{key_json(value[k])}' for k in sorted(value)) + "}"
    if kind == "i" and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadFields(f"not an index: {rest}")
    return f"{kind}:{key_json(value)}"
