# SPDX-License-Identifier: Apache-2.0
"""Bodies of custom resources: their type, embedded resources, the Scale, patches without effect.

The expected texts are those of the API server of Kubernetes 1.36.
"""

import json
from typing import Any

import pytest
from tests.http.client import (
    APPLY,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE,
    WIDGETS,
    Api,
    config_map,
    crd,
    widget,
)

from rdd.api.decode import MAX_DEPTH
from rdd.api.types import Object

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
WHOLE = {"includeObject": "Object"}
V2 = {"type": "object", "properties": {"spec": {"type": "object"}}}
EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}
V1 = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "e": EMBEDDED},
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
SCALE_PATHS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
NO_MATCH = "the API version in the data ({}) does not match the expected API version ({}/v1)"
NO_SCALE = "no kind is registered for the type v1.Scale in scheme "
NOT_TEXT = "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go"


@pytest.fixture
async def widgets(api: Api) -> Api:
    """A server with Widgets in two versions and the Widget `a`."""
    v1 = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": V1},
        "subresources": {"status": {}, "scale": SCALE_PATHS},
    }
    v2 = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": V2}}
    await api.install(crd(versions=[v1, v2]))
    await api.post(WIDGETS, widget("a", {"replicas": 1}))
    return api


@pytest.mark.parametrize(
    ("changes", "message", "warnings"),
    [
        pytest.param({"apiVersion": ""}, NO_MATCH.format("", "{}"), [], id="empty"),
        pytest.param({"apiVersion": ...}, NO_MATCH.format("", "{}"), [], id="missing"),
        pytest.param(
            {"apiVersion": None},
            'Widget in version "" cannot be handled as a Widget: .apiVersion accessor error: <nil> '
            "is of the type <nil>, expected string",
            [],
            id="null",
        ),
        pytest.param(
            {"apiVersion": "shop.example.com/v2"},
            NO_MATCH.format("shop.example.com/v2", "{}"),
            ["spec.replicas"],
            id="another version",
        ),
        pytest.param(
            {"apiVersion": "shop.example.com/v9"},
            NO_MATCH.format("shop.example.com/v9", "{}"),
            ["spec"],
            id="a version that does not exist",
        ),
        pytest.param(
            {"apiVersion": "other.example.com/v1"},
            NO_MATCH.format("other.example.com/v1", "{}"),
            [],
            id="another group",
        ),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_reports_the_api_version_of_a_body(
    widgets: Api, method: str, changes: Object, message: str, warnings: list[str]
) -> None:
    body = {**widget("a", {"replicas": 1}), **changes}
    body = {name: value for name, value in body.items() if value is not ...}
    path = WIDGETS if method == "POST" else f"{WIDGETS}/a"
    reply = await widgets.call(method, path, body)
    assert reply.status == 400
    assert reply.json()["message"] == message.format("shop.example.com")
    assert reply.warnings == [f'unknown field "{name}"' for name in warnings]


@pytest.mark.parametrize(
    ("patch", "code", "text"),
    [
        pytest.param({"kind": 1}, 422, NOT_TEXT, id="number as kind"),
        pytest.param({"apiVersion": 1}, 422, NOT_TEXT, id="number as version"),
        pytest.param({"kind": None}, 422, "Object 'Kind' is missing in '", id="no kind"),
        pytest.param({"kind": ""}, 422, "Object 'Kind' is missing in '", id="empty kind"),
        pytest.param(
            {"apiVersion": None},
            500,
            "Object 'apiVersion' is missing in 'object has no apiVersion field'",
            id="no version",
        ),
        pytest.param(
            {"apiVersion": "a/b/c"}, 422, "unexpected GroupVersion string: a/b/c", id="unparsable"
        ),
    ],
)
async def test_reports_the_type_of_a_patched_object(
    widgets: Api, patch: Object, code: int, text: str
) -> None:
    status = await widgets.refused(code, "PATCH", f"{WIDGETS}/a", patch, content_type=MERGE)
    assert text in status["message"]


@pytest.mark.parametrize(
    ("embedded", "cause"),
    [
        pytest.param({"kind": None}, "spec.e.kind: Invalid value: null: must be a string", id="1"),
        pytest.param(
            {"apiVersion": 1, "kind": "A"},
            "spec.e.apiVersion: Invalid value: 1: must be a string",
            id="2",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "A", "metadata": {"labels": 5}},
            'spec.e.metadata: Invalid value: {"labels":5}: json: cannot unmarshal number into Go '
            "struct field ObjectMeta.labels of type map[string]string",
            id="3",
        ),
    ],
)
async def test_types_of_embedded_resources_are_checked_when_they_are_decoded(
    widgets: Api, embedded: Object, cause: str
) -> None:
    body = widget("b", {"e": embedded})
    for method, path in (("POST", WIDGETS), ("PUT", f"{WIDGETS}/b")):
        status = await widgets.refused(400, method, path, body)
        text = 'Widget in version "v1" cannot be handled as a Widget: '
        assert status["message"] == text + cause
    if embedded.get("apiVersion"):
        patch = {"spec": {"e": embedded}}
        status = await widgets.refused(422, "PATCH", f"{WIDGETS}/a", patch, content_type=MERGE)
        assert status["message"].endswith(f": {cause}")


async def test_an_empty_type_of_an_embedded_resource_is_invalid(widgets: Api) -> None:
    body = widget("b", {"e": {"apiVersion": "", "kind": ""}})
    status = await widgets.refused(422, "POST", WIDGETS, body)
    assert [c["message"] for c in status["details"]["causes"]] == [
        'Invalid value: "": must not be empty'
    ] * 2


@pytest.mark.parametrize("patch", [pytest.param(b"null", id="null"), pytest.param([], id="empty")])
@pytest.mark.parametrize("suffix", ["", "/status"])
async def test_a_patch_without_operations_changes_nothing(
    widgets: Api, patch: Any, suffix: str
) -> None:
    before = await widgets.get(f"{WIDGETS}/a")
    assert await widgets.patch(f"{WIDGETS}/a{suffix}", patch, JSON_PATCH) == before
    assert await widgets.get(f"{WIDGETS}/a") == before


async def test_a_write_to_status_changes_nothing_else(widgets: Api) -> None:
    patch = {"kind": "Other", "spec": {"replicas": 9}, "extra": 1, "status": {"x": 1}}
    changed = await widgets.patch(f"{WIDGETS}/a/status", patch)
    assert (changed["kind"], changed["spec"], changed["status"]) == (
        "Widget",
        {"replicas": 1},
        {"x": 1},
    )
    assert "extra" not in changed


def scale(**changes: Any) -> Object:
    meta = {"name": "a", "namespace": "default"}
    head = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    return {**head, "metadata": meta, "spec": {"replicas": 3}, **changes}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(scale(kind="Foo"), id="kind"),
        pytest.param(scale(kind=1), id="type of kind"),
        pytest.param(scale(spec={"replicas": "x"}), id="replicas"),
        pytest.param(scale(status=1), id="status"),
        pytest.param([], id="no object"),
        pytest.param(b"{", id="syntax"),
    ],
)
@pytest.mark.parametrize("name", ["a", "missing"])
async def test_a_scale_that_cannot_be_decoded(widgets: Api, body: Any, name: str) -> None:
    status = await widgets.refused(400, "PUT", f"{WIDGETS}/{name}/scale", body)
    assert status["message"].startswith(NO_SCALE)


