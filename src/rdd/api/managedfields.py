# SPDX-License-Identifier: Apache-2.0
"""metadata.managedFields: who owns which field.

Every write records the fields it set under the name of its manager. An update
(create, PUT, every patch but apply) takes what it adds or changes and removes
from all others what it changes or removes; `apply` is in apply.py. The rules
are those of Kubernetes' fieldmanager:

- identity and bookkeeping members of metadata are never owned;
- an entry is one manager, operation, subresource and (of updates) API version;
  its time changes only when the manager changes the object;
- more than ten updaters are merged into `ancient-changes`, oldest first;
- clients may send a list of their own; none sent keeps the stored one, `[]` or
  `[{}]` gives up tracking, nonsense is ignored.

The update runs in every write, so it walks old and new object once, skipping
equal parts, and keeps entries it does not change as they are. A write that
changes nothing leaves the very list of the stored object.
"""

from collections.abc import Mapping
from typing import Any

from rdd.api import errors, fielderrors, fieldset, managedfields_entries, typedvalues
from rdd.api.fielderrors import FieldError
from rdd.api.fieldset import FieldSet
from rdd.api.managedfields_entries import Entry
from rdd.api.shapes import ItemError, SchemaNode, Shape, shape_of
from rdd.api.types import Object
from rdd.base import goformat

MAX_MANAGER_BYTES = 128
BEFORE_FIRST_APPLY = "before-first-apply"
"""Owns what an object had when nothing tracked it before its first apply."""


UNOWNED = frozenset(
    (
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
        "managedFields", "resourceVersion",
    )
)  # fmt: skip
_ROOT_UNOWNED = frozenset(("apiVersion", "kind", "metadata"))


def update(
    *,
    live: Object | None,
    new: Object,
    node: SchemaNode,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: str,
    reset: frozenset[str] = frozenset(),
    empty: Object | None = None,
    nodes: Mapping[str, SchemaNode] | None = None,
) -> None:
    """Set new["metadata"]["managedFields"] for a write that is not an apply.

    `live` is the stored object (None: create), `now` an RFC 3339 time in
    seconds. `reset` names what this endpoint does not write, top-level members
    and `metadata.<member>`; it is left out of account. `empty` is what a new
    object has by itself, for built-in kinds. `nodes` are
    the schemas of all versions of the kind; entries of others are dropped.

    `new` may share parts with `live`; `live` is not modified. Raises BadRequest
    only for an object nested too deeply.
    """
    old_entries: list[Entry] = (
        (live.get("metadata") or {}).get("managedFields") or [] if live else []
    )
    entries = _base(old_entries, new, bool(subresource))
    if not entries and live is not None:
        _set(new, live, [])
        return
    try:
        entries = _updated(
            entries, live if live is not None else empty or {}, new, shape_of(node),
            managedfields_entries.new_entry(manager, "Update", api_version, now, subresource),
            reset, nodes,
        )  # fmt: skip
    except ItemError:
        # Not of the kind's shape: validation refuses it, or a schema change left it behind.
        entries = old_entries
    except RecursionError as e:
        raise errors.BadRequest(goformat.TOO_DEEP) from e
    _set(new, live, entries)


def _base(old: list[Entry], new: Object, is_subresource: bool) -> list[Entry]:
    """Return the entries a write starts from: those the client sent if they are any good."""
    sent = (new.get("metadata") or {}).get("managedFields")
    if sent is old or is_subresource or not isinstance(sent, list):
        return old
    if not sent or (len(sent) == 1 and _is_blank(sent[0])):
        return []
    return old if sent == old else managedfields_entries.decode(sent) or old


def _is_blank(entry: Any) -> bool:
    return isinstance(entry, dict) and not any(entry.values())


def _set(new: Object, live: Object | None, entries: list[Entry]) -> None:
    meta = new.get("metadata")
    if meta is None or (live is not None and meta is live.get("metadata")):
        meta = new["metadata"] = dict(meta or {})
    if entries:
        meta["managedFields"] = entries
    else:
        meta.pop("managedFields", None)


