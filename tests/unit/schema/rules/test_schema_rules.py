# SPDX-License-Identifier: Apache-2.0
"""x-kubernetes-validations: checks of definitions, and rules applied to objects."""

from typing import Any

import pytest

from rdd import cel
from rdd.api.fielderrors import FieldError
from rdd.schema.rules.evaluation import check_rules, compile_rules
from rdd.schema.rules.types import declared_type

_ROOT = "spec.validation.openAPIV3Schema"
_FACTOR = (
    " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)


def spec(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """Return a schema of objects whose spec has properties and rules."""
    inner: dict[str, Any] = {"type": "object", "properties": properties}
    if rules:
        inner["x-kubernetes-validations"] = list(rules)
    return {"type": "object", "properties": {"spec": inner}}


def shown(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def validate(schema: dict[str, Any], value: Any, old: Any = None, **options: Any) -> list[str]:
    rules = compile_rules(schema)
    assert rules is not None
    before = None if old is None else {"spec": old}
    return shown(rules.validate({"spec": value}, before, **options))


_INT: dict[str, Any] = {"type": "integer"}
_STRING: dict[str, Any] = {"type": "string"}


# -- definitions


def _checked(rule: dict[str, Any]) -> list[str]:
    errors = check_rules(spec(rule, x=_INT, y=_INT, s=_STRING), _ROOT)
    prefix = f"{_ROOT}.properties[spec].x-kubernetes-validations[0]."
    return [error.removeprefix(prefix) for error in shown(errors)]


def _struct(rule: str, **members: str) -> str:
    names = ("Message", "MessageExpression", "Reason", "FieldPath", "OptionalOldSelf")
    defaults = ('""', '""', "null", '""', "null")
    texts = (
        f'"{name}":{members.get(name, default)}'
        for name, default in zip(names, defaults, strict=True)
    )
    return f'{{"Rule":"{rule}",{",".join(texts)}}}'


_NOPE = _struct("self.nope \\u003e 1")


@pytest.mark.parametrize(
    ("rule", "errors"),
    [
        pytest.param({"rule": "self.x > 0"}, [], id="fine"),
        pytest.param({"rule": ""}, ["rule: Required value: rule is not specified"], id="empty"),
        pytest.param(
            {"message": "m"}, ["rule: Required value: rule is not specified"], id="absent"
        ),
        pytest.param(
            {"rule": "true", "message": " "},
            ['message: Invalid value: " ": must be non-empty if specified'],
            id="blank-message",
        ),
        pytest.param(
            {"rule": "true", "message": "a\nb"},
            ['message: Invalid value: "a\\nb": must not contain line breaks'],
            id="broken-message",
        ),
        pytest.param(
            {"rule": "true &&\ntrue"},
            ["message: Required value: message must be specified if rule contains line breaks"],
            id="long-rule",
        ),
        pytest.param(
            {"rule": "true", "messageExpression": " "},
            ["messageExpression: Required value: messageExpression must be non-empty if specified"],
            id="blank-expression",
        ),
        pytest.param(
            {"rule": "true", "reason": "Nonsense"},
            [
                'reason: Unsupported value: "Nonsense": supported values: "FieldValueDuplicate", '
                '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
            ],
            id="reason",
        ),
        pytest.param(
            {"rule": "true", "fieldPath": ".zz"},
            ['fieldPath: Invalid value: ".zz": must be a valid path'],
            id="field-path",
        ),
        pytest.param(
            {"rule": "true", "fieldPath": "x"},
            ['fieldPath: Invalid value: "x": must be a valid path'],
            id="field-path-without-dot",
        ),
        pytest.param(
            {"rule": "self.x"},
            [f"rule: Invalid value: {_struct('self.x')}: cel expression must evaluate to a bool"],
            id="type",
        ),
        pytest.param(
            {"rule": "self.nope > 1"},
            [
                f"rule: Invalid value: {_NOPE}: compilation failed: "
                "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^"
            ],
            id="compile",
        ),
        pytest.param(
            {"rule": "true", "messageExpression": "1"},
            [
                f"messageExpression: Invalid value: "
                f"{_struct('true', MessageExpression=chr(34) + '1' + chr(34))}: "
                "messageExpression must evaluate to a string"
            ],
            id="message-type",
        ),
        pytest.param(
            {"rule": "true", "optionalOldSelf": True},
            ["optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"],
            id="optional-old-self",
        ),
        pytest.param({"rule": "oldSelf.hasValue()", "optionalOldSelf": True}, [], id="optional"),
        pytest.param(
            {"rule": "self.x < self.y", "messageExpression": "'x ' + string(self.x)"},
            [
                "messageExpression: Forbidden: estimated messageExpression cost exceeds budget by "
                f"factor of more than 100x{_FACTOR}",
                "messageExpression: Forbidden: contributed to estimated rule cost total exceeding "
                "cost limit for entire OpenAPIv3 schema",
                f"{_ROOT}: Forbidden: x-kubernetes-validations estimated rule cost total for "
                f"entire OpenAPIv3 schema exceeds budget by factor of more than 100x{_FACTOR}",
            ],
            id="cost-of-the-message",
        ),
    ],
)
def test_a_definition_is_checked(rule: dict[str, Any], errors: list[str]) -> None:
    assert _checked(rule) == errors


def _list(rule: str, **members: Any) -> dict[str, Any]:
    return spec(l={"type": "array", **members, "x-kubernetes-validations": [{"rule": rule}]})


@pytest.mark.parametrize(
    ("max_length", "max_items"), [(16, 909_090), (63, 333_333), (253, 94_339), (1024, 24_154)]
)
def test_the_cost_limit_is_that_of_kubernetes(max_length: int, max_items: int) -> None:
    # Measured with the validation of Kubernetes 1.36: the longest list that is accepted.
    def schema(length: int) -> dict[str, Any]:
        items = {"type": "string", "maxLength": max_length}
        return _list("self.all(x, x.contains('gpu'))", maxItems=length, items=items)

    assert check_rules(schema(max_items), _ROOT) == []
    assert check_rules(schema(max_items + 1), _ROOT) != []


def test_small_excess_is_shown_exactly() -> None:
    items = {"type": "string", "maxLength": 16}
    rule = "self.all(x, x.contains('gpu'))"
    (error,) = check_rules(_list(rule, maxItems=1_000_000, items=items), _ROOT)
    assert f"exceeds budget by factor of 1.100000x{_FACTOR}" in str(error)
    (error,) = check_rules(_list(rule, maxItems=2_000_000, items=items), _ROOT)
    assert f"exceeds budget by factor of 2.2x{_FACTOR}" in str(error)


def test_a_rule_counts_as_often_as_its_value_can_occur() -> None:
    item = {
        "type": "string",
        "maxLength": 10,
        "x-kubernetes-validations": [{"rule": "self != 'a'"}],
    }
    assert check_rules(spec(l={"type": "array", "items": item, "maxItems": 1000}), _ROOT) == []
    nested = {"type": "array", "maxItems": 10_000, "items": item}
    errors = check_rules(spec(l={"type": "array", "maxItems": 10_000, "items": nested}), _ROOT)
    assert "estimated rule cost exceeds budget" in str(errors[0])


def test_the_four_most_expensive_rules_are_reported() -> None:
    rules = [{"rule": "self.l.all(a, a != 'x')", "message": str(i)} for i in range(6)]
    big = {"type": "array", "maxItems": 1_500_000, "items": {"type": "string", "maxLength": 20}}
    errors = shown(check_rules(spec(*rules, l=big), _ROOT))
    assert sum("contributed to estimated rule cost total" in error for error in errors) == 0
    bigger = {**big, "maxItems": 9_000_000}
    errors = shown(check_rules(spec(*rules, l=bigger), _ROOT))
    assert sum("contributed to estimated rule cost total" in error for error in errors) == 4


@pytest.mark.parametrize(
    ("members", "is_allowed"),
    [
        ({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}, True),
        ({"x-kubernetes-list-type": "atomic"}, False),
        ({"x-kubernetes-list-type": "set"}, False),
        ({}, False),
    ],
)
def test_old_values_of_items_exist_in_list_maps_only(
    members: dict[str, Any], is_allowed: bool
) -> None:
    rules = [{"rule": "self == oldSelf"}]
    items = {"type": "object", "properties": {"k": _STRING}, "x-kubernetes-validations": rules}
    schema = spec(l={"type": "array", "maxItems": 5, "items": items, **members})
    place = f"{_ROOT}.properties[spec].properties[l]"
    expected = [
        f'{place}.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": '
        f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place}"
    ]
    assert shown(check_rules(schema, _ROOT)) == ([] if is_allowed else expected)


def test_old_values_of_members_do_not_exist_in_atomic_objects() -> None:
    member = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}
    schema = spec(
        o={"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": member}}
    )
    (error,) = check_rules(schema, _ROOT)
    assert error.detail.endswith(f"within {_ROOT}.properties[spec].properties[o]")


