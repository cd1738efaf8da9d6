# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patch, for built-in kinds.

Like a merge patch, but lists with a merge strategy in the schema are merged: lists of objects
by a key, lists of scalars as sets. Directives in the patch steer it:

    $patch: delete | replace | merge   of an object or of a list item
    $deleteFromPrimitiveList/<name>    scalars to take out of a list
    $setElementOrder/<name>            the order of a merged list
    $retainKeys                        members an object may keep

Merged lists put the items of the patch in front of the server's own ones
unless the old list orders them, as Kubernetes does. Neither the object nor the
patch is modified; what the patch does not touch is shared with the object.
"""

from typing import Any

from rdd.api import errors
from rdd.api.shapes import SchemaNode
from rdd.api.types import Object
from rdd.base import goformat, gotext

_DIRECTIVE = "$patch"
_DELETE_LIST = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"
_RETAIN = "$retainKeys"
_NO_KEY = "cannot merge lists without merge key for struct"


def apply_strategic_patch(obj: Object, patch: Any, node: SchemaNode) -> Object:
    """Return the object after the patch; apiVersion and kind stay what they are.

    Raises BadRequest for a patch that is not an object or has a malformed
    directive, Invalid for lists of lists, and ApiError 500 (as Kubernetes
    does) for a patch that does not fit the object.
    """
    if patch is None:
        return obj
    if not isinstance(patch, dict):
        raise errors.BadRequest(
            f"json: cannot unmarshal {goformat.json_kind(patch)}"
            " into Go value of type map[string]interface {}"
        )
    try:
        patched = _merge_objects(obj, patch, node)
    except RecursionError as e:
        raise errors.BadRequest(goformat.TOO_DEEP) from e
    # The reference patches a typed object, whose type no patch can change.
    identity: Object = {k: obj[k] for k in ("apiVersion", "kind") if k in obj}
    return {**identity, **patched, **identity}


def _failure(message: str) -> errors.ApiError:
    """Return an error Kubernetes does not classify: 500 without a reason."""
    return errors.ApiError(message)


def _merge_objects(old: Object, patch: Object, node: SchemaNode | None) -> Object:
    if _DIRECTIVE in patch:
        return _directive(patch)
    out = old.copy()
    done = {_RETAIN}
    if _RETAIN in patch:
        _retain_keys(out, patch)
    for key in patch:
        if key.startswith(_ORDER):
            done |= _merge_ordered(out, patch, key, node)
    for key, value in patch.items():
        if key in done:
            continue
        if key.startswith(_DELETE_LIST):
            _delete_scalars(out, key, value, node)
        elif value is None:
            out.pop(key, None)
        elif key in out and type(out[key]) is type(value):
            sub = _below(node, key)
            if isinstance(value, dict):
                is_replaced = "replace" in _strategies(sub)
                out[key] = value if is_replaced else _merge_objects(out[key], value, sub)
            elif isinstance(value, list):
                out[key] = _merge_lists(out[key], value, sub)
            else:
                out[key] = value
        else:
            kept = _cleaned(value, nulls=False)
            if kept is _NOTHING:
                out.pop(key, None)
            else:
                out[key] = kept
    return out


def _below(node: SchemaNode | None, name: str) -> SchemaNode | None:
    return (node.properties.get(name) or node.additional) if node is not None else None


def _strategies(node: SchemaNode | None) -> list[str]:
    return node.patch_strategy.split(",") if node is not None else []


def _directive(patch: Object) -> Object:
    match patch[_DIRECTIVE]:
        case "replace":
            return {k: v for k, v in patch.items() if k != _DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise _unknown_directive(other, patch)


def _unknown_directive(directive: Any, patch: Object) -> errors.ApiError:
    shown = goformat.as_text(directive)
    return _failure(f"unknown patch type: {shown} in map: {goformat.plain(patch)}")


def _retain_keys(out: Object, patch: Object) -> None:
    keys = patch[_RETAIN]
    if not isinstance(keys, list):
        raise errors.BadRequest("invalid patch format of retainKeys")
    for key, value in patch.items():
        is_directive = key == _RETAIN or key.startswith((_DELETE_LIST, _ORDER))
        if value is not None and not is_directive and key not in keys:
            raise errors.BadRequest("invalid patch format of retainKeys")
    for key in [k for k in out if k not in keys]:
        del out[key]


def _list_name(key: str, prefix: str, message: str) -> str:
    head, slash, name = key.partition("/")
    if not slash or head != prefix:
        raise errors.BadRequest(message)
    return name


def _delete_scalars(out: Object, key: str, value: Any, node: SchemaNode | None) -> None:
    name = _list_name(key, _DELETE_LIST, "invalid patch format of primitive list")
    if value is None:
        out.pop(name, None)
        return
    old = out.get(name)
    if not isinstance(old, list) or not isinstance(value, list) or not (old or value):
        return
    if _element_kind(old, value) is not dict:
        out[name] = [v for v in old if v not in value]  # whatever the strategy of the list is
        return
    below = _below(node, name)
    if below is None or not below.patch_merge_key:
        raise _failure(_NO_KEY)
    out[name] = _merge_lists(old, value, below)


def _merge_ordered(out: Object, patch: Object, key: str, node: SchemaNode | None) -> set[str]:
    """Merge a list that the patch also orders; the keys of the patch that are done with it."""
    order = patch[key]
    if not isinstance(order, list):
        raise _bad_type("[]interface {}", order)
    name = _list_name(key, _ORDER, "invalid patch format of setElementOrder list")
    for side in (out, patch):
        if name in side and not isinstance(side[name], list):
            raise _bad_type("[]interface {}", side[name])
    sub = _below(node, name)
    struct = node.source.get("title") if node is not None and sub is None else None
    if struct:
        raise _failure(
            f"unable to find api field in struct {struct} for the json field {gotext.quote(name)}"
        )
    merge_key = sub.patch_merge_key if sub is not None else ""
    server: list[Any] = out.get(name, [])
    sent: list[Any] = patch.get(name, [])
    _check_order(sent, order, merge_key)
    if name in patch:
        merged = _merge_lists(server, sent, sub) if name in out else _cleaned(sent, nulls=True)
    elif name in out:
        merged = server
    else:
        return {key}
    kind = _element_kind(server, sent)
    mine, others = _partition(merged, order, merge_key)
    out[name] = _ordered(mine, others, order, server, merge_key if kind is dict else "")
    return {key, name}


def _check_order(sent: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of the patch must be in the order list, in the same order."""
    if not sent or not order:
        return
    wanted = iter(order)
    for item in sent:
        if merge_key and isinstance(item, dict) and _DIRECTIVE in item:
            continue
        if not any(_same_key(item, other, merge_key) for other in wanted):
            raise _failure(
                f"The order in patch list:\n{goformat.plain(sent)}\n doesn't match"
                f" {_ORDER} list:\n{goformat.plain(order)}\n"
            )


