# SPDX-License-Identifier: Apache-2.0
"""Expressions of admission policies: their variables, and what is said when they are wrong."""

from typing import Any

import pytest

from rdd import cel
from rdd.cel import admission
from rdd.cel import types as t
from rdd.cel.errors import ProgramError

_VALUES: dict[str, Any] = {
    "object": {"metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}},
    "oldObject": None,
    "request": {
        "operation": "CREATE",
        "dryRun": False,
        "userInfo": {"username": "u", "groups": ["g"]},
    },
    "namespaceObject": {"metadata": {"name": "n", "labels": {"team": "x"}}},
}


def evaluate(expression: str) -> Any:
    program = admission.environment().compile(expression)
    return program.evaluate(_VALUES, budget=cel.Budget())


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("object.metadata.namespace == 'n'", True),
        ("oldObject == null", True),
        ("has(object.data) && object.data['k'] == 'v'", True),
        ("!request.dryRun", True),
        ("request.operation == 'CREATE' && 'g' in request.userInfo.groups", True),
        ("namespaceObject.metadata.labels['team'] == 'x'", True),
        ("object.metadata.?labels['lock'].orValue('') != 'on'", True),
        ("object.data.size() == 1", True),
    ],
)
def test_the_variables_of_a_request(expression: str, value: Any) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("object.nope.x == 1", "no such key: nope"),
        ("object.data['z'] == 'x'", "no such key: z"),
        ("oldObject.metadata.name == 'x'", "no such key: metadata"),
        ("request.name == 'x'", "no such key: name"),
    ],
)
def test_absent_field_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(cel.EvaluationError) as caught:
        evaluate(expression)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("expression", "returns", "problem"),
    [
        ("object.x == 1", [t.BOOL], None),
        ("1", [t.BOOL], "must evaluate to bool but got int"),
        ("object.x", [t.BOOL], "must evaluate to bool but got dyn"),
        ("[1]", [t.STRING], "must evaluate to string but got list(int)"),
        ("1", [t.STRING, t.NULL], "must evaluate to one of [string null_type] but got int"),
        ("null", [t.STRING, t.NULL], None),
        ("timestamp(0)", [], None),
        (
            "nofunc(object)",
            [t.BOOL],
            "compilation failed: ERROR: <input>:1:7: undeclared reference to 'nofunc' "
            "(in container '')\n | nofunc(object)\n | ......^",
        ),
        (
            "params.x == 1",
            [t.BOOL],
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' "
            "(in container '')\n | params.x == 1\n | ^",
        ),
        (
            "request.object == 1",
            [t.BOOL],
            "compilation failed: ERROR: <input>:1:8: undefined field 'object'\n"
            " | request.object == 1\n | .......^",
        ),
    ],
)
def test_a_wrong_expression_is_explained(
    expression: str, returns: list[t.Type], problem: str | None
) -> None:
    assert admission.problem(admission.environment(), expression, *returns) == problem


def test_reports_errors_in_the_order_of_their_places() -> None:
    found = admission.problem(admission.environment(), "{'a': 'b'} / nope.n > 1", t.BOOL) or ""
    assert [line for line in found.splitlines() if "ERROR" in line] == [
        "compilation failed: ERROR: <input>:1:12: found no matching overload for '_/_' applied "
        "to '(map(string, string), dyn)'",
        "ERROR: <input>:1:14: undeclared reference to 'nope' (in container '')",
    ]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("double('abc') > 1.0", "type conversion error from 'string' to 'double'"),
        ("int(string('x')) > 1", "type conversion error from 'string' to 'int'"),
    ],
)
def test_rejects_a_constant_that_cannot_be_converted(expression: str, reason: str) -> None:
    with pytest.raises(ProgramError, match=reason):
        admission.problem(admission.environment(), expression, t.BOOL)
    assert "must evaluate to string" in (
        admission.problem(admission.environment(), expression, t.STRING) or ""
    )