def test_levels_with_formal_errors_below_are_not_compiled() -> None:
    schema = spec(
        {"rule": "self.nope"}, x={"type": "integer", "x-kubernetes-validations": [{"rule": ""}]}
    )
    (error,) = check_rules(schema, _ROOT)
    assert error.detail == "rule is not specified"


# -- types of schemas


def test_metadata_of_the_root_shows_names_only() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    declared = declared_type(schema, is_root=True)
    assert declared is not None
    assert set(declared.fields) == {"spec", "apiVersion", "kind", "metadata"}
    assert set(declared.fields["metadata"].type.fields) == {"name", "generateName"}


@pytest.mark.parametrize(
    ("schema", "shown_type", "max_elements"),
    [
        ({"type": "string"}, "string", 3145726),
        ({"type": "string", "maxLength": 10}, "string", 40),
        ({"type": "string", "enum": ["a", "abc"]}, "string", 3),
        ({"type": "string", "format": "date-time"}, "timestamp", 32),
        ({"type": "string", "format": "date"}, "timestamp", 12),
        ({"type": "string", "format": "duration"}, "duration", 32),
        ({"type": "string", "format": "byte", "maxLength": 8}, "bytes", 8),
        ({"type": "integer"}, "int", 0),
        ({"type": "number"}, "double", 0),
        ({"type": "boolean"}, "bool", 0),
        ({"x-kubernetes-int-or-string": True}, "dyn", 3145726),
        ({"type": "array", "items": {"type": "integer"}}, "list(int)", 1572863),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 3}, "list(int)", 3),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 4},
            "map(string, string)",
            4,
        ),
    ],
)
def test_a_schema_has_a_type(schema: dict[str, Any], shown_type: str, max_elements: int) -> None:
    declared = declared_type(schema, is_root=False)
    assert declared is not None
    assert (str(declared), declared.max_elements) == (shown_type, max_elements)


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array"},
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
    ],
)
def test_untyped_fields_are_not_visible(schema: dict[str, Any]) -> None:
    assert declared_type(schema, is_root=False) is None


