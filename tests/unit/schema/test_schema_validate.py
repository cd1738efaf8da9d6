# SPDX-License-Identifier: Apache-2.0
"""Value validation of custom resources: one accepted and one refused value per feature."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api.fielderrors import FieldError
from rdd.base import goformat
from rdd.schema.node import compile_node
from rdd.schema.validate import compile_predicate, compile_validator, rules_blocked
from rdd.schema.valuecheck import value_errors

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}


def errors(schema: dict[str, Any], value: Any, old: Any = None) -> list[str]:
    """Errors of the member a of spec."""
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": schema}}}}  # fmt: skip
    earlier = None if old is None else {"spec": {"a": old}}
    found = compile_validator(compile_node(root))({"spec": {"a": value}}, earlier)
    return [str(e) for e in found]


NIL = '<nil>: Invalid value: ""'


@pytest.mark.parametrize(
    ("schema", "good", "bad", "messages"),
    [
        pytest.param(TEXT, "x", 5, [
            'spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer"',
        ], id="type string"),
        pytest.param(INTEGER, 1.0, 1.5, [
            'spec.a: Invalid value: "number": spec.a in body must be of type integer: "number"',
            f"{NIL}: Checked value must be of type integer (default format) in spec.a",
        ], id="type integer"),
        pytest.param({"type": "number"}, 1, True, [
            'spec.a: Invalid value: "boolean": spec.a in body must be of type number: "boolean"',
        ], id="type number"),
        pytest.param({"type": "boolean"}, True, 1, [
            'spec.a: Invalid value: "integer": spec.a in body must be of type boolean: "integer"',
        ], id="type boolean"),
        pytest.param({"type": "array", "items": INTEGER}, [1], {}, [
            'spec.a: Invalid value: "object": spec.a in body must be of type array: "object"',
        ], id="type array"),
        pytest.param({"type": "object"}, {}, [], [
            'spec.a: Invalid value: "array": spec.a in body must be of type object: "array"',
        ], id="type object"),
        pytest.param({**TEXT, "nullable": True}, None, 1, [
            'spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer"',
        ], id="nullable"),
        pytest.param(TEXT, "", None, [
            'spec.a: Invalid value: "null": spec.a in body must be of type string: "null"',
        ], id="not nullable"),
        pytest.param({**TEXT, "enum": ["a", "b"]}, "a", "c", [
            'spec.a: Unsupported value: "c": supported values: "a", "b"',
        ], id="enum of strings"),
        pytest.param({**INTEGER, "enum": [1, 2]}, 2, 3, [
            'spec.a: Unsupported value: 3: supported values: "1", "2"',
        ], id="enum of integers"),
        pytest.param({**TEXT, "nullable": True, "enum": ["a"]}, "a", None, [
            'spec.a: Unsupported value: null: supported values: "a"',
        ], id="an enum never allows null"),
        pytest.param({**INTEGER, "minimum": 1}, 1, 0, [
            "spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1",
        ], id="minimum"),
        pytest.param({**INTEGER, "maximum": 5}, 5, 9223372036854775807, [
            "spec.a: Invalid value: 9223372036854775807: "
            "spec.a in body should be less than or equal to 5",
        ], id="maximum"),
        pytest.param({"type": "number", "minimum": 0, "exclusiveMinimum": True}, 0.1, 0, [
            "spec.a: Invalid value: 0: spec.a in body should be greater than 0",
        ], id="exclusive minimum"),
        pytest.param({"type": "number", "maximum": 1, "exclusiveMaximum": True}, 0.5, 1.0, [
            "spec.a: Invalid value: 1: spec.a in body should be less than 1",
        ], id="exclusive maximum"),
        pytest.param({**INTEGER, "multipleOf": 3}, 6, 4, [
            "spec.a: Invalid value: 4: spec.a in body should be a multiple of 3",
        ], id="multipleOf"),
        pytest.param({"type": "number", "multipleOf": 0.1}, 0.3, 0.35, [
            "spec.a: Invalid value: 0.35: spec.a in body should be a multiple of 0.1",
        ], id="multipleOf a fraction"),
        pytest.param({"type": "number", "multipleOf": 0.5}, 1.5, 1, [
            "spec.a: Invalid value: 0: factor MultipleOf declared for spec.a must be positive: 0",
        ], id="multipleOf a fraction rejects integers"),
        pytest.param({"type": "object", "maxProperties": 1, "additionalProperties": INTEGER},
                     {"a": 1}, {"a": "x", "b": 1}, [
            "spec.a: Too many: 2: must have at most 1 item",
            'spec.a.a: Invalid value: "string": spec.a.a in body must be of type integer: '
            '"string"',
        ], id="maxProperties and members"),
        pytest.param({**INTEGER, "format": "int32"}, 2147483647, 2147483648, [
            f"{NIL}: Checked value must be of type integer with format int32 in spec.a",
        ], id="int32"),
        pytest.param({**INTEGER, "format": "int64"}, 9223372036854775807, 2**63, [
            'spec.a: Invalid value: "float64": spec.a in body must be of type int64: "float64"',
            f"{NIL}: Checked value must be of type integer with format int64 in spec.a",
        ], id="int64"),
        pytest.param({"type": "number", "format": "float"}, 1.5, 1e39, [
            f"{NIL}: Checked value must be of type number with format float in spec.a",
        ], id="float"),
        pytest.param({**TEXT, "minLength": 2}, "üü", "ü", [
            'spec.a: Invalid value: "ü": spec.a in body should be at least 2 chars long',
        ], id="minLength counts characters"),
        pytest.param({**TEXT, "maxLength": 3}, "üüü", "xxxx", [
            "spec.a: Too long: may not be more than 3 bytes",
        ], id="maxLength"),
        pytest.param({**TEXT, "pattern": "^[a-z]+$"}, "x", "A", [
            "spec.a: Invalid value: \"A\": spec.a in body should match '^[a-z]+$'",
        ], id="pattern"),
        pytest.param({**TEXT, "pattern": "b"}, "abc", "ac", [
            "spec.a: Invalid value: \"ac\": spec.a in body should match 'b'",
        ], id="a pattern is not anchored"),
        pytest.param({**TEXT, "format": "date-time"}, "2026-01-02T03:04:05Z", "x", [
            'spec.a: Invalid value: "x": spec.a in body must be of type date-time: "x"',
        ], id="format"),
        pytest.param({**TEXT, "format": "date"}, "2026-01-02", 5, [
            'spec.a: Invalid value: "int64": spec.a in body must be of type date: "int64"',
        ], id="a number where a format is wanted"),
        pytest.param({**TEXT, "format": "made-up"}, "anything", 5, [
            'spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer"',
        ], id="an unknown format is ignored"),
        pytest.param({"type": "array", "items": INTEGER}, [], [1, "x", None], [
            'spec.a[1]: Invalid value: "string": spec.a[1] in body must be of type integer: '
            '"string"',
            'spec.a[2]: Invalid value: "null": spec.a[2] in body must be of type integer: "null"',
        ], id="items"),
        pytest.param({"type": "array", "items": INTEGER, "minItems": 1}, [1], [], [
            "spec.a: Invalid value: 0: spec.a in body should have at least 1 items",
        ], id="minItems"),
        pytest.param({"type": "array", "items": INTEGER, "maxItems": 1}, [1], [1, 2], [
            "spec.a: Too many: 2: must have at most 1 item",
        ], id="maxItems"),
        pytest.param({"type": "array", "items": INTEGER, "uniqueItems": True}, [1, 2], [1, 1], [
            "spec.a: Invalid value: \"\": spec.a in body shouldn't contain duplicates",
        ], id="uniqueItems"),
        pytest.param({"type": "object", "minProperties": 1}, {"x": 1}, {}, [
            "spec.a: Invalid value: 0: spec.a in body should have at least 1 properties",
        ], id="minProperties"),
        pytest.param({"type": "object", "maxProperties": 2}, {}, {"a": 1, "b": 2, "c": 3}, [
            "spec.a: Too many: 3: must have at most 2 items",
        ], id="maxProperties"),
        pytest.param(
            {"type": "object", "additionalProperties": INTEGER}, {"x": 1}, {"x": "y"}, [
            'spec.a.x: Invalid value: "string": spec.a.x in body must be of type integer: '
            '"string"',
        ], id="additionalProperties"),
        pytest.param({"type": "object", "additionalProperties": False}, {}, {"x": 1}, [
            'spec.a: Invalid value: "x": spec.a.x in body is a forbidden property',
        ], id="additionalProperties false"),
        pytest.param(
            {"type": "object", "required": ["x", "y"], "properties": {"x": INTEGER}},
            {"x": 1, "y": 2}, {}, ["spec.a.x: Required value", "spec.a.y: Required value"],
            id="required"),
        pytest.param({**TEXT, "allOf": [{"minLength": 1}, {"maxLength": 2}]}, "a", "aaa", [
            "spec.a: Too long: may not be more than 2 bytes",
            f'{NIL}: "spec.a" must validate all the schemas (allOf)',
        ], id="allOf"),
        pytest.param({**TEXT, "allOf": [{"minLength": 2}, {"minLength": 3}]}, "aaa", "a", [
            'spec.a: Invalid value: "a": spec.a in body should be at least 2 chars long',
            'spec.a: Invalid value: "a": spec.a in body should be at least 3 chars long',
            f'{NIL}: "spec.a" must validate all the schemas (allOf). None validated',
        ], id="allOf, none"),
        pytest.param(
            {**INTEGER, "anyOf": [{"minimum": 10}, {"maximum": 1}]}, 0, 5, [
            f'{NIL}: "spec.a" must validate at least one schema (anyOf)',
            "spec.a: Invalid value: 5: spec.a in body should be greater than or equal to 10",
        ], id="anyOf"),
        pytest.param(
            {"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
            {"x": 1}, {}, [
            f'{NIL}: "spec.a" must validate one and only one schema (oneOf). Found none valid',
            "spec.a.x: Required value",
        ], id="oneOf, none"),
        pytest.param(
            {"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
            {"y": 1}, {"x": 1, "y": 2}, [
            f'{NIL}: "spec.a" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives",
        ], id="oneOf, several"),
        pytest.param({**TEXT, "not": {"pattern": "^x"}}, "y", "x", [
            f'{NIL}: "spec.a" must not validate the schema (not)',
        ], id="not"),
        pytest.param({"x-kubernetes-int-or-string": True}, "50%", True, [
            'spec.a: Invalid value: "boolean": spec.a in body must be of type integer,string: '
            '"boolean"',
        ], id="int or string"),
        pytest.param({"x-kubernetes-int-or-string": True, "pattern": "%$"}, 3, "x", [
            "spec.a: Invalid value: \"x\": spec.a in body should match '%$'",
        ], id="int or string with a pattern for strings"),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["a", "b"], ["a", "b", "a", "a"], ['spec.a[2]: Duplicate value: "a"'], id="set"),
        pytest.param(
            {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
             "items": {"type": "object", "properties": {"k": TEXT}}},
            [{"k": "a"}, {"k": "b"}], [{"k": "a"}, {"k": "a", "v": 1}],
            ['spec.a[1]: Duplicate value: {"k":"a"}'], id="list map"),
        pytest.param(
            {"type": "array", "x-kubernetes-list-type": "map",
             "x-kubernetes-list-map-keys": ["k", "l"],
             "items": {"type": "object", "properties": {"k": TEXT, "l": INTEGER}}},
            [{"k": "a"}, {"k": "a", "l": 1}], [{"l": 1, "k": "a"}, {"k": "a", "l": 1}],
            ['spec.a[1]: Duplicate value: {"k":"a","l":1}'], id="list map with two keys"),
    ],
)  # fmt: skip
def test_each_feature_accepts_and_refuses(
    schema: dict[str, Any], good: Any, bad: Any, messages: list[str]
) -> None:
    assert errors(schema, good) == []
    assert errors(schema, bad) == messages


def test_the_alternative_that_matched_best_is_reported() -> None:
    schema = {
        "type": "object",
        "properties": {"n": INTEGER, "s": TEXT},
        "anyOf": [
            {"properties": {"n": {"minimum": 5}, "s": {"minLength": 5}}},
            {"properties": {"n": {"minimum": 1}, "s": {"minLength": 3}}},
        ],
    }
    assert errors(schema, {"n": 2, "s": "x"}) == [
        f'{NIL}: "spec.a" must validate at least one schema (anyOf)',
        "spec.a.n: Invalid value: 2: spec.a.n in body should be greater than or equal to 5",
        'spec.a.s: Invalid value: "x": spec.a.s in body should be at least 5 chars long',
    ]


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, [], id="type alone is enough"),
        pytest.param(
            {}, ["spec.a.apiVersion: Required value", "spec.a.kind: Required value"], id="no type"
        ),
        pytest.param(
            {"apiVersion": "a/b/c", "kind": "Pod"},
            ['spec.a.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
            id="bad version",
        ),
        pytest.param(
            {"apiVersion": 1, "kind": 2},
            [
                "spec.a.apiVersion: Invalid value: 1: must be a string",
                "spec.a.kind: Invalid value: 2: must be a string",
            ],
            id="wrong types",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Any name: fine"}},
            [],
            id="names are only path segments",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}},
            ["spec.a.metadata.name: Invalid value: \"a/b\": may not contain '/'"],
            id="bad name",
        ),
    ],
)
def test_embedded_resources_have_a_type_and_valid_metadata(value: Any, messages: list[str]) -> None:
    schema = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert errors(schema, value) == messages


@pytest.mark.parametrize(
    ("schema", "old", "new", "messages"),
    [
        pytest.param({**INTEGER, "maximum": 10}, 50, 50, [], id="unchanged"),
        pytest.param(
            {**INTEGER, "maximum": 10},
            50,
            51,
            ["spec.a: Invalid value: 51: spec.a in body should be less than or equal to 10"],
            id="changed",
        ),
        pytest.param(
            {"type": "object", "required": ["y"], "properties": {"x": INTEGER, "y": INTEGER}},
            {"x": 1},
            {"x": 1},
            [],
            id="an unchanged object that lacks a member",
        ),
        pytest.param(
            {"type": "object", "required": ["y"], "properties": {"x": INTEGER, "y": INTEGER}},
            {"x": 1},
            {"x": 2},
            ["spec.a.y: Required value"],
            id="a changed object that lacks a member",
        ),
        pytest.param(
            {"type": "array", "items": {**TEXT, "maxLength": 1}},
            ["aa", "b"],
            ["aa", "c"],
            [],
            id="items at the same place",
        ),
        pytest.param(
            {"type": "array", "x-kubernetes-list-type": "atomic",
             "items": {**TEXT, "maxLength": 1}},
            ["aa", "b"],
            ["aa", "c"],
            ["spec.a[0]: Too long: may not be more than 1 byte"],
            id="items of an atomic list",
        ),
        pytest.param(
            {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
             "items": {"type": "object", "properties": {"k": TEXT, "v": {**TEXT, "maxLength": 1}}}},
            [{"k": "a", "v": "xx"}],
            [{"k": "b"}, {"k": "a", "v": "xx"}],
            [],
            id="items of a list map that moved",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {**TEXT, "maxLength": 1}},
            {"x": "aa"},
            {"x": "aa", "y": "b"},
            [],
            id="values of maps",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["a", "a"],
            ["a", "a", "b", "b"],
            [],
            id="a set that had repeats before",
        ),
        pytest.param(
            {"type": "object", "properties": {"x": {**INTEGER, "maximum": 1}, "y": INTEGER},
             "allOf": [{"properties": {"x": {"maximum": 0}}}]},
            {"x": 5},
            {"x": 5, "y": 1},
            [],
            id="inside of allOf",
        ),
    ],
)  # fmt: skip
def test_updates_tolerate_existing_errors(
    schema: dict[str, Any], old: Any, new: Any, messages: list[str]
) -> None:
    assert errors(schema, new, old) == messages


@pytest.mark.parametrize(
    ("kind", "blocked"),
    [
        ("Invalid", False), ("Duplicate", False), ("Forbidden", False),
        ("NotSupported", True), ("Required", True), ("TooLong", True), ("TooMany", True),
        ("TypeInvalid", True),
    ],
)  # fmt: skip
def test_rules_are_skipped_when_types_cannot_be_trusted(kind: str, blocked: bool) -> None:
    found = rules_blocked([FieldError(kind, "spec")])
    assert (found is not None) == blocked
    if found is not None:
        assert str(found) == (
            "<nil>: Invalid value: null: some validation rules were not checked because the "
            "object was invalid; correct the existing errors to complete validation"
        )


def test_deeply_nested_object_is_rejected_without_a_crash() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    validator = compile_validator(
        compile_node({"type": "object", "properties": {"a": {"type": "object", "enum": [{}]}}})
    )
    assert [e.detail for e in validator({"a": deep}, {"a": deep})] == [goformat.TOO_DEEP]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([2**31, 2**63, 0.5, 1.0, -0.0, 1e300])
    | st.sampled_from(["", "a", "ab", "2026-01-02", "ü"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=8,
)


def _with(options: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=options)


FORMATS = st.sampled_from(["date", "int32", "int64", "float", "byte", "odd", "date-time"])
CONDITIONS = _with(
    {
        "minimum": st.sampled_from([0, 1, 1.5]),
        "maximum": st.sampled_from([0, 2, 2.5]),
        "exclusiveMinimum": st.booleans(),
        "multipleOf": st.sampled_from([2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["a", "^b", "("]),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        "enum": st.lists(SCALARS, max_size=3),
        "format": FORMATS,
        "nullable": st.booleans(),
        "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object"]),
        "x-kubernetes-int-or-string": st.booleans(),
    }
)


def _extended(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(inner, min_size=1, max_size=2)
    more = _with(
        {
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "items": inner,
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
        }
    )
    return st.builds(lambda a, b: {**a, **b}, CONDITIONS, more)


SCHEMAS = st.recursive(CONDITIONS, _extended, max_leaves=5)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, VALUES)
def test_the_fast_half_agrees_with_the_slow_half(schema: dict[str, Any], value: Any) -> None:
    predicate = compile_predicate(schema)
    assert (predicate is None or predicate(value)) == (not value_errors(schema, value))


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, VALUES, VALUES)
def test_validation_never_raises(schema: dict[str, Any], value: Any, old: Any) -> None:
    validator = compile_validator(compile_node(schema))
    for error in [*validator(value), *validator(value, old)]:
        assert error.reason
        assert str(error)


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, VALUES)
def test_an_update_that_changes_nothing_is_accepted(schema: dict[str, Any], value: Any) -> None:
    assert value_errors(schema, value, old=value) == []
