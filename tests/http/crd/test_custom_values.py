# SPDX-License-Identifier: Apache-2.0
"""Custom resources and their schema: types, values, defaults, pruning, metadata."""

from typing import Any

import pytest
from tests.http.client import WIDGETS, Api, causes, crd, widget

from rdd.api.types import Object

INVALID = 'Widget.shop.example.com "w" is invalid: '


def schema(**properties: Object) -> Object:
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }


async def outcome(api: Api, field: Object, value: Any) -> Any:
    """Create `spec.f: value` and return the stored spec or the error message."""
    await api.install(crd(schema=schema(f=field)))
    reply = await api.call("POST", WIDGETS, widget("w", {"f": value}))
    body = reply.json()
    if reply.status == 201:
        return body["spec"]
    assert reply.status == 422, reply.text
    assert body["message"].startswith(INVALID)
    return body["message"].removeprefix(INVALID)


def wrong(value: str, wanted: str) -> str:
    return f'spec.f: Invalid value: "{value}": spec.f in body must be of type {wanted}: "{value}"'


INTEGER, STRING, NUMBER, BOOLEAN = ({"type": t} for t in ("integer", "string", "number", "boolean"))
INTS = {"type": "array", "items": INTEGER}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        pytest.param(INTEGER, "1", wrong("string", "integer"), id="text for integer"),
        pytest.param(STRING, 5, wrong("integer", "string"), id="integer for text"),
        pytest.param(BOOLEAN, "true", wrong("string", "boolean"), id="text for boolean"),
        pytest.param(NUMBER, "1", wrong("string", "number"), id="text for number"),
        pytest.param(INTS, {}, wrong("object", "array"), id="object for array"),
        pytest.param({"type": "object"}, [], wrong("array", "object"), id="array for object"),
        pytest.param(INTEGER, None, {}, id="null is dropped"),
        pytest.param(INTEGER, 1.0, {"f": 1}, id="whole number"),
        pytest.param(
            INTS,
            [1, "x", None],
            '[spec.f[1]: Invalid value: "string": spec.f[1] in body must be of type integer: '
            '"string", spec.f[2]: Invalid value: "null": spec.f[2] in body must be of type '
            'integer: "null"]',
            id="items",
        ),
        pytest.param(
            {**INTEGER, "format": "int32"},
            2**31,
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in '
            "spec.f",
            id="int32",
        ),
        pytest.param({**INTEGER, "format": "int64"}, 2**63 - 1, {"f": 2**63 - 1}, id="int64"),
        pytest.param(
            {**STRING, "enum": ["a", "b"]},
            "c",
            'spec.f: Unsupported value: "c": supported values: "a", "b"',
            id="enum",
        ),
        pytest.param(
            {**INTEGER, "minimum": 1},
            0,
            "spec.f: Invalid value: 0: spec.f in body should be greater than or equal to 1",
            id="minimum",
        ),
        pytest.param(
            {**INTEGER, "maximum": 1},
            2,
            "spec.f: Invalid value: 2: spec.f in body should be less than or equal to 1",
            id="maximum",
        ),
        pytest.param(
            {**NUMBER, "minimum": 0, "exclusiveMinimum": True},
            0,
            "spec.f: Invalid value: 0: spec.f in body should be greater than 0",
            id="exclusive minimum",
        ),
        pytest.param(
            {**INTEGER, "multipleOf": 3},
            4,
            "spec.f: Invalid value: 4: spec.f in body should be a multiple of 3",
            id="multiple",
        ),
        pytest.param(
            {**STRING, "minLength": 2},
            "x",
            'spec.f: Invalid value: "x": spec.f in body should be at least 2 chars long',
            id="short",
        ),
        pytest.param(
            {**STRING, "maxLength": 3},
            "xxxx",
            "spec.f: Too long: may not be more than 3 bytes",
            id="long",
        ),
        pytest.param({**STRING, "maxLength": 2}, "üü", {"f": "üü"}, id="characters, not bytes"),
        pytest.param(
            {**STRING, "pattern": "^[a-z]+$"},
            "A",
            "spec.f: Invalid value: \"A\": spec.f in body should match '^[a-z]+$'",
            id="pattern",
        ),
        pytest.param(
            {**INTS, "minItems": 1},
            [],
            "spec.f: Invalid value: 0: spec.f in body should have at least 1 items",
            id="few items",
        ),
        pytest.param(
            {**INTS, "maxItems": 1},
            [1, 2],
            "spec.f: Too many: 2: must have at most 1 item",
            id="many items",
        ),
        pytest.param(
            {**INTS, "x-kubernetes-list-type": "set"},
            [1, 1],
            "spec.f[1]: Duplicate value: 1",
            id="set",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": INTEGER, "maxProperties": 1},
            {"a": 1, "b": 2},
            "spec.f: Too many: 2: must have at most 1 item",
            id="many properties",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": INTEGER},
            {"a": "x"},
            'spec.f.a: Invalid value: "string": spec.f.a in body must be of type integer: "string"',
            id="values of a map",
        ),
        pytest.param(
            {"type": "object", "required": ["x", "y"], "properties": {"x": INTEGER, "y": INTEGER}},
            {},
            "[spec.f.x: Required value, spec.f.y: Required value]",
            id="required",
        ),
        pytest.param({"x-kubernetes-int-or-string": True}, "5%", {"f": "5%"}, id="int or string"),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            True,
            wrong("boolean", "integer,string"),
            id="neither int nor string",
        ),
        pytest.param({**STRING, "nullable": True}, None, {"f": None}, id="nullable"),
        pytest.param({**STRING, "default": "d"}, None, {"f": "d"}, id="null is defaulted"),
    ],
)
async def test_values_are_checked(field: Object, value: Any, expected: Any, api: Api) -> None:
    assert await outcome(api, field, value) == expected


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        pytest.param("date-time", "2030-01-02T03:04:05Z", "tomorrow", id="date-time"),
        pytest.param("date", "2030-01-02", "2030-13-01", id="date"),
        pytest.param("duration", "1h30m", "1z", id="duration"),
        pytest.param("email", "a@example.com", "a", id="email"),
        pytest.param("uri", "https://example.com/x", "x y", id="uri"),
        pytest.param("ipv4", "10.0.0.1", "10.0.1", id="ipv4"),
        pytest.param("ipv6", "::1", "1::2::3", id="ipv6"),
        pytest.param("cidr", "10.0.0.0/8", "10.0.0.0", id="cidr"),
        pytest.param("hostname", "a.example.com", "-a", id="hostname"),
        pytest.param("uuid", "123e4567-e89b-12d3-a456-426614174000", "x", id="uuid"),
        pytest.param("byte", "YQ==", "!", id="byte"),
    ],
)
async def test_formats_are_checked(name: str, good: str, bad: str, api: Api) -> None:
    assert await outcome(api, {**STRING, "format": name}, good) == {"f": good}
    status = await api.refused(422, "POST", WIDGETS, widget("v", {"f": bad}))
    assert f'spec.f in body must be of type {name}: "{bad}"' in status["message"]


