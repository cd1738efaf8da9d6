# SPDX-License-Identifier: Apache-2.0
"""Server-side apply.

An applied configuration is the whole intent of its manager: it is merged into
the live object, what the manager applied before and no longer mentions is
removed unless another manager owns it, and changing a field that another manager
owns is a conflict unless forced. The algorithm is structured-merge-diff's; its
steps here:

1. check the configuration against the shape (errors are 500, as in Kubernetes);
2. merge it into the live object;
3. remove what was dropped (skipped when nothing was);
4. compare with the live object: conflicts, and what others lose;
5. write managedFields; the time changes only if the object did.

kubectl's manager is special: it may take what the last client-side apply set
(by its annotation) without a conflict, and keeps that annotation up to date.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from rdd.api import errors, fieldset, managedfields, managedfields_entries, names, typedvalues
from rdd.api.fieldset import LEAF, FieldSet
from rdd.api.managedfields_entries import Entry
from rdd.api.shapes import ItemError, SchemaNode, Shape, shape_of
from rdd.api.types import Object
from rdd.base import goformat, gotext, govalue

_KUBECTL = "kubectl"
_MAX_ANNOTATIONS_BYTES = 256 * 1024
_UNOWNED: FieldSet = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {".": LEAF, **{f"f:{name}": LEAF for name in managedfields.UNOWNED}},
}


def apply(
    *,
    live: Object | None,
    patch: Any,
    node: SchemaNode,
    manager: str,
    api_version: str,
    subresource: str = "",
    force: bool = False,
    now: str,
    reset: frozenset[str] = frozenset(),
    empty: Object | None = None,
    nodes: Mapping[str, SchemaNode] | None = None,
    kind: str = "",
) -> Object:
    """Return the object after applying a configuration, with its managedFields.

    The parameters are those of `managedfields.update`; `kind`, if given, is
    checked together with the version. The result shares parts with `live` and
    `patch`, neither of which is modified; objects and lists of which nothing is
    left are null in it. If nothing changes it equals `live`, times included.

    Raises BadRequest for a configuration of another type or with managedFields,
    ApiError 500 for one that does not fit the schema, Conflict for fields of
    other managers.
    """
    patch = configuration(patch)
    _check_identity(patch, api_version, kind)
    request = _Apply(
        live if live is not None else {}, patch, shape_of(node), api_version, reset, nodes
    )
    try:
        request.check()
        entries = request.entries(live, empty or {}, subresource, now)
        new = request.run(entries, manager, subresource, force=force, now=now)
    except ItemError as e:
        raise request.unusable_live_object() from e
    except RecursionError as e:
        raise errors.BadRequest(goformat.TOO_DEEP) from e
    return _with_last_applied(new, patch) if manager == _KUBECTL else new


def configuration(document: Any) -> Object:
    """Return an applied document as an object; nothing at all is an empty one."""
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise errors.BadRequest(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {goformat.json_kind(document)} into Go value of type "
            "map[string]interface {}"
        )
    return document


def _check_identity(patch: Object, api_version: str, kind: str) -> None:
    if kind and (patch.get("apiVersion") != api_version or patch.get("kind") != kind):
        raise errors.BadRequest(f"invalid object type: {group_version_kind(patch)}")
    meta = patch.get("metadata")
    if isinstance(meta, dict) and isinstance(meta.get("managedFields"), list):
        raise errors.BadRequest("metadata.managedFields must be nil")


def group_version_kind(obj: Object) -> str:
    """Return the type of an object as error messages name it."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    version = version if isinstance(version, str) else ""
    kind = kind if isinstance(kind, str) else ""
    if version.count("/") > 1:
        return "/, Kind="  # unparsable
    if "/" not in version:
        version = f"/{version}"
    return f"{version}, Kind={kind}"


def describe(obj: Object) -> str:
    """Return the name and type of an object as error messages name it."""
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    namespace, name = (
        text if isinstance(text, str) else "" for text in (meta.get("namespace"), meta.get("name"))
    )
    return f"{namespace}/{name}; {group_version_kind(obj)}"


