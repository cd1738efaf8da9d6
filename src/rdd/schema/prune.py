# SPDX-License-Identifier: Apache-2.0
"""Structural pruning of custom resources: members the schema does not know are dropped.

The walk changes the object in place and touches each member once. A path is
carried as nested tuples and becomes text only when something is dropped, so a
clean object costs no string at all.

apiVersion, kind and metadata belong to Kubernetes, not to the schema: at the
root they are left alone (`rdd.api.metadata` decodes the root's metadata), in
an embedded resource the metadata is brought into the form of an ObjectMeta.
"""

from typing import Any

from rdd.api.objectmeta import MetadataError, decode_object_meta
from rdd.schema.node import Node

_Where = tuple[Any, str | int] | None
_Dropped = _Where | str  # text: a member of the metadata of an embedded resource
_INT64 = 2.0**63
_META = frozenset(("apiVersion", "kind", "metadata"))


def prune(node: Node, obj: Any, *, unknown: list[str] | None) -> None:
    """Drop what the schema does not know from a resource, in place.

    The paths of dropped members are appended to `unknown`, as `spec.l[0].z`
    (fieldValidation reports them as `unknown field "…"`): sorted, those in the
    metadata of embedded resources last, because Kubernetes decodes that after pruning.
    """
    dropped: list[_Dropped] = []
    if type(obj) is dict:
        _object(node, obj, None, dropped, is_resource=True, is_root=True)
    if unknown is not None and dropped:
        unknown.extend(sorted(_text(where) for where in dropped if not isinstance(where, str)))
        unknown.extend(sorted(where for where in dropped if isinstance(where, str)))


def is_pruned(node: Node, value: Any, *, is_resource: bool) -> bool:
    """Return whether pruning would not change a value; the value is not modified.

    `is_resource` is set for a resource (root or embedded).
    """
    found: list[_Dropped] = []
    _value(node, _copied(value), None, found, is_resource=is_resource)
    return not found


def integral_floats(value: Any) -> Any:
    """Return the value with 1.0 as 1, as Go's JSON prints floats that fit an int64.

    Containers are changed in place.
    """
    cls = type(value)
    if cls is float:
        return int(value) if value.is_integer() and abs(value) < _INT64 else value
    if cls is dict:
        for key, item in value.items():
            if type(item) in (float, dict, list):
                value[key] = integral_floats(item)
    elif cls is list:
        for position, item in enumerate(value):
            if type(item) in (float, dict, list):
                value[position] = integral_floats(item)
    return value


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    if type(value) is list:
        return [_copied(item) for item in value]
    return value


def _text(where: _Where) -> str:
    parts: list[str] = []
    while where is not None:
        where, step = where
        parts.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(parts)).removeprefix(".")


def _value(
    node: Node | None, value: Any, where: _Where, dropped: list[_Dropped], *, is_resource: bool
) -> None:
    if type(value) is dict:
        if node is None:
            _empty(value, where, dropped)
        else:
            _object(node, value, where, dropped, is_resource=is_resource, is_root=False)
    elif type(value) is list:
        _list(node, value, where, dropped)


def _empty(obj: dict[str, Any], where: _Where, dropped: list[_Dropped]) -> None:
    dropped.extend((where, key) for key in obj)
    obj.clear()


def _object(
    node: Node,
    obj: dict[str, Any],
    where: _Where,
    dropped: list[_Dropped],
    *,
    is_resource: bool,
    is_root: bool,
) -> None:
    properties, additional = node.properties, node.additional
    closed = additional is None and not node.preserve_unknown and not node.additional_bool
    surplus: list[str] | None = None
    for key, value in obj.items():
        if is_resource and key in _META:
            if key == "metadata" and not is_root and type(value) is dict:
                obj[key] = _pruned_metadata(value, (where, key), dropped)
            continue
        child = properties.get(key)
        if child is None:
            if closed:
                if surplus is None:
                    surplus = [key]
                else:
                    surplus.append(key)
                continue
            if node.additional_bool:
                _value(None, value, (where, key), dropped, is_resource=False)
                continue
            if additional is None:
                continue
            child = additional
        cls = type(value)
        if cls is dict:
            _object(child, value, (where, key), dropped, is_resource=child.embedded, is_root=False)
        elif cls is list:
            _list(child, value, (where, key), dropped)
    if surplus is not None:
        for key in surplus:
            del obj[key]
            dropped.append((where, key))


def _pruned_metadata(
    meta: dict[str, Any], where: _Where, dropped: list[_Dropped]
) -> dict[str, Any]:
    try:
        decoded, unknown = decode_object_meta(meta, path=_text(where))
    except MetadataError:
        return meta  # validation reports the error
    dropped.extend(unknown)
    return decoded


def _list(node: Node | None, items: list[Any], where: _Where, dropped: list[_Dropped]) -> None:
    keeps = node is not None and node.preserve_unknown
    child = None if node is None else node.items
    for position, item in enumerate(items):
        cls = type(item)
        if cls is dict:
            if child is None:
                if not keeps:
                    _empty(item, (where, position), dropped)
            elif keeps:
                _kept_item(child, item, (where, position), dropped)
            else:
                _object(
                    child,
                    item,
                    (where, position),
                    dropped,
                    is_resource=child.embedded,
                    is_root=False,
                )
        elif cls is list and not (keeps and child is None):
            _list(child, item, (where, position), dropped)


def _kept_item(node: Node, obj: dict[str, Any], where: _Where, dropped: list[_Dropped]) -> None:
    # Below a list that preserves unknown members an item keeps its own surplus, while declared
    # members are pruned as usual: in Kubernetes the exemption covers one level of lists.
    for key, value in obj.items():
        if node.embedded and key in _META:
            continue
        child = node.properties.get(key) or node.additional
        if child is not None:
            _value(child, value, (where, key), dropped, is_resource=child.embedded)