async def test_checks_the_fields_and_the_place_of_a_scale(widgets: Api) -> None:
    path = f"{WIDGETS}/a/scale"
    reply = await widgets.call("PUT", path, scale(bogus=1), query={"dryRun": "All"})
    assert (reply.status, reply.warnings) == (200, ['unknown field "bogus"'])
    strict = {"fieldValidation": "Strict"}
    assert (await widgets.refused(400, "PUT", path, scale(bogus=1), query=strict))[
        "message"
    ].startswith(NO_SCALE)
    kw: dict[str, Any] = {"query": strict, "content_type": MERGE}
    status = await widgets.refused(422, "PATCH", path, {"bogus": 1}, **kw)
    assert status["message"].endswith('strict decoding error: unknown field "bogus"')
    elsewhere = {"name": "a", "namespace": "other"}
    status = await widgets.refused(400, "PUT", path, scale(metadata=elsewhere))
    assert "does not match the namespace" in status["message"]
    await widgets.refused(409, "PUT", path, scale(metadata={"name": "a", "uid": "x"}))
    status = await widgets.refused(400, "PUT", f"{WIDGETS}/missing/scale", scale())
    assert "does not match the name on the URL" in status["message"]
    assert (await widgets.get(path))["spec"] == {"replicas": 1}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"", "invalid object type: /, Kind=", id="nothing"),
        pytest.param(b"null", "invalid object type: /, Kind=", id="null"),
        pytest.param(
            b"{",
            "error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find "
            "expected node content",
            id="syntax",
        ),
        pytest.param(
            b"[]",
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            "unmarshal array into Go value of type map[string]interface {}",
            id="list",
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["", "/status", "/scale"])
async def test_applied_documents_that_are_no_object(
    widgets: Api, body: bytes, text: str, suffix: str
) -> None:
    kw: dict[str, Any] = {"query": {"fieldManager": "m"}, "content_type": APPLY}
    status = await widgets.refused(400, "PATCH", f"{WIDGETS}/a{suffix}", body, **kw)
    assert status["message"] == text