class _Apply:
    """One apply request under way."""

    def __init__(
        self,
        live: Object,
        patch: Object,
        shape: Shape,
        api_version: str,
        reset: frozenset[str],
        nodes: Mapping[str, SchemaNode] | None,
    ) -> None:
        self.live = live
        self.patch = patch
        self.shape = shape
        self.api_version = api_version
        self.reset = reset
        self.nodes = nodes

    def check(self) -> None:
        problems = typedvalues.validate(self.shape, self.patch)
        if problems:
            raise errors.ApiError(
                f"failed to create typed patch object ({describe(self.patch)}): "
                + typedvalues.aggregate(problems)
            )

    def unusable_live_object(self) -> errors.ApiError:
        """Return the error for a stored object whose lists no longer fit the schema."""
        problems = typedvalues.validate(self.shape, self.live)
        # Items that occur twice are allowed in what is stored already.
        problems = [p for p in problems if ": duplicate entries for key " not in p]
        return errors.ApiError(
            f"failed to create typed live object ({describe(self.live)}): "
            + typedvalues.aggregate(problems)
        )

    def entries(
        self, live: Object | None, empty: Object, subresource: str, now: str
    ) -> list[Entry]:
        """Return the entries of the live object; one for all its fields if it was not tracked."""
        if live is None:
            return []
        entries = managedfields_entries.entries_of(live)
        if not entries:
            fields, _ = managedfields.compare_objects(self.shape, empty, live, self.reset)
            if fields:
                first = managedfields_entries.new_entry(
                    managedfields.BEFORE_FIRST_APPLY, "Update", self.api_version, now, subresource
                )
                entries = [{**first, "fieldsV1": fields}]
        return entries

    def run(
        self, entries: list[Entry], manager: str, subresource: str, *, force: bool, now: str
    ) -> Object:
        mine = managedfields_entries.new_entry(manager, "Apply", self.api_version, now, subresource)
        me = managedfields_entries.identity(mine)
        others = [e for e in entries if managedfields_entries.identity(e) != me]
        previous = next((e for e in entries if managedfields_entries.identity(e) == me), None)
        claimed = _without(typedvalues.to_set(self.shape, self.patch) or {}, self.reset)
        new: Object = typedvalues.merge(self.shape, self.live, self.patch)
        if previous is not None:
            last = fieldset.reconcile(previous["fieldsV1"], self.shape)
            if fieldset.difference(last, claimed):
                new = self.prune(new, last, claimed, others)
        changed, removed = comparison = managedfields.compare_objects(
            self.shape, self.live, new, self.reset
        )
        if changed is not None and not force:
            self.refuse_conflicts(others, changed, manager)
        if changed is not None or removed is not None:
            others = managedfields.disowned(
                others, self.live, new, self.shape, self.api_version, self.reset, self.nodes,
                comparison,
            )  # fmt: skip
        elif new == self.live:
            # Applying what is there already is no reason for a new time, or for any.
            del mine["time"]
            if previous is not None and "time" in previous:
                mine["time"] = previous["time"]
        mine["fieldsV1"] = fieldset.difference(claimed, _UNOWNED)
        if mine["fieldsV1"]:
            others = [*others, mine]
        meta = {**(new.get("metadata") or {}), "managedFields": managedfields_entries.sort(others)}
        if not others:
            del meta["managedFields"]
        return {**new, "metadata": meta}

    def prune(
        self, merged: Object, last: FieldSet, claimed: FieldSet, others: list[Entry]
    ) -> Object:
        """Return the merged object without what the manager owned and claims no longer.

        First everything it owned is cut out, then what anyone owns is put
        back, then what it had not owned; so parts of a removed item that
        without an owner go with it, and nothing else does.
        """
        shape = self.shape

        def named(fields: FieldSet | None) -> FieldSet:
            return fieldset.with_named_members(fields or {}, shape)

        owned = claimed
        for entry in others:
            owned = fieldset.union(owned, entry["fieldsV1"])
        everything = named(typedvalues.to_set(shape, merged))
        last = named(last)
        cut = typedvalues.remove(shape, merged, last)
        kept = fieldset.union(named(typedvalues.to_set(shape, cut)), named(owned))
        cut = typedvalues.remove(shape, merged, fieldset.difference(everything, kept))
        gone = fieldset.difference(everything, named(typedvalues.to_set(shape, cut)))
        result: Object = typedvalues.remove(shape, merged, fieldset.intersection(gone, last)) or {}
        return result

    def refuse_conflicts(self, others: list[Entry], changed: FieldSet, manager: str) -> None:
        conflicts = []
        for entry in others:
            if self.nodes is not None and entry["apiVersion"] not in self.nodes:
                continue
            fields = fieldset.reconcile(entry["fieldsV1"], self.shape)
            common = fieldset.intersection(fields, changed)
            if common:
                conflicts.append((entry, common))
        if conflicts and manager == _KUBECTL:
            allowed = self.last_applied()
            conflicts = [(e, fieldset.difference(c, allowed)) for e, c in conflicts]
        conflicts = [(e, c) for e, c in conflicts if c]
        if conflicts:
            raise _conflict(conflicts)

    def last_applied(self) -> FieldSet:
        """Return what the last client-side apply set and no other manager has changed since."""
        text = ((self.live.get("metadata") or {}).get("annotations") or {}).get(names.LAST_APPLIED)
        try:
            applied = orjson.loads(text or "")
        except orjson.JSONDecodeError:
            return {}
        if not isinstance(applied, dict) or applied.get("apiVersion") != self.api_version:
            return {}
        if typedvalues.validate(self.shape, applied):
            return {}
        fields = typedvalues.to_set(self.shape, applied) or {}
        changed, removed = typedvalues.compare_objects(self.shape, applied, self.live)
        return fieldset.difference(fieldset.difference(fields, changed or {}), removed or {})


