# SPDX-License-Identifier: Apache-2.0
"""Errors of Go's decoder and of the converter of maps, in the texts of Kubernetes."""

from typing import Any

import pytest

from rdd.api.decode import parse_document
from rdd.schema.builtin import goconvert, godecode

CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"
EVENT = "io.k8s.api.core.v1.Event"
QUOTA = "io.k8s.api.core.v1.ResourceQuota"
ROLE = "io.k8s.api.rbac.v1.Role"
WEBHOOK = "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration"
POLICY = "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy"
CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
SCHEMA = "spec.versions.schema.openAPIV3Schema"


def cannot(value: str, field: str, go_type: str) -> str:
    return f"json: cannot unmarshal {value} into Go struct field {field} of type {go_type}"


@pytest.mark.parametrize(
    ("definition", "text", "expected"),
    [
        pytest.param(
            CONFIG_MAP,
            '{"data":1,"metadata":{"name":2}}',
            cannot("number", "ConfigMap.data", "map[string]string"),
            id="first-in-the-document",
        ),
        pytest.param(
            CONFIG_MAP,
            '{"data":1,"data":{"k":"v"}}',
            cannot("number", "ConfigMap.data", "map[string]string"),
            id="replaced-by-a-duplicate",
        ),
        pytest.param(
            CONFIG_MAP,
            '{"data":{"k":[1]}}',
            cannot("array", "ConfigMap.data", "string"),
            id="map-values-have-the-path-of-the-map",
        ),
        pytest.param(
            CONFIG_MAP,
            '{"metadata":{"generation":1e2}}',
            cannot("number 1e2", "ObjectMeta.metadata.generation", "int64"),
            id="number-as-written",
        ),
        pytest.param(
            CONFIG_MAP,
            '{"metadata":{"generation":99999999999999999999}}',
            cannot("number 99999999999999999999", "ObjectMeta.metadata.generation", "int64"),
            id="number-beyond-int64",
        ),
        pytest.param(
            EVENT,
            '{"count":true,"eventTime":"x"}',
            'parsing time "x" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "x" as "2006"',
            id="time-before-earlier-mismatch",
        ),
        pytest.param(
            EVENT,
            '{"count":"1","firstTimestamp":5}',
            cannot("number", "Event.firstTimestamp", "string"),
            id="time-of-another-type-ends-the-decoding",
        ),
        pytest.param(
            CONFIG_MAP,
            '{"data":1,"binaryData":{"a":"?"}}',
            cannot("number", "ConfigMap.data", "map[string]string"),
            id="base64-does-not-end-the-decoding",
        ),
        pytest.param(
            CONFIG_MAP,
            '{"binaryData":{"a":"?"},"data":1}',
            "illegal base64 data at input byte 0",
            id="base64-first",
        ),
        pytest.param(
            QUOTA,
            '{"spec":{"hard":{"pods":1.2.3}}}'.replace("1.2.3", '"1.2.3"'),
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="quantity",
        ),
        pytest.param(
            WEBHOOK,
            '{"webhooks":[{"rules":[{"apiGroups":[1]}]}]}',
            cannot("number", "RuleWithOperations.webhooks.rules.Rule.apiGroups", "string"),
            id="embedded-struct",
        ),
        pytest.param(
            POLICY,
            '{"spec":{"matchConstraints":{"resourceRules":[{"scope":[]}]}}}',
            cannot(
                "array",
                "NamedRuleWithOperations.spec.matchConstraints.resourceRules."
                "RuleWithOperations.Rule.scope",
                "v1.ScopeType",
            ),
            id="embedded-twice",
        ),
        pytest.param(
            CRD,
            '{"spec":{"group":1,"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":'
            '{"type":1}}}}]}}',
            cannot("number", f"JSONSchemaProps.{SCHEMA}.additionalProperties.type", "string"),
            id="schema-or-bool-ends-the-decoding",
        ),
        pytest.param(ROLE, "[]", "json: cannot unmarshal array into Go value of type v1.Role"),
        pytest.param(CONFIG_MAP, '{"data":null,"metadata":{"labels":{"a":null}}}', "", id="null"),
    ],
)
def test_error_is_the_first_of_the_document(definition: str, text: str, expected: str) -> None:
    assert godecode.examine(definition, parse_document(text.encode())).error == expected


