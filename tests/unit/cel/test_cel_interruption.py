# SPDX-License-Identifier: Apache-2.0
"""Evaluations that are interrupted, and values that are larger than their length."""

import pytest

from rdd import cel
from rdd.cel import admission
from rdd.cel import types as t

LOOP = "lists.range(1000).all(x, x >= 0)"


def program(expression: str) -> cel.Program:
    return cel.Environment({"self": t.DYN}).compile(expression)


def test_evaluation_is_interrupted_when_it_costs_more_than_the_block_allows() -> None:
    dear = program(LOOP)
    with pytest.raises(cel.Interrupted), cel.interrupted_after(1000):
        dear.evaluate({"self": 1}, budget=cel.Budget())
    with cel.interrupted_after(100_000):
        assert dear.evaluate({"self": 1}, budget=cel.Budget()) is True
    assert dear.evaluate({"self": 1}, budget=cel.Budget()) is True


def test_evaluations_of_a_block_share_its_allowance() -> None:
    dear, budget = program(LOOP), cel.Budget()
    dear.evaluate({"self": 1}, budget=budget)
    cost = cel.RUNTIME_BUDGET - budget.remaining
    done = 0
    with pytest.raises(cel.Interrupted), cel.interrupted_after(cost * 3 + 1):
        while True:
            dear.evaluate({"self": 1}, budget=cel.Budget())
            done += 1
    assert done == 3


def test_limits_are_reported_inside_of_a_block_that_allows_more() -> None:
    with pytest.raises(cel.CostExceeded), cel.interrupted_after(100_000):
        program(LOOP).evaluate({"self": 1}, budget=cel.Budget(per_call=100))


def test_compiling_is_interrupted() -> None:
    with pytest.raises(cel.Interrupted), cel.interrupted_after(10_000):
        for i in range(1000):
            program(f"self == {i}")


def test_variables_inside_of_each_other_share_the_allowance() -> None:
    named = [("v0", LOOP), *((f"v{i}", f"{LOOP} && variables.v{i - 1}") for i in range(1, 30))]
    variables = admission.Variables(admission.environment(), named)
    last = variables.environment.compile("variables.v29")

    def spent(allowed: int) -> bool:
        budget = cel.Budget()
        values = dict.fromkeys(("object", "oldObject", "namespaceObject", "request"))
        scope = {**values, "variables": variables.bind(values, budget=budget)}
        with cel.interrupted_after(allowed):
            return bool(last.evaluate(scope, budget=budget))

    with pytest.raises(cel.Interrupted):
        spent(10_000)
    assert spent(100_000_000) is True


def doubled(levels: int, form: str) -> list[tuple[str, str]]:
    """Return variables of which each contains the one before twice."""
    return [("v0", "['a']"), *((f"v{i}", form % (i - 1, i - 1)) for i in range(1, levels))]


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("[variables.v%d, variables.v%d]", id="lists"),
        pytest.param("{'a': variables.v%d, 'b': variables.v%d}", id="maps"),
        pytest.param("[1, 2].map(x, size(variables.v%d) > 0 ? variables.v%d : [])", id="macro"),
    ],
)
@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("{v} == {v}", id="equality"),
        pytest.param("{v} != {v}", id="inequality"),
        pytest.param("{v} in [{v}]", id="membership"),
        pytest.param("[{v}].indexOf({v}) == 0", id="search"),
        pytest.param("[{v}, {v}].distinct().size() == 1", id="distinct"),
        pytest.param("sets.contains([{v}], [{v}])", id="sets"),
        pytest.param("'%s'.format([{v}]) == ''", id="format"),
    ],
)
def test_values_that_contain_themselves_many_times_cost_what_they_contain(
    form: str, expression: str
) -> None:
    variables = admission.Variables(admission.environment(), doubled(45, form))
    assert not variables.errors
    compiled = variables.environment.compile(expression.format(v="variables.v44"))
    budget = cel.Budget(per_call=20_000)
    values = dict.fromkeys(("object", "oldObject", "namespaceObject", "request"))
    scope = {**values, "variables": variables.bind(values, budget=budget)}
    with pytest.raises(cel.CostExceeded):
        compiled.evaluate(scope, budget=budget)


def test_deep_comparison_counts_what_it_visits() -> None:
    compare = cel.Environment({"a": t.DYN, "b": t.DYN}).compile("a == b")
    nested = {"x": [{"y": list(range(1000))} for _ in range(10)]}
    budget = cel.Budget()
    assert compare.evaluate({"a": nested, "b": nested}, budget=budget) is True
    assert 1000 < cel.RUNTIME_BUDGET - budget.remaining < 10_100