def _same_key(a: Any, b: Any, merge_key: str) -> bool:
    if not merge_key:
        return bool(a == b)
    return bool(_key_of(a, merge_key) == _key_of(b, merge_key))


def _key_of(item: Any, merge_key: str) -> Any:
    if not isinstance(item, dict):
        raise _bad_type("map[string]interface {}", item)
    if merge_key not in item:
        raise _failure(
            f"map: {goformat.plain(item)} does not contain declared merge key: {merge_key}"
        )
    return item[merge_key]


def _bad_type(expected: str, value: Any) -> errors.ApiError:
    return _failure(f"expected a {expected}, but received a {goformat.type_name(value)}")


def _merge_lists(old: list[Any], patch: list[Any], node: SchemaNode | None) -> list[Any]:
    if "merge" not in _strategies(node):
        return patch
    if not old and not patch:
        return old
    if _element_kind(old, patch) is not dict:
        merged = _unique([*old, *patch])
        mine, others = _partition(merged, patch, "")
        return _ordered(mine, others, patch, old, "")
    merge_key = node.patch_merge_key if node is not None else ""
    if not merge_key:
        raise _failure(_NO_KEY)
    old, patch = _list_directives(old, patch, merge_key)
    merged = list(old)
    positions = {_hashable(i.get(merge_key)): n for n, i in reversed(list(enumerate(old)))}
    for item in patch:
        key = _hashable(_key_of(item, merge_key))
        at = positions.get(key)
        if at is None:
            positions[key] = len(merged)
            merged.append(item)
        else:
            merged[at] = _merge_objects(merged[at], item, node.items if node is not None else None)
    mine, others = _partition(merged, patch, merge_key)
    return _ordered(mine, others, patch, old, merge_key)


