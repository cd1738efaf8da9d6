# SPDX-License-Identifier: Apache-2.0
"""Protobuf bodies: decoded for built-in kinds as JSON is; the response is JSON."""

from typing import Any

import pytest
from tests.http.client import (
    ACCOUNTS,
    CONFIG_MAPS,
    CRDS,
    LEASES,
    NAMESPACES,
    RBAC,
    SECRETS,
    Api,
    account,
    bare,
    config_map,
    crd,
)
from tests.unit.schema.wire.protobuf_encoder import body, delimited, envelope, integer, message

PROTOBUF = "application/vnd.kubernetes.protobuf"
CLIENT: dict[str, Any] = {
    "content_type": PROTOBUF,
    "headers": {"Accept": "application/json"},
}
CORE = "io.k8s.api.core.v1."
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
AUTHORIZATION = "io.k8s.api.authorization.v1."
AUTHENTICATION = "io.k8s.api.authentication.v1."
CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
WIDGETS = "/apis/shop.example.com/v1/namespaces/default/widgets"


def proto_config_map(name: str, **members: Any) -> bytes:
    return body(CORE + "ConfigMap", {"metadata": {"name": name}, **members})


@pytest.mark.parametrize(
    ("path", "definition", "obj"),
    [
        pytest.param(CONFIG_MAPS, "core.v1.ConfigMap", {"data": {"a": "b", "e": ""}}, id="cm"),
        pytest.param(NAMESPACES, "core.v1.Namespace", {}, id="namespace"),
        pytest.param(SECRETS, "core.v1.Secret", {"data": {"p": "cQ=="}}, id="secret"),
        pytest.param(ACCOUNTS, "core.v1.ServiceAccount", {}, id="service account"),
        pytest.param(
            "/api/v1/namespaces/default/resourcequotas",
            "core.v1.ResourceQuota",
            {"spec": {"hard": {"configmaps": "10", "cpu": "1500m"}}},
            id="quota",
        ),
        pytest.param(
            LEASES,
            "coordination.v1.Lease",
            {"spec": {"leaseDurationSeconds": 5, "renewTime": "2024-01-02T03:04:05.000678Z"}},
            id="lease",
        ),
        pytest.param(
            f"{RBAC}/clusterroles",
            "rbac.v1.ClusterRole",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]},
            id="cluster role",
        ),
        pytest.param(
            f"{RBAC}/clusterroles",
            "rbac.v1.ClusterRole",
            {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
            id="aggregated role",
        ),
        pytest.param(
            f"{RBAC}/clusterrolebindings",
            "rbac.v1.ClusterRoleBinding",
            {
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "r",
                },
                "subjects": [
                    {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}
                ],
            },
            id="binding",
        ),
    ],
)
async def test_protobuf_and_json_create_the_same_objects(
    path: str, definition: str, obj: dict[str, Any], api: Api
) -> None:
    metadata = {"name": "x", "labels": {"l": "v"}, "annotations": {"a": ""}}
    sent = {"metadata": metadata, **obj}
    created = await api.post(path, body(f"io.k8s.api.{definition}", sent), expect=201, **CLIENT)
    # Another name, because a deleted namespace exists for a while.
    from_json = await api.post(path, {**sent, "metadata": {**metadata, "name": "y"}}, expect=201)
    assert without_name(created) == without_name(from_json)
    assert fields_of(created) == fields_of(from_json)


