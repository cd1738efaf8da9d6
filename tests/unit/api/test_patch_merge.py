# SPDX-License-Identifier: Apache-2.0
"""Merge patch as kube-apiserver applies it."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import errors, mergepatch

_CANNOT = "error decoding patch: json: cannot unmarshal"
_INTO = "into Go value of type map[string]interface {}"


@pytest.mark.parametrize(
    ("old", "patch", "expected"),
    [
        pytest.param({"a": 1}, {}, {"a": 1}, id="empty"),
        pytest.param({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}, id="null-removes"),
        pytest.param({"a": 1}, {"z": None}, {"a": 1}, id="null-of-nothing"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}, id="nested"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists-replace"),
        pytest.param({"a": {"b": 1}}, {"a": [None]}, {"a": [None]}, id="list-over-object"),
        pytest.param(
            {"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="object-over-scalar"
        ),
        pytest.param({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}, id="nulls-in-new-objects-go"),
        pytest.param({}, {"a": [{"b": None}, None]}, {"a": [{}, None]}, id="nulls-in-new-lists"),
        pytest.param({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="object-over-null"),
        pytest.param({"a": {"b": 1}}, {"a": "x"}, {"a": "x"}, id="scalar-over-object"),
    ],
)
def test_patch_is_merged(old: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((old, patch))
    assert mergepatch.apply_merge_patch(old, patch) == expected
    assert (old, patch) == before


def test_untouched_parts_are_shared() -> None:
    old: dict[str, Any] = {"a": {"b": {"c": 1}, "d": {}}, "e": []}
    new = mergepatch.apply_merge_patch(old, {"a": {"d": {"x": 1}}})
    assert new["a"]["b"] is old["a"]["b"]
    assert new["e"] is old["e"]


@pytest.mark.parametrize(
    ("patch", "strict", "message"),
    [
        pytest.param([], True, f"{_CANNOT} array {_INTO}", id="list"),
        pytest.param(1, True, f"{_CANNOT} number {_INTO}", id="number"),
        pytest.param(None, True, "Invalid JSON Patch", id="null"),
        pytest.param("x", False, "Invalid JSON Patch", id="text-ignore"),
    ],
)
def test_patch_that_is_not_an_object_is_400(patch: Any, strict: bool, message: str) -> None:
    with pytest.raises(errors.BadRequest) as e:
        mergepatch.apply_merge_patch({}, patch, strict=strict)
    assert e.value.message == message


def test_list_becomes_the_result_when_validation_is_ignored() -> None:
    assert mergepatch.apply_merge_patch({}, [{"a": None}], strict=False) == [{}]


def test_deep_patch_is_rejected() -> None:
    patch: dict[str, Any] = {}
    for _ in range(5000):
        patch = {"a": patch}
    with pytest.raises(errors.BadRequest, match="nested too deeply"):
        mergepatch.apply_merge_patch({}, patch)


def test_true_and_1_are_different_values() -> None:
    assert mergepatch.create_merge_patch({"a": 1, "b": [1]}, {"a": True, "b": [True]}) == {
        "a": True,
        "b": [True],
    }
    assert mergepatch.create_merge_patch({"a": 1}, {"a": 1.0}) == {}


keys = st.text("abc", min_size=1, max_size=2)
scalars = st.one_of(st.integers(-2, 2), st.booleans(), st.text("xy", max_size=2))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=10,
)
objects = st.dictionaries(keys, values, max_size=4)


@settings(max_examples=200, deadline=None)
@given(objects, objects)
def test_created_patch_leads_from_one_object_to_the_other(old: Any, new: Any) -> None:
    patch = mergepatch.create_merge_patch(old, new)
    result = mergepatch.apply_merge_patch(old, patch)
    assert mergepatch.same(result, new)
    assert mergepatch.create_merge_patch(result, new) == {}


@settings(max_examples=100, deadline=None)
@given(objects, objects)
def test_applying_a_patch_twice_is_applying_it_once(old: Any, patch: Any) -> None:
    once = mergepatch.apply_merge_patch(old, patch)
    assert mergepatch.apply_merge_patch(once, patch) == once
