# SPDX-License-Identifier: Apache-2.0
"""JSON patch as kube-apiserver applies it."""

import copy
from typing import Any

import jsonpatch as oracle
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import errors, jsonpatch

_CANNOT = "error decoding patch: json: cannot unmarshal"

DOC: dict[str, Any] = {
    "data": {"k": "v", "l": "w"},
    "list": ["a", "b"],
    "n": None,
    "deep": {"o": [{"x": 1}]},
}


def patched(*operations: Any) -> Any:
    before = copy.deepcopy(DOC)
    result = jsonpatch.apply_json_patch(DOC, list(operations))
    assert before == DOC
    return result


@pytest.mark.parametrize(
    ("operation", "pointer", "expected"),
    [
        pytest.param({"op": "add", "path": "/data/n", "value": 1}, "data.n", 1, id="add-member"),
        pytest.param(
            {"op": "add", "path": "/data/k", "value": 1}, "data.k", 1, id="add-overwrites"
        ),
        pytest.param(
            {"op": "add", "path": "/data/k"}, "data.k", None, id="add-without-value-is-null"
        ),
        pytest.param(
            {"op": "add", "path": "/list/-", "value": "c"}, "list", ["a", "b", "c"], id="append"
        ),
        pytest.param(
            {"op": "add", "path": "/list/0", "value": "c"}, "list", ["c", "a", "b"], id="insert"
        ),
        pytest.param(
            {"op": "add", "path": "/list/2", "value": "c"}, "list", ["a", "b", "c"], id="at-end"
        ),
        pytest.param(
            {"op": "add", "path": "/list/-1", "value": "c"}, "list", ["a", "b", "c"], id="negative"
        ),
        pytest.param(
            {"op": "add", "path": "/list/-3", "value": "c"},
            "list",
            ["c", "a", "b"],
            id="most-negative",
        ),
        pytest.param(
            {"op": "replace", "path": "/list/-1", "value": "c"},
            "list",
            ["a", "c"],
            id="replace-last",
        ),
        pytest.param(
            {"op": "replace", "path": "/data/zz", "value": 1},
            "data.zz",
            1,
            id="replace-missing-adds",
        ),
        pytest.param({"op": "remove", "path": "/list/-2"}, "list", ["b"], id="remove-negative"),
        pytest.param({"op": "remove", "path": "/data/k"}, "data", {"l": "w"}, id="remove-member"),
        pytest.param({"op": "move", "from": "/data/k", "path": "/moved"}, "moved", "v", id="move"),
        pytest.param(
            {"op": "move", "from": "/list/0", "path": "/list/1"},
            "list",
            ["b", "a"],
            id="move-in-list",
        ),
        pytest.param(
            {"op": "copy", "from": "/data", "path": "/copy"},
            "copy",
            {"k": "v", "l": "w"},
            id="copy",
        ),
        pytest.param(
            {"op": "copy", "from": "/data/zz", "path": "/data/k"},
            "data.k",
            None,
            id="copy-missing-is-null",
        ),
        pytest.param(
            {"op": "add", "path": "ignored/k", "value": 1},
            "k",
            1,
            id="text-before-slash-is-ignored",
        ),
        pytest.param({"op": "add", "path": "/a~1b~0c", "value": 1}, "a/b~c", 1, id="escapes"),
        pytest.param({"op": "add", "path": "/", "value": 1}, "", 1, id="empty-key"),
        pytest.param(
            {"op": "replace", "path": "/deep/o/0/x", "value": 2}, "deep.o", [{"x": 2}], id="deep"
        ),
    ],
)
def test_operation_changes_the_value(operation: Any, pointer: str, expected: Any) -> None:
    found = patched(operation)
    for part in pointer.split("."):
        found = found[part]
    assert found == expected


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "frobnicate", "path": "/data"}, id="unknown-kind"),
        pytest.param({"path": "/data"}, id="no-kind"),
        pytest.param(None, id="null-operation"),
        pytest.param({"op": "add", "value": 1}, id="no-path"),
        pytest.param({"op": "add", "path": "", "value": {}}, id="add-whole-document"),
        pytest.param({"op": "add", "path": "nowhere", "value": 1}, id="no-slash"),
        pytest.param({"op": "add", "path": "/zz/a", "value": 1}, id="missing-parent"),
        pytest.param({"op": "add", "path": "/n/a", "value": 1}, id="null-parent"),
        pytest.param({"op": "add", "path": "/data/k/a", "value": 1}, id="scalar-parent"),
        pytest.param({"op": "add", "path": "/list/3", "value": 1}, id="index-beyond-end"),
        pytest.param({"op": "add", "path": "/list/-4", "value": 1}, id="index-before-start"),
        pytest.param({"op": "add", "path": "/list/x", "value": 1}, id="not-an-index"),
        pytest.param(
            {"op": "add", "path": "/list/1_0", "value": 1}, id="python-number-is-no-index"
        ),
        pytest.param({"op": "replace", "path": "/list/-", "value": 1}, id="dash-only-adds"),
        pytest.param({"op": "replace", "path": "", "value": 1}, id="document-becomes-scalar"),
        pytest.param({"op": "remove", "path": "/data/zz"}, id="remove-missing"),
        pytest.param({"op": "remove", "path": "/list/9"}, id="remove-beyond-end"),
        pytest.param({"op": "move", "from": "/data/zz", "path": "/a"}, id="move-missing"),
        pytest.param({"op": "move", "from": "/data", "path": "/data/k"}, id="move-into-itself"),
        pytest.param({"op": "copy", "from": "/list/9", "path": "/a"}, id="copy-beyond-end"),
        pytest.param({"op": "copy", "path": "/a"}, id="copy-without-from"),
        pytest.param({"op": "test", "path": "/data/k", "value": "w"}, id="test-fails"),
        pytest.param({"op": "test", "path": "/data/zz", "value": "w"}, id="test-missing"),
        pytest.param({"op": "test", "path": "/deep/o", "value": [{"x": True}]}, id="true-is-not-1"),
        pytest.param({"op": "test", "path": "/deep/o", "value": [{"x": 1.0}]}, id="1.0-is-not-1"),
        pytest.param({"op": "test", "path": "", "value": {}}, id="test-document"),
    ],
)
def test_operation_that_does_not_apply_is_422_without_saying_why(operation: Any) -> None:
    with pytest.raises(errors.Invalid) as e:
        patched({"op": "add", "path": "/data/new", "value": 1}, operation)
    assert e.value.to_status() | {"metadata": {}} == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid", "details": {}, "code": 422,
    }  # fmt: skip
    assert e.value.__cause__ is not None


