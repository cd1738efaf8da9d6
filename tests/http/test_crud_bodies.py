# SPDX-License-Identifier: Apache-2.0
"""Bodies, media types and paths, and the errors about them."""

from typing import Any

import pytest
from tests.http.client import (
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    LEASES,
    MERGE,
    NAMESPACES,
    RBAC,
    ROLES,
    SECRETS,
    Api,
    bare,
    config_map,
)

UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
NO_KIND = UNRECOGNIZED + "couldn't get version/kind; json parse error: "
INTO_STRUCT = (
    'into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": {"name": "x"}}, id="neither"),
        pytest.param({"kind": "ConfigMap", "metadata": {"name": "x"}}, id="no apiVersion"),
        pytest.param({"apiVersion": "v1", "metadata": {"name": "x"}}, id="no kind"),
    ],
)
async def test_kind_and_api_version_are_optional(body: dict[str, Any], api: Api) -> None:
    assert bare(await api.post(CONFIG_MAPS, body, expect=201)) == config_map("x")


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        pytest.param(
            "Secret",
            "v1",
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            id="another kind",
        ),
        pytest.param(
            "ConfigMap",
            "v2",
            'ConfigMap in version "v2" cannot be handled as a ConfigMap: '
            'no kind "ConfigMap" is registered for version "v2" in scheme ',
            id="another version",
        ),
        pytest.param(
            "Poem",
            "v1",
            'Poem in version "v1" cannot be handled as a ConfigMap: '
            'no kind "Poem" is registered for version "v1" in scheme ',
            id="unknown kind",
        ),
    ],
)
async def test_body_of_another_type_is_rejected(
    kind: str, version: str, message: str, api: Api
) -> None:
    body = {"kind": kind, "apiVersion": version, "metadata": {"name": "x"}}
    status = await api.refused(400, "POST", CONFIG_MAPS, body)
    assert status["reason"] == "BadRequest"
    assert status["message"].startswith(message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("", NO_KIND + "unexpected end of JSON input (<empty>)", id="empty"),
        pytest.param(" ", NO_KIND + "unexpected end of JSON input (20)", id="blank"),
        pytest.param("[", NO_KIND + "unexpected end of JSON input (5b)", id="cut list"),
        pytest.param("{", NO_KIND + "unexpected end of JSON input ({)", id="cut object"),
        pytest.param(
            "[1]", NO_KIND + f"json: cannot unmarshal array {INTO_STRUCT} (5b315d)", id="list"
        ),
        pytest.param(
            "7", NO_KIND + f"json: cannot unmarshal number {INTO_STRUCT} (37)", id="number"
        ),
        pytest.param(
            "true", NO_KIND + f"json: cannot unmarshal bool {INTO_STRUCT} (74727565)", id="bool"
        ),
        pytest.param(
            '{"kind":[]}',
            NO_KIND + "json: cannot unmarshal array into Go struct field .kind of type string "
            '({"kind":[]})',
            id="kind is a list",
        ),
        pytest.param(
            "apiVersion: v1",
            NO_KIND + "invalid character 'a' looking for beginning of value "
            "(61706956657273696f6e3a207631)",
            id="YAML sent as JSON",
        ),
        pytest.param(
            '{"metadata":7}',
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '
            "number into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
            id="metadata is a number",
        ),
        pytest.param(
            '{"metadata":{"name":"x"},"data":{"k":[]}}',
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '
            "array into Go struct field ConfigMap.data of type string",
            id="data is a list",
        ),
        pytest.param(
            '{"metadata":{"name":"x"},"binaryData":{"k":"??"}}',
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: illegal base64 data at '
            "input byte 0",
            id="not base64",
        ),
        pytest.param(
            '{"metadata":{"name":"x","labels":{"n":3}}}',
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '
            "number into Go struct field ObjectMeta.metadata.labels of type string",
            id="label is a number",
        ),
        pytest.param(
            '{"metadata":{"name":"x","annotations":[]}}',
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '
            "array into Go struct field ObjectMeta.metadata.annotations of type map[string]string",
            id="annotations are a list",
        ),
    ],
)
async def test_body_that_does_not_match_the_kind_is_rejected(
    body: str, message: str, api: Api
) -> None:
    status = await api.refused(400, "POST", CONFIG_MAPS, body)
    assert (status["reason"], status["message"]) == ("BadRequest", message)


async def test_null_is_an_object_without_a_name(api: Api) -> None:
    status = await api.refused(422, "POST", CONFIG_MAPS, "null")
    assert status["message"] == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )


async def test_null_values_in_string_maps_are_empty_strings(api: Api) -> None:
    body = '{"metadata":{"name":"x","labels":{"l":null}},"data":{"k":null}}'
    made = await api.post(CONFIG_MAPS, body)
    assert (made["data"], made["metadata"]["labels"]) == ({"k": ""}, {"l": ""})


