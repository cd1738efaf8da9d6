# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions: validation, lifecycle, changes and deletion."""

from typing import Any

import pytest
from tests.http.client import CRDS, JSON_PATCH, MERGE, WIDGETS, Api, causes, crd, widget

from rdd.api.types import Object

NAME = "widgets.shop.example.com"
PATH = f"{CRDS}/{NAME}"
INVALID = f'CustomResourceDefinition.apiextensions.k8s.io "{NAME}" is invalid: '
ROOT = "spec.validation.openAPIV3Schema"
A = f"{ROOT}.properties[spec].properties[a]"


def with_field(schema: Object) -> Object:
    """Return a schema whose spec has the one field `a`."""
    spec = {"type": "object", "properties": {"a": schema}}
    return {"type": "object", "properties": {"spec": spec}}


async def problems(api: Api, definition: Object) -> list[str]:
    """Return the causes of a rejected definition as texts."""
    status = await api.refused(422, "POST", CRDS, definition)
    assert status["reason"] == "Invalid"
    return [f"{c['field']}: {c['message']}" for c in status["details"]["causes"]]


# -- creation


async def test_a_definition_is_defaulted_and_established(api: Api) -> None:
    body = crd(scope="Cluster")
    del body["spec"]["names"]["singular"]
    made = await api.post(CRDS, body, expect=201)
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["metadata"]["generation"] == 1
    assert made["status"]["storedVersions"] == ["v1"]
    await api.server.running.custom.settled()
    status = (await api.get(PATH))["status"]
    assert status["acceptedNames"] == made["spec"]["names"]
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]


async def test_a_given_status_is_ignored(api: Api) -> None:
    condition = {"type": "Established", "status": "True", "reason": "R", "message": "m"}
    made = await api.post(CRDS, crd() | {"status": {"conditions": [condition]}})
    assert not made["status"]["conditions"]
    await api.server.running.custom.settled()
    current = await api.get(PATH)
    after = await api.put(PATH, current | {"status": {"conditions": []}})
    assert len(after["status"]["conditions"]) == 2


