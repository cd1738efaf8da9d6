# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import objectmeta
from rdd.api.objectmeta import MetadataError, decode_object_meta

OWNER = {"apiVersion": "v1", "kind": "A", "name": "o", "uid": "u"}


def test_metadata_comes_out_in_wire_order() -> None:
    meta = {m: TYPED.get(m, "x") for m in reversed(objectmeta.ORDER)}
    decoded, unknown = decode_object_meta(meta)
    assert tuple(decoded) == objectmeta.ORDER
    assert decoded == meta
    assert unknown == []


TYPED: dict[str, Any] = {
    "generation": 1, "deletionGracePeriodSeconds": 0, "creationTimestamp": "2026-01-02T03:04:05Z",
    "deletionTimestamp": "2026-01-02T03:04:05Z", "labels": {"a": "b"}, "annotations": {"a": "b"},
    "ownerReferences": [OWNER | {"controller": True}], "finalizers": ["a/b"],
    "managedFields": [{"manager": "m", "operation": "Update", "time": "2026-01-02T03:04:05Z",
                       "fieldsV1": {"f:data": {}}}],
}  # fmt: skip


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param(None, id="null"),
        pytest.param({}, id="empty"),
        pytest.param(dict.fromkeys(objectmeta.ORDER), id="nulls"),
        pytest.param(
            {"name": "", "labels": {}, "finalizers": [], "generation": 0}, id="empty members"
        ),
        pytest.param({"creationTimestamp": "0001-01-01T00:00:00Z"}, id="zero time"),
    ],
)
def test_empty_fields_are_omitted(meta: Any) -> None:
    assert decode_object_meta(meta) == ({}, [])
    assert decode_object_meta(meta, builtin_kind="ConfigMap") == ({}, [])


def test_null_items_are_empty_values() -> None:
    meta = {"labels": {"a": None}, "finalizers": [None, "f"], "ownerReferences": [None]}
    empty = {"apiVersion": "", "kind": "", "name": "", "uid": ""}
    assert decode_object_meta(meta)[0] == {
        "labels": {"a": ""}, "finalizers": ["", "f"], "ownerReferences": [empty],
    }  # fmt: skip


def test_owner_references_always_have_their_required_members() -> None:
    meta = {"ownerReferences": [{"kind": "X", "controller": False, "blockOwnerDeletion": None}]}
    assert decode_object_meta(meta)[0]["ownerReferences"] == [
        {"apiVersion": "", "kind": "X", "name": "", "uid": "", "controller": False}
    ]


