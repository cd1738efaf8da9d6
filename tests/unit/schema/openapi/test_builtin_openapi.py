# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents of built-in groups."""

from rdd.apiserver.kinds import catalog
from rdd.apiserver.kinds.builtin_strategy import BuiltinStrategy
from rdd.schema.openapi import builtin as builtin_openapi
from rdd.schema.openapi.documents import OpenApiKind


def kinds(group: str | None = None) -> list[OpenApiKind]:
    found = []
    for kind in catalog.builtin_kinds() + catalog.review_kinds():
        assert isinstance(kind.strategy, BuiltinStrategy)
        if group is None or kind.group == group:
            found.append(builtin_openapi.openapi_kind(kind, kind.strategy.verbs))
    return found


def test_v3_document_of_the_core_group_has_paths_and_the_definitions_they_need() -> None:
    document = builtin_openapi.builtin_v3_document(kinds(""))
    item = document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]
    assert item["get"]["operationId"] == "readCoreV1NamespacedConfigMap"
    assert document["openapi"] == "3.0.0"
    schemas = document["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.ConfigMap"]["properties"]["data"]["type"] == "object"
    assert "io.k8s.api.authentication.v1.TokenRequest" in schemas
    assert "io.k8s.api.rbac.v1.Role" not in schemas


def test_subresources_have_their_own_verbs() -> None:
    paths = builtin_openapi.builtin_v3_document(kinds(""))["paths"]
    finalize = paths["/api/v1/namespaces/{name}/finalize"]
    assert {"get", "patch", "put"} & set(finalize) == {"put"}
    token = paths["/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"]
    assert {"get", "put", "post"} & set(token) == {"post"}
    assert "delete" not in paths["/api/v1/namespaces"]


def test_reviews_can_only_be_created() -> None:
    paths = builtin_openapi.builtin_v3_document(kinds("authorization.k8s.io"))["paths"]
    review = paths["/apis/authorization.k8s.io/v1/subjectaccessreviews"]
    assert {"get", "post", "delete"} & set(review) == {"post"}


def test_v2_document_holds_all_groups() -> None:
    document = builtin_openapi.builtin_v2_document(kinds())
    shown = document["definitions"]["io.k8s.api.core.v1.ConfigMap"]
    assert document["swagger"] == "2.0"
    assert shown["properties"]["immutable"]["type"] == "boolean"
    assert shown["properties"]["metadata"]["$ref"] == (
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    )
    assert shown["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "ConfigMap", "version": "v1"}
    ]
