# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patch as kube-apiserver applies it."""

import copy
from typing import Any

import pytest

from rdd.api import errors, strategic
from rdd.schema.node import compile_node

_BY_NAME = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
_ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}},
        "ports": {
            "type": "array",
            "items": {"type": "object"},
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "port",
        },
    },
}
NODE = compile_node(
    {
        "type": "object",
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {
                    "finalizers": {
                        "type": "array",
                        "items": {"type": "string"},
                        "x-kubernetes-patch-strategy": "merge",
                    },
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "items": {"type": "array", "items": _ITEM, **_BY_NAME},
            "nokey": {"type": "array", "items": _ITEM, "x-kubernetes-patch-strategy": "merge"},
            "plain": {"type": "array", "items": _ITEM},
            "strategy": {
                "type": "object",
                "x-kubernetes-patch-strategy": "retainKeys",
                "properties": {"type": {"type": "string"}, "rolling": {"type": "object"}},
            },
            "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
        },
    }
)


def patched(old: Any, patch: Any) -> Any:
    before = copy.deepcopy((old, patch))
    result = strategic.apply_strategic_patch(old, patch, NODE)
    assert (old, patch) == before
    return result


def names(*items: str) -> list[dict[str, str]]:
    return [{"name": n} for n in items]


@pytest.mark.parametrize(
    ("old", "patch", "expected"),
    [
        pytest.param(
            {"d": {"k": 1, "l": 2}},
            {"d": {"k": None, "z": 3}},
            {"d": {"l": 2, "z": 3}},
            id="objects-merge",
        ),
        pytest.param(
            {"d": {"k": 1}},
            {"d": {"$patch": "replace", "z": 3}},
            {"d": {"z": 3}},
            id="replace-object",
        ),
        pytest.param({"d": {"k": 1}}, {"d": {"$patch": "delete"}}, {"d": {}}, id="delete-object"),
        pytest.param(
            {"whole": {"k": 1}}, {"whole": {"z": 3}}, {"whole": {"z": 3}}, id="replace-by-schema"
        ),
        pytest.param(
            {"plain": names("a")},
            {"plain": names("b")},
            {"plain": names("b")},
            id="plain-list-is-replaced",
        ),
        pytest.param(
            {"items": names("a")},
            {"items": names("b")},
            {"items": names("b", "a")},
            id="new-item-goes-first",
        ),
        pytest.param(
            {"items": names("a", "b", "c")},
            {"items": names("b", "x")},
            {"items": names("a", "b", "x", "c")},
            id="new-items-follow-known-ones",
        ),
        pytest.param(
            {"items": [{"name": "a", "v": 1}]},
            {"items": [{"name": "a", "w": 2}]},
            {"items": [{"name": "a", "v": 1, "w": 2}]},
            id="items-merge-by-key",
        ),
        pytest.param(
            {"items": names("a", "b")},
            {"items": [{"$patch": "delete", "name": "a"}]},
            {"items": names("b")},
            id="delete-item",
        ),
        pytest.param(
            {"items": names("a")},
            {"items": [{"$patch": "delete", "name": "z"}]},
            {"items": names("a")},
            id="delete-missing-item",
        ),
        pytest.param(
            {"items": names("a", "b")},
            {"items": [{"$patch": "replace"}, {"name": "c"}]},
            {"items": names("c")},
            id="replace-list",
        ),
        pytest.param({"items": names("a")}, {"items": None}, {}, id="null-removes-list"),
        pytest.param(
            {"items": [{"name": "a", "ports": [{"port": 1}]}]},
            {"items": [{"name": "a", "ports": [{"port": 2}]}]},
            {"items": [{"name": "a", "ports": [{"port": 2}, {"port": 1}]}]},
            id="nested-lists-merge",
        ),
        pytest.param(
            {"items": [{"name": "a", "args": ["x"]}]},
            {"items": [{"name": "a", "args": ["y"]}]},
            {"items": [{"name": "a", "args": ["y"]}]},
            id="nested-plain-list",
        ),
        pytest.param(
            {},
            {"items": [{"$patch": "delete", "name": "a"}, {"name": "b", "x": None}]},
            {"items": names("b")},
            id="directives-and-nulls-of-new-values-go",
        ),
        pytest.param({}, {"d": {"$patch": "delete"}}, {}, id="deleting-what-is-not-there"),
        pytest.param({"d": 1}, {"d": {"a": None}}, {"d": {}}, id="other-type-replaces"),
        pytest.param(
            {"strategy": {"type": "R", "rolling": {}}},
            {"strategy": {"$retainKeys": ["type"], "type": "X"}},
            {"strategy": {"type": "X"}},
            id="retain-keys",
        ),
        pytest.param(
            {"a": 1, "d": {}},
            {"$retainKeys": ["d"], "d": {}},
            {"d": {}},
            id="retain-keys-at-the-root",
        ),
        pytest.param({"items": []}, {"items": []}, {"items": []}, id="empty-lists"),
    ],
)
def test_patch_is_merged(old: Any, patch: Any, expected: Any) -> None:
    assert patched(old, patch) == expected