async def test_requests_without_a_body_are_refused(api: Api) -> None:
    for method, path in (("POST", CONFIG_MAPS), ("PUT", f"{CONFIG_MAPS}/x")):
        status = await api.refused(400, method, path)
        assert status["message"] == NO_KIND + "unexpected end of JSON input (<empty>)"
    await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(400, "PATCH", f"{CONFIG_MAPS}/x", "", content_type=MERGE)
    assert status["message"] == "error decoding patch: unexpected end of JSON input"


# -- YAML


async def test_yaml_content_type_is_decoded(api: Api) -> None:
    text = "kind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: '1'\n  b: |\n    two\n    lines\n"
    made = await api.post(CONFIG_MAPS, text, content_type="application/yaml")
    assert made["data"] == {"a": "1", "b": "two\nlines\n"}
    text = "{kind: ConfigMap, metadata: {name: x}, data: {c: z}}"
    made = await api.put(f"{CONFIG_MAPS}/x", text, content_type="application/yaml")
    assert made["data"] == {"c": "z"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("x: {", "yaml: line 1: did not find expected node content", id="cut"),
        pytest.param(
            "metadata: {name: x}\ndata: {k: 1}",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            id="number for text",
        ),
        pytest.param(
            "metadata: {name: x}\ndata: {k: true}",
            "json: cannot unmarshal bool into Go struct field ConfigMap.data of type string",
            id="bool for text",
        ),
    ],
)
async def test_yaml_that_does_not_match_the_kind_is_rejected(
    text: str, message: str, api: Api
) -> None:
    status = await api.refused(400, "POST", CONFIG_MAPS, text, content_type="application/yaml")
    assert message in status["message"]


async def test_yaml_is_returned_if_accepted(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x", {"k": "v"}))
    reply = await api.call("GET", f"{CONFIG_MAPS}/x", headers={"Accept": "application/yaml"})
    assert reply.content_type == "application/yaml"
    assert reply.text.startswith("apiVersion: v1\ndata:\n  k: v\nkind: ConfigMap\n")


# -- media types


@pytest.mark.parametrize("media", ["text/plain", "application/xml", "nothing", "multipart/mixed"])
async def test_bodies_in_unknown_formats_are_refused(media: str, api: Api) -> None:
    for method, path in (("POST", CONFIG_MAPS), ("PUT", f"{CONFIG_MAPS}/x")):
        status = await api.refused(415, method, path, "{}", content_type=media)
        assert status["reason"] == "UnsupportedMediaType"
        assert status["message"] == (
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        )


@pytest.mark.parametrize("media", ["application/json", "application/yaml", "text/plain"])
async def test_patches_require_patch_media_types(media: str, api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(415, "PATCH", f"{CONFIG_MAPS}/x", {}, content_type=media)
    assert status["message"].startswith("415: Unsupported Media Type")


async def test_media_type_parameters_are_ignored(api: Api) -> None:
    media = "application/json;charset=UTF-8"
    await api.post(CONFIG_MAPS, config_map("x"), content_type=media, expect=201)


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        pytest.param("", 200, id="empty"),
        pytest.param("*/*", 200, id="anything"),
        pytest.param("application/*", 406, id="any application"),
        pytest.param("image/png, */*;q=0.1", 200, id="second choice"),
        pytest.param("application/json;q=0.5,text/html", 200, id="JSON among others"),
        pytest.param("image/png", 406, id="image"),
        pytest.param("application/json;as=Poem;g=meta.k8s.io;v=v1", 406, id="unknown form"),
        pytest.param("application/json;as=Table;g=meta.k8s.io;v=v9", 406, id="unknown version"),
    ],
)
async def test_accept_header_selects_the_representation(accept: str, code: int, api: Api) -> None:
    reply = await api.call("GET", CONFIG_MAPS, headers={"Accept": accept})
    assert reply.status == code
    assert reply.content_type == "application/json"
    if code == 406:
        assert reply.json()["reason"] == "NotAcceptable"


# -- paths


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/api/v1/namespaces/default/gadgets", id="resource"),
        pytest.param("/api/v2", id="core version"),
        pytest.param(f"{RBAC.replace('v1', 'v7')}/roles", id="group version"),
        pytest.param("/api/v1/roles", id="resource of another group"),
        pytest.param(f"{CONFIG_MAPS}/x/status", id="subresource"),
        pytest.param(f"{CONFIG_MAPS}/x/y/z", id="too deep"),
    ],
)
async def test_unknown_resources_of_builtin_groups_return_a_status(path: str, api: Api) -> None:
    status = await api.refused(404, "GET", path)
    assert status["message"] == "the server could not find the requested resource"
    assert status["details"] == {}