async def test_a_replacement_requires_the_resource_version(api: Api) -> None:
    await api.install(crd())
    status = await api.refused(422, "PUT", PATH, crd())
    assert causes(status) == [("metadata.resourceVersion", "FieldValueInvalid")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"group": "other.example.com"}, "metadata.name", id="another group"),
        pytest.param({"scope": "Everywhere"}, "spec.scope", id="scope"),
        pytest.param({"versions": []}, "spec.versions", id="no versions"),
        pytest.param({"group": ""}, "spec.group", id="no group"),
    ],
)
async def test_the_names_of_a_definition_are_checked(change: Object, field: str, api: Api) -> None:
    body = crd()
    body["spec"] |= change
    status = await api.refused(422, "POST", CRDS, body)
    assert field in [f for f, _ in causes(status)]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param({}, f"{ROOT}.type: Required value: must not be empty at the root", id="empty"),
        pytest.param(
            {"type": "array"},
            f'{ROOT}.type: Invalid value: "array": must be object at the root',
            id="array at the root",
        ),
        pytest.param(
            with_field({"minimum": 1}),
            f"{A}.type: Required value: must not be empty for specified object fields",
            id="no type",
        ),
        pytest.param(
            with_field({"type": "list"}),
            f'{A}.type: Unsupported value: "list": supported values: "array", "boolean", '
            '"integer", "number", "object", "string"',
            id="unknown type",
        ),
        pytest.param(
            with_field({"type": "array"}),
            f"{A}.items: Required value: must be specified",
            id="items",
        ),
        pytest.param(
            with_field({"type": "array", "items": [{"type": "string"}]}),
            f"{A}.items: Forbidden: items must be a schema object and not an array",
            id="items are an array",
        ),
        pytest.param(
            with_field(
                {
                    "type": "object",
                    "properties": {"b": {"type": "string"}},
                    "additionalProperties": {"type": "string"},
                }
            ),
            f"{A}.additionalProperties: Forbidden: additionalProperties and properties are "
            "mutual exclusive",
            id="properties twice",
        ),
        pytest.param(
            with_field({"$ref": "#/definitions/x"}),
            f"{A}.$ref: Forbidden: $ref is not supported",
            id="reference",
        ),
        pytest.param(
            with_field({"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
            f"{A}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
            "complexity becomes quadratic",
            id="unique items",
        ),
        pytest.param(
            with_field(
                {"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"}}
            ),
            f'{A}.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", '
            '"set", "map"',
            id="list type",
        ),
        pytest.param(
            with_field(
                {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}
            ),
            f"{A}.x-kubernetes-list-map-keys: Required value: must not be empty if "
            "x-kubernetes-list-type is map",
            id="no map keys",
        ),
        pytest.param(
            with_field({"type": "object", "x-kubernetes-map-type": "deep"}),
            f'{A}.x-kubernetes-map-type: Unsupported value: "deep": supported values: "atomic", '
            '"granular"',
            id="map type",
        ),
        pytest.param(
            with_field({"type": "object", "x-kubernetes-embedded-resource": True}),
            f"{A}.properties: Required value: must not be empty if "
            "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            id="embedded",
        ),
        pytest.param(
            with_field({"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
            f"{A}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or "
            "undefined",
            id="preserve",
        ),
        pytest.param(
            with_field({"type": "integer", "default": "x"}),
            f'{A}.default: Invalid value: "string":  in body must be of type integer: "string"',
            id="default of another type",
        ),
        pytest.param(
            with_field({"type": "integer", "maximum": 3, "default": 7}),
            f"{A}.default: Invalid value: 7:  in body should be less than or equal to 3",
            id="default too large",
        ),
        pytest.param(
            with_field({"type": "string", "enum": ["x"], "default": "z"}),
            f'{A}.default: Unsupported value: "z": supported values: "x"',
            id="default not in enum",
        ),
        pytest.param(
            with_field(
                {"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}}
            ),
            f'{A}.default: Invalid value: {{"c":1}}: must not have unknown fields',
            id="default with unknown fields",
        ),
    ],
)
async def test_rejects_schemas_that_are_not_structural(
    schema: Object, problem: str, api: Api
) -> None:
    body = crd()
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    assert problem in await problems(api, body)


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        pytest.param(
            {"name": "A", "type": "text", "jsonPath": ".x"},
            '[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string',
            id="type",
        ),
        pytest.param(
            {"name": "A", "type": "string", "jsonPath": "x"},
            '[0].JSONPath: Invalid value: "x": must be a simple json path starting with .',
            id="path",
        ),
        pytest.param({"type": "string", "jsonPath": ".x"}, "[0].name: Required value", id="name"),
        pytest.param({"name": "A", "type": "string"}, "[0].JSONPath: Required value", id="no path"),
        pytest.param(
            {"name": "A", "type": "string", "jsonPath": ".x", "format": "odd"},
            '[0].format: Invalid value: "odd": must be one of byte,date,date-time,double,float,'
            "int32,int64,password",
            id="format",
        ),
    ],
)
async def test_columns_are_checked(column: Object, problem: str, api: Api) -> None:
    body = crd(additionalPrinterColumns=[column])
    assert await problems(api, body) == [f"spec.additionalPrinterColumns{problem}"]


@pytest.mark.parametrize(
    ("paths", "problem"),
    [
        pytest.param(
            ["spec.a"],
            '[0].jsonPath: Invalid value: "spec.a": is an invalid path: expected [ or . '
            "but got: spec",
            id="no dot",
        ),
        pytest.param(
            [".spec.none"],
            '[0].jsonPath: Invalid value: ".spec.none": is an invalid path: does not '
            "refer to a valid field",
            id="no such field",
        ),
        pytest.param(
            [".spec.o"],
            '[0].jsonPath: Invalid value: ".spec.o": must point to a field of type '
            "string, boolean or integer. Enum string fields and strings with formats are allowed.",
            id="an object",
        ),
        pytest.param(
            [".spec.a", ".spec.a"], '[1].jsonPath: Duplicate value: ".spec.a"', id="twice"
        ),
    ],
)
async def test_selectable_fields_are_checked(paths: list[str], problem: str, api: Api) -> None:
    schema = with_field({"type": "string"})
    schema["properties"]["spec"]["properties"]["o"] = {"type": "object"}
    body = crd(schema=schema, selectableFields=[{"jsonPath": p} for p in paths])
    assert await problems(api, body) == [f"spec.selectableFields{problem}"]


