# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from rdd.api import metadata, name_validation
from rdd.api.fielderrors import FieldError

OWNER = {"apiVersion": "v1", "kind": "A", "name": "o", "uid": "u1"}


def texts(errors: list[FieldError]) -> list[str]:
    return [str(e) for e in errors]


def errors_of(meta: dict[str, Any], *, namespaced: bool = True) -> list[str]:
    if namespaced:
        meta = {"namespace": "ns", **meta}
    check = name_validation.dns1123_subdomain_errors
    return texts(metadata.validate_object_meta(meta, namespaced=namespaced, name_errors=check))


def test_ordinary_metadata_has_no_errors() -> None:
    meta = {
        "name": "a", "generateName": "a-", "labels": {"app": "x", "example.com/L": ""},
        "annotations": {"Example.Com/A": "any text"}, "finalizers": ["example.com/f", "orphan"],
        "ownerReferences": [OWNER | {"controller": True}, OWNER | {"uid": "u2"}], "generation": 3,
        "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1"}],
    }  # fmt: skip
    assert errors_of(meta) == []
    assert errors_of({"name": "a"}, namespaced=False) == []


@pytest.mark.parametrize(
    ("meta", "error"),
    [
        pytest.param(
            {}, "metadata.name: Required value: name or generateName is required", id="no name"
        ),
        pytest.param(
            {"name": "a", "namespace": ""}, "metadata.namespace: Required value", id="no namespace"
        ),
        pytest.param(
            {"name": "a", "namespace": "x.y"},
            'metadata.namespace: Invalid value: "x.y": must not contain dots',
            id="bad namespace",
        ),
        pytest.param(
            {"name": "a", "generation": -1},
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
            id="negative generation",
        ),
        pytest.param(
            {"name": "a", "labels": {"a": "x" * 64}},
            f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
            id="long label value",
        ),
        pytest.param(
            {"name": "a", "annotations": {"/x": ""}},
            'metadata.annotations: Invalid value: "/x": prefix part must be non-empty',
            id="bad annotation key",
        ),
        pytest.param(
            {"name": "a", "annotations": {"a": "ü" * 131072}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
            id="annotations too large",
        ),
        pytest.param(
            {"name": "a", "ownerReferences": [OWNER | {"kind": "Event"}]},
            'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"o",'
            '"uid":"u1"}: /v1, Kind=Event is disallowed from being an owner',
            id="event as owner",
        ),
        pytest.param(
            {"name": "a", "ownerReferences": [OWNER | {"apiVersion": "a/b/c"}]},
            'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be '
            "empty",
            id="bad owner version",
        ),
        pytest.param(
            {"name": "a", "ownerReferences": [OWNER | {"controller": True}] * 2},
            'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"A","name":"o",'
            '"uid":"u1","controller":true},{"apiVersion":"v1","kind":"A","name":"o","uid":"u1",'
            '"controller":true}]: Only one reference can have Controller set to true. Found "true" '
            "in references for A/o and A/o",
            id="two controllers",
        ),
        pytest.param(
            {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]},
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan '
            "and foregroundDeletion cannot be both set",
            id="contradicting finalizers",
        ),
        pytest.param(
            {"name": "a", "managedFields": [{"manager": "m"}]},
            'metadata.managedFields[0].operation: Invalid value: "": must be `Apply` or `Update`',
            id="managed fields without operation",
        ),
        pytest.param(
            {"name": "a", "managedFields": [{"operation": "Apply", "fieldsType": "V2"}]},
            'metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`',
            id="managed fields of another type",
        ),
        pytest.param(
            {"name": "a", "managedFields": [{"operation": "Apply", "subresource": "s" * 257}]},
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            id="long subresource",
        ),
        pytest.param(
            {"name": "a", "managedFields": [{"operation": "Apply", "manager": "m" * 129}]},
            "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
            id="long manager",
        ),
    ],
)
def test_one_error(meta: dict[str, Any], error: str) -> None:
    assert errors_of(meta) == [error]


def test_an_owner_reference_needs_all_its_members() -> None:
    assert errors_of({"name": "a", "ownerReferences": [{}]}) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]


def test_cluster_scoped_objects_have_no_namespace() -> None:
    assert errors_of({"name": "a", "namespace": "b"}, namespaced=False) == [
        "metadata.namespace: Forbidden: not allowed on this type"
    ]


def test_the_prefix_is_checked_besides_the_generated_name() -> None:
    (error,) = errors_of({"name": "a", "generateName": "AB-"})
    assert error.startswith('metadata.generateName: Invalid value: "AB-": a lowercase RFC 1123')


def test_finalizers_of_core_kinds_need_a_domain() -> None:
    meta = {"finalizers": ["example.com/a", "kubernetes", "plain"]}
    assert texts(metadata.validate_kube_finalizers(meta)) == [
        'metadata.finalizers[2]: Invalid value: "plain": name is neither a standard finalizer name '
        "nor is it fully qualified"
    ]


