# SPDX-License-Identifier: Apache-2.0
"""JSON patches computed from two documents."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api.jsonpatch import apply_json_patch
from rdd.runtime.jsondiff import json_patch

values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("a~/", max_size=2),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text("a~/", max_size=2), below, max_size=3)
    ),
    max_leaves=8,
)
documents = st.dictionaries(st.text("ab~/", max_size=2), values, max_size=4)


@settings(max_examples=100, deadline=None)
@given(documents, documents)
def test_patch_of_the_old_document_is_the_new_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert apply_json_patch(old, json_patch(old, new)) == new


@settings(max_examples=50, deadline=None)
@given(documents)
def test_equal_documents_need_no_operation(document: dict[str, Any]) -> None:
    assert json_patch(document, document) == []


def test_true_is_not_one() -> None:
    assert json_patch({"a": 1}, {"a": True}) == [{"op": "replace", "path": "/a", "value": True}]


def test_members_are_escaped() -> None:
    assert json_patch({"a/b": {"~": 1}}, {"a/b": {}}) == [{"op": "remove", "path": "/a~1b/~0"}]
