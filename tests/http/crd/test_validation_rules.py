# SPDX-License-Identifier: Apache-2.0
"""x-kubernetes-validations: CEL rules of custom resources, over the API."""

from typing import Any

import pytest
from tests.http.client import CRDS, MERGE, WIDGETS, Api, crd, widget

from rdd.api.types import Object

RULES = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]"
INTEGER = {"type": "integer"}
TEXT = {"type": "string", "maxLength": 30}
NUMBERS = {"x": INTEGER, "y": INTEGER}


def schema(rules: list[Object], **properties: Object) -> Object:
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    return {"type": "object", "properties": {"spec": spec}}


async def texts(api: Api, spec: Any, name: str = "w") -> list[str]:
    """Create an object and return its errors as texts; empty if it was created."""
    reply = await api.call("POST", WIDGETS, widget(name, spec))
    if reply.status == 201:
        await api.delete(f"{WIDGETS}/{name}")
        return []
    assert reply.status == 422, reply.text
    return sorted(f"{c['field']}: {c['message']}" for c in reply.json()["details"]["causes"])


async def test_a_violated_rule_reports_its_message_or_itself(api: Api) -> None:
    rules = [{"rule": "self.x < self.y", "message": "x comes first"}, {"rule": "self.x > 0"}]
    await api.install(crd(schema=schema(rules, **NUMBERS)))
    assert await texts(api, {"x": 1, "y": 2}) == []
    assert await texts(api, {"x": 3, "y": 2}) == ["spec: Invalid value: x comes first"]
    assert await texts(api, {"x": -1, "y": -2}) == [
        "spec: Invalid value: failed rule: self.x > 0",
        "spec: Invalid value: x comes first",
    ]


async def test_a_message_can_be_computed_with_a_fallback(api: Api) -> None:
    rules = [
        {
            "rule": "self.s != 'bad'",
            "messageExpression": "self.s + ' is not good'",
            "message": "never",
        },
        {
            "rule": "self.x < 5",
            "messageExpression": "[1].map(i, 'odd')[self.x]",
            "message": "fallback",
        },
    ]
    await api.install(crd(schema=schema(rules, s=TEXT, x=INTEGER)))
    assert await texts(api, {"s": "bad", "x": 0}) == ["spec: Invalid value: bad is not good"]
    assert await texts(api, {"s": "ok", "x": 7}) == ["spec: Invalid value: fallback"]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        pytest.param("FieldValueInvalid", "Invalid value: m", id="invalid"),
        pytest.param("FieldValueForbidden", "Forbidden: m", id="forbidden"),
        pytest.param("FieldValueRequired", "Required value: m", id="required"),
        pytest.param("FieldValueDuplicate", "Duplicate value", id="duplicate"),
    ],
)
async def test_a_rule_can_set_its_reason_and_field_path(reason: str, text: str, api: Api) -> None:
    rules = [{"rule": "self.x < 5", "message": "m", "reason": reason, "fieldPath": ".x"}]
    await api.install(crd(schema=schema(rules, **NUMBERS)))
    assert await texts(api, {"x": 9}) == [f"spec.x: {text}"]


async def test_rules_can_test_for_absent_fields(api: Api) -> None:
    rules = [
        {"rule": "!has(self.x) || self.x > 0", "message": "has"},
        {"rule": "self.?y.orValue(3) == 3", "message": "optional"},
    ]
    await api.install(crd(schema=schema(rules, **NUMBERS)))
    assert await texts(api, {}) == []
    assert await texts(api, {"x": 0}) == ["spec: Invalid value: has"]
    assert await texts(api, {"y": 4}) == ["spec: Invalid value: optional"]


async def test_a_rule_that_fails_to_run_is_violated(api: Api) -> None:
    rules = [{"rule": "self.x / self.y > 0"}]
    await api.install(crd(schema=schema(rules, **NUMBERS)))
    assert await texts(api, {"x": 1, "y": 0}) == [
        'spec: Invalid value: "object": division by zero evaluating rule: self.x / self.y > 0'
    ]
    assert await texts(api, {"y": 1}) == [
        'spec: Invalid value: "object": no such key: x evaluating rule: self.x / self.y > 0'
    ]


