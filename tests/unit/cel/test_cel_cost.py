# SPDX-License-Identifier: Apache-2.0
"""Costs: estimates before an expression runs, and limits while it does."""

from typing import Any

import pytest

from rdd import cel
from rdd.cel import types as t

_UNBOUNDED = (1 << 64) - 1

_ROOT = t.object_type(
    "Root",
    {
        "x": t.INT,
        "s": t.STRING.resized(max_elements=100),
        "free": t.STRING.resized(max_elements=3145726),
        "words": t.list_of(t.STRING.resized(max_elements=40), max_elements=10),
        "numbers": t.list_of(t.INT, max_elements=20),
        "labels": t.map_of(t.STRING, t.STRING.resized(max_elements=60), max_elements=5),
    },
)
_ENV = cel.Environment({"self": _ROOT}, size_root=_ROOT)


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        pytest.param("1 + 1", 1, 1, id="literals-are-free"),
        pytest.param("self.x", 2, 2, id="a-field"),
        pytest.param("has(self.x)", 1, 1, id="presence-is-free"),
        pytest.param("self.x == 1", 2, 2, id="equality-of-numbers"),
        pytest.param("self.x > 1", 3, 3, id="comparison"),
        pytest.param("self.s == 'abc'", 3, 3, id="the-shorter-text-counts"),
        pytest.param("self.s == self.free", 5, 14, id="texts"),
        pytest.param("self.s + self.s == 'a'", 5, 25, id="concatenation"),
        pytest.param("self.s.contains('abc')", 2, 12, id="contains"),
        pytest.param("self.s.startsWith('abc')", 3, 3, id="starts-with"),
        pytest.param("self.s.matches('^[a-z]+$')", 4, 24, id="regex"),
        pytest.param("self.s.size() > 1", 4, 4, id="size"),
        pytest.param("self.x > 1 && self.x < 5", 3, 6, id="and"),
        pytest.param("self.x > 1 ? self.x : 2", 3, 5, id="conditional"),
        pytest.param("1 in self.numbers", 2, 22, id="in-list"),
        pytest.param("'a' in self.labels", 3, 3, id="in-map"),
        pytest.param("[1, 2]", 10, 10, id="list"),
        pytest.param("{'a': 1}", 30, 30, id="map"),
        pytest.param("self.numbers.all(n, n > 1)", 3, 103, id="all"),
        pytest.param("self.numbers.exists(n, n > 1)", 3, 123, id="exists"),
        pytest.param("self.numbers.map(n, n + 1)", 13, 293, id="map-macro"),
        pytest.param("self.numbers.filter(n, n > 1)", 13, 313, id="filter"),
        pytest.param("self.words.all(w, w.size() < 9)", 3, 63, id="loop-over-texts"),
        pytest.param("self.words.join(',').size() > 1", 4, 45, id="join"),
        pytest.param("self.words.all(w, self.words.all(v, v == w))", 3, 963, id="nested"),
        pytest.param("self.numbers.sum() > 1", 3, 23, id="sum"),
        pytest.param("self.words.isSorted()", 2, 52, id="is-sorted"),
        pytest.param("self.s.split(',').size() > 1", 4, 24, id="split"),
        pytest.param("self.s.lowerAscii() == 'a'", 3, 13, id="lower"),
        pytest.param("self.labels.all(k, k.size() > 1)", 3, 33, id="keys"),
        pytest.param("self.labels.all(k, v, v.contains('a'))", 3, 53, id="two-variables"),
        pytest.param("quantity('1Gi').isGreaterThan(quantity('1'))", 3, 3, id="quantity"),
        pytest.param("ip(self.s).family() == 4", 4, 14, id="ip"),
        pytest.param("format.dns1123Label().validate(self.s).hasValue()", 4, 324, id="format"),
        pytest.param("self.numbers.sort() == [1]", 24, 824, id="sort"),
        pytest.param("lists.range(5) == [1]", 27, 27, id="range"),
        pytest.param("dyn(self.s) == 'a'", 4, 4, id="dyn-keeps-the-size"),
    ],
)
def test_the_estimate_of_an_expression(expression: str, low: int, high: int) -> None:
    cost = _ENV.compile(expression).cost
    assert (cost.min, cost.max) == (low, high)


@pytest.mark.parametrize(
    "expression",
    [
        "'x ' + string(self.x)",
        "self.?s.orValue('a').split('-').size() < 3",
        "self.numbers.map(n, string(n)).exists(s, s.contains('1') && s == string(self.x) + 'a')",
        "[string(self.x)].join(string(self.x)).contains('a')",
    ],
)
def test_unbounded_size_has_unbounded_cost(expression: str) -> None:
    assert _ENV.compile(expression).cost.max > 10**15


