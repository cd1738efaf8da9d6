# SPDX-License-Identifier: Apache-2.0
"""Evaluation against data: fields, errors, lazy operands, conversions, null."""

from typing import Any

import pytest

from rdd import cel
from rdd.cel import types as t
from rdd.cel.values import Duration, Optional, Timestamp, Uint


def evaluate(expression: str, variables: dict[str, t.Type] | None = None, /, **values: Any) -> Any:
    program = cel.Environment(variables or dict.fromkeys(values, t.DYN)).compile(expression)
    return program.evaluate(values, budget=cel.Budget())


def failure(expression: str, variables: dict[str, t.Type] | None = None, /, **values: Any) -> str:
    with pytest.raises(cel.EvaluationError) as caught:
        evaluate(expression, variables, **values)
    return str(caught.value)


_OBJECT = t.object_type("O", {"a": t.object_type("A", {"b": t.INT, "s": t.STRING}), "n": t.DOUBLE})


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("self.a.b > 1", "no such key: a"),
        ("1 / 0 > 1", "division by zero"),
        ("1 % 0 > 1", "modulus by zero"),
        ("[1][1] > 1", "index out of bounds: 1"),
        ("{'a': 1}['b'] > 1", "no such key: b"),
        ("9223372036854775807 + 1 > 1", "integer overflow"),
        ("0u - 1u > 1u", "unsigned integer overflow"),
        ("int(string('x' + '')) > 1", "type conversion error from 'string' to 'int'"),
        ("optional.none().value()", "optional.none() dereference"),
        ("{'a': 1, 'a': 2}", "Failed with repeated key a"),
        ("dyn(1) + 'a'", "no such overload"),
        ("dyn(1).startsWith('a')", "no such overload"),
        ("dyn(1).split('a')", "no such overload: split(int, string)"),
        ("dyn(1).matches('a')", "no such overload: matches"),
        ("dyn(1).size()", "no such overload: size"),
        ("dyn(true) + 1", "no such overload: _+_"),
        ("-dyn('a')", "no such overload: -_"),
        ("!dyn('a')", "no such overload"),
        ("1 in dyn(1)", "no such overload"),
        ("dyn('a') < 1", "no such overload"),
        ("dyn(1) && true", "no such overload"),
        ("dyn(1) ? 1 : 2", "no such overload"),
        ("dyn(1).all(x, true)", "no such overload"),
        ("dyn(1)[0]", "no such key: 0"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1h')", "timestamp overflow"),
        ("duration('2562047h') + duration('1h')", "duration overflow"),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("[1, 2].transformMapEntry(i, v, {'k': v})", "insert failed: key k already exists"),
    ],
)
def test_an_operation_fails_in_the_words_of_cel_go(expression: str, message: str) -> None:
    assert failure(expression, {"self": _OBJECT}, self={}) == message


def test_an_absent_variable_is_an_error() -> None:
    program = cel.Environment({"self": t.INT}).compile("self > 1")
    with pytest.raises(cel.EvaluationError, match=r"no such attribute\(s\): self"):
        program.evaluate({}, budget=cel.Budget())


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.a > 1 || true", True),
        ("true || self.a > 1", True),
        ("self.a > 1 && false", False),
        ("false && self.a > 1", False),
        ("[1, 2].exists(i, self.a > 1 || i == 2)", True),
        ("[1, 2].all(i, self.a > 1 && i == 2)", False),
        ("true ? 1 : self.a", 1),
        ("optional.of(1).orValue(self.a)", 1),
        ("self.?a.orValue(7)", 7),
        ("optional.of(1).or(optional.of(self.a)).value()", 1),
    ],
)
def test_an_error_of_an_operand_that_does_not_matter_is_forgiven(
    expression: str, value: Any
) -> None:
    assert evaluate(expression, self={}) == value


def test_running_out_of_budget_is_never_forgiven() -> None:
    program = cel.Environment({"l": t.list_of(t.INT)}).compile(
        "true || l.all(x, l.all(y, l.all(z, true)))"
    )
    assert program.evaluate({"l": [1] * 500}, budget=cel.Budget()) is True
    program = cel.Environment({"l": t.list_of(t.INT)}).compile(
        "l.all(x, l.all(y, l.all(z, true))) || true"
    )
    with pytest.raises(cel.CostExceeded):
        program.evaluate({"l": [1] * 500}, budget=cel.Budget())


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[1, 2, 3].all(i, v, i < v)", True),
        ("[1, 2, 3].exists(i, v, i == v)", False),
        ("[5, 1].existsOne(i, v, i == v)", True),
        ("[5, 1].exists_one(i, v, i == v)", True),
        ("{'a': 1}.all(k, v, k == 'a' && v == 1)", True),
        ("[5, 6].transformList(i, v, i + v)", [5, 7]),
        ("[5, 6].transformList(i, v, i > 0, v)", [6]),
        ("{'a': 1, 'b': 2}.transformList(k, v, v > 1, k)", ["b"]),
        ("[5, 6].transformMap(i, v, v * 2)", {0: 10, 1: 12}),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 2)", {"b": 4}),
        ("{'a': 'x'}.transformMapEntry(k, v, {v: k})", {"x": "a"}),
        ("{'a': 'x'}.transformMapEntry(k, v, k != 'a', {v: k})", {}),
    ],
)
def test_comprehensions_of_two_variables(expression: str, value: Any) -> None:
    assert evaluate(expression) == value


def test_variables_of_nested_loops_do_not_disturb_each_other() -> None:
    assert evaluate("[1, 2].map(x, [x, 3].map(x, x * 2))") == [[2, 6], [4, 6]]
    assert evaluate("[1, 2].map(x, [10].map(y, x + y)[0] + x)") == [12, 14]


