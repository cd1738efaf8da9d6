# SPDX-License-Identifier: Apache-2.0
"""The notation of shapes, and the nodes and definitions derived from it."""

from typing import Any

import pytest

from rdd.schema.builtin import nodes, notation, openapi_definitions, typed

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
CORE = "io.k8s.api.core.v1."
RBAC = "io.k8s.api.rbac.v1."
ADMISSION = "io.k8s.api.admissionregistration.v1."
REF = "#/components/schemas/"
STRINGS = {"type": "array", "items": {"type": "string", "default": ""}}


def undescribed(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            k: undescribed(v)
            for k, v in schema.items()
            if k != "description" or not isinstance(v, str)
        }
    return [undescribed(v) for v in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("name", notation.names())
def test_every_shape_parses_compiles_and_refers_to_what_exists(name: str) -> None:
    assert notation.struct(name).fields or name.endswith("SubresourceStatus")
    typed.shape(name).decode({}, [])
    assert nodes.node(name).type == "object"
    for reference in openapi_definitions.references(openapi_definitions.definition(name)):
        openapi_definitions.definition(reference)


@pytest.mark.parametrize("name", [n for n in notation.names() if not n.endswith("List")])
def test_every_member_has_a_description_or_is_part_of_a_json_schema(name: str) -> None:
    struct = notation.struct(name)
    if struct.go_name in ("JSONSchemaProps", "ExternalDocumentation"):
        return
    assert struct.description
    assert [f.name for f in struct.fields if not f.description] == []


def test_definition_of_a_kind_has_group_version_kind_and_required_members() -> None:
    shown = undescribed(openapi_definitions.definition(RBAC + "RoleBinding"))
    assert shown == {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{REF}{META}ObjectMeta"}], "default": {}},
            "roleRef": {"allOf": [{"$ref": f"{REF}{RBAC}RoleRef"}], "default": {}},
            "subjects": {
                "type": "array",
                "items": {"allOf": [{"$ref": f"{REF}{RBAC}Subject"}], "default": {}},
                "x-kubernetes-list-type": "atomic",
            },
        },
        "required": ["roleRef"],
        "x-kubernetes-group-version-kind": [
            {"group": "rbac.authorization.k8s.io", "kind": "RoleBinding", "version": "v1"}
        ],
    }


def test_definition_of_a_list() -> None:
    shown = undescribed(openapi_definitions.definition(CORE + "ConfigMapList"))
    assert shown["required"] == ["items"]
    assert shown["properties"]["items"]["items"]["allOf"] == [{"$ref": f"{REF}{CORE}ConfigMap"}]
    assert shown["properties"]["metadata"]["allOf"] == [{"$ref": f"{REF}{META}ListMeta"}]


@pytest.mark.parametrize(
    ("name", "member", "expected"),
    [
        pytest.param(
            f"{META}ObjectMeta",
            "finalizers",
            {**STRINGS, "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"},
            id="set-with-patch-strategy",
        ),
        pytest.param(
            f"{CORE}ServiceAccount",
            "secrets",
            {
                "type": "array",
                "items": {"allOf": [{"$ref": f"{REF}{CORE}ObjectReference"}], "default": {}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
            },
            id="map-by-key",
        ),
        pytest.param(
            f"{ADMISSION}RuleWithOperations",
            "operations",
            {
                "type": "array",
                "items": {
                    "type": "string",
                    "default": "",
                    "enum": ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"],
                },
                "x-kubernetes-list-type": "atomic",
            },
            id="enum-of-items",
        ),
        pytest.param(
            f"{CORE}ResourceQuotaSpec",
            "hard",
            {
                "type": "object",
                "additionalProperties": {
                    "$ref": f"{REF}io.k8s.apimachinery.pkg.api.resource.Quantity"
                },
            },
            id="map-of-quantities",
        ),
        pytest.param(
            f"{CORE}Event",
            "reportingInstance",
            {"type": "string", "default": ""},
            id="always-printed-has-a-default",
        ),
    ],
)
def test_members_are_published_in_the_form_of_kubernetes(
    name: str, member: str, expected: dict[str, Any]
) -> None:
    assert undescribed(openapi_definitions.definition(name))["properties"][member] == expected


def test_delete_options_are_a_kind_of_every_group() -> None:
    shown = openapi_definitions.definition(f"{META}DeleteOptions", groups=(("a.example", "v1"),))
    assert [k["group"] for k in shown["x-kubernetes-group-version-kind"]] == ["", "a.example"]


def test_nodes_carry_list_types_and_patch_strategies() -> None:
    node = nodes.node(CORE + "Namespace")
    conditions = node.properties["status"].properties["conditions"]
    assert (conditions.list_type, conditions.list_map_keys) == ("map", ("type",))
    assert (conditions.patch_strategy, conditions.patch_merge_key) == ("merge", "type")
    assert nodes.node(RBAC + "RoleRef").map_type == "atomic"
    assert not node.has_defaults


def test_nodes_are_shared_and_may_contain_themselves() -> None:
    config_map, secret = nodes.node(CORE + "ConfigMap"), nodes.node(CORE + "Secret")
    assert config_map.properties["metadata"] is secret.properties["metadata"]
    package = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
    schema = nodes.node(f"{package}JSONSchemaProps")
    assert schema.properties["properties"].additional is schema


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        openapi_definitions.definition("io.k8s.api.core.v1.Pod")