@pytest.mark.parametrize(
    ("conversion", "texts"),
    [
        pytest.param(
            {"strategy": "Magic"},
            [
                'spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", '
                '"Webhook"'
            ],
            id="strategy",
        ),
        pytest.param(
            {"strategy": "Webhook"},
            [
                "spec.conversion.webhookClientConfig: Required value: required when strategy is "
                "set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
            id="no webhook",
        ),
        pytest.param(
            {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
            [
                "spec.conversion.conversionReviewVersions: Forbidden: should not be set when "
                "strategy is not set to Webhook"
            ],
            id="webhook without need",
        ),
        pytest.param(
            {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"url": "http://a"},
                },
            },
            [
                "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the "
                "only allowed URL scheme; desired format: https://host[/path]"
            ],
            id="http",
        ),
    ],
)
async def test_conversions_are_checked(conversion: Object, texts: list[str], api: Api) -> None:
    body = crd()
    body["spec"]["conversion"] = conversion
    assert sorted(await problems(api, body)) == sorted(texts)


async def test_unknown_fields_of_definitions(api: Api) -> None:
    body = crd(oddity=1)
    status = await api.refused(400, "POST", CRDS, body, query={"fieldValidation": "Strict"})
    assert status["message"].endswith('unknown field "spec.versions[0].oddity"')
    reply = await api.call("POST", CRDS, body)
    assert reply.warnings == ['unknown field "spec.versions[0].oddity"']


# -- names


async def test_names_of_another_definition_are_not_accepted(api: Api) -> None:
    await api.install(crd(names={"shortNames": ["w"]}))
    second = crd("gadgets", "Gadget", names={"shortNames": ["w"]})
    await api.post(CRDS, second)
    await api.server.running.custom.settled()
    path = f"{CRDS}/gadgets.shop.example.com"
    conditions = {c["type"]: c for c in (await api.get(path))["status"]["conditions"]}
    assert conditions["NamesAccepted"]["reason"] == "ShortNamesConflict"
    assert conditions["NamesAccepted"]["message"] == '"w" is already in use'
    assert conditions["Established"]["reason"] == "NotAccepted"
    gadgets = WIDGETS.replace("widgets", "gadgets")
    assert (await api.call("GET", gadgets)).status == 404
    await api.delete(PATH)
    await api.server.running.custom.settled()
    assert (await api.call("GET", gadgets)).status == 200


# -- change


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        pytest.param({"group": "other.example.com"}, "spec.group", id="group"),
        pytest.param({"scope": "Cluster"}, "spec.scope", id="scope"),
        pytest.param({"names": {"plural": "wadgets"}}, "spec.names.plural", id="plural"),
        pytest.param({"names": {"kind": "Wadget"}}, "spec.names.kind", id="kind"),
    ],
)
async def test_group_and_names_of_a_definition_are_immutable(
    patch: Object, field: str, api: Api
) -> None:
    await api.install(crd())
    status = await api.refused(422, "PATCH", PATH, {"spec": patch}, content_type=MERGE)
    assert (field, "FieldValueInvalid") in causes(status)
    assert "field is immutable" in status["message"]


async def test_other_names_can_change(api: Api) -> None:
    await api.install(crd())
    names = {"shortNames": ["wd"], "categories": ["all"]}
    after = await api.patch(PATH, {"spec": {"names": names}}, MERGE)
    assert after["metadata"]["generation"] == 2
    await api.server.running.custom.settled()
    found = (await api.get("/apis/shop.example.com/v1"))["resources"][0]
    assert (found["shortNames"], found["categories"]) == (["wd"], ["all"])