def test_properties_are_visible_under_their_escaped_names() -> None:
    schema = spec(
        {"rule": "self.__namespace__ == self.a__dash__b"},
        **{"namespace": _STRING, "a-b": _STRING, "ä": _STRING},
    )
    assert check_rules(schema, _ROOT) == []
    assert validate(schema, {"namespace": "x", "a-b": "x"}) == []
    assert validate(schema, {"namespace": "x", "a-b": "y"}) == [
        "spec: Invalid value: failed rule: self.__namespace__ == self.a__dash__b"
    ]


# -- objects


def test_a_schema_without_rules_is_not_compiled() -> None:
    assert compile_rules(spec(x=_INT)) is None


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"rule": "self.x > 5"}, "spec: Invalid value: failed rule: self.x > 5"),
        ({"rule": "self.x > 5", "message": " m "}, "spec: Invalid value: m"),
        (
            {"rule": "self.x > 5", "fieldPath": ".x"},
            "spec.x: Invalid value: failed rule: self.x > 5",
        ),
        (
            {"rule": "self.x > 5", "message": "m", "reason": "FieldValueForbidden"},
            "spec: Forbidden: m",
        ),
        (
            {"rule": "self.x > 5", "message": "m", "reason": "FieldValueRequired"},
            "spec: Required value: m",
        ),
        (
            {"rule": "self.x > 5", "message": "m", "reason": "FieldValueDuplicate"},
            "spec: Duplicate value",
        ),
        (
            {"rule": "self.x > 5", "messageExpression": "'got %d'.format([self.x])"},
            "spec: Invalid value: got 1",
        ),
        (
            {"rule": "self.x > 5", "messageExpression": "1 / 0 > 1 ? 'a' : 'b'", "message": "m"},
            "spec: Invalid value: m",
        ),
        (
            {"rule": "self.x > 5", "messageExpression": "'a\\nb'", "message": "m"},
            "spec: Invalid value: m",
        ),
        (
            {"rule": "self.x > 5", "messageExpression": "' '"},
            "spec: Invalid value: failed rule: self.x > 5",
        ),
        (
            {"rule": "self.y > 5"},
            'spec: Invalid value: "object": no such key: y evaluating rule: self.y > 5',
        ),
        (
            {"rule": "self.x / 0 > 5", "message": "m"},
            'spec: Invalid value: "object": division by zero evaluating rule: m',
        ),
        (
            {"rule": "self.p.size() > 5"},
            "spec: Invalid value: \"object\": 'no such overload: size': call arguments did "
            "not match a supported operator, function or macro signature for rule: "
            "self.p.size() > 5",
        ),
    ],
)
def test_a_rule_that_fails_is_an_error(rule: dict[str, Any], error: str) -> None:
    schema = spec(rule, x=_INT, y=_INT, p={"x-kubernetes-int-or-string": True})
    assert validate(schema, {"x": 1, "p": 3}) == [error]