def test_operations_see_the_ones_before() -> None:
    result = patched(
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "replace", "path": "/data/k", "value": {"a": []}},
        {"op": "add", "path": "/data/k/a/-", "value": 1},
        {"op": "copy", "from": "/data/k", "path": "/copy"},
        {"op": "add", "path": "/copy/a/-", "value": 2},
        {"op": "test", "path": "/data/k/a", "value": [1]},
    )
    assert result["data"]["k"] == {"a": [1]}
    assert result["copy"] == {"a": [1, 2]}


def test_patch_is_not_modified_and_can_be_applied_again() -> None:
    patch = [
        {"op": "add", "path": "/new", "value": {"a": {}}},
        {"op": "add", "path": "/new/a/b", "value": 1},
    ]
    before = copy.deepcopy(patch)
    assert jsonpatch.apply_json_patch({}, patch) == jsonpatch.apply_json_patch({}, patch)
    assert patch == before


def test_untouched_parts_are_shared() -> None:
    result = patched({"op": "add", "path": "/data/new", "value": 1})
    assert result["list"] is DOC["list"]
    assert result["deep"] is DOC["deep"]


def test_null_matches_a_missing_member() -> None:
    patched({"op": "test", "path": "/zz", "value": None}, {"op": "test", "path": "/n"})


def test_whole_document_can_be_replaced_and_tested() -> None:
    assert patched({"op": "replace", "path": "", "value": []}) == []
    assert patched({"op": "test", "path": "", "value": DOC}) == DOC


def test_copies_are_limited_in_size() -> None:
    doc = {"a": "x" * (1024 * 1024)}
    copies = [{"op": "copy", "from": "/a", "path": f"/{i}"} for i in range(4)]
    assert len(jsonpatch.apply_json_patch(doc, copies[:2])) == 3
    with pytest.raises(errors.Invalid) as e:
        jsonpatch.apply_json_patch(doc, copies)
    assert "exceeding the limit 3145728" in str(e.value.__cause__)