def test_new_finalizers_of_custom_resources_without_a_domain_are_warned_about() -> None:
    meta = {"finalizers": ["zebra", "old", "orphan", "example.com/a"]}
    assert metadata.finalizer_warnings(meta, {"finalizers": ["old"]}) == [
        'metadata.finalizers: "zebra": prefer a domain-qualified finalizer name to avoid '
        "accidental conflicts with other finalizer writers"
    ]
    assert metadata.finalizer_warnings({}) == []


def test_control_characters_in_manager_names_are_located_by_bytes() -> None:
    assert texts(metadata.validate_field_manager("ü\n", "fieldManager")) == [
        'fieldManager: Invalid value: "ü\\n": invalid character U+000A (at position 2)'
    ]
    assert metadata.validate_field_manager("Ünïcode 1", "fieldManager") == []


STORED = {
    "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": 2,
    "creationTimestamp": "2026-01-02T03:04:05Z",
}  # fmt: skip


def update_errors(changes: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return texts(metadata.validate_object_meta_update(STORED | changes, STORED | (old or {})))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "b"}, 'metadata.name: Invalid value: "b": field is immutable'),
        ({"namespace": "b"}, 'metadata.namespace: Invalid value: "b": field is immutable'),
        ({"uid": "v"}, 'metadata.uid: Invalid value: "v": field is immutable'),
        (
            {"creationTimestamp": "2001-01-01T00:00:00Z"},
            'metadata.creationTimestamp: Invalid value: "2001-01-01T00:00:00Z": field is immutable',
        ),
        (
            {"deletionTimestamp": "2001-01-01T00:00:00Z"},
            'metadata.deletionTimestamp: Invalid value: "2001-01-01T00:00:00Z": field is immutable',
        ),
        (
            {"deletionGracePeriodSeconds": 99},
            "metadata.deletionGracePeriodSeconds: Invalid value: 99: field is immutable",
        ),
        ({"generation": 1}, "metadata.generation: Invalid value: 1: must not be decremented"),
        (
            {"resourceVersion": ""},
            'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        ),
        (
            {"labels": {"/a": ""}},
            'metadata.labels: Invalid value: "/a": prefix part must be non-empty',
        ),
    ],
)
def test_update_rejects_immutable_fields(changes: dict[str, Any], error: str) -> None:
    assert update_errors(changes) == [error]


def test_removing_a_timestamp_shows_null() -> None:
    old = {"deletionTimestamp": "2026-01-02T03:04:05Z"}
    assert update_errors({}, old) == [
        "metadata.deletionTimestamp: Invalid value: null: field is immutable"
    ]


def test_no_finalizers_are_added_to_an_object_that_is_being_deleted() -> None:
    deleting = {"deletionTimestamp": "2026-01-02T03:04:05Z"}
    new = deleting | {"finalizers": ["b", "z/b", "z/a"]}
    assert update_errors(new, deleting | {"finalizers": ["b"]}) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
        'deleted, found new finalizers []string{"z/a", "z/b"}'
    ]
    assert (
        update_errors(deleting | {"finalizers": ["b"]}, deleting | {"finalizers": ["b", "c"]}) == []
    )


def test_update_inherits_server_set_fields() -> None:
    old = STORED | {"deletionTimestamp": "2026-01-02T03:04:06Z", "deletionGracePeriodSeconds": 0}
    meta: dict[str, Any] = {"name": "a", "creationTimestamp": "2001-01-01T00:00:00Z"}
    metadata.inherit_system_fields(meta, old)
    assert meta == {
        "name": "a", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-02T03:04:06Z", "deletionGracePeriodSeconds": 0,
    }  # fmt: skip
    changed: dict[str, Any] = {"uid": "v", "deletionGracePeriodSeconds": 99}
    metadata.inherit_system_fields(changed, old)
    assert (changed["uid"], changed["deletionGracePeriodSeconds"]) == ("v", 99)


def test_repeated_owner_references_are_dropped_with_a_warning() -> None:
    other = OWNER | {"uid": "u2"}
    meta: dict[str, Any] = {"ownerReferences": [OWNER, other, OWNER, other, OWNER | {"name": "p"}]}
    (warning,) = metadata.deduplicate_owner_references(meta)
    assert warning.endswith("please fix your requests; duplicate UID(s) observed: u1, u2")
    assert meta["ownerReferences"] == [OWNER, other, OWNER | {"name": "p"}]
    assert metadata.deduplicate_owner_references(meta) == []


def test_repetitions_brought_in_by_admission_are_named_as_such() -> None:
    (warning,) = metadata.deduplicate_owner_references(
        {"ownerReferences": [OWNER, OWNER]}, after_admission=True
    )
    assert "duplicate entries after mutating admission happens; API server" in warning


def test_generated_names_end_with_five_characters_without_vowels() -> None:
    name = metadata.generate_name("web-")
    assert name.startswith("web-")
    assert len(name) == 9
    assert set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert len({metadata.generate_name("web-") for _ in range(50)}) == 50
    assert len(metadata.generate_name("x" * 100)) == 63