async def test_required_fields_at_the_root_and_in_lists(api: Api) -> None:
    items = {"type": "object", "required": ["n"], "properties": {"n": STRING}}
    whole = schema(l={"type": "array", "items": items})
    whole["required"] = ["spec"]
    whole["properties"]["spec"]["required"] = ["l"]
    await api.install(crd(schema=whole))
    for body, fields in (
        (widget("w"), ["spec"]),
        (widget("w", {}), ["spec.l"]),
        (widget("w", {"l": [{}, {"n": "x"}, {}]}), ["spec.l[0].n", "spec.l[2].n"]),
    ):
        status = await api.refused(422, "POST", WIDGETS, body)
        assert causes(status) == [(f, "FieldValueRequired") for f in fields]


async def test_nested_defaults_are_set(api: Api) -> None:
    flag = {"type": "object", "properties": {"d": {**BOOLEAN, "default": True}}}
    whole = schema(
        a={**INTEGER, "default": 5},
        o={"type": "object", "default": {}, "properties": {"p": {**STRING, "default": "q"}}},
        l={"type": "array", "items": flag},
        m={"type": "object", "additionalProperties": flag},
    )
    await api.install(crd(schema=whole))
    made = await api.post(WIDGETS, widget("w", {"l": [{}, {"d": False}], "m": {"x": {}}}))
    assert made["spec"] == {
        "a": 5,
        "o": {"p": "q"},
        "l": [{"d": True}, {"d": False}],
        "m": {"x": {"d": True}},
    }
    assert "spec" not in await api.post(WIDGETS, widget("v"))