def test_values_are_shown_unless_they_are_objects_or_lists() -> None:
    rules = [{"rule": "self != self"}]
    schema = spec(
        i={**_INT, "x-kubernetes-validations": rules},
        s={**_STRING, "x-kubernetes-validations": rules},
        l={"type": "array", "items": _INT, "x-kubernetes-validations": rules},
        p={"x-kubernetes-int-or-string": True, "x-kubernetes-validations": rules},
    )
    assert validate(schema, {"i": 1, "s": "a", "l": [1], "p": "5%"}) == [
        "spec.i: Invalid value: 1: failed rule: self != self",
        'spec.s: Invalid value: "a": failed rule: self != self',
        "spec.l: Invalid value: failed rule: self != self",
        'spec.p: Invalid value: "5%": failed rule: self != self',
    ]


def test_rules_apply_below_lists_and_maps() -> None:
    rules = [{"rule": "self > 0", "message": "positive"}]
    schema = spec(
        l={"type": "array", "items": {**_INT, "x-kubernetes-validations": rules}},
        m={"type": "object", "additionalProperties": {**_INT, "x-kubernetes-validations": rules}},
    )
    assert validate(schema, {"l": [1, 0], "m": {"a.b": -1, "c": 1}}) == [
        "spec.l[1]: Invalid value: 0: positive",
        "spec.m[a.b]: Invalid value: -1: positive",
    ]


def test_null_is_not_validated() -> None:
    schema = spec(i={**_INT, "nullable": True, "x-kubernetes-validations": [{"rule": "self > 0"}]})
    assert validate(schema, {"i": None}) == []


def test_a_rule_of_the_object_itself_has_no_path() -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object"}},
        "x-kubernetes-validations": [{"rule": "self.metadata.name == 'app'", "message": "m"}],
    }
    rules = compile_rules(schema)
    assert rules is not None
    assert shown(rules.validate({"metadata": {"name": "app"}})) == []
    assert shown(rules.validate({"metadata": {"name": "b"}})) == ["<nil>: Invalid value: m"]


_GROWS = {"rule": "self >= oldSelf", "message": "grows"}


def test_a_transition_rule_needs_an_old_value() -> None:
    schema = spec(x={**_INT, "x-kubernetes-validations": [_GROWS]})
    assert validate(schema, {"x": 1}) == []
    assert validate(schema, {"x": 1}, {}) == []
    assert validate(schema, {"x": 1}, {"x": None}) == []
    assert validate(schema, {"x": 1}, {"x": 1}) == []
    assert validate(schema, {"x": 1}, {"x": 2}) == ["spec.x: Invalid value: 1: grows"]


def test_items_of_list_maps_are_compared_by_their_keys() -> None:
    schema = spec(
        l={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "properties": {"k": _STRING, "v": {**_INT, "x-kubernetes-validations": [_GROWS]}},
            },
        }
    )
    old = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]}
    assert validate(schema, {"l": [{"k": "b", "v": 4}, {"k": "c", "v": 0}]}, old) == [
        "spec.l[0].v: Invalid value: 4: grows"
    ]
    assert validate(schema, {"l": [{"k": "b", "v": 6}, {"k": "a", "v": 1}]}, old) == []


def test_entries_of_maps_are_compared_by_their_names() -> None:
    value = {**_INT, "x-kubernetes-validations": [_GROWS]}
    schema = spec(m={"type": "object", "additionalProperties": value})
    errors = validate(schema, {"m": {"a": 1, "b": 1}}, {"m": {"a": 2}})
    assert errors == ["spec.m[a]: Invalid value: 1: grows"]


def test_rule_with_optional_old_value_runs_on_create() -> None:
    rule = {
        "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1",
        "optionalOldSelf": True,
        "message": "m",
    }
    schema = spec(x={**_INT, "x-kubernetes-validations": [rule]})
    assert validate(schema, {"x": 1}) == []
    assert validate(schema, {"x": 2}) == ["spec.x: Invalid value: 2: m"]
    assert validate(schema, {"x": 2}, {"x": 1}) == []
    assert validate(schema, {"x": 0}, {"x": 1}) == ["spec.x: Invalid value: 0: m"]


