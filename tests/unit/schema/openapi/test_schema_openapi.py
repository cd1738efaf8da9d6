# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents of custom resources and built-in kinds."""

from typing import Any

import pytest

from rdd.schema.openapi.documents import (
    OpenApiKind,
    crd_definitions,
    crd_kind,
    definition_name,
    openapi_v2_document,
    openapi_v3_document,
    to_v2,
)

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
WIDGET = "com.example.v1.Widget"


def spec(schema: dict[str, Any], **version: Any) -> dict[str, Any]:
    return {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
        },
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}, **version}],
    }  # fmt: skip


def published(schema: dict[str, Any], *, v2: bool = False, **version: Any) -> dict[str, Any]:
    """The schema of the member a as it is published."""
    root = {"type": "object", "properties": {"a": schema}}
    whole = spec(root, **version)
    shown = crd_definitions(whole, whole["versions"][0], v2=v2)[WIDGET]
    member: dict[str, Any] = shown["properties"]["a"]
    return member


def test_names_of_definitions_turn_the_group_around() -> None:
    assert definition_name("a.b.io", "v1", "C") == "io.b.a.v1.C"


def test_objects_and_lists_have_type_metadata_and_kind() -> None:
    whole = spec({"type": "object"}, selectableFields=[{"jsonPath": ".spec.a"}])
    found = crd_definitions(whole, whole["versions"][0])
    assert set(found) == {WIDGET, "com.example.v1.WidgetList"}
    assert set(found[WIDGET]["properties"]) == {"apiVersion", "kind", "metadata"}
    assert found[WIDGET]["properties"]["metadata"]["allOf"] == [
        {"$ref": f"#/components/schemas/{META}.ObjectMeta"}
    ]
    assert found[WIDGET]["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "kind": "Widget", "version": "v1"}
    ]
    assert found[WIDGET]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.a"}]
    listed = found["com.example.v1.WidgetList"]
    assert listed["description"] == "WidgetList is a list of Widget"
    assert listed["properties"]["items"]["items"] == {"$ref": f"#/components/schemas/{WIDGET}"}


@pytest.mark.parametrize(
    ("schema", "v3", "v2"),
    [
        pytest.param(
            {"type": "string", "nullable": True, "default": "x", "example": "y"},
            {"type": "string", "nullable": True, "default": "x"},
            {"default": "x"},
            id="nullable",
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True,
             "anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"x-kubernetes-int-or-string": True},
            id="int or string",
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"pattern": "x"}]},
            {"x-kubernetes-int-or-string": True, "anyOf": [{"pattern": "x"}],
             "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
            {"x-kubernetes-int-or-string": True},
            id="int or string with other conditions",
        ),
        pytest.param(
            {"type": "object", "oneOf": [{"required": ["x"]}], "required": ["n", "x"],
             "properties": {"n": {"type": "string", "nullable": True}, "x": {"type": "string"}}},
            {"type": "object", "oneOf": [{"required": ["x"]}], "required": ["n", "x"],
             "properties": {"n": {"type": "string", "nullable": True}, "x": {"type": "string"}}},
            {"type": "object", "required": ["x"], "properties": {"n": {}, "x": {"type": "string"}}},
            id="conditions and required nullable members",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True,
             "properties": {"x": {"type": "string"}}},
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True,
             "properties": {"x": {"type": "string"}}},
            {"x-kubernetes-preserve-unknown-fields": True},
            id="unknown members",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "array", "nullable": True, "items": {}}},
            {"type": "array", "items": {"type": "array", "nullable": True, "items": {}}},
            {"type": "array", "items": {}},
            id="lists",
        ),
    ],
)  # fmt: skip
def test_schemas_are_published_and_reduced_for_v2(
    schema: dict[str, Any], v3: dict[str, Any], v2: dict[str, Any]
) -> None:
    assert published(schema) == v3
    assert published(schema, v2=True) == v2


def test_embedded_resources_get_type_and_metadata() -> None:
    shown = published(
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object"}},
        }
    )
    assert list(shown["properties"]) == ["spec", "apiVersion", "kind", "metadata"]
    assert shown["required"] == ["kind", "apiVersion"]