def test_params_and_the_authorizer_are_there_when_they_should_be() -> None:
    env = admission.environment(has_params=True, has_authorizer=False)
    assert admission.problem(env, "params.x == 1", t.BOOL) is None
    assert "undeclared reference" in (admission.problem(env, "authorizer.path('/')") or "")


def test_authorizer_calls_the_server() -> None:
    asked: list[admission.AuthorizationQuery] = []

    def authorize(query: admission.AuthorizationQuery) -> admission.Decision:
        asked.append(query)
        return admission.Decision(query.verb == "get", reason="because")

    request = admission.AuthorizationQuery(group="apps", resource="deployments", name="d")
    values = {**_VALUES, **admission.authorizer_bindings(authorize, request)}
    env = admission.environment()

    def ask(expression: str) -> Any:
        return env.compile(expression).evaluate(values, budget=cel.Budget())

    check = "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').subresource('log')"
    check += ".namespace('x').name('y').labelSelector('a=b').check('get')"
    assert ask(f"{check}.allowed()") is True
    assert asked.pop() == admission.AuthorizationQuery(
        verb="get",
        resource="pods",
        subresource="log",
        namespace="x",
        name="y",
        label_selector="a=b",
        service_account=("ns", "sa"),
    )
    assert ask("authorizer.requestResource.check('delete').allowed()") is False
    assert asked.pop() == admission.AuthorizationQuery(
        verb="delete", group="apps", resource="deployments", name="d"
    )
    assert ask("authorizer.path('/healthz').check('get').reason()") == "because"
    assert ask("authorizer.path('/healthz').check('get').errored()") is False
    assert asked.pop().path == "/healthz"


def test_an_expression_can_afford_two_authorization_checks() -> None:
    values = {
        **_VALUES,
        **admission.authorizer_bindings(
            lambda _: admission.Decision(True), admission.AuthorizationQuery()
        ),
    }
    check = "authorizer.requestResource.check('get').allowed()"
    env = admission.environment()
    two = env.compile(f"{check} && {check}")
    assert two.evaluate(values, budget=cel.Budget()) is True
    with pytest.raises(cel.CostExceeded):
        env.compile(f"{check} && {check} && {check}").evaluate(values, budget=cel.Budget())


def test_variables_are_typed_and_evaluated_once() -> None:
    names = admission.Variables(
        admission.environment(),
        [("size", "object.data.size()"), ("twice", "variables.size * 2"), ("unused", "1 / 0")],
    )
    assert not names.errors
    assert names.environment.compile("variables.twice").result_type == t.INT
    budget = cel.Budget()
    values = {**_VALUES, "variables": names.bind(_VALUES, budget=budget)}
    rule = names.environment.compile("variables.twice + variables.size == 3", expect=t.BOOL)
    assert rule.evaluate(values, budget=budget) is True
    before = budget.remaining
    assert rule.evaluate(values, budget=budget) is True
    assert before - budget.remaining < cel.RUNTIME_BUDGET - before


def test_a_variable_that_fails_fails_its_readers_with_its_name() -> None:
    names = admission.Variables(
        admission.environment(), [("bad", "object.nope"), ("wrong", "1 +"), ("late", "1")]
    )
    assert names.errors["wrong"].startswith("compilation failed: ERROR")
    values = {**_VALUES, "variables": names.bind(_VALUES, budget=cel.Budget())}

    def fail(expression: str) -> str:
        program = names.environment.compile(expression)
        with pytest.raises(cel.EvaluationError) as caught:
            program.evaluate(values, budget=cel.Budget())
        return str(caught.value)

    message = 'composited variable "bad" fails to evaluate: no such key: nope'
    assert fail("variables.bad == 1") == message
    assert fail("variables.bad == 2") == message
    assert fail("variables.wrong == 1").startswith('composited variable "wrong" fails to compile')
    program = names.environment.compile("variables.bad == 1 || variables.late == 1")
    assert program.evaluate(values, budget=cel.Budget()) is True


def test_a_variable_cannot_read_one_after_it() -> None:
    names = admission.Variables(admission.environment(), [("a", "variables.b"), ("b", "1")])
    assert "undefined field 'b'" in names.errors["a"]