def test_strict_errors_are_in_document_order_and_skip_unknown_members() -> None:
    text = b"""{"Metadata":{"a":1,"a":2},"metadata":{"x":1,"name":"a","name":"b"},
               "data":{"k":"1","k":"2"},"data":{}}"""
    found = godecode.examine(CONFIG_MAP, parse_document(text))
    assert found.error == ""
    assert found.strict == [
        'unknown field "Metadata"',
        'unknown field "metadata.x"',
        'duplicate field "metadata.name"',
        'duplicate field "data.k"',
        'duplicate field "data"',
    ]
    assert found.unknown == ["Metadata", "metadata.x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{"metadata":{"name":"a"},"metadata":{"labels":{"x":"y"}}}',
            {"metadata": {"name": "a", "labels": {"x": "y"}}},
            id="structs",
        ),
        pytest.param('{"data":{"a":"1"},"data":{"b":"2"}}', {"data": {"a": "1", "b": "2"}}),
        pytest.param('{"data":{"a":"1"},"data":null}', {"data": None}, id="null-empties-maps"),
        pytest.param(
            '{"metadata":{"name":"a","name":null}}', {"metadata": {"name": "a"}}, id="null-texts"
        ),
        pytest.param(
            '{"metadata":{"ownerReferences":[{"uid":"u"},{"uid":"v"}],"ownerReferences":[{"name":"n"}]}}',
            {"metadata": {"ownerReferences": [{"uid": "u", "name": "n"}]}},
            id="list-items-by-position",
        ),
    ],
)
def test_duplicates_are_merged_as_go_does(text: str, expected: Any) -> None:
    assert godecode.examine(CONFIG_MAP, parse_document(text.encode())).value == expected


@pytest.mark.parametrize(
    ("definition", "value", "expected"),
    [
        pytest.param(CONFIG_MAP, {"data": {"k": [1]}}, "unrecognized type: string", id="list"),
        pytest.param(CONFIG_MAP, {"data": {"k": 1}}, "cannot convert int64 to string", id="int"),
        pytest.param(CONFIG_MAP, {"data": {"k": 1.5}}, "unrecognized type: string", id="float"),
        pytest.param(CONFIG_MAP, {"data": []}, "cannot restore map from slice", id="map"),
        pytest.param(CONFIG_MAP, {"immutable": 1}, "unrecognized type: bool", id="bool"),
        pytest.param(CONFIG_MAP, {"metadata": 1}, "cannot restore struct from: int64", id="struct"),
        pytest.param(
            CONFIG_MAP,
            {"binaryData": {"a": "?"}},
            "error decoding from json: illegal base64 data at input byte 0",
            id="base64",
        ),
        pytest.param(EVENT, {"count": 1.5}, "cannot convert float64 to int32", id="fraction"),
        pytest.param(EVENT, {"count": "1"}, "unrecognized type: int32", id="text-as-number"),
        pytest.param(
            EVENT,
            {"eventTime": 1},
            "json: cannot unmarshal number into Go value of type string",
            id="time",
        ),
        pytest.param(
            ROLE, {"rules": [{"verbs": "x"}]}, "cannot restore slice from string", id="slice"
        ),
        pytest.param(
            WEBHOOK,
            {"webhooks": [{"rules": [{"operations": [1]}]}]},
            "cannot convert int64 to v1.OperationType",
            id="named-type",
        ),
        pytest.param(
            CONFIG_MAP,
            {"data": 1, "metadata": {"name": []}},
            "unrecognized type: string",
            id="order-of-the-declaration",
        ),
    ],
)
def test_converter_reports_no_place(definition: str, value: Any, expected: str) -> None:
    with pytest.raises(goconvert.ConvertError) as error:
        goconvert.convert(definition, value)
    assert str(error.value) == expected


def test_converter_accepts_whole_floats_and_wraps_integers() -> None:
    assert goconvert.convert(EVENT, {"count": 3.0}) == {"count": 3}
    assert goconvert.convert(EVENT, {"count": 2**31}) == {"count": -(2**31)}
    assert goconvert.convert(CONFIG_MAP, {"binaryData": {"a": [104, 360]}}) == {
        "binaryData": {"a": [104, 104]}
    }