@pytest.mark.parametrize("number", [2**63, 10**20, 1e22, -(10**20)])
@pytest.mark.parametrize("place", ["a", ["a"], {"b": "a"}])
async def test_numbers_beyond_64_bits_are_floats(api: Api, number: float, place: Any) -> None:
    def at(shape: Any) -> Any:
        if isinstance(shape, list):
            return [number]
        return {"b": number} if isinstance(shape, dict) else number

    await api.install(crd())
    created = await api.post(WIDGETS, json.dumps(widget("w", {"x": at(place)})).encode())
    assert created["spec"] == {"x": pytest.approx(at(place))}
    changed = await api.patch(f"{WIDGETS}/w", json.dumps({"spec": {"y": number}}).encode())
    assert changed["spec"]["y"] == pytest.approx(number)


async def test_shows_floats_in_errors_as_go_prints_them(api: Api) -> None:
    number = {"type": "number", "maximum": 10_000_000}
    spec = {"type": "object", "properties": {"n": number}}
    await api.install(crd(schema={"type": "object", "properties": {"spec": spec}}))
    status = await api.refused(422, "POST", WIDGETS, widget("w", {"n": 20_000_000.5}))
    assert status["message"].endswith(
        "spec.n: Invalid value: 2.00000005e+07: spec.n in body should be less than or equal to "
        "1e+07"
    )


async def test_rules_are_not_run_on_objects_with_invalid_metadata(api: Api) -> None:
    rules = [{"rule": "self.n > 5", "message": "too small"}]
    number = {"type": "object", "properties": {"n": {"type": "integer"}}}
    spec = {**number, "x-kubernetes-validations": rules}
    await api.install(crd(schema={"type": "object", "properties": {"spec": spec}}))
    status = await api.refused(422, "POST", WIDGETS, widget("", {"n": 1}))
    assert "too small" not in status["message"]
    assert "some validation rules were not checked" in status["message"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("path", [WIDGETS, "/api/v1/namespaces/default/secrets"])
async def test_an_empty_list_of_metadata_has_null_items(api: Api, path: str, version: str) -> None:
    await api.install(crd())
    accept = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v={version}"
    assert (await api.get(path, headers={"Accept": accept}))["items"] is None


@pytest.mark.parametrize("depth", [1, MAX_DEPTH - 1, MAX_DEPTH])
async def test_the_deepest_objects_are_served_in_every_form(api: Api, depth: int) -> None:
    await api.install(crd())
    nested: Any = {}
    for _ in range(depth - 2):
        nested = {"a": nested}
    await api.post(WIDGETS, widget("w", nested))
    await api.patch(f"{WIDGETS}/w", {"spec": {"b": 1}})
    await api.apply(f"{WIDGETS}/w", widget("w", {"c": nested.get("a", {})}))
    for accept in ("application/json", "application/yaml", TABLE):
        reply = await api.call("GET", WIDGETS, headers={"Accept": accept}, query=WHOLE)
        assert reply.status == 200, reply.text


@pytest.mark.parametrize(
    ("version", "why"),
    [("abc", "invalid syntax"), ("-1", "invalid syntax"), ("9" * 23, "value out of range")],
)
@pytest.mark.parametrize("path", [WIDGETS, CONFIG_MAPS])
async def test_a_resource_version_must_be_a_number(
    widgets: Api, path: str, version: str, why: str
) -> None:
    if path == CONFIG_MAPS:
        await widgets.post(path, config_map("a"))
    obj = await widgets.get(f"{path}/a")
    text = f'strconv.ParseUint: parsing "{version}": {why}'
    obj["metadata"]["resourceVersion"] = version
    assert (await widgets.refused(500, "PUT", f"{path}/a", obj))["message"] == text
    patch = {"metadata": {"resourceVersion": version}}
    status = await widgets.refused(500, "PATCH", f"{path}/a", patch, content_type=MERGE)
    assert status["message"] == text
    meta = {"name": "new", "resourceVersion": version}
    del obj["metadata"]
    await widgets.post(path, {**obj, "metadata": meta})  # ignored, as in Kubernetes