async def test_a_tighter_schema_applies_to_later_writes_only(api: Api) -> None:
    await api.install(crd(schema=with_field({"type": "integer"})))
    await api.post(WIDGETS, widget("old", {"a": 50}))
    where = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maximum"
    await api.patch(PATH, [{"op": "add", "path": where, "value": 10}], JSON_PATCH)
    await api.server.running.custom.settled()
    status = await api.refused(422, "POST", WIDGETS, widget("new", {"a": 50}))
    assert causes(status) == [("spec.a", "FieldValueInvalid")]
    path = f"{WIDGETS}/old"
    assert (await api.get(path))["spec"] == {"a": 50}
    await api.patch(path, {"metadata": {"labels": {"l": ""}}}, MERGE)
    await api.refused(422, "PATCH", path, {"spec": {"a": 51}}, content_type=MERGE)
    await api.patch(path, {"spec": {"a": 9}}, MERGE)


def versions(*names: str, storage: str) -> list[Object]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free}}}
    return [{"name": n, "served": True, "storage": n == storage, "schema": schema} for n in names]


async def test_versions_once_stored_stay_until_migrated(api: Api) -> None:
    await api.install(crd(versions=versions("v1", "v2", storage="v1")))
    swap = [
        {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
    ]
    after = await api.patch(PATH, swap, JSON_PATCH)
    assert after["status"]["storedVersions"] == ["v1", "v2"]
    drop = [{"op": "remove", "path": "/spec/versions/0"}]
    status = await api.refused(422, "PATCH", PATH, drop, content_type=JSON_PATCH)
    assert "v1 was previously a storage version" in status["message"]
    await api.patch(f"{PATH}/status", {"status": {"storedVersions": ["v2"]}}, MERGE)
    after = await api.patch(PATH, drop, JSON_PATCH)
    assert [v["name"] for v in after["spec"]["versions"]] == ["v2"]


async def test_an_object_is_equal_in_all_versions(api: Api) -> None:
    kinds = versions("v1", "v1beta1", "v0", storage="v1")
    kinds[1]["deprecated"] = True
    kinds[2] |= {"served": False}
    await api.install(crd(versions=kinds))
    beta = WIDGETS.replace("/v1/", "/v1beta1/")
    await api.post(WIDGETS, widget("a", {"n": 1}))
    reply = await api.call("GET", f"{beta}/a")
    assert reply.json()["apiVersion"] == "shop.example.com/v1beta1"
    assert reply.warnings == [
        "shop.example.com/v1beta1 Widget is deprecated; use shop.example.com/v1 Widget"
    ]
    await api.post(beta, widget("b") | {"apiVersion": "shop.example.com/v1beta1"})
    assert await api.names(WIDGETS) == ["a", "b"]
    assert {o["apiVersion"] for o in (await api.get(beta))["items"]} == {"shop.example.com/v1beta1"}
    assert (await api.call("GET", WIDGETS.replace("/v1/", "/v0/"))).status == 404
    status = await api.refused(400, "POST", beta, widget("c"))
    assert status["message"] == (
        "the API version in the data (shop.example.com/v1) does not match the expected API "
        "version (shop.example.com/v1beta1)"
    )


async def test_a_deprecation_can_have_its_own_warning(api: Api) -> None:
    kinds = versions("v1", "v1beta1", storage="v1")
    kinds[1] |= {"deprecated": True, "deprecationWarning": "move to v1 by spring"}
    await api.install(crd(versions=kinds))
    reply = await api.call("GET", WIDGETS.replace("/v1/", "/v1beta1/"))
    assert reply.warnings == ["move to v1 by spring"]


# -- subresources and scope


async def test_cluster_scoped_resources_have_no_namespace(api: Api) -> None:
    await api.install(crd(scope="Cluster"))
    path = "/apis/shop.example.com/v1/widgets"
    made = await api.post(path, widget("a"))
    assert "namespace" not in made["metadata"]
    assert await api.names(path) == ["a"]
    assert (await api.call("GET", WIDGETS)).status == 404


async def test_generation_counts_changes_of_the_spec(api: Api) -> None:
    await api.install(crd(subresources={"status": {}}))
    path = f"{WIDGETS}/a"
    made = await api.post(WIDGETS, widget("a", {"n": 1}) | {"status": {"s": 1}})
    assert "status" not in made
    for where, patch, generation, status in (
        (path, {"metadata": {"labels": {"l": ""}}}, 1, None),
        (path, {"spec": {"n": 2}}, 2, None),
        (f"{path}/status", {"status": {"s": 2}}, 2, {"s": 2}),
        (f"{path}/status", {"spec": {"n": 9}}, 2, {"s": 2}),
        (path, {"status": {"s": 3}}, 2, {"s": 2}),
        (path, {"spec": {"n": 2}}, 2, {"s": 2}),
    ):
        after = await api.patch(where, patch, MERGE)
        assert (after["metadata"]["generation"], after.get("status")) == (generation, status)


SCALE = {
    "status": {},
    "scale": {
        "specReplicasPath": ".spec.n",
        "statusReplicasPath": ".status.n",
        "labelSelectorPath": ".status.sel",
    },
}


async def test_scale_reads_and_writes_replicas(api: Api) -> None:
    await api.install(crd(subresources=SCALE))
    await api.post(WIDGETS, widget("a", {"n": 2}))
    path = f"{WIDGETS}/a/scale"
    scale = await api.get(path)
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0})
    await api.patch(f"{WIDGETS}/a/status", {"status": {"n": 1, "sel": "x=y"}}, MERGE)
    assert (await api.get(path))["status"] == {"replicas": 1, "selector": "x=y"}
    body = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": 5}}
    assert (await api.put(path, body))["spec"]["replicas"] == 5
    stale = {**body, "metadata": scale["metadata"]}
    await api.refused(409, "PUT", path, stale)
    assert (await api.patch(path, {"spec": {"replicas": 7}}, MERGE))["spec"]["replicas"] == 7
    status = await api.refused(422, "PATCH", path, {"spec": {"replicas": -1}}, content_type=MERGE)
    assert "should be a non-negative integer" in status["message"]
    assert (await api.get(f"{WIDGETS}/a"))["spec"]["n"] == 7


