# SPDX-License-Identifier: Apache-2.0
"""Bodies that do not fit their kind, over kinds and verbs, in the texts of Kubernetes."""

import json
from typing import Any

import pytest
from tests.http.client import CONFIG_MAPS, JSON_PATCH, LEASES, MERGE, STRATEGIC, Api, config_map

PATHS = {
    "ConfigMap": ("v1", CONFIG_MAPS),
    "Secret": ("v1", "/api/v1/namespaces/default/secrets"),
    "ServiceAccount": ("v1", "/api/v1/namespaces/default/serviceaccounts"),
    "ResourceQuota": ("v1", "/api/v1/namespaces/default/resourcequotas"),
    "Namespace": ("v1", "/api/v1/namespaces"),
    "Lease": ("coordination.k8s.io/v1", "/apis/coordination.k8s.io/v1/namespaces/default/leases"),
    "ClusterRole": (
        "rbac.authorization.k8s.io/v1",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    ),
    "CustomResourceDefinition": (
        "apiextensions.k8s.io/v1",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ),
    "APIService": (
        "apiregistration.k8s.io/v1",
        "/apis/apiregistration.k8s.io/v1/apiservices",
    ),
}


async def rejected(api: Api, path: str, body: str, **query: str) -> str:
    return str((await api.refused(400, "POST", path, body, query=query))["message"])


@pytest.mark.parametrize("kind", PATHS)
async def test_wrong_type_of_metadata_names_the_struct(api: Api, kind: str) -> None:
    version, path = PATHS[kind]
    head = f'"apiVersion":"{version}","kind":"{kind}"'
    prefix = f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot unmarshal '
    for value, shown in (("1", "number"), ('"a"', "string"), ("[]", "array"), ("true", "bool")):
        message = await rejected(api, path, f'{{{head},"metadata":{{"labels":{value}}}}}')
        field = "Go struct field ObjectMeta.metadata.labels of type map[string]string"
        assert message == f"{prefix}{shown} into {field}"
    text = f'{{{head},"metadata":{{"name":1,"name":"a"}},"bogus":1}}'
    for mode in ("Warn", "Strict", "Ignore"):
        message = await rejected(api, path, text, fieldValidation=mode)
        field = "Go struct field ObjectMeta.metadata.name of type string"
        assert message == f"{prefix}number into {field}"


@pytest.mark.parametrize("kind", PATHS)
async def test_other_kinds_are_registered_or_not(api: Api, kind: str) -> None:
    version, path = PATHS[kind]

    async def sent(other: str, other_version: str) -> str:
        body = json.dumps({"apiVersion": other_version, "kind": other, "metadata": {"name": "a"}})
        message = await rejected(api, path, body)
        return message.partition(f" cannot be handled as a {kind}: ")[2]

    group = version.rpartition("/")[0]
    package = {"": "core"}.get(group) or group.partition(".")[0]
    converting = f"converting (v1.{{}}) to ({package}.{kind}): unknown conversion"
    assert await sent(f"{kind}List", version) == converting.format(f"{kind}List")
    assert await sent("Status", version) == converting.format("Status")
    assert await sent("DeleteOptions", version) == converting.format("DeleteOptions")
    assert (await sent("Nothing", version)).startswith('no kind "Nothing" is registered')
    has_own_scheme = group in ("apiextensions.k8s.io", "apiregistration.k8s.io")
    pod = await sent("Pod", "v1")
    assert pod.startswith('no kind "Pod"') if has_own_scheme else pod == converting.format("Pod")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{"apiVersion":1,"apiVersion":"v1","kind":"ConfigMap"}',
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go "
            "struct field .apiVersion of type string",
            id="replaced",
        ),
        pytest.param(
            '{"apiVersion":"v1","kind":"ConfigMap","KIND":[]}',
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go "
            "struct field .kind of type string",
            id="case",
        ),
        pytest.param(
            '{"apiVersion":"a/b/c","kind":"ConfigMap"}',
            "unexpected GroupVersion string: a/b/c",
            id="parts",
        ),
    ],
)
async def test_kind_that_cannot_be_read_is_unrecognized(api: Api, text: str, expected: str) -> None:
    more = " ..." if len(text) > 30 else ""
    assert await rejected(api, CONFIG_MAPS, text) == (
        f"the object provided is unrecognized (must be of type ConfigMap): {expected} "
        f"({text[:30]}{more})"
    )


async def test_group_version_is_completed_from_the_path(api: Api) -> None:
    for version in ("", "/", "/v1"):
        body = {"apiVersion": version, "kind": "ConfigMap", "metadata": {"generateName": "a"}}
        assert (await api.post(CONFIG_MAPS, body, expect=201))["apiVersion"] == "v1"


async def patch_error(api: Api, patch: Any, media: str) -> str:
    await api.call("POST", CONFIG_MAPS, config_map("a"))
    status = await api.refused(
        422, "PATCH", f"{CONFIG_MAPS}/a", patch, content_type=media,
        query={"fieldValidation": "Strict"},
    )  # fmt: skip
    return str(status["details"]["causes"][0]["message"])


async def test_strict_errors_after_a_patch_follow_the_printed_object(api: Api) -> None:
    merge = {"metadata": {"z": 1, "a": 1}, "bogus": 1, "Data": 1}
    assert (await patch_error(api, merge, MERGE)).endswith(
        'strict decoding error: unknown field "Data", unknown field "bogus", '
        'unknown field "metadata.a", unknown field "metadata.z"'
    )
    value = {"z": 1, "a": 1, "name": "a"}
    operations = [{"op": "add", "path": "/metadata", "value": value, "extra": 1}]
    assert (await patch_error(api, operations, JSON_PATCH)).endswith(
        'strict decoding error: json patch unknown field "[0].extra", '
        'unknown field "metadata.z", unknown field "metadata.a"'
    )


async def test_patched_numbers_are_shown_as_written(api: Api) -> None:
    for patch, media in (
        ('{"metadata":{"generation":1e2}}', MERGE),
        ('[{"op":"add","path":"/metadata/generation","value":1e2}]', JSON_PATCH),
    ):
        assert (await patch_error(api, patch, media)).endswith(
            "json: cannot unmarshal number 1e2 into Go struct field "
            "ObjectMeta.metadata.generation of type int64"
        )


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"metadata": {"labels": [1]}}, "cannot restore map from slice", id="map"),
        pytest.param({"data": {"a": 1}}, "cannot convert int64 to string", id="number"),
        pytest.param({"data": {"a": {}}}, "unrecognized type: string", id="object"),
    ],
)
async def test_strategic_patch_reports_errors_of_the_converter(
    api: Api, patch: Any, expected: str
) -> None:
    assert (await patch_error(api, patch, STRATEGIC)).endswith(f": {expected}")


async def test_strategic_patch_cannot_change_the_kind(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    patch = {"kind": "Secret", "apiVersion": "x"}
    assert (await api.patch(f"{CONFIG_MAPS}/a", patch, STRATEGIC))["kind"] == "ConfigMap"


async def test_uid_is_a_precondition_of_an_update_that_creates(api: Api) -> None:
    body = {"metadata": {"name": "a", "uid": "x"}}
    status = await api.refused(409, "PUT", f"{LEASES}/a", body)
    assert status["message"].endswith("UID in precondition: x, UID in object meta: ")
    await api.refused(404, "PUT", f"{CONFIG_MAPS}/a", body)