@pytest.mark.parametrize(
    ("old", "patch", "expected"),
    [
        pytest.param(["a", "b"], {"finalizers": ["c"]}, ["c", "a", "b"], id="new-ones-go-first"),
        pytest.param(["a", "b"], {"finalizers": ["b"]}, ["a", "b"], id="known-ones-stay"),
        pytest.param(
            ["a", "b"], {"$deleteFromPrimitiveList/finalizers": ["a"]}, ["b"], id="delete"
        ),
        pytest.param(
            ["a", "b"],
            {"$deleteFromPrimitiveList/finalizers": ["z"]},
            ["a", "b"],
            id="delete-missing",
        ),
        pytest.param(
            ["a", "b"], {"$setElementOrder/finalizers": ["b", "a"]}, ["b", "a"], id="order-alone"
        ),
        pytest.param(
            ["a", "b", "c"],
            {"$setElementOrder/finalizers": ["c", "a"]},
            ["b", "c", "a"],
            id="others-keep-their-place",
        ),
        pytest.param(
            ["a"],
            {"$setElementOrder/finalizers": ["z", "a"], "finalizers": ["z"]},
            ["z", "a"],
            id="order-with-additions",
        ),
        pytest.param(["a"], {"finalizers": ["b", "b"]}, ["b", "a"], id="duplicates-go"),
    ],
)
def test_lists_of_scalars_merge_as_sets(old: list[str], patch: Any, expected: list[str]) -> None:
    result = patched({"metadata": {"finalizers": old}}, {"metadata": patch})
    assert result["metadata"]["finalizers"] == expected


def test_order_directive_sorts_items_and_adds_new_lists() -> None:
    order = {"$setElementOrder/items": names("c", "a", "b")}
    old = {"items": [{"name": "a", "v": 1}, {"name": "b"}]}
    assert patched(old, {**order, "items": [{"name": "c"}]}) == {
        "items": [{"name": "c"}, {"name": "a", "v": 1}, {"name": "b"}]
    }
    assert patched({}, {**order, "items": names("a")}) == {"items": names("a")}
    assert patched({}, order) == {}


