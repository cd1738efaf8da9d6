# SPDX-License-Identifier: Apache-2.0
"""JSONPath, printer columns and field paths."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api.jsonpath import JsonPath, JsonPathError, lookup, parse_simple
from rdd.schema.columns import Columns, cell
from rdd.schema.fieldpath import FieldPathError, resolve

DATA: dict[str, Any] = {
    "spec": {"running": True, "n": 3, "ports": [{"name": "a", "port": 1}, {"name": "b"}]},
    "metadata": {"annotations": {"a.b/c": "dotted"}, "name": "x"},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Other", "status": "False", "n": 2.5},
            {"type": "Third"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.running", [True]),
        ("$.spec.n", [3]),
        (".spec.missing", []),
        (".spec.missing.deeper", []),
        (".metadata.annotations['a\\.b/c']", ["dotted"]),
        (".metadata.annotations.a\\.b/c", ["dotted"]),
        (".spec.ports[0].name", ["a"]),
        (".spec.ports[-1].name", ["b"]),
        (".spec.ports[*].name", ["a", "b"]),
        (".spec.ports[0:1].name", ["a"]),
        (".spec.ports[1:].name", ["b"]),
        (".spec.ports[:].name", ["a", "b"]),
        (".spec.ports[0:2:1].name", ["a", "b"]),
        (".spec.ports[::2].name", ["a"]),
        (".spec.ports[0,1].name", ["a", "b"]),
        (".spec.ports[1:1].name", []),
        (".spec['n','running']", [3, True]),
        ("..name", ["x", "a", "b"]),
        (".spec.ports[0].*", ["a", 1]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Other", "Third"]),
        (".status.conditions[?(@.n>1)].type", ["Other"]),
        (".status.conditions[?(@.n>=1)].type", ["Ready", "Other"]),
        (".status.conditions[?(@.n<2)].type", ["Ready"]),
        (".status.conditions[?(@.n<=2.5)].type", ["Ready", "Other"]),
        (".status.conditions[?(@.status)].type", ["Ready", "Other"]),
        ('.status.conditions[?(@.type=="a)b")].type', []),
    ],
)
def test_paths_select_values(path: str, found: list[Any]) -> None:
    assert JsonPath(path).find(DATA) == found


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".x[", "unterminated array"),
        (".x[abc]", "invalid array index abc"),
        (".x[?(@.a==1]", "unterminated filter"),
        (".x[?(@.a==1)", "unclosed array expect ]"),
        (".x['a", "unterminated array"),
        ('"abc', "unterminated quoted string"),
        ("....x", "invalid multiple recursive descent"),
        (".x#", None),
        ("#", "unrecognized character in action: U+0023 '#'"),
        ("1.2.3", "cannot parse number 1.2.3"),
        (".a}b", "unexpected text after action"),
        (".a\n", "unclosed action"),
    ],
)
def test_errors_of_paths_read_as_in_kubernetes(path: str, message: str | None) -> None:
    if message is None:
        JsonPath(path)
        return
    with pytest.raises(JsonPathError) as caught:
        JsonPath(path)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".spec.ports[2]", "array index out of bounds: index 2, length 2"),
        (".spec.ports[0:9]", "array index out of bounds: index 8, length 2"),
        (".spec[0]", "map[string]interface {} is not array or slice"),
        (".spec.n[?(@.a==1)]", "3 is not array or slice and cannot be filtered"),
        (".status.conditions[?(@.type==1)]", "incompatible types for comparison"),
        (".status.conditions[?(@.type=!1)]", "unrecognized filter operator =!"),
        (".spec.ports[?(@.*==1)]", "can only compare one element at a time"),
        ("range", "unrecognized identifier range"),
    ],
)
def test_a_path_that_does_not_fit_the_data_fails(path: str, message: str) -> None:
    with pytest.raises(JsonPathError) as caught:
        JsonPath(path).find(DATA)
    assert str(caught.value) == message
    assert JsonPath(path).first(DATA) is None


def test_simple_paths_are_looked_up_member_by_member() -> None:
    assert parse_simple(".spec.n") == ("spec", "n")
    assert lookup(DATA, ("spec", "n")) == 3
    assert lookup(DATA, ("spec", "n", "deeper")) is None
    assert lookup(DATA, ("other",)) is None


def age(text: str) -> str | None:
    return "5m" if text.startswith("2026") else None


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("string", "x", "x"),
        ("string", 5, "5"),
        ("string", True, "true"),
        ("string", {"b": 1, "a": ["x", None]}, '{"a":["x",null],"b":1}'),
        ("string", ["<", {}], '["\\u003c",{}]'),
        ("integer", 5, 5),
        ("integer", 5.9, 5),
        ("integer", "5", None),
        ("integer", True, None),
        ("number", 1.5, 1.5),
        ("boolean", True, True),
        ("boolean", "True", None),
        ("date", "2026-01-01T00:00:00Z", "5m"),
        ("date", "nonsense", "<invalid>"),
        ("date", 5, None),
        ("string", None, None),
    ],
)
def test_cells_have_the_type_of_their_column(kind: str, value: Any, shown: Any) -> None:
    assert cell(kind, value, age=age) == shown


def test_columns_are_name_and_those_declared() -> None:
    columns = Columns(
        [
            {"name": "Running", "type": "boolean", "jsonPath": ".spec.running"},
            {
                "name": "Ready",
                "type": "string",
                "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
                "description": "whether",
                "priority": 1,
                "format": "byte",
            },
        ]
    )
    assert [d["name"] for d in columns.definitions] == ["Name", "Running", "Ready"]
    assert columns.definitions[1] == {
        "name": "Running",
        "type": "boolean",
        "format": "",
        "description": "Custom resource definition column (in JSONPath format): .spec.running",
        "priority": 0,
    }
    assert columns.definitions[2]["description"] == "whether"
    assert columns.cells(DATA, age=age) == ["x", True, "True"]


def test_without_declared_columns_there_are_name_and_age() -> None:
    columns = Columns([])
    assert [(d["name"], d["type"]) for d in columns.definitions] == [
        ("Name", "string"),
        ("Age", "date"),
    ]
    meta = {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert columns.cells({"metadata": meta}, age=age) == ["a", "5m"]


def test_a_column_that_does_not_parse_ends_the_columns() -> None:
    good = {"name": "A", "type": "string", "jsonPath": ".spec.n"}
    bad = {"name": "B", "type": "string", "jsonPath": ".x["}
    assert [d["name"] for d in Columns([good, bad, good]).definitions] == ["Name", "A"]


SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "m": {"type": "object", "additionalProperties": {"type": "integer"}},
                "d.e": {"type": "boolean"},
            },
        }
    },
}


@pytest.mark.parametrize(
    ("path", "field", "kind"),
    [
        (".spec.a", "spec.a", "string"),
        (".spec.m.any", "spec.m[any]", "integer"),
        (".spec.m['x.y']", "spec.m[x.y]", "integer"),
        (".spec['d.e']", "spec.d.e", "boolean"),
        ("", "", "object"),
    ],
)
def test_field_paths_name_a_schema(path: str, field: str, kind: str) -> None:
    name, found = resolve(path, SCHEMA)
    assert (name, found["type"]) == (field, kind)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.a", "expected [ or . but got: spec"),
        (".spec.zz", "does not refer to a valid field"),
        (".spec.a.b", "does not refer to a valid field"),
        (".spec.", "unexpected end of JSON path"),
        (".spec[", "unexpected end of JSON path"),
        (".spec[0]", "expected single quoted string but got 0"),
        (".spec['a'", "unexpected end of JSON path"),
        (".spec['a'.b", "expected ] but got ."),
        (".spec['\\x']", "invalid string literal: invalid escape char \\x"),
    ],
)
def test_field_paths_point_to_the_error(path: str, message: str) -> None:
    with pytest.raises(FieldPathError) as caught:
        resolve(path, SCHEMA)
    assert str(caught.value) == message


def test_brackets_can_be_forbidden() -> None:
    with pytest.raises(FieldPathError, match="array notation is not allowed"):
        resolve(".spec['a']", SCHEMA, allow_brackets=False)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=".[]'\"*?@$=<>!(){},:-0123456789ab\\ \n"))
def test_any_text_is_a_path_or_an_error(text: str) -> None:
    try:
        path = JsonPath(text)
    except JsonPathError:
        return
    path.first(DATA)
    path.first([1, "x", None, {"a": [DATA]}])