def test_times_are_written_in_utc_and_whole_seconds() -> None:
    meta = {
        "creationTimestamp": "2026-01-02T05:04:05.9+02:00",
        "managedFields": [{"operation": "Apply", "time": "2026-01-02T05:04:05+02:00"}],
    }
    decoded, _ = decode_object_meta(meta)
    assert decoded["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert decoded["managedFields"] == [{"operation": "Apply", "time": "2026-01-02T03:04:05Z"}]


def test_unknown_members_are_dropped_and_named_in_the_order_of_decoding() -> None:
    meta = {"zebra": 1, "name": "a", "ant": None, "ownerReferences": [OWNER | {"x": 1}]}
    decoded, unknown = decode_object_meta(meta, builtin_kind="ConfigMap")
    assert decoded == {"name": "a", "ownerReferences": [OWNER]}
    assert unknown == ["metadata.zebra", "metadata.ant", "metadata.ownerReferences[0].x"]
    _, unknown = decode_object_meta(meta, path="spec.template.metadata")
    assert unknown == [
        "spec.template.metadata.ant",
        "spec.template.metadata.ownerReferences[0].x",
        "spec.template.metadata.zebra",
    ]


@pytest.mark.parametrize(
    ("meta", "given", "struct", "field", "wanted"),
    [
        ({"name": 5}, "number", "ObjectMeta", "name", "string"),
        ({"uid": {}}, "object", "ObjectMeta", "uid", "types.UID"),
        ({"labels": {"a": 1}}, "number", "ObjectMeta", "labels", "string"),
        ({"annotations": "x"}, "string", "ObjectMeta", "annotations", "map[string]string"),
        ({"finalizers": [True]}, "bool", "ObjectMeta", "finalizers", "string"),
        ({"finalizers": {}}, "object", "ObjectMeta", "finalizers", "[]string"),
        ({"generation": 1.5}, "number 1.5", "ObjectMeta", "generation", "int64"),
        ({"generation": "1"}, "string", "ObjectMeta", "generation", "int64"),
        ({"creationTimestamp": 5}, "number", "ObjectMeta", "creationTimestamp", "string"),
        ({"ownerReferences": 1}, "number", "ObjectMeta", "ownerReferences", "[]v1.OwnerReference"),
        ({"ownerReferences": [1]}, "number", "ObjectMeta", "ownerReferences", "v1.OwnerReference"),
        ({"ownerReferences": [{"uid": 5}]},
         "number", "OwnerReference", "ownerReferences.uid", "types.UID"),
        ({"ownerReferences": [{"controller": 1}]},
         "number", "OwnerReference", "ownerReferences.controller", "bool"),
        ({"managedFields": [{"operation": 1}]},
         "number", "ManagedFieldsEntry", "managedFields.operation",
         "v1.ManagedFieldsOperationType"),
    ],
)  # fmt: skip
def test_wrong_types_are_rejected_with_go_messages(
    meta: Any, given: str, struct: str, field: str, wanted: str
) -> None:
    for kind, where in (("ConfigMap", f"{struct}.metadata.{field}"), ("", f"{struct}.{field}")):
        with pytest.raises(MetadataError) as caught:
            decode_object_meta(meta, builtin_kind=kind)
        assert str(caught.value) == (
            f"json: cannot unmarshal {given} into Go struct field {where} of type {wanted}"
        )


def test_rejects_metadata_that_is_not_an_object() -> None:
    with pytest.raises(MetadataError) as caught:
        decode_object_meta([], builtin_kind="ConfigMap")
    assert str(caught.value) == (
        "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta"
    )
    with pytest.raises(MetadataError, match="string into Go value of type"):
        decode_object_meta("x")


def test_a_bad_time_is_explained() -> None:
    with pytest.raises(MetadataError, match='cannot parse "soon" as "2006"'):
        decode_object_meta({"deletionTimestamp": "soon"})


def test_the_first_error_is_the_first_in_the_text_or_in_the_alphabet() -> None:
    meta = {"uid": 1, "labels": 2}
    with pytest.raises(MetadataError, match="uid"):
        decode_object_meta(meta, builtin_kind="ConfigMap")
    with pytest.raises(MetadataError, match="labels"):
        decode_object_meta(meta)


def test_an_integral_float_is_an_integer_for_custom_resources_only() -> None:
    assert decode_object_meta({"generation": 2.0})[0] == {"generation": 2}
    with pytest.raises(MetadataError, match=r"number 2\.0 into"):
        decode_object_meta({"generation": 2.0}, builtin_kind="ConfigMap")


def test_ordering_drops_unknown_members() -> None:
    assert list(objectmeta.order_metadata({"uid": "u", "x": 1, "name": "n"})) == ["name", "uid"]
    reference = {"uid": "u", "name": "o", "controller": True, "kind": "A", "apiVersion": "v1"}
    assert list(objectmeta.order_owner_reference(reference)) == [
        "apiVersion", "kind", "name", "uid", "controller",
    ]  # fmt: skip


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "2026-01-02T03:04:05Z"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["kind", "uid", "time", "x"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([*objectmeta.ORDER, "other"]), _ANY, max_size=5))
def test_decoding_is_total_and_idempotent(meta: dict[str, Any]) -> None:
    for kind in ("", "ConfigMap"):
        try:
            decoded, _ = decode_object_meta(meta, builtin_kind=kind)
        except MetadataError:
            continue
        assert decode_object_meta(decoded, builtin_kind=kind) == (decoded, [])
        assert [m for m in objectmeta.ORDER if m in decoded] == list(decoded)