@pytest.mark.parametrize(
    ("properties", "rule", "good", "bad"),
    [
        pytest.param({"x": INTEGER}, "self.x % 2 == 0", {"x": 4}, {"x": 3}, id="modulo"),
        pytest.param(
            {"n": {"type": "number"}},
            "double(int(self.n)) == self.n",
            {"n": 2.0},
            {"n": 2.5},
            id="conversion",
        ),
        pytest.param(
            {"s": TEXT}, "self.s.lowerAscii() == self.s", {"s": "a"}, {"s": "A"}, id="lower"
        ),
        pytest.param(
            {"s": TEXT}, "self.s.split('-').size() < 3", {"s": "a-b"}, {"s": "a-b-c"}, id="split"
        ),
        pytest.param({"s": TEXT}, "self.s.matches('^a+$')", {"s": "aa"}, {"s": "ab"}, id="pattern"),
        pytest.param(
            {"l": {"type": "array", "maxItems": 5, "items": INTEGER}},
            "self.l.isSorted() && self.l.sum() < 10",
            {"l": [1, 2]},
            {"l": [2, 1]},
            id="lists",
        ),
        pytest.param(
            {"l": {"type": "array", "maxItems": 5, "items": TEXT}},
            "sets.contains(['a', 'b'], self.l)",
            {"l": ["b"]},
            {"l": ["c"]},
            id="sets",
        ),
        pytest.param(
            {"s": TEXT},
            "!format.dns1123Label().validate(self.s).hasValue()",
            {"s": "good"},
            {"s": "BAD"},
            id="formats",
        ),
        pytest.param(
            {"s": TEXT},
            "quantity(self.s).isLessThan(quantity('1Gi'))",
            {"s": "5Mi"},
            {"s": "2Gi"},
            id="quantity",
        ),
        pytest.param(
            {"s": TEXT},
            "isIP(self.s) && ip(self.s).isLoopback()",
            {"s": "::1"},
            {"s": "9.9.9.9"},
            id="ip",
        ),
        pytest.param(
            {"s": TEXT},
            "cidr('10.0.0.0/8').containsIP(self.s)",
            {"s": "10.1.1.1"},
            {"s": "11.1.1.1"},
            id="cidr",
        ),
        pytest.param(
            {"s": {"type": "string", "maxLength": 60}},
            "url(self.s).getScheme() == 'https'",
            {"s": "https://a"},
            {"s": "ftp://a"},
            id="url",
        ),
        pytest.param(
            {"p": {"x-kubernetes-int-or-string": True}},
            "type(self.p) == int ? self.p < 100 : self.p.endsWith('%')",
            {"p": "5%"},
            {"p": 500},
            id="int or string",
        ),
        pytest.param(
            {"m": {"type": "object", "maxProperties": 4, "additionalProperties": INTEGER}},
            "self.m.all(k, v, k.size() < 3 && v > 0)",
            {"m": {"ab": 1}},
            {"m": {"abc": 1}},
            id="two variables",
        ),
        pytest.param(
            {"m": {"type": "object", "maxProperties": 4, "additionalProperties": TEXT}},
            "self.?m[?'k'].orValue('ok') == 'ok'",
            {"m": {}},
            {"m": {"k": "no"}},
            id="optional key",
        ),
    ],
)
async def test_rules_have_the_libraries_of_kubernetes(
    properties: Object, rule: str, good: Object, bad: Object, api: Api
) -> None:
    await api.install(crd(schema=schema([{"rule": rule, "message": "m"}], **properties)))
    assert await texts(api, good) == []
    assert await texts(api, bad) == ["spec: Invalid value: m"]


# -- transitions


async def test_transition_rules_run_on_updates_only(api: Api) -> None:
    rules = [{"rule": "self.x >= oldSelf.x", "message": "x may only grow"}]
    await api.install(crd(schema=schema(rules, **NUMBERS)))
    await api.post(WIDGETS, widget("w", {"x": 5}))
    path = f"{WIDGETS}/w"
    status = await api.refused(422, "PATCH", path, {"spec": {"x": 4}}, content_type=MERGE)
    assert status["message"].endswith("spec: Invalid value: x may only grow")
    await api.patch(path, {"spec": {"x": 6}}, MERGE)


async def test_rules_of_list_entries_compare_entries_with_the_same_key(api: Api) -> None:
    entry = {
        "type": "object",
        "required": ["k"],
        "properties": {
            "k": TEXT,
            "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
        },
    }
    entries = {
        "type": "array",
        "maxItems": 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": entry,
    }
    await api.install(crd(schema=schema([], l=entries)))
    await api.post(WIDGETS, widget("w", {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]}))
    path = f"{WIDGETS}/w"
    less = {"spec": {"l": [{"k": "b", "v": 4}, {"k": "c", "v": 0}]}}
    status = await api.refused(422, "PATCH", path, less, content_type=MERGE)
    assert status["message"].endswith("spec.l[0].v: Invalid value: 4: failed rule: self >= oldSelf")
    more = {"spec": {"l": [{"k": "b", "v": 6}, {"k": "c", "v": 0}]}}
    await api.patch(path, more, MERGE)


async def test_optional_old_self_includes_the_creation(api: Api) -> None:
    rule = {
        "rule": "oldSelf.hasValue() ? self.size() >= oldSelf.value().size() : self == 'first'",
        "message": "no",
        "optionalOldSelf": True,
    }
    text = {**TEXT, "x-kubernetes-validations": [rule]}
    await api.install(crd(schema=schema([], s=text)))
    assert await texts(api, {"s": "other"}) == ['spec.s: Invalid value: "other": no']
    await api.post(WIDGETS, widget("w", {"s": "first"}))
    path = f"{WIDGETS}/w"
    await api.refused(422, "PATCH", path, {"spec": {"s": "1st"}}, content_type=MERGE)
    await api.patch(path, {"spec": {"s": "longer"}}, MERGE)