async def test_replicas_scaled_to_zero_have_no_owner(api: Api) -> None:
    await api.install(crd(subresources=SCALE))
    await api.post(WIDGETS, widget("a", {"n": 2}))
    body = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": 0}}
    await api.put(f"{WIDGETS}/a/scale", body)
    after = await api.get(f"{WIDGETS}/a")
    assert after["spec"] == {"n": 0}
    assert not [e for e in after["metadata"]["managedFields"] if "f:n" in str(e["fieldsV1"])]
    await api.put(f"{WIDGETS}/a/scale", {**body, "spec": {"replicas": 1}})
    entries = (await api.get(f"{WIDGETS}/a"))["metadata"]["managedFields"]
    assert [e.get("subresource") for e in entries if "f:n" in str(e["fieldsV1"])] == ["scale"]


async def test_scale_needs_replicas(api: Api) -> None:
    await api.install(crd(subresources=SCALE))
    await api.post(WIDGETS, widget("a", {}))
    status = await api.refused(500, "GET", f"{WIDGETS}/a/scale")
    assert status["message"].endswith('the spec replicas field ".spec.n" does not exist')
    await api.refused(404, "GET", f"{WIDGETS}/none/scale")


@pytest.mark.parametrize("name", ["status", "scale", "log"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_resources_without_subresources_have_none(method: str, name: str, api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("a"))
    status = await api.refused(404, method, f"{WIDGETS}/a/{name}")
    assert status["message"] == 'widgets.shop.example.com "a" not found'
    assert status["details"] == {"name": "a", "group": "shop.example.com", "kind": "widgets"}


@pytest.mark.parametrize("name", ["status", "scale"])
async def test_subresources_cannot_be_deleted(name: str, api: Api) -> None:
    await api.install(crd(subresources=SCALE))
    await api.post(WIDGETS, widget("a", {"n": 2}))
    status = await api.refused(405, "DELETE", f"{WIDGETS}/a/{name}")
    assert status["message"] == (
        'delete is not supported on resources of kind "widgets.shop.example.com"'
    )
    assert status["details"] == {"group": "shop.example.com", "kind": "widgets"}


async def test_patches_of_scale_fail_as_patches(api: Api) -> None:
    await api.install(crd(subresources=SCALE))
    await api.post(WIDGETS, widget("a", {"n": 2}))
    path = f"{WIDGETS}/a/scale"
    patch: dict[str, Any] = {"spec": {"replicas": {}}}
    status = await api.refused(422, "PATCH", path, patch, content_type=MERGE)
    assert status["message"].startswith(' "" is invalid: patch: Invalid value: ')
    assert status["message"].endswith("field ScaleSpec.spec.replicas of type int32")
    strategic = "application/strategic-merge-patch+json"
    status = await api.refused(415, "PATCH", path, patch, content_type=strategic)
    assert "accepted media types include: application/json-patch+json" in status["message"]


async def test_applied_scale_cannot_change_replicas(api: Api) -> None:
    await api.install(crd(subresources=SCALE))
    await api.post(WIDGETS, widget("a", {"n": 2}))
    await api.post(WIDGETS, widget("b"))
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3}}
    ending = (
        "; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid "
        "group/version: autoscaling/v1"
    )
    for name, text in (
        ("a", "failed to convert new object (/a"),
        ("b", "failed to create manager for existing fields: failed to convert live object (/"),
    ):
        path = f"{WIDGETS}/{name}/scale?fieldManager=m&force=true"
        applied = {**body, "metadata": {"name": name}}
        apply = "application/apply-patch+yaml"
        status = await api.refused(500, "PATCH", path, applied, content_type=apply)
        assert status["message"] == text + ending