def _list_directives(
    old: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any]]:
    """Carry out the $patch items of a list; the old list and the patch that remain."""
    plain = []
    replaces = False
    for item in patch:
        if _DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[_DIRECTIVE]:
            case "delete":
                gone = _key_of(item, merge_key)
                old = [i for i in old if merge_key not in i or i[merge_key] != gone]
            case "replace":
                replaces = True
            case "merge":
                raise _failure("merging lists cannot yet be specified in the patch")
            case other:
                raise _unknown_directive(other, item)
    return (plain, []) if replaces else (old, plain)


def _element_kind(*lists: list[Any]) -> type:
    """Return the one type all items have."""
    kinds = list(dict.fromkeys(type(item) for items in lists for item in items))
    if not kinds:
        raise _failure("no elements in any of the given slices")
    if kinds[0] is list:
        raise errors.Invalid(
            "the server rejected our request due to an error in our request", details={}
        )
    if len(kinds) > 1:
        raise _failure(f"list element types are not identical: {goformat.plain(list(lists))}")
    return kinds[0]


def _unique(items: list[Any]) -> list[Any]:
    return list({_hashable(item): item for item in reversed(items)}.values())[::-1]


def _hashable(value: Any) -> Any:
    """Return a scalar as a dictionary key in which 1 and true differ."""
    return (type(value) is bool, value) if not isinstance(value, dict | list) else str(value)


def _partition(items: list[Any], members: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Return items that are also in `members`, and the others."""
    bad = len(members)
    if merge_key:
        bad = next((n for n, m in enumerate(members) if not isinstance(m, dict)), bad)
        keys = {_hashable(m[merge_key]) for m in members[:bad] if merge_key in m}
    else:
        keys = {_hashable(m) for m in members}
    inside: list[Any] = []
    outside: list[Any] = []
    for item in items:
        key = _hashable(_key_of(item, merge_key) if merge_key else item)
        if key in keys:
            inside.append(item)
        elif bad < len(members):
            raise _failure(f"value for key {bad} is not a map")
        else:
            outside.append(item)
    return inside, outside


def _ordered(
    patch: list[Any],
    server: list[Any],
    patch_order: list[Any],
    server_order: list[Any],
    merge_key: str,
) -> list[Any]:
    """Return both lists in one, each in its order.

    A server item goes first only if it was before.
    """

    def ranks(order: list[Any]) -> dict[Any, int]:
        first: dict[Any, int] = {}
        for n, item in enumerate(order):
            first.setdefault(_hashable(item.get(merge_key) if merge_key else item), n)
        return first

    def rank(item: Any, order: dict[Any, int]) -> int:
        return order.get(_hashable(item.get(merge_key) if merge_key else item), -1)

    wanted, known = ranks(patch_order), ranks(server_order)
    mine = sorted(patch, key=lambda item: rank(item, wanted))
    others = sorted(server, key=lambda item: rank(item, known))
    out: list[Any] = []
    i = j = 0
    while i < len(others) and j < len(mine):
        left, right = rank(others[i], known), rank(mine[j], known)
        if 0 <= left < right:
            out.append(others[i])
            i += 1
        else:
            out.append(mine[j])
            j += 1
    return [*out, *others[i:], *mine[j:]]


_NOTHING: Any = object()


def _cleaned(value: Any, *, nulls: bool) -> Any:
    """Return a value that has nothing to merge with.

    Without directives and (unless kept) null members.
    """
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _NOTHING
        members = {k: _cleaned(v, nulls=nulls) for k, v in value.items() if nulls or v is not None}
        return {k: v for k, v in members.items() if v is not _NOTHING}
    if isinstance(value, list):
        items = (_cleaned(v, nulls=nulls) for v in value)
        return [v for v in items if v is not _NOTHING]
    return value