def test_the_size_of_a_constant_is_its_length_in_characters() -> None:
    assert _ENV.compile("'äöü'.contains('ä')").cost == (1, 1)
    assert _ENV.compile(f"'{'ä' * 95}'.contains('ä')").cost == (10, 10)


def _spent(expression: str, data: Any) -> int:
    budget = cel.Budget()
    _ENV.compile(expression).evaluate({"self": data}, budget=budget)
    return cel.RUNTIME_BUDGET - budget.remaining


@pytest.mark.parametrize(
    ("expression", "spent"),
    [
        ("self.x == 1", 3),
        ("has(self.x)", 1),
        ("self.s.startsWith('abc')", 4),
        ("self.numbers.all(n, n > 0)", 43),
        ("2 in self.numbers", 10),
        ("self.x > 1 || self.x == 1", 6),
        ("self.x == 1 || self.x > 1", 3),
        ("self.x == 1 ? 1 : self.numbers.sum()", 3),
        ("self.s.matches('^[^0-9]*$')", 8),
    ],
)
def test_evaluation_cost_matches_the_work(expression: str, spent: int) -> None:
    data = {"x": 1, "s": "Rook takes 👑", "numbers": [1, 1, 2, 2, 3, 3, 4, 5]}
    assert _spent(expression, data) == spent


def test_one_evaluation_is_stopped_at_its_limit() -> None:
    program = _ENV.compile("self.numbers.all(a, self.numbers.all(b, self.numbers.all(c, true)))")
    budget = cel.Budget()
    with pytest.raises(cel.CostExceeded) as caught:
        program.evaluate({"self": {"numbers": list(range(200))}}, budget=budget)
    assert not caught.value.is_total
    assert str(caught.value) == "operation cancelled: actual cost limit exceeded"
    assert budget.remaining == cel.RUNTIME_BUDGET - cel.PER_CALL_LIMIT


def test_all_evaluations_of_a_request_share_a_budget() -> None:
    program = _ENV.compile("self.numbers.all(a, a >= 0)")
    data = {"self": {"numbers": list(range(100))}}
    budget = cel.Budget(1000)
    assert program.evaluate(data, budget=budget) is True
    with pytest.raises(cel.CostExceeded) as caught:
        program.evaluate(data, budget=budget)
    assert caught.value.is_total
    assert budget.remaining <= 0


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("lists.range(9000000).size() > 1", id="range"),
        pytest.param("lists.range(2000).sort().size() > 1", id="sort"),
        pytest.param("lists.range(2000).distinct().size() > 1", id="distinct"),
        pytest.param("[1, 2]" + ".map(x, x)" * 3 + ".map(x, lists.range(900000))", id="nested"),
        pytest.param("'a'" + ".replace('a', 'aaaaaaaaaaaaaaaa')" * 9 + " == ''", id="replace"),
        pytest.param(
            "[lists.range(1000)]" + ".map(l, l + l)" * 24 + " == [[1]]", id="growing-lists"
        ),
        pytest.param("['a']" + ".map(s, s + s)" * 40 + " == ['']", id="growing-texts"),
        pytest.param(
            "[lists.range(900).map(x, 'aaaaaaaaaa')].map(l, l.join(l.join())) == ['']", id="join"
        ),
        pytest.param("sets.contains(lists.range(9000), lists.range(9000))", id="sets"),
        pytest.param("[[lists.range(900000)]].flatten(2).size() > 1", id="flatten"),
    ],
)
def test_no_function_outruns_the_limit(expression: str) -> None:
    program = cel.Environment({}).compile(expression)
    with pytest.raises(cel.CostExceeded):
        program.evaluate({}, budget=cel.Budget())


def test_authorization_checks_are_dear() -> None:
    env = cel.Environment({"c": t.RESOURCE_CHECK})
    assert env.compile("c.check('get').allowed()").cost.max > 350_000
    assert env.compile("true").cost.max < 10


def test_an_estimate_is_never_negative_and_saturates() -> None:
    cost = (
        cel.Environment({"l": t.list_of(t.list_of(t.STRING))})
        .compile("l.all(a, l.all(b, a.all(x, b.all(y, x.contains(y)))))")
        .cost
    )
    assert cost.max == _UNBOUNDED
    assert cost.min == 2