def _without(fields: FieldSet, reset: frozenset[str]) -> FieldSet:
    """Return the set without what the endpoint resets, top-level members or members of metadata."""
    for path in reset:
        name, _, below = path.partition(".")
        key = f"f:{name}"
        if key in fields:
            fields = fields.copy()
            if not below:
                del fields[key]
            elif fields[key]:
                fields[key] = {k: v for k, v in fields[key].items() if k != f"f:{below}"}
                if not fields[key]:
                    del fields[key]
    return fields


def _conflict(conflicts: list[tuple[Entry, FieldSet]]) -> errors.Conflict:
    found = [
        (_manager_text(entry), list(fieldset.paths(fields)))
        for entry, fields in sorted(conflicts, key=lambda c: managedfields_entries.identity(c[0]))
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, paths in found
        for path in paths
    ]
    if len(causes) == 1:
        message = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            line
            for manager, paths in found
            for line in (f"conflicts with {manager}:", *(f"- {path}" for path in paths))
        ]
        message = f"{len(causes)} conflicts: " + "\n".join(lines)
    return errors.Conflict(f"Apply failed with {message}", details={"causes": causes})


def _manager_text(entry: Entry) -> str:
    text = gotext.quote(entry.get("manager", ""))
    if entry.get("subresource"):
        text += f" with subresource {gotext.quote(entry['subresource'])}"
    return f"{text} using {entry['apiVersion']}" if entry["operation"] == "Update" else text


def _with_last_applied(obj: Object, patch: Object) -> Object:
    """Return the object with an updated annotation of client-side apply, if it has one."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if not annotations.get(names.LAST_APPLIED):
        return obj
    meta = patch.get("metadata") or {}
    if isinstance(meta.get("annotations"), dict):
        kept = {k: v for k, v in meta["annotations"].items() if k != names.LAST_APPLIED}
        meta = {**meta, "annotations": kept}
    text = govalue.json_text({**patch, "metadata": meta}).translate(_HTML) + "\n"
    annotations = {**annotations, names.LAST_APPLIED: text}
    size = sum(len(k.encode()) + len((v or "").encode()) for k, v in annotations.items())
    if size > _MAX_ANNOTATIONS_BYTES:
        del annotations[names.LAST_APPLIED]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