@pytest.mark.parametrize("path", ["/oddity", "/apis/odd.example.com", "/apis/odd.example.com/v1/a"])
async def test_unknown_paths_return_plain_text(path: str, api: Api) -> None:
    reply = await api.call("GET", path)
    assert (reply.status, reply.text) == (404, "404 page not found\n")
    assert reply.content_type == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        pytest.param(CONFIG_MAPS, "configmaps", id="core"),
        pytest.param(SECRETS, "secrets", id="secret"),
        pytest.param(EVENTS, "events", id="event"),
        pytest.param(NAMESPACES, "namespaces", id="namespace"),
        pytest.param(LEASES, "leases.coordination.k8s.io", id="lease"),
        pytest.param(ROLES, "roles.rbac.authorization.k8s.io", id="role"),
        pytest.param(
            f"{RBAC}/clusterrolebindings",
            "clusterrolebindings.rbac.authorization.k8s.io",
            id="clusterrolebinding",
        ),
        pytest.param(CRDS, "customresourcedefinitions.apiextensions.k8s.io", id="definition"),
    ],
)
async def test_not_found_message_names_the_group(path: str, what: str, api: Api) -> None:
    for method in ("GET", "DELETE"):
        status = await api.refused(404, method, f"{path}/absent")
        assert status["message"] == f'{what} "absent" not found'


async def test_name_in_the_body_must_be_that_of_the_path(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(400, "PUT", f"{CONFIG_MAPS}/x", config_map("y"))
    assert status["message"] == (
        "the name of the object (y) does not match the name on the URL (x)"
    )
    status = await api.refused(400, "PUT", f"{CONFIG_MAPS}/x", {"metadata": {}})
    assert status["message"] == (
        "the name of the object (x based on URL) was undeterminable: name must be provided"
    )


async def test_pretty_and_unknown_parameters_change_nothing(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("x"))
    for query in ({"pretty": "true"}, {"colour": "red"}, {"resourceVersion": "0"}):
        assert await api.get(f"{CONFIG_MAPS}/x", query=query) == made
    reply = await api.call("GET", f"{CONFIG_MAPS}/x?pretty=true")
    assert reply.text.startswith('{\n  "kind": "ConfigMap",\n')


async def test_large_yaml_body_is_decoded_off_the_event_loop_with_the_same_result(api: Api) -> None:
    lines = "".join(f"  k{i}: '{i}'\n" for i in range(4000))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata:\n{lines}"
    made = await api.post(CONFIG_MAPS, text, content_type="application/yaml")
    assert len(made["data"]) == 4000
    status = await api.refused(
        400, "POST", CONFIG_MAPS, text + "  bad: [", content_type="application/yaml"
    )
    assert "yaml: line" in status["message"]
    applied = await api.apply(f"{CONFIG_MAPS}/big", text.replace("k0:", "k00:"), force=True)
    assert applied["data"]["k00"] == "0"


@pytest.mark.parametrize(
    ("path", "accept", "text"),
    [
        pytest.param(
            CONFIG_MAPS, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            "you requested PartialObjectMetadata, but the requested object is a list "
            "(*core.ConfigMapList)", id="object of a list",
        ),
        pytest.param(
            f"{CONFIG_MAPS}/x", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            "(*core.ConfigMap)", id="list of an object",
        ),
        pytest.param(
            f"{CONFIG_MAPS}/x", "application/json;v=v1",
            "only the following media types are accepted: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf", id="version without kind",
        ),
        pytest.param(
            f"{CONFIG_MAPS}/x", "APPLICATION/JSON",
            "406: Not Acceptable\n\nAvailable representations: application/json, "
            "application/yaml, application/vnd.kubernetes.protobuf", id="upper case",
        ),
        pytest.param(
            CONFIG_MAPS, "text/plain",
            "406: Not Acceptable\n\nAvailable representations: application/json, "
            "application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, "
            "application/vnd.kubernetes.protobuf;stream=watch", id="list",
        ),
    ],
)  # fmt: skip
async def test_unacceptable_representation_is_refused_with_the_reason(
    path: str, accept: str, text: str, api: Api
) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(406, "GET", path, headers={"Accept": accept})
    assert status["message"] == text


async def test_error_in_a_transformed_representation_is_json(api: Api) -> None:
    accept = {"Accept": "application/yaml;as=Table;v=v1;g=meta.k8s.io"}
    reply = await api.call("GET", f"{CONFIG_MAPS}/none", headers=accept)
    assert reply.status == 404
    assert reply.json()["reason"] == "NotFound"


@pytest.mark.parametrize("media", ["text/plain", "application/MERGE-patch+json"])
async def test_media_type_of_a_patch_is_checked_before_the_accepted_types(
    media: str, api: Api
) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    accept = {"Accept": "text/html"}
    await api.refused(415, "PATCH", f"{CONFIG_MAPS}/x", {}, content_type=media, headers=accept)