def test_v2_omits_members_of_an_open_root() -> None:
    whole = spec({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    found = crd_definitions(whole, whole["versions"][0], v2=True)
    assert set(found[WIDGET]) == {"type", "x-kubernetes-group-version-kind"}


def test_v3_document_has_paths_and_referenced_schemas() -> None:
    whole = spec({"type": "object"}, subresources={"status": {}, "scale": {}})
    version = whole["versions"][0]
    meta = f"{META}.ObjectMeta"
    definitions = {
        **crd_definitions(whole, version),
        meta: {"type": "object", "properties": {"t": {"$ref": f"#/components/schemas/{META}.T"}}},
        f"{META}.T": {"type": "string"},
        "unrelated": {"type": "string"},
    }
    document = openapi_v3_document([crd_kind(whole, version)], definitions)
    assert document["openapi"] == "3.0.0"
    assert set(document["components"]["schemas"]) == {
        WIDGET, "com.example.v1.WidgetList", meta, f"{META}.T",
    }  # fmt: skip
    base = "/apis/example.com/v1/namespaces/{namespace}/widgets"
    assert list(document["paths"]) == [
        base,
        f"{base}/{{name}}",
        f"{base}/{{name}}/scale",
        f"{base}/{{name}}/status",
        "/apis/example.com/v1/widgets",
    ]
    patch = document["paths"][f"{base}/{{name}}"]["patch"]
    assert patch["operationId"] == "patchExampleComV1NamespacedWidget"
    assert patch["x-kubernetes-action"] == "patch"
    assert "fieldValidation" in [p["name"] for p in patch["parameters"]]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    scale = document["paths"][f"{base}/{{name}}/scale"]["get"]
    assert scale["responses"]["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/io.k8s.api.autoscaling.v1.Scale"
    }


CONFIG_MAP = OpenApiKind(
    group="",
    version="v1",
    kind="ConfigMap",
    plural="configmaps",
    namespaced=True,
    definition="io.k8s.api.core.v1.ConfigMap",
    list_definition="io.k8s.api.core.v1.ConfigMapList",
)


def test_operations_are_named_as_in_kubernetes() -> None:
    document = openapi_v3_document([CONFIG_MAP], {})
    ids = {
        (path, method): operation["operationId"]
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }
    base = "/api/v1/namespaces/{namespace}/configmaps"
    watch = "/api/v1/watch/namespaces/{namespace}"
    assert ids == {
        ("/api/v1/configmaps", "get"): "listCoreV1ConfigMapForAllNamespaces",
        ("/api/v1/watch/configmaps", "get"): "watchCoreV1ConfigMapListForAllNamespaces",
        (f"{watch}/configmaps", "get"): "watchCoreV1NamespacedConfigMapList",
        (f"{watch}/configmaps/{{name}}", "get"): "watchCoreV1NamespacedConfigMap",
        (base, "get"): "listCoreV1NamespacedConfigMap",
        (base, "post"): "createCoreV1NamespacedConfigMap",
        (base, "delete"): "deleteCoreV1CollectionNamespacedConfigMap",
        (f"{base}/{{name}}", "get"): "readCoreV1NamespacedConfigMap",
        (f"{base}/{{name}}", "put"): "replaceCoreV1NamespacedConfigMap",
        (f"{base}/{{name}}", "patch"): "patchCoreV1NamespacedConfigMap",
        (f"{base}/{{name}}", "delete"): "deleteCoreV1NamespacedConfigMap",
    }


def test_only_verbs_that_exist_are_published() -> None:
    review = OpenApiKind(
        group="authorization.k8s.io",
        version="v1",
        kind="SelfSubjectAccessReview",
        plural="selfsubjectaccessreviews",
        namespaced=False,
        definition="io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        verbs=("create",),
    )
    paths = openapi_v3_document([review], {})["paths"]
    assert {path: [m for m in item if m != "parameters"] for path, item in paths.items()} == {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": ["post"]
    }
    post = paths["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]["post"]
    assert post["operationId"] == "createAuthorizationV1SelfSubjectAccessReview"
    assert post["tags"] == ["authorization_v1"]


def test_a_v2_document_has_v2_references_everywhere() -> None:
    reference = "#/components/schemas/io.k8s.X"
    definitions = {
        "io.k8s.api.core.v1.ConfigMap": {
            "type": "object",
            "properties": {
                "allOf": {"type": "array", "items": {"$ref": reference}},
                "x": {"allOf": [{"$ref": reference}], "description": "d", "default": {}},
                "q": {"oneOf": [{"type": "string"}, {"type": "number"}]},
                "nullable": {"type": "boolean", "nullable": True},
            },
        }
    }
    document = openapi_v2_document([CONFIG_MAP], definitions)
    assert document["swagger"] == "2.0"
    assert document["definitions"]["io.k8s.api.core.v1.ConfigMap"]["properties"] == {
        "allOf": {"type": "array", "items": {"$ref": "#/definitions/io.k8s.X"}},
        "x": {"$ref": "#/definitions/io.k8s.X", "description": "d"},
        "q": {"type": "string"},
        "nullable": {"type": "boolean"},
    }
    assert "#/components" not in str(document)
    assert to_v2(True) is True