async def test_a_new_rule_accepts_unchanged_values(api: Api) -> None:
    await api.install(crd(schema=schema([], **NUMBERS)))
    await api.post(WIDGETS, widget("w", {"x": 50, "y": 1}))
    where = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x"
    limited = {**INTEGER, "x-kubernetes-validations": [{"rule": "self < 10", "message": "big"}]}
    ops = [{"op": "replace", "path": where, "value": limited}]
    await api.patch(f"{CRDS}/widgets.shop.example.com", ops, "application/json-patch+json")
    await api.server.running.custom.settled()
    path = f"{WIDGETS}/w"
    await api.patch(path, {"spec": {"y": 2}}, MERGE)
    await api.refused(422, "PATCH", path, {"spec": {"x": 51}}, content_type=MERGE)


async def test_errors_of_rules_and_schema_are_reported_together(api: Api) -> None:
    rules = [{"rule": "self.x < 3", "message": "rule"}]
    await api.install(crd(schema=schema(rules, x={**INTEGER, "maximum": 5})))
    assert await texts(api, {"x": 9}) == [
        "spec.x: Invalid value: 9: spec.x in body should be less than or equal to 5",
        "spec: Invalid value: rule",
    ]
    found = await texts(api, {"x": "a"})
    assert any("some validation rules were not checked" in text for text in found)


async def test_paths_in_lists_and_maps_are_reported(api: Api) -> None:
    positive = [{"rule": "self > 0", "message": "positive"}]
    value = {**INTEGER, "x-kubernetes-validations": positive}
    lists = {"type": "array", "maxItems": 5, "items": value}
    maps = {"type": "object", "maxProperties": 5, "additionalProperties": value}
    await api.install(crd(schema=schema([], l=lists, m=maps)))
    assert await texts(api, {"l": [1, 0, -1]}) == [
        "spec.l[1]: Invalid value: 0: positive",
        "spec.l[2]: Invalid value: -1: positive",
    ]
    assert await texts(api, {"m": {"a.b": 0}}) == ["spec.m[a.b]: Invalid value: 0: positive"]


# -- rules in definitions


@pytest.mark.parametrize(
    ("rule", "member", "problem"),
    [
        pytest.param({"rule": "self.x >"}, "rule", "Syntax error", id="syntax"),
        pytest.param({"rule": "self.none > 1"}, "rule", "undefined field 'none'", id="field"),
        pytest.param(
            {"rule": "self.x"}, "rule", "cel expression must evaluate to a bool", id="int"
        ),
        pytest.param(
            {"rule": "self.x + 'a' == 'b'"}, "rule", "found no matching overload", id="types"
        ),
        pytest.param({"rule": "other > 1"}, "rule", "undeclared reference to 'other'", id="name"),
        pytest.param({"rule": ""}, "rule", "Required value: rule is not specified", id="empty"),
        pytest.param(
            {"rule": "true", "message": "a\nb"},
            "message",
            "must not contain line breaks",
            id="lines",
        ),
        pytest.param(
            {"rule": "true", "message": " "},
            "message",
            "must be non-empty if specified",
            id="blank",
        ),
        pytest.param(
            {"rule": "true", "reason": "Odd"}, "reason", 'Unsupported value: "Odd"', id="reason"
        ),
        pytest.param(
            {"rule": "true", "fieldPath": ".none"}, "fieldPath", "must be a valid path", id="path"
        ),
        pytest.param(
            {"rule": "true", "messageExpression": "1"},
            "messageExpression",
            "messageExpression must evaluate to a string",
            id="message of another type",
        ),
        pytest.param(
            {"rule": "true", "optionalOldSelf": True},
            "optionalOldSelf",
            "may not be set if oldSelf is not used in rule",
            id="optional past",
        ),
    ],
)
async def test_rules_are_compiled_when_they_are_defined(
    rule: Object, member: str, problem: str, api: Api
) -> None:
    status = await api.refused(422, "POST", CRDS, crd(schema=schema([rule], **NUMBERS)))
    (cause,) = status["details"]["causes"]
    assert cause["field"] == f"{RULES}.{member}"
    assert problem in cause["message"]


async def test_rejects_rules_with_excessive_cost(api: Api) -> None:
    texts_ = {"type": "array", "items": {"type": "string"}}
    rule = {"rule": "self.l.all(a, self.l.all(b, a.contains(b)))"}
    status = await api.refused(422, "POST", CRDS, crd(schema=schema([rule], l=texts_)))
    assert "estimated rule cost" in status["message"]
    assert "exceeds budget by factor of more than 100x" in status["message"]
    small = {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}}
    await api.post(CRDS, crd(schema=schema([rule], l=small)), expect=201)


async def test_a_rule_at_the_root_accesses_name_but_not_labels(api: Api) -> None:
    whole = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.metadata.labels.size() > 0"}],
    }
    status = await api.refused(422, "POST", CRDS, crd(schema=whole))
    assert "undefined field 'labels'" in status["message"]
    whole["x-kubernetes-validations"] = [
        {"rule": "self.metadata.name.startsWith('w')", "message": "w first"}
    ]
    await api.install(crd(schema=whole))
    await api.post(WIDGETS, widget("wide"), expect=201)
    assert await texts(api, None, "narrow") == ["<nil>: Invalid value: w first"]
