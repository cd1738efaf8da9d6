# SPDX-License-Identifier: Apache-2.0
"""The encoding of objects: the stored form and the inserted revision."""

import uuid
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.apiserver.state import codec

UID = "00000000-1111-2222-3333-444444444444"


def an_object(**members: Any) -> dict[str, Any]:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"uid": UID, "name": "a", "resourceVersion": "5"},
        **members,
    }


def test_kind_version_and_resource_version_are_not_stored() -> None:
    stored = codec.encode(an_object(data={"k": "v"}))
    assert orjson.loads(b"{" + stored) == {
        "metadata": {"name": "a", "uid": UID},
        "data": {"k": "v"},
    }


def test_head_and_body_are_the_object() -> None:
    body = codec.with_revision(codec.encode(an_object(data={"k": "v"})), 17)
    whole = orjson.loads(codec.head("ConfigMap", "v1") + body)
    assert whole == an_object(
        data={"k": "v"}, metadata={"name": "a", "uid": UID, "resourceVersion": "17"}
    )


def test_metadata_comes_first_even_if_the_object_has_it_last() -> None:
    obj = {"data": {}, "metadata": {"name": "a", "uid": UID}}
    assert codec.encode(obj).startswith(b'"metadata":{"name":"a"')


@pytest.mark.parametrize(
    "name",
    [
        pytest.param('"uid":"x', id="quotes"),
        pytest.param('\\"uid\\":\\"', id="escaped quotes"),
        pytest.param("uid", id="word"),
    ],
)
def test_name_that_looks_like_a_uid_is_not_taken_for_one(name: str) -> None:
    obj = an_object()
    obj["metadata"]["name"] = name
    body = codec.with_revision(codec.encode(obj), 3)
    assert codec.decode(body)["metadata"] == {"name": name, "uid": UID, "resourceVersion": "3"}


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=30),
    st.dictionaries(st.text(max_size=5), st.text(max_size=10), max_size=3),
    st.integers(min_value=1, max_value=2**62),
)
def test_without_revision_reverses_with_revision(
    name: str, data: dict[str, str], revision: int
) -> None:
    obj = {"metadata": {"name": name, "uid": str(uuid.uuid4())}, "data": data}
    try:
        stored = codec.encode(obj)
    except orjson.JSONEncodeError:
        return  # decoding rejects lone surrogates
    body = codec.with_revision(stored, revision)
    assert codec.decode(body)["metadata"]["resourceVersion"] == str(revision)
    assert codec.without_revision(body) == stored


@pytest.mark.parametrize(
    ("obj", "tag"),
    [
        pytest.param(an_object(), "", id="untagged"),
        pytest.param(an_object(spec={"apiVersion": "x/v1"}), "", id="nested apiVersion"),
    ],
)
def test_object_without_a_tag_has_none(obj: dict[str, Any], tag: str) -> None:
    assert codec.tag_of(codec.with_revision(codec.encode(obj), 1)) == tag


def test_tag_is_the_api_version_an_object_was_stored_in() -> None:
    stored = codec.encode(an_object(spec={"apiVersion": "x/v1"}), tag="example.com/v2")
    assert codec.tag_of(stored) == "example.com/v2"
    assert codec.decode(stored)["apiVersion"] == "example.com/v2"


def test_comparison_ignores_the_order_of_members() -> None:
    first = codec.encode(an_object(data={"a": "1", "b": "2"}))
    second = codec.encode(an_object(data={"b": "2", "a": "1"}))
    assert first != second
    assert codec.is_same(first, second)
    assert not codec.is_same(first, codec.encode(an_object(data={"a": "1", "b": "3"})))