_POSITIVE = {"rule": "self > 0", "message": "positive"}


@pytest.mark.parametrize(
    ("value", "old", "errors", "warnings"),
    [
        pytest.param({"x": 0}, {"x": 0}, 0, 1, id="unchanged"),
        pytest.param({"x": 0}, {"x": -1}, 1, 0, id="changed"),
        pytest.param({"x": 0, "y": 1}, {"x": 0}, 0, 1, id="changed-elsewhere"),
        pytest.param({"l": [0]}, {"l": [0]}, 0, 1, id="unchanged-list"),
        pytest.param({"l": [0, 1]}, {"l": [0]}, 1, 0, id="changed-list"),
        pytest.param({"m": [{"k": "a", "v": 0}]}, {"m": [{"k": "b"}, {"k": "a", "v": 0}]}, 0, 1,
                     id="unchanged-item"),
        pytest.param({"m": [{"k": "a", "v": 0, "w": 1}]}, {"m": [{"k": "a", "v": 0}]}, 0, 1,
                     id="unchanged-member-of-a-changed-item"),
        pytest.param({"x": 0}, None, 1, 0, id="created"),
    ],
)  # fmt: skip
def test_unchanged_invalid_field_is_a_warning(
    value: Any, old: Any, errors: int, warnings: int
) -> None:
    checked = {**_INT, "x-kubernetes-validations": [_POSITIVE]}
    entry = {"type": "object", "properties": {"k": _STRING, "v": checked, "w": _INT}}
    schema = spec(
        x=checked,
        y=_INT,
        l={"type": "array", "items": checked},
        m={
            "type": "array",
            "items": entry,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
    )
    collected: list[str] = []
    assert len(validate(schema, value, old, warnings=collected)) == errors
    assert len(collected) == warnings
    assert all(text.endswith("Invalid value: 0: positive") for text in collected)


def test_transition_rules_are_never_only_a_warning() -> None:
    schema = spec({"rule": "self.x > oldSelf.x"}, x=_INT)
    assert len(validate(schema, {"x": 1}, {"x": 1})) == 1


def test_rules_stop_when_the_budget_is_exceeded() -> None:
    schema = spec(
        {"rule": "self.l.all(x, x >= 0)"},
        {"rule": "self.l.all(x, x <= 1)"},
        l={"type": "array", "items": _INT},
    )
    errors = validate(schema, {"l": [0] * 100}, budget=cel.Budget(700))
    assert errors == [
        'spec: Invalid value: "object": validation failed due to running out of cost budget, '
        "no further validation rules will be run"
    ]


def test_a_rule_that_costs_too_much_stops_the_rest() -> None:
    schema = spec(
        {"rule": "self.l.all(x, self.l.all(y, self.l.all(z, true)))"},
        {"rule": "false"},
        l={"type": "array", "items": _INT},
    )
    assert validate(schema, {"l": [0] * 200}) == [
        "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': "
        "no further validation rules will be run due to call cost exceeds limit for rule: "
        "self.l.all(x, self.l.all(y, self.l.all(z, true)))"
    ]


def test_a_stored_rule_that_does_not_compile_is_an_error_of_each_object() -> None:
    (error,) = validate(spec({"rule": "nope"}, x=_INT), {"x": 1})
    assert error.startswith('spec: Invalid value: "object": rule compile error: compilation failed')


def test_sets_are_compared_without_order() -> None:
    words = {
        "type": "array",
        "items": _STRING,
        "x-kubernetes-list-type": "set",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}],
    }
    schema = spec(w=words)
    assert validate(schema, {"w": ["a", "b"]}, {"w": ["b", "a"]}) == []
    assert validate(schema, {"w": ["a"]}, {"w": ["b", "a"]}) == ["spec.w: Invalid value: immutable"]


def test_an_embedded_resource_shows_its_names() -> None:
    schema = spec(
        t={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-validations": [
                {"rule": "self.kind == 'Pod' && self.metadata.name == 'p'"}
            ],
        }
    )
    assert check_rules(schema, _ROOT) == []
    assert validate(schema, {"t": {"kind": "Pod", "metadata": {"name": "p"}}}) == []
    assert len(validate(schema, {"t": {"kind": "Pod", "metadata": {"name": "q"}}})) == 1