def test_a_local_variable_hides_one_of_the_environment() -> None:
    assert evaluate("[1].map(x, x)", {"x": t.STRING}, x="a") == [1]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.n", 2.0),
        ("type(self.n) == double", True),
        ("self.n / 4.0", 0.5),
        ("self.l[0] / 4.0", 0.75),
        ("type(self.l[0]) == double", True),
        ("self.l.map(x, x / 2.0)", [1.5, 0.5]),
        ("self.l.sum() / 8.0", 0.5),
        ("self.m.k / 2.0", 0.5),
        ("self.?n.orValue(0.0) / 4.0", 0.5),
        ("self.when.getFullYear()", 2020),
        ("self.whens.exists(w, w.getFullYear() == 2021)", True),
        ("self.whens.max() == timestamp('2021-01-01T00:00:00Z')", True),
        ("self.day.getDate()", 3),
        ("self.span == duration('90m')", True),
        ("self.data == b'AB'", True),
        ("size(self.data)", 2),
        ("self.?when.hasValue()", True),
        ("self.?when.value().getFullYear()", 2020),
    ],
)
def test_types_without_a_json_form_are_converted_on_read(expression: str, value: Any) -> None:
    declared = t.object_type(
        "O",
        {
            "n": t.DOUBLE,
            "l": t.list_of(t.DOUBLE),
            "m": t.map_of(t.STRING, t.DOUBLE),
            "when": t.TIMESTAMP,
            "whens": t.list_of(t.TIMESTAMP),
            "day": t.TIMESTAMP,
            "span": t.DURATION,
            "data": t.BYTES,
        },
    )
    data = {
        "n": 2,
        "l": [3, 1],
        "m": {"k": 1},
        "when": "2020-01-01T00:00:00Z",
        "whens": ["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"],
        "day": "2020-02-03",
        "span": "1h30m",
        "data": "QUI=",
    }
    assert evaluate(expression, {"self": declared}, self=data) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.s == ['b', 'a']", True),
        ("self.s == ['a']", False),
        ("self.s + ['a', 'c'] == ['a', 'b', 'c']", True),
        ("self.s + ['c'] == ['c', 'b', 'a']", True),
        ("self.s + ['c'] != ['c', 'b', 'a']", False),
        ("(self.s + ['c']).size()", 3),
        ("self.m == [{'k': 'y', 'v': '2'}, {'k': 'x', 'v': '1'}]", True),
        ("self.m + [{'k': 'x', 'v': '9'}] == [{'k': 'x', 'v': '9'}, {'k': 'y', 'v': '2'}]", True),
        ("self.m == [{'k': 'x', 'v': '1'}]", False),
        ("self.o == self.p", True),
    ],
)
def test_sets_and_list_maps_compare_and_add_in_their_own_way(expression: str, value: Any) -> None:
    words = t.list_of(t.STRING, list_type="set")
    inner = t.object_type("I", {"words": words})
    declared = t.object_type(
        "O",
        {
            "s": words,
            "m": t.list_of(t.map_of(t.STRING, t.STRING), list_type="map", keys=["k"]),
            "o": inner,
            "p": inner,
        },
    )
    data = {
        "s": ["a", "b"],
        "m": [{"k": "x", "v": "1"}, {"k": "y", "v": "2"}],
        "o": {"words": ["a", "b"]},
        "p": {"words": ["b", "a"]},
    }
    assert evaluate(expression, {"self": declared}, self=data) == value


def test_null_where_a_value_is_declared_is_an_error_and_no_crash() -> None:
    declared = t.object_type("O", {"x": t.INT, "s": t.STRING, "l": t.list_of(t.INT)})
    data = {"x": None, "s": None, "l": None}
    for expression in (
        "self.x < 1",
        "self.x + 1 == 2",
        "self.s.size() == 1",
        "self.s.startsWith('a')",
        "self.s + 'a' == 'b'",
        "self.l.all(x, x > 1)",
        "1 in self.l",
        "-self.x == 1",
    ):
        assert failure(expression, {"self": declared}, self=data).startswith("no such overload")
    assert failure("self.l[0] == 1", {"self": declared}, self=data) == "no such key: 0"
    assert evaluate("has(self.x)", {"self": declared}, self=data) is True
    assert evaluate("self.x == 1", {"self": declared}, self=data) is False


def test_data_are_not_copied_and_not_changed() -> None:
    data = {"l": [3, 1, 2], "m": {"a": 1}}
    assert evaluate("self", self=data) is data
    evaluate("self.l.sort() == [1] || self.l.reverse() == [1] || self.l + [1] == [1]", self=data)
    assert data == {"l": [3, 1, 2], "m": {"a": 1}}


def test_deeply_nested_data_end_in_an_error() -> None:
    deep: Any = []
    other: Any = []
    for _ in range(5000):
        deep, other = [deep], [other]
    assert failure("a == b", a=deep, b=other) == "the data is nested too deeply to evaluate"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Uint(3), 3),
        (Timestamp(0), "1970-01-01T00:00:00Z"),
        (Duration(1_500_000_000), "1.5s"),
        (b"AB", "QUI="),
        (Optional(1), 1),
        ({1: [b"A"]}, {"1": ["QQ=="]}),
        (None, None),
        (1.5, 1.5),
    ],
)
def test_results_have_a_json_form(value: Any, expected: Any) -> None:
    assert cel.to_json(value) == expected


def test_types_have_no_json_form() -> None:
    with pytest.raises(cel.EvaluationError, match="unsupported type for JSON: type"):
        cel.to_json(t.INT)


def test_only_text_is_a_message() -> None:
    assert cel.to_text("a") == "a"
    assert cel.to_text(1) is None
