# SPDX-License-Identifier: Apache-2.0
"""Typed decoding has the effect of Go's decode into a struct and encode again."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api.errors import ApiError
from rdd.schema.builtin import notation, typed

CORE = "io.k8s.api.core.v1."
CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"


def decode(name: str, obj: Any) -> tuple[dict[str, Any], list[str]]:
    unknown: list[str] = []
    return typed.decode_typed(typed.shape(name), obj, unknown=unknown), unknown


def failure(name: str, obj: Any) -> str:
    with pytest.raises(typed.DecodeError) as caught:
        decode(name, obj)
    assert caught.value.code == 400
    assert caught.value.message.endswith(": " + caught.value.cause)
    return caught.value.cause


def test_kind_and_api_version_are_those_of_the_shape_and_come_first() -> None:
    obj, _ = decode(CORE + "ConfigMap", {"data": {"k": "v"}, "metadata": {"name": "a"}})
    assert list(obj) == ["kind", "apiVersion", "metadata", "data"]
    assert (obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1")


def test_null_body_is_an_empty_object() -> None:
    assert decode(CORE + "ConfigMap", None)[0] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {},
    }


def test_members_come_in_the_order_of_the_struct_and_maps_sorted() -> None:
    obj, _ = decode(
        CORE + "Secret",
        {"type": "T", "data": {"b": "", "a": ""}, "immutable": False, "metadata": {}},
    )
    assert list(obj) == ["kind", "apiVersion", "metadata", "immutable", "data", "type"]
    assert list(obj["data"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "given_", "expected"),
    [
        pytest.param("core.v1.ConfigMap", {"data": {}}, {}, id="empty-map-is-left-out"),
        pytest.param("core.v1.ConfigMap", {"data": None}, {}, id="null-map-is-left-out"),
        pytest.param(
            "core.v1.ConfigMap", {"immutable": False}, {"immutable": False}, id="pointer-keeps-zero"
        ),
        pytest.param(
            "core.v1.ConfigMap", {"data": {"k": None}}, {"data": {"k": ""}}, id="null-in-map"
        ),
        pytest.param("core.v1.Secret", {"type": ""}, {}, id="empty-string-is-left-out"),
        pytest.param("rbac.v1.Role", {"rules": []}, {"rules": None}, id="kept-empty-list-is-null"),
        pytest.param("rbac.v1.Role", {}, {"rules": None}, id="kept-absent-list-is-null"),
        pytest.param("coordination.v1.Lease", {}, {"spec": {}}, id="struct-is-always-there"),
        pytest.param(
            "rbac.v1.RoleBinding",
            {"subjects": []},
            {"roleRef": {"apiGroup": "", "kind": "", "name": ""}},
            id="zero-struct-has-its-kept-members",
        ),
        pytest.param(
            "core.v1.ServiceAccount",
            {"imagePullSecrets": [None, {}]},
            {"imagePullSecrets": [{"name": ""}, {"name": ""}]},
            id="null-item-is-a-zero-struct",
        ),
        pytest.param(
            "core.v1.Namespace",
            {"status": {"conditions": [{"type": "A", "status": "True"}]}},
            {
                "spec": {},
                "status": {
                    "conditions": [{"type": "A", "status": "True", "lastTransitionTime": None}]
                },
            },
            id="unset-time-is-null",
        ),
        pytest.param(
            "core.v1.ResourceQuota",
            {"spec": {"hard": {"pods": 5, "cpu": "1000m", "memory": "1024Mi"}}},
            {"spec": {"hard": {"cpu": "1", "memory": "1Gi", "pods": "5"}}, "status": {}},
            id="quantities-are-canonical",
        ),
        pytest.param(
            "coordination.v1.Lease",
            {"spec": {"renewTime": "2026-01-02T05:04:05.123456+02:00"}},
            {"spec": {"renewTime": "2026-01-02T03:04:05.123456Z"}},
            id="micro-time-in-utc",
        ),
        pytest.param(
            "core.v1.ConfigMap",
            {"binaryData": {"k": "YW\nI="}},
            {"binaryData": {"k": "YWI="}},
            id="line-breaks-in-base64",
        ),
        pytest.param(
            "core.v1.ConfigMap",
            {"binaryData": {"k": "YR=="}},
            {"binaryData": {"k": "YQ=="}},
            id="unused-bits-of-base64-are-dropped",
        ),
        pytest.param(
            "core.v1.ConfigMap",
            {"binaryData": {"k": [97, 98]}},
            {"binaryData": {"k": "YWI="}},
            id="bytes-as-numbers",
        ),
    ],
)
def test_decoding_errors_match_go(
    name: str, given_: dict[str, Any], expected: dict[str, Any]
) -> None:
    obj, unknown = decode(f"io.k8s.api.{name}", given_)
    del obj["kind"], obj["apiVersion"], obj["metadata"]
    assert obj == expected
    assert unknown == []


@pytest.mark.parametrize(
    ("name", "given_", "cause"),
    [
        pytest.param(
            "ConfigMap",
            {"data": {"k": 5}},
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            id="map-value",
        ),
        pytest.param(
            "ConfigMap",
            {"metadata": []},
            "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type "
            "v1.ObjectMeta",
            id="struct",
        ),
        pytest.param(
            "ConfigMap",
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type "
            "string",
            id="nested-names-the-inner-struct",
        ),
        pytest.param(
            "ConfigMap",
            {"metadata": {"labels": ["a"]}},
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type "
            "map[string]string",
            id="map",
        ),
        pytest.param(
            "ConfigMap",
            {"metadata": {"ownerReferences": [{"uid": 5}]}},
            "json: cannot unmarshal number into Go struct field "
            "OwnerReference.metadata.ownerReferences.uid of type types.UID",
            id="named-type-without-indices",
        ),
        pytest.param(
            "Secret",
            {"type": {}},
            "json: cannot unmarshal object into Go struct field Secret.type of type v1.SecretType",
            id="named-string",
        ),
        pytest.param(
            "Secret",
            {"data": "x"},
            "json: cannot unmarshal string into Go struct field Secret.data of type "
            "map[string][]uint8",
            id="map-of-bytes",
        ),
        pytest.param(
            "Event",
            {"count": 1.5},
            "json: cannot unmarshal number 1.5 into Go struct field Event.count of type int32",
            id="fraction",
        ),
        pytest.param(
            "Event",
            {"count": 2**31},
            "json: cannot unmarshal number 2147483648 into Go struct field Event.count of type "
            "int32",
            id="overflow",
        ),
        pytest.param(
            "ConfigMap",
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go struct field "
            "ObjectMeta.metadata.creationTimestamp of type string",
            id="time-of-wrong-type",
        ),
        pytest.param(
            "ConfigMap",
            {"metadata": {"creationTimestamp": "x"}},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
            id="no-time",
        ),
        pytest.param(
            "ResourceQuota",
            {"spec": {"hard": {"cpu": "much"}}},
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="no-quantity",
        ),
        pytest.param(
            "ConfigMap",
            {"immutable": 1, "data": [], "metadata": 0},
            "json: cannot unmarshal number into Go struct field ConfigMap.immutable of type bool",
            id="first-in-the-document",
        ),
    ],
)
def test_body_of_the_wrong_types_is_rejected_with_go_messages(
    name: str, given_: dict[str, Any], cause: str
) -> None:
    assert failure(CORE + name, given_) == cause


@pytest.mark.parametrize(
    ("text", "position"),
    [
        pytest.param("!", 0, id="illegal-first"),
        pytest.param("YW!=", 2, id="illegal-later"),
        pytest.param("YW=", 3, id="padding-missing"),
        pytest.param("YWJ", 0, id="last-quantum-incomplete"),
        pytest.param("YWJjZA", 4, id="second-quantum-incomplete"),
        pytest.param("=", 0, id="padding-only"),
        pytest.param("YQ==YQ==", 4, id="data-after-padding"),
    ],
)
def test_illegal_base64_names_the_byte(text: str, position: int) -> None:
    cause = failure(CORE + "Secret", {"data": {"k": text}})
    assert cause == f"illegal base64 data at input byte {position}"


def test_message_names_kind_and_version() -> None:
    with pytest.raises(ApiError) as caught:
        decode("io.k8s.api.rbac.v1.Role", {"rules": 1})
    assert caught.value.message == (
        'Role in version "v1" cannot be handled as a Role: json: cannot unmarshal number into Go '
        "struct field Role.rules of type []v1.PolicyRule"
    )


def test_unknown_members_are_dropped_and_reported_in_document_order() -> None:
    obj, unknown = decode(
        "io.k8s.api.rbac.v1.Role",
        {
            "zzz": 1,
            "rules": [{"verbs": ["get"], "x": 1}, {"verbs": ["get"], "y": {"z": 1}}],
            "metadata": {"name": "a", "oops": 1},
            "aaa": {"b": 1},
        },
    )
    assert unknown == ["zzz", "rules[0].x", "rules[1].y", "metadata.oops", "aaa"]
    assert obj["rules"] == [{"verbs": ["get"]}, {"verbs": ["get"]}]


def test_member_names_are_case_sensitive() -> None:
    obj, unknown = decode(CORE + "ConfigMap", {"Data": {"k": "v"}})
    assert "data" not in obj
    assert unknown == ["Data"]


def test_at_most_a_hundred_unknown_members_are_reported() -> None:
    _, unknown = decode(CORE + "ConfigMap", {f"u{i}": i for i in range(200)})
    assert len(unknown) == 100


def test_unknown_members_in_maps_of_structs_are_found() -> None:
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"a": {"bad": 1}}}}}
    _, unknown = decode(CRD, {"spec": {"versions": [version]}})
    assert unknown == ["spec.versions[0].schema.openAPIV3Schema.properties.a.bad"]


def test_schemas_keep_union_types() -> None:
    schema = {
        "type": "object",
        "default": {"x": [None]},
        "properties": {
            "a": {"additionalProperties": False},
            "b": {"additionalProperties": {"type": "string", "nonsense": 1}},
            "c": {"items": {"type": "integer"}},
            "d": {"enum": [1, "x", None]},
        },
    }
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    obj, unknown = decode(CRD, {"spec": {"versions": [version]}})
    properties = obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert properties["a"] == {"additionalProperties": False}
    assert properties["b"] == {"additionalProperties": {"type": "string"}}
    assert properties["c"] == {"items": {"type": "integer"}}
    assert properties["d"] == {"enum": [1, "x", None]}
    assert unknown == []


def test_a_body_that_is_nested_too_deeply_is_rejected() -> None:
    schema: dict[str, Any] = {}
    for _ in range(10_000):  # more than the frames that deep CEL expressions are allowed
        schema = {"not": schema}
    body = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    assert failure(CRD, body) == "json: exceeded max depth"


def test_part_of_an_object_is_decoded_without_the_kind_in_the_message() -> None:
    shape = typed.shape("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    assert typed.decode_embedded(shape, {"name": "a", "x": 1}) == {"name": "a"}
    with pytest.raises(ApiError) as caught:
        typed.decode_embedded(shape, {"labels": 1})
    assert caught.value.message == (
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type "
        "map[string]string"
    )


def test_an_unknown_definition_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        typed.shape("io.k8s.api.core.v1.Pod")


KINDS = [name for name in notation.names() if not name.endswith("List")]
MEMBERS = sorted({f.name for name in KINDS for f in notation.struct(name).fields})

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(MEMBERS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KINDS), json_values)
def test_arbitrary_json_decodes_or_fails_as_an_api_error(name: str, value: Any) -> None:
    try:
        obj, _ = decode(name, value)
    except ApiError:
        return
    again, unknown = decode(name, obj)
    assert again == obj, "decoding is idempotent"
    assert unknown == []