async def test_scale_paths_below_a_value_that_is_no_object(api: Api) -> None:
    definition = crd(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    definition["spec"]["versions"][0]["subresources"] = SCALE
    await api.install(definition)
    status = await api.refused(422, "POST", WIDGETS, {**widget("a"), "spec": 4})
    assert (
        ".spec.n: Invalid value: 0: .spec.n accessor error: 4 is of the type int64, "
        "expected map[string]interface{}"
    ) in status["message"]


async def test_generated_names_of_definitions_are_checked(api: Api) -> None:
    definition = crd()
    definition["metadata"]["generateName"] = "gen-"
    assert await problems(api, definition) == [
        'metadata.generateName: Invalid value: "gen-": must be spec.names.plural+"."+spec.group'
    ]


async def test_defaults_need_pruning(api: Api) -> None:
    await api.install(crd(schema=with_field({"type": "string", "default": "x"})))
    patch = {"spec": {"preserveUnknownFields": True}}
    status = await api.refused(422, "PATCH", PATH, patch, content_type=MERGE)
    assert [c["message"].split(": ")[2] for c in status["details"]["causes"]] == [
        "must be false in order to use defaults in the schema",
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead",
    ]


async def test_empty_stored_versions_are_defaulted(api: Api) -> None:
    await api.install(crd())
    patch: dict[str, Any] = {"status": {"storedVersions": []}}
    after = await api.patch(f"{PATH}/status", patch, MERGE)
    assert after["status"]["storedVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("spec.hue=red", ["a"], id="string"),
        pytest.param("spec.hue!=red", ["b", "c"], id="not"),
        pytest.param("spec.size=2", ["b"], id="integer"),
        pytest.param("spec.on=true", ["b"], id="boolean"),
        pytest.param("spec.hue=", ["c"], id="absent"),
        pytest.param("spec.hue=blue,metadata.name=b", ["b"], id="two"),
    ],
)
async def test_objects_are_selected_by_their_fields(
    selector: str, names: list[str], api: Api
) -> None:
    properties = {
        "hue": {"type": "string"},
        "size": {"type": "integer"},
        "on": {"type": "boolean"},
    }
    spec: Any = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    fields = [{"jsonPath": f".spec.{name}"} for name in properties]
    await api.install(crd(schema=schema, selectableFields=fields))
    await api.post(WIDGETS, widget("a", {"hue": "red", "size": 1}))
    await api.post(WIDGETS, widget("b", {"hue": "blue", "size": 2, "on": True}))
    await api.post(WIDGETS, widget("c", {}))
    assert await api.names(WIDGETS, query={"fieldSelector": selector}) == names
    for bad in (".spec.hue=red", "spec.none=1"):
        status = await api.refused(400, "GET", WIDGETS, query={"fieldSelector": bad})
        assert status["message"].startswith("field label not supported: ")