def test_too_many_operations_are_rejected() -> None:
    patch = [{"op": "test", "path": "/a"}] * 10_001
    assert jsonpatch.apply_json_patch({}, patch[1:]) == {}
    message = "The allowed maximum operations in a JSON patch is 10000, got 10001"
    with pytest.raises(errors.RequestEntityTooLarge, match=message):
        jsonpatch.apply_json_patch({}, patch)


@pytest.mark.parametrize(
    ("patch", "strict", "message"),
    [
        pytest.param(
            {}, True, f"{_CANNOT} object into Go value of type []handlers.jsonPatchOp", id="object"
        ),
        pytest.param(
            "x", True, f"{_CANNOT} string into Go value of type []handlers.jsonPatchOp", id="text"
        ),
        pytest.param(
            [1],
            True,
            f"{_CANNOT} number into Go value of type handlers.jsonPatchOp",
            id="number-as-operation",
        ),
        pytest.param(
            [{"op": True}],
            True,
            f"{_CANNOT} bool into Go struct field jsonPatchOp.op of type string",
            id="op-not-text",
        ),
        pytest.param(
            {},
            False,
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
            id="object-ignore",
        ),
        pytest.param(
            ["x"],
            False,
            "json: cannot unmarshal string into Go value of type jsonpatch.Operation",
            id="text-as-operation-ignore",
        ),
        pytest.param(
            [{"op": "add", "path": "/a" * 200}],
            True,
            "the object is nested too deeply",
            id="deep-pointer",
        ),
    ],
)
def test_malformed_patch_is_400(patch: Any, strict: bool, message: str) -> None:
    with pytest.raises(errors.BadRequest) as e:
        jsonpatch.apply_json_patch({}, patch, strict=strict)
    assert e.value.message == message


def test_null_patch_changes_nothing() -> None:
    assert jsonpatch.apply_json_patch(DOC, None) is DOC


def test_strict_errors_name_unknown_and_duplicate_members_in_document_order() -> None:
    text = b"""[{"op":"add","extra":1,"op":"add","path":"/a","value":{"k":1,"k":{"x":1,"x":2}}},
               null,{"Op":"add"}]"""
    assert jsonpatch.strict_errors(orjson.loads(text), text) == [
        'json patch unknown field "[0].extra"',
        'json patch duplicate field "[0].op"',
        'json patch duplicate field "[0].value.k"',
        'json patch duplicate field "[0].value.k.x"',
        'json patch unknown field "[2].Op"',
    ]
    assert jsonpatch.strict_errors([{"op": "add"}], b'[{"op":"add"}]') == []
    assert jsonpatch.strict_errors({}, b"{}") == []


scalars = st.one_of(st.integers(-3, 3), st.text("ab~/", max_size=2))
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def pointers(doc: Any, prefix: str = "") -> list[str]:
    found = [prefix] if prefix else []
    items = (
        doc.items() if isinstance(doc, dict) else enumerate(doc) if isinstance(doc, list) else ()
    )
    for key, below in items:
        part = str(key).replace("~", "~0").replace("/", "~1")
        found += pointers(below, f"{prefix}/{part}")
    return found


@st.composite
def documents_and_patches(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    doc = draw(st.dictionaries(st.text("ab", max_size=2), documents, min_size=1, max_size=3))
    places = st.sampled_from(pointers(doc))
    operation = st.one_of(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "replace"]), "path": places, "value": documents}
        ),
        st.fixed_dictionaries({"op": st.just("remove"), "path": places}),
        st.fixed_dictionaries(
            {"op": st.sampled_from(["move", "copy"]), "from": places, "path": places}
        ),
        st.fixed_dictionaries(
            {"op": st.just("add"), "path": places.map(lambda p: p + "/-"), "value": documents}
        ),
        st.fixed_dictionaries({"op": st.just("test"), "path": places, "value": documents}),
    )
    return doc, draw(st.lists(operation, min_size=1, max_size=4))


@settings(max_examples=200, deadline=None)
@given(documents_and_patches())
def test_result_is_the_one_of_the_jsonpatch_library(case: tuple[dict[str, Any], Any]) -> None:
    doc, patch = case
    try:
        expected = oracle.apply_patch(doc, patch)
    except (oracle.JsonPatchException, oracle.JsonPointerException):
        return
    before = copy.deepcopy((doc, patch))
    assert jsonpatch.apply_json_patch(doc, patch) == expected
    assert (doc, patch) == before
