# SPDX-License-Identifier: Apache-2.0
"""Patches of webhooks, and the explanation of their failures."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.admission import patches, warnings

DOC: Object = {"kind": "K", "data": {"k": "v"}, "list": [1, 2], "text": "t", "a/b~c": {"x": 1}}


def op(kind: Any = "add", path: Any = "/data/x", **members: Any) -> Object:
    return {"op": kind, "path": path, **members}


def test_the_result_shares_nothing_with_the_object_and_the_patch() -> None:
    doc = copy.deepcopy(DOC)
    value = {"n": [1]}
    new = patches.apply(
        doc, [op(value=value), op("remove", "/a~1b~0c/x"), op("add", "/list/-", value=3)]
    )
    new["data"]["x"]["n"].append(2)
    assert (doc, value) == (DOC, {"n": [1]})
    assert (new["a/b~c"], new["list"]) == ({}, [1, 2, 3])


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        pytest.param(
            op("add", "/a/b/c"),
            'add operation does not apply: doc is missing path: "/a/b/c": missing value',
            id="add-missing",
        ),
        pytest.param(
            op("add", "/list/7", value=1),
            "error in add for path: '/list/7': Unable to access invalid index: 7: "
            "invalid index referenced",
            id="add-index",
        ),
        pytest.param(
            op("add", "/list/x", value=1),
            "error in add for path: '/list/x': value was not a proper array index: 'x': "
            'strconv.Atoi: parsing "x": invalid syntax',
            id="add-no-index",
        ),
        pytest.param(
            op("add", None),
            "add operation failed to decode path: missing value",
            id="add-no-path",
        ),
        pytest.param(
            op("remove", "/data/nope"),
            "error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: "
            "missing value",
            id="remove-missing-key",
        ),
        pytest.param(
            op("remove", "/text/x"),
            'remove operation does not apply: doc is missing path: "/text/x": missing value',
            id="remove-below-text",
        ),
        pytest.param(
            op("remove", "/list/x/y"),
            'remove operation does not apply: doc is missing path: "/list/x/y": missing value',
            id="remove-below-no-index",
        ),
        pytest.param(
            op("replace", "/a/b", value=1),
            "replace operation does not apply: doc is missing path: /a/b: missing value",
            id="replace-missing",
        ),
        pytest.param(
            op("replace", "/list/9", value=1),
            "replace operation does not apply: doc is missing key: /list/9: missing value",
            id="replace-index",
        ),
        pytest.param(
            op("replace", 5, value=1),
            "replace operation failed to decode path: operation missing path field: missing value",
            id="replace-no-path",
        ),
        pytest.param(
            op("test", "/data/k", value="other"),
            "testing value /data/k failed: test failed",
            id="test",
        ),
        pytest.param(
            op("test", "/a/b", value=1),
            "test operation does not apply: is missing path: /a/b: missing value",
            id="test-missing",
        ),
        pytest.param(
            op("move", "/x", **{"from": "/a/b"}),
            "move operation does not apply: doc is missing from path: /a/b: missing value",
            id="move-missing-source",
        ),
        pytest.param(
            op("move", "/x", **{"from": "/data/nope"}),
            "error in move for path: 'nope': Unable to remove nonexistent key: nope: missing value",
            id="move-missing-key",
        ),
        pytest.param(
            op("move", "/a/b", **{"from": "/data/k"}),
            "move operation does not apply: doc is missing destination path: /a/b: missing value",
            id="move-missing-destination",
        ),
        pytest.param(
            op("copy", "/x"),
            "copy operation failed to decode from: operation, missing from field: missing value",
            id="copy-no-source",
        ),
        pytest.param(
            op("copy", "/x", **{"from": "/list/5"}),
            "error in copy for from: '/list/5': Unable to access invalid index: 5: "
            "invalid index referenced",
            id="copy-index",
        ),
        pytest.param(
            op("copy", "/list/9", **{"from": "/data"}),
            "error while adding value during copy: Unable to access invalid index: 9: "
            "invalid index referenced",
            id="copy-destination-index",
        ),
        pytest.param(op("frobnicate"), "Unexpected kind: frobnicate", id="unknown"),
        pytest.param({}, "Unexpected kind: unknown", id="no-kind"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 6])
def test_the_operation_that_fails_is_explained(operation: Object, reason: str, before: int) -> None:
    good = [op("add", f"/data/new{i}", value=i) for i in range(before)]
    with pytest.raises(errors.InternalError) as caught:
        patches.apply(DOC, [*good, operation, op("never", "/reached")])
    assert caught.value.message == f"Internal error occurred: {reason}"


@pytest.mark.parametrize("value", [[1], []])
def test_rejects_a_patch_whose_result_is_not_an_object(value: Any) -> None:
    with pytest.raises(errors.InternalError):
        patches.apply(DOC, [op("replace", "", value=value)])


def test_rejects_a_result_too_deep_to_encode() -> None:
    deep: Any = 1
    for _ in range(250):
        deep = [deep]
    with pytest.raises(errors.InternalError):
        patches.apply(DOC, [op("add", "/data/a", value={}), op("add", "/data/a/b", value=deep)])


@pytest.mark.parametrize("patch", [{}, "text", [1], [[]]])
def test_rejects_a_patch_that_is_not_a_list_of_operations(patch: Any) -> None:
    with pytest.raises(errors.BadRequest):
        patches.apply(DOC, patch)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3)
    ),
    max_leaves=5,
)
_pointers = st.lists(
    st.sampled_from(["data", "k", "list", "0", "-1", "-", "9", "a~1b~0c", "x", ""]), max_size=4
).map(lambda parts: "".join(f"/{p}" for p in parts))
_operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x", None])},
    optional={"path": _pointers | _json, "from": _pointers | _json, "value": _json},
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_operations, max_size=5))
def test_any_patch_is_applied_or_rejected_without_side_effects(patch: list[Object]) -> None:
    doc = copy.deepcopy(DOC)
    try:
        assert isinstance(patches.apply(doc, patch), dict)
    except errors.ApiError as error:
        assert error.message
    assert doc == DOC


# -- warnings


def test_warnings_are_sent_once_and_only_if_valid_in_a_header() -> None:
    collected = ["old"]
    warnings.add(collected, ["a", "old", "", "a", "line\nbreak", "ümläut", "\x7f"])
    assert collected == ["old", "a", "ümläut"]


def test_many_or_long_warnings_are_truncated() -> None:
    collected: list[str] = []
    warnings.add(collected, ["x" * 4096])
    assert [len(t) for t in collected] == [4096]
    warnings.add(collected, ["y"])
    assert [len(t) for t in collected] == [256, 1]
    warnings.add(collected, [f"{i:04}" + "z" * 500 for i in range(100)])
    assert {len(t) for t in collected} == {256, 1}
    assert sum(map(len, collected)) <= warnings.MAX_TOTAL + warnings.MAX_ITEM