async def test_unknown_fields_are_dropped_unless_preserved(api: Api) -> None:
    inner = {"type": "object", "properties": {"q": INTEGER}}
    keep = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"in": inner},
    }
    whole = schema(k=keep, any={"x-kubernetes-preserve-unknown-fields": True})
    await api.install(crd(schema=whole))
    spec = {"odd": 1, "k": {"free": {"deep": 1}, "in": {"q": 1, "r": 2}}, "any": [1, {"a": "b"}]}
    reply = await api.call("POST", WIDGETS, widget("w", spec) | {"root": 1})
    assert reply.json()["spec"] == {
        "k": {"free": {"deep": 1}, "in": {"q": 1}},
        "any": [1, {"a": "b"}],
    }
    assert sorted(reply.warnings) == [
        'unknown field "root"',
        'unknown field "spec.k.in.r"',
        'unknown field "spec.odd"',
    ]


async def test_embedded_resources_are_validated_as_resources(api: Api) -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    await api.install(crd(schema=schema(e=embedded)))
    status = await api.refused(422, "POST", WIDGETS, widget("w", {"e": {}}))
    assert causes(status) == [
        ("spec.e.apiVersion", "FieldValueRequired"),
        ("spec.e.kind", "FieldValueRequired"),
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"any": 1}}
    made = await api.post(WIDGETS, widget("w", {"e": pod}))
    assert made["spec"]["e"] == pod
    bad = {**pod, "metadata": {"name": "p", "labels": {"a b": "c"}}}
    status = await api.refused(422, "POST", WIDGETS, widget("v", {"e": bad}))
    assert causes(status)[0][0] == "spec.e.metadata.labels"


@pytest.mark.parametrize(
    ("metadata", "code", "text"),
    [
        pytest.param({"labels": {"a b": "c"}}, 422, "metadata.labels: Invalid value", id="label"),
        pytest.param(
            {"labels": {"a": 5}},
            400,
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            id="label type",
        ),
        pytest.param(
            {"annotations": "x"},
            400,
            "json: cannot unmarshal string into Go struct field ObjectMeta.annotations",
            id="annotations type",
        ),
        pytest.param(
            {"ownerReferences": [{"kind": "X"}]},
            422,
            "metadata.ownerReferences.uid: Invalid value",
            id="owner",
        ),
        pytest.param({"name": "Not_Good"}, 422, "metadata.name: Invalid value", id="name"),
    ],
)
async def test_metadata_is_validated_as_for_all_objects(
    metadata: Object, code: int, text: str, api: Api
) -> None:
    await api.install(crd())
    body = widget("w", {})
    body["metadata"] |= metadata
    assert text in (await api.refused(code, "POST", WIDGETS, body))["message"]


async def test_unqualified_finalizers_are_accepted_on_custom_resources(api: Api) -> None:
    await api.install(crd())
    made = await api.post(WIDGETS, widget("w", finalizers=["plain"]))
    assert made["metadata"]["finalizers"] == ["plain"]
