# SPDX-License-Identifier: Apache-2.0
"""Patches of client-side apply: which fields they set, remove and leave unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import names
from rdd.api.mergepatch import apply_merge_patch
from rdd.api.strategic import apply_strategic_patch
from rdd.api.types import Object
from rdd.kubectl.openapi import OpenApi
from rdd.kubectl.patches.lastapplied import annotated, last_applied
from rdd.kubectl.patches.threeway import (
    SchemaNode,
    json_merge_patch,
    strategic_diff,
    strategic_patch,
)
from rdd.kubectl.verbs.apply import migration
from rdd.schema.node import compile_node

SCHEMA: Object = {
    "type": "object",
    "properties": {
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "items": {
            "type": "array",
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
            },
        },
        "set": {
            "type": "array",
            "x-kubernetes-patch-strategy": "merge",
            "items": {"type": "string"},
        },
        "atomic": {"type": "array", "items": {"type": "string"}},
        "strategy": {
            "type": "object",
            "x-kubernetes-patch-strategy": "retainKeys",
            "properties": {"type": {"type": "string"}, "detail": {"type": "string"}},
        },
    },
}


class Schemas(OpenApi):
    """Schemas without a server; those used here have no references."""

    def __init__(self) -> None:
        pass

    def resolved(self, schema: Object) -> Object:
        return schema


NODE = SchemaNode(Schemas(), SCHEMA)
COMPILED = compile_node(SCHEMA)


def patched(original: Object, modified: Object, current: Object) -> Object:
    return apply_strategic_patch(
        current, strategic_patch(original, modified, current, NODE), COMPILED
    )


@pytest.mark.parametrize(
    ("original", "modified", "current", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, {"a": 1, "b": 2}, {}, id="nothing to do"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 1, "b": 2}, {"a": 2}, id="changed"),
        pytest.param({"a": 1}, {}, {"a": 1, "b": 2}, {"a": None}, id="removed"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 3}, {"a": 1}, id="drifted"),
        pytest.param({"l": [1]}, {"l": [2]}, {"l": [1, 3]}, {"l": [2]}, id="lists are replaced"),
        pytest.param(
            {"m": {"x": 1, "z": 1}},
            {"m": {"x": 2}},
            {"m": {"x": 1, "y": 1, "z": 1}},
            {"m": {"x": 2, "z": None}},
            id="nested",
        ),
    ],
)
def test_patch_for_custom_resources(
    original: Object, modified: Object, current: Object, patch: Object
) -> None:
    assert json_merge_patch(original, modified, current) == patch


def test_list_items_of_other_owners_stay() -> None:
    def named(*names: str) -> list[Object]:
        return [{"name": name} for name in names]

    result = patched(
        {"items": named("a", "b")},
        {"items": [*named("b"), {"name": "c", "value": "new"}]},
        {"items": named("a", "b", "theirs")},
    )
    assert sorted(item["name"] for item in result["items"]) == ["b", "c", "theirs"]


def test_sets_are_merged_and_other_lists_replaced() -> None:
    result = patched(
        {"set": ["a", "b"], "atomic": ["x"]},
        {"set": ["b"], "atomic": ["y"]},
        {"set": ["a", "b", "theirs"], "atomic": ["x", "theirs"]},
    )
    assert sorted(result["set"]) == ["b", "theirs"]
    assert result["atomic"] == ["y"]


def test_retain_keys_lists_the_members_to_keep() -> None:
    current = {"strategy": {"type": "Rolling", "detail": "of rolling"}}
    patch = strategic_patch({}, {"strategy": {"type": "Recreate"}}, current, NODE)
    assert patch == {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}
    assert apply_strategic_patch(current, patch, COMPILED) == {"strategy": {"type": "Recreate"}}


scalars = st.sampled_from(["a", "b", "c"])
objects = st.fixed_dictionaries(
    {},
    optional={
        "map": st.dictionaries(scalars, scalars, max_size=3),
        "items": st.dictionaries(scalars, st.none() | scalars, max_size=3).map(
            lambda values: [
                {"name": name, **({"value": value} if value else {})}
                for name, value in values.items()
            ]
        ),
        "set": st.lists(scalars, max_size=3, unique=True),
        "atomic": st.lists(scalars, max_size=2),
    },
)


@settings(max_examples=100, deadline=None)
@given(objects, objects)
def test_two_way_patch_turns_old_into_new(old: Object, new: Object) -> None:
    result = apply_strategic_patch(old, strategic_diff(old, new, NODE), COMPILED)
    assert normalised(result) == normalised(new)


@settings(max_examples=100, deadline=None)
@given(objects, objects, objects)
def test_patch_sets_applied_and_removes_dropped_fields(
    original: Object, modified: Object, current: Object
) -> None:
    result = normalised(patched(original, modified, current))
    wanted, before, dropped = normalised(modified), normalised(current), normalised(original)
    for member, entries in wanted.items():
        if member in original and member not in modified:
            assert not result[member], "a whole list or map that was applied goes with all in it"
            continue
        if member == "atomic":
            assert modified.get("atomic") is None or result["atomic"] == entries
            continue
        for key, value in entries.items():
            got = result[member][key]
            assert got == value or (isinstance(value, dict) and value.items() <= got.items())
        for key in set(before[member]) - set(entries) - set(dropped[member]):
            assert key in result[member], "what others set stays"
        for key in set(dropped[member]) - set(entries):
            assert key not in result[member], "what was applied and no longer is goes"


@settings(max_examples=100, deadline=None)
@given(objects, objects, objects)
def test_merge_patch_sets_applied_and_removes_dropped_fields(
    original: Object, modified: Object, current: Object
) -> None:
    result = apply_merge_patch(current, json_merge_patch(original, modified, current))
    for member, value in modified.items():
        if member != "map":
            assert result[member] == value
    for member in set(original) - set(modified):
        assert member not in result


def normalised(obj: Object) -> Object:
    """Normalise an object: merged lists are unordered, and an empty list equals a missing one."""
    return {
        "map": obj.get("map") or {},
        "items": {item["name"]: item for item in obj.get("items") or ()},
        "set": dict.fromkeys(obj.get("set") or ()),
        "atomic": obj.get("atomic") or [],
    }


def test_annotation_records_the_object_without_itself() -> None:
    obj = {
        "kind": "X",
        "metadata": {"name": "a", "annotations": {"k": "<v>", names.LAST_APPLIED: "old"}},
    }
    marked = annotated(obj)
    text = marked["metadata"]["annotations"][names.LAST_APPLIED]
    assert text == ('{"kind":"X","metadata":{"annotations":{"k":"\\u003cv\\u003e"},"name":"a"}}\n')
    assert last_applied(marked) == {
        "kind": "X",
        "metadata": {"annotations": {"k": "<v>"}, "name": "a"},
    }
    assert last_applied({"metadata": {}}) is None
    assert last_applied({"metadata": {"annotations": {names.LAST_APPLIED: "no json"}}}) is None


def test_fields_of_client_side_apply_are_migrated() -> None:
    theirs: Object = {
        "manager": "kubectl-client-side-apply",
        "operation": "Update",
        "fieldsV1": {"f:data": {".": {}, "f:a": {}, "f:old": {}}},
    }
    ours: Object = {
        "manager": "kubectl",
        "operation": "Apply",
        "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
    }
    other: Object = {"manager": "x", "operation": "Update", "fieldsV1": {}}
    obj = {"metadata": {"resourceVersion": "7", "managedFields": [theirs, other, ours]}}
    patch = migration(obj, manager="kubectl")
    fields: Object = {"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:old": {}}}
    assert patch[0]["value"] == [other, {**ours, "fieldsV1": fields}]
    assert patch[1]["value"] == "7"
    assert migration({"metadata": {"managedFields": [ours]}}, manager="kubectl") == []