def without_name(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that the client set; the name of a namespace is also a label."""
    found = bare(obj)
    metadata = {k: v for k, v in found["metadata"].items() if k not in ("name", "labels")}
    return {**found, "metadata": metadata}


def fields_of(obj: dict[str, Any]) -> list[Any]:
    return [entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]]


async def test_update_with_the_read_object_changes_nothing(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map("a", {"k": "v"}), expect=201)
    assert created["metadata"]["managedFields"]
    sent = body(CORE + "ConfigMap", created)
    assert await api.put(f"{CONFIG_MAPS}/a", sent, expect=200, **CLIENT) == created


async def test_update_with_an_old_version_conflicts(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map("a"), expect=201)
    await api.put(f"{CONFIG_MAPS}/a", config_map("a", {"k": "v"}))
    await api.refused(409, "PUT", f"{CONFIG_MAPS}/a", body(CORE + "ConfigMap", created), **CLIENT)


async def test_objects_are_validated(api: Api) -> None:
    status = await api.refused(422, "POST", CONFIG_MAPS, proto_config_map("B_d"), **CLIENT)
    assert status["message"].startswith('ConfigMap "B_d" is invalid: metadata.name: Invalid value')


async def test_unknown_fields_are_ignored_even_with_strict_validation(api: Api) -> None:
    named = delimited(1, delimited(1, b"a") + integer(99, 1))
    strange = envelope(named + delimited(77, b"?"), "ConfigMap")
    created = await api.post(
        CONFIG_MAPS, strange, expect=201, query={"fieldValidation": "Strict"}, **CLIENT
    )
    assert bare(created) == config_map("a")


async def test_definitions_are_created_and_served(api: Api) -> None:
    obj = crd(schema={"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}})
    created = await api.post(CRDS, body(CRD, obj), expect=201, **CLIENT)
    schema = created["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema == {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 10}},
    }
    assert '"maximum":10}' in (await api.call("GET", f"{CRDS}/widgets.shop.example.com")).text


# ------------------------------------------------------------------ reviews and tokens


async def test_access_reviews_are_decoded(api: Api) -> None:
    about = {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "default"}}
    base = "/apis/authorization.k8s.io/v1"
    sent = body(AUTHORIZATION + "SelfSubjectAccessReview", {"spec": about})
    answer = await api.post(f"{base}/selfsubjectaccessreviews", sent, expect=201, **CLIENT)
    assert (answer["spec"], answer["status"]["allowed"]) == (about, True)
    spec = {**about, "user": "nobody", "extra": {"k": ["v", "w"]}}
    sent = body(AUTHORIZATION + "SubjectAccessReview", {"spec": spec})
    answer = await api.post(f"{base}/subjectaccessreviews", sent, expect=201, **CLIENT)
    assert (answer["spec"], answer["status"]["allowed"]) == (spec, False)


async def test_self_subject_reviews_are_decoded(api: Api) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    sent = body(AUTHENTICATION + "SelfSubjectReview", {})
    assert (await api.post(path, sent, expect=201, **CLIENT))["status"]["userInfo"]["username"]


async def test_token_requests_are_decoded(api: Api) -> None:
    await api.post(ACCOUNTS, account("robot"), expect=201)
    sent = body(AUTHENTICATION + "TokenRequest", {"spec": {"expirationSeconds": 1200}})
    answer = await api.post(f"{ACCOUNTS}/robot/token", sent, expect=201, **CLIENT)
    assert answer["status"]["token"].count(".") == 2


# ------------------------------------------------------------------ deletions


async def test_delete_options_are_decoded(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"), expect=201)
    options = message(DELETE_OPTIONS, {"preconditions": {"uid": "other"}})
    await api.refused(
        409, "DELETE", f"{CONFIG_MAPS}/a", envelope(options, "DeleteOptions"), **CLIENT
    )
    options = message(DELETE_OPTIONS, {"dryRun": ["All"], "propagationPolicy": "Background"})
    await api.delete(f"{CONFIG_MAPS}/a", envelope(options, "DeleteOptions"), **CLIENT)
    await api.delete(f"{CONFIG_MAPS}/a", envelope(b"", "DeleteOptions"), **CLIENT)
    await api.refused(404, "GET", f"{CONFIG_MAPS}/a")


async def test_custom_resources_accept_delete_options_but_no_objects(api: Api) -> None:
    await api.install(crd())
    widget = {"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    await api.post(WIDGETS, widget, expect=201)
    sent = envelope(b"", "Widget", "shop.example.com/v1")
    status = await api.refused(415, "POST", WIDGETS, sent, **CLIENT)
    assert status["reason"] == "UnsupportedMediaType"
    await api.refused(415, "PUT", f"{WIDGETS}/w", sent, **CLIENT)
    await api.delete(f"{WIDGETS}/w", envelope(b"", "DeleteOptions"), **CLIENT)


async def test_custom_resources_are_scaled(api: Api) -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await api.install(crd(subresources={"scale": scale}))
    widget = {"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    await api.post(WIDGETS, {**widget, "spec": {"replicas": 1}}, expect=201)
    sent = body(
        "io.k8s.api.autoscaling.v1.Scale", {"metadata": {"name": "w"}, "spec": {"replicas": 3}}
    )
    answer = await api.put(f"{WIDGETS}/w/scale", sent, expect=200, **CLIENT)
    assert answer["spec"] == {"replicas": 3}
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"replicas": 3}


async def test_patches_are_never_protobuf(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"), expect=201)
    await api.refused(415, "PATCH", f"{CONFIG_MAPS}/a", proto_config_map("a"), **CLIENT)


# ------------------------------------------------------------------ errors

UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        pytest.param(
            b'{"a":1}',
            UNRECOGNIZED + "provided data does not appear to be a protobuf message, "
            'expected prefix [107 56 115 0] ({"a":1})',
            id="JSON",
        ),
        pytest.param(b"", UNRECOGNIZED + "empty data (<empty>)", id="empty"),
        pytest.param(b"k8s\0", UNRECOGNIZED + "empty body (6b387300)", id="no envelope"),
        pytest.param(
            b"k8s\0\x7f", UNRECOGNIZED + "proto: illegal wireType 7 (6b3873007f)", id="no field"
        ),
        pytest.param(
            envelope(b"\x0a\x05", "ConfigMap"),
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF',
            id="cut off",
        ),
        pytest.param(
            envelope(b"\x0a\x05", "Secret"),
            'Secret in version "v1" cannot be handled as a ConfigMap: unexpected EOF',
            id="another kind cut off",
        ),
        pytest.param(
            envelope(b"", "Secret"),
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            id="another kind",
        ),
        pytest.param(
            envelope(b"\xff", "Poem"),
            'Poem in version "v1" cannot be handled as a ConfigMap: no kind "Poem" is registered '
            'for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
            id="no such kind",
        ),
    ],
)
async def test_malformed_messages_are_rejected(sent: bytes, message: str, api: Api) -> None:
    status = await api.refused(400, "POST", CONFIG_MAPS, sent, **CLIENT)
    assert (status["reason"], status["message"]) == ("BadRequest", message)