def test_deleting_from_a_list_that_is_not_there_does_nothing() -> None:
    assert patched(
        {"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    ) == {"metadata": {}}


def test_identity_is_never_patched() -> None:
    old = {"apiVersion": "v1", "kind": "K", "d": {}}
    patch = {"apiVersion": "v2", "kind": None, "$retainKeys": ["apiVersion"]}
    assert patched(old, patch) == {"apiVersion": "v1", "kind": "K"}
    assert patched(old, {"$patch": "delete"}) == {"apiVersion": "v1", "kind": "K"}


def test_null_patch_changes_nothing() -> None:
    assert patched({"a": 1}, None) == {"a": 1}


@pytest.mark.parametrize(
    ("old", "patch", "message"),
    [
        pytest.param(
            {"items": names("a")},
            {"items": [{"v": "nokey"}]},
            "map: map[v:nokey] does not contain declared merge key: name",
            id="no-merge-key",
        ),
        pytest.param(
            {"items": names("a")},
            {"items": [{"$patch": "delete"}]},
            "map: map[$patch:delete] does not contain declared merge key: name",
            id="delete-without-key",
        ),
        pytest.param(
            {"items": names("a")},
            {"items": [{"$patch": "merge", "name": "a"}]},
            "merging lists cannot yet be specified in the patch",
            id="merge-directive",
        ),
        pytest.param(
            {"items": names("a")},
            {"items": [{"$patch": "x", "name": "a"}]},
            "unknown patch type: x in map: map[$patch:x name:a]",
            id="unknown-item-directive",
        ),
        pytest.param(
            {"d": {}},
            {"d": {"$patch": "x"}},
            "unknown patch type: x in map: map[$patch:x]",
            id="unknown-directive",
        ),
        pytest.param(
            {"items": names("a")},
            {"items": ["a"]},
            "list element types are not identical: [[map[name:a]] [a]]",
            id="mixed-types",
        ),
        pytest.param(
            {"items": names("a")},
            {"items": [["a"]]},
            "list element types are not identical: [[map[name:a]] [[a]]]",
            id="list-among-objects",
        ),
        pytest.param(
            {"nokey": names("a")},
            {"nokey": names("b")},
            "cannot merge lists without merge key for struct",
            id="no-key-in-schema",
        ),
        pytest.param(
            {"atomic": names("a")},
            {"$deleteFromPrimitiveList/atomic": []},
            "cannot merge lists without merge key for struct",
            id="delete-from-objects-without-key",
        ),
        pytest.param(
            {"atomic": names("a")},
            {"$deleteFromPrimitiveList/atomic": ["x"]},
            "list element types are not identical: [[map[name:a]] [x]]",
            id="delete-of-another-type",
        ),
        pytest.param(
            {"items": names("a")},
            {"$setElementOrder/items": [1]},
            "value for key 0 is not a map",
            id="order-of-another-type",
        ),
        pytest.param(
            {"items": names("a")},
            {"$setElementOrder/items": names("a"), "items": names("b")},
            "The order in patch list:\n[map[name:b]]\n doesn't match"
            " $setElementOrder list:\n[map[name:a]]\n",
            id="order-lacks-item",
        ),
        pytest.param(
            {"items": names("a")},
            {"$setElementOrder/items": "x"},
            "expected a []interface {}, but received a string",
            id="order-not-a-list",
        ),
        pytest.param(
            {"items": 5},
            {"$setElementOrder/items": []},
            "expected a []interface {}, but received a int64",
            id="ordered-not-a-list",
        ),
        pytest.param(
            {"items": names("a")},
            {"$setElementOrder/items": [1], "items": names("a")},
            "expected a map[string]interface {}, but received a int64",
            id="order-of-scalars",
        ),
    ],
)
def test_patch_that_does_not_fit_is_500_without_reason(old: Any, patch: Any, message: str) -> None:
    with pytest.raises(errors.ApiError) as e:
        patched(old, patch)
    assert (e.value.message, e.value.code, e.value.reason) == (message, 500, "")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(
            [],
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
            id="list",
        ),
        pytest.param(
            {"$retainKeys": 1}, "invalid patch format of retainKeys", id="retain-keys-not-a-list"
        ),
        pytest.param(
            {"$retainKeys": [], "a": 1},
            "invalid patch format of retainKeys",
            id="retain-keys-lacks-member",
        ),
        pytest.param(
            {"$deleteFromPrimitiveList": []},
            "invalid patch format of primitive list",
            id="delete-without-name",
        ),
        pytest.param(
            {"$setElementOrder": []},
            "invalid patch format of setElementOrder list",
            id="order-without-name",
        ),
    ],
)
def test_malformed_directive_is_400(patch: Any, message: str) -> None:
    with pytest.raises(errors.BadRequest) as e:
        patched({}, patch)
    assert e.value.message == message


def test_lists_of_lists_are_422() -> None:
    with pytest.raises(errors.Invalid) as e:
        patched({"items": [[]]}, {"items": [[]]})
    assert e.value.details == {}


def test_deep_patch_is_rejected() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(errors.BadRequest, match="nested too deeply"):
        strategic.apply_strategic_patch({}, {"x": deep}, NODE)