def _updated(
    entries: list[Entry],
    old: Object,
    new: Object,
    shape: Shape,
    mine: Entry,
    reset: frozenset[str],
    nodes: Mapping[str, SchemaNode] | None,
) -> list[Entry]:
    changed, removed = compare_objects(shape, old, new, reset)
    if changed is None and removed is None:
        return entries
    me = managedfields_entries.identity(mine)
    out: list[Entry] = []
    previous: FieldSet = {}
    for entry in disowned(entries, old, new, shape, mine["apiVersion"], reset, nodes,
                          (changed, removed)):  # fmt: skip
        if changed is not None and managedfields_entries.identity(entry) == me:
            previous = entry["fieldsV1"]
        else:
            out.append(entry)
    if changed is not None:
        mine["fieldsV1"] = fieldset.union(previous, changed)
        out.append(mine)
        if len(out) > managedfields_entries.MAX_UPDATERS:
            out = managedfields_entries.capped(out)
    return managedfields_entries.sort(out)


def compare_objects(
    shape: Shape, old: Object, new: Object, reset: frozenset[str] = frozenset()
) -> typedvalues.Comparison:
    """Return changed and removed fields, except unowned ones and those the endpoint resets."""
    ignore = _ROOT_UNOWNED | reset if reset else _ROOT_UNOWNED
    changed, removed = typedvalues.compare_objects(shape, old, new, ignore)
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    if before is not after and "metadata" not in reset:
        unowned = UNOWNED
        if reset:
            unowned |= {name[9:] for name in reset if name.startswith("metadata.")}
        meta = shape.member("metadata")
        if meta is not None:
            come, gone = typedvalues.compare_objects(meta, before, after, unowned)
            if come is not None:
                changed = changed or {}
                changed["f:metadata"] = come
            if gone is not None:
                removed = removed or {}
                removed["f:metadata"] = gone
    return changed, removed


def disowned(
    entries: list[Entry],
    old: Object,
    new: Object,
    shape: Shape,
    api_version: str,
    reset: frozenset[str],
    nodes: Mapping[str, SchemaNode] | None,
    comparison: typedvalues.Comparison,
) -> list[Entry]:
    """Return the entries without what a write changes and removes.

    Those left with nothing are gone.

    Entries are compared in their own API version where its schema differs.
    """
    comparisons = {api_version: (shape, comparison)}
    out: list[Entry] = []
    for entry in entries:
        version = entry["apiVersion"]
        known = comparisons.get(version)
        if known is None:
            node = nodes.get(version) if nodes is not None else None
            if nodes is not None and node is None:
                continue
            other = shape_of(node) if node is not None else shape
            known = (
                other,
                comparison if other is shape else compare_objects(other, old, new, reset),
            )
            comparisons[version] = known
        entry_shape, (changed, removed) = known
        before = entry.get("fieldsV1") or {}
        fields = fieldset.reconcile(before, entry_shape)
        if changed is not None:
            fields = fieldset.difference(fields, changed)
        if removed is not None:
            fields = fieldset.difference(fields, removed)
        if fields:
            out.append(entry if fields is before else {**entry, "fieldsV1": fields})
    return out


def restore_times(live: Object, new: Object) -> None:
    """Take the times of `live` if the objects differ in nothing but the times of managedFields.

    For the end of a write, when everything that could change the object has
    run: a write whose changes were all undone again must be no write.
    """
    before, after = managedfields_entries.entries_of(live), managedfields_entries.entries_of(new)
    if before is after or len(before) != len(after) or not after:
        return
    for a, b in zip(before, after, strict=True):
        if a is not b and {**a, "time": None} != {**b, "time": None}:
            return
    if {**live, "metadata": {**live["metadata"], "managedFields": after}} == new:
        new["metadata"]["managedFields"] = before


def manager_from(query_value: str, user_agent: str) -> str:
    """Return the manager of a request.

    Its fieldManager parameter, else the user agent up to the slash.
    """
    if query_value:
        return query_value
    name = ""
    room = MAX_MANAGER_BYTES
    for char in filter(str.isprintable, user_agent.partition("/")[0]):
        room -= len(char.encode())
        if room < 0:
            break
        name += char
    return name


def manager_errors(query_value: str) -> list[FieldError]:
    """Return what is wrong with a fieldManager parameter."""
    found: list[FieldError] = []
    if len(query_value.encode(errors="surrogatepass")) > MAX_MANAGER_BYTES:
        found.append(fielderrors.too_long("fieldManager", MAX_MANAGER_BYTES))
    if not query_value.isprintable():
        position = 0
        for char in query_value:
            if not char.isprintable():
                detail = f"invalid character U+{ord(char):04X} (at position {position})"
                found.append(fielderrors.invalid("fieldManager", query_value, detail))
            position += len(char.encode(errors="surrogatepass"))
    return found
