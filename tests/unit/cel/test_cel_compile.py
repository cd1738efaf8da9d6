# SPDX-License-Identifier: Apache-2.0
"""Syntax and types: what compiles, to which type, and what is said about the rest."""

import threading

import pytest

from rdd import cel
from rdd.cel import types as t

_ITEM = t.object_type("Item", {"size": t.INT, "name": t.STRING})
_SPEC = t.object_type(
    "Spec",
    {
        "x": t.INT,
        "n": t.DOUBLE,
        "s": t.STRING,
        "items": t.list_of(_ITEM),
        "labels": t.map_of(t.STRING, t.STRING),
        "any": t.DYN,
        "when": t.TIMESTAMP,
        "__namespace__": t.Field("namespace", t.STRING),
    },
)
_ENV = cel.Environment({"self": _SPEC, "authorizer.requestResource": t.RESOURCE_CHECK})

_START = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def _issue(column: int, message: str, line: str) -> str:
    return f"ERROR: <input>:1:{column}: {message}\n | {line}\n | {'.' * (column - 1)}^"


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        pytest.param("self.nope > 1", 5, "undefined field 'nope'", id="field"),
        pytest.param("self.namespace", 5, "undefined field 'namespace'", id="unescaped"),
        pytest.param(
            "undefined > 1", 1, "undeclared reference to 'undefined' (in container '')", id="name"
        ),
        pytest.param(
            "nofunc(self.x)", 7, "undeclared reference to 'nofunc' (in container '')", id="call"
        ),
        pytest.param(
            "self.x.nofunc()", 14, "undeclared reference to 'nofunc' (in container '')", id="method"
        ),
        pytest.param(
            "self.x + 'a' == 'b'",
            8,
            "found no matching overload for '_+_' applied to '(int, string)'",
            id="operator",
        ),
        pytest.param(
            "self.x.size() > 1",
            12,
            "found no matching overload for 'size' applied to 'int.()'",
            id="receiver",
        ),
        pytest.param(
            "self.s == null",
            8,
            "found no matching overload for '_==_' applied to '(string, null)'",
            id="null",
        ),
        pytest.param(
            "'a' in self.items",
            5,
            "found no matching overload for '@in' applied to '(string, list(Item))'",
            id="objects-in-lists",
        ),
        pytest.param(
            "self.x ? 1 : 2",
            8,
            "found no matching overload for '_?_:_' applied to '(int, int, int)'",
            id="condition",
        ),
        pytest.param(
            "self.items.all(i, i.size)",
            20,
            "expected type 'bool' but found 'int'",
            id="predicate",
        ),
        pytest.param(
            "self.x.all(i, true)",
            5,
            "expression of type 'int' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
            id="range",
        ),
        pytest.param("self.x.y", 7, "type 'int' does not support field selection", id="selection"),
        pytest.param("[1, 'a']", 5, "expected type 'int' but found 'string'", id="list"),
        pytest.param("{'a': 1, 2: 3}", 10, "expected type 'string' but found 'int'", id="keys"),
        pytest.param("has(self)", 5, "invalid argument to has() macro", id="has"),
        pytest.param("[1].all(2, true)", 9, "argument must be a simple name", id="all"),
        pytest.param("[1].map(2, 3)", 9, "argument is not an identifier", id="map"),
        pytest.param("[1].all(a, a, true)", 12, "duplicate variable name: a", id="two-variables"),
        pytest.param("'a'.matches('(')", 13, "invalid matches argument", id="pattern"),
        pytest.param("duration('x')", 10, "invalid duration argument", id="duration"),
        pytest.param("timestamp('x')", 11, "invalid timestamp argument", id="timestamp"),
        pytest.param(
            "'%d'.format(['a'])",
            14,
            "error during formatting: decimal clause can only be used on integers, "
            "was given string",
            id="format-type",
        ),
        pytest.param("'%s %s'.format([1])", 15, "index 1 out of range", id="format-too-few"),
        pytest.param(
            "'%s'.format([1, 2])",
            12,
            "too many arguments supplied to string.format (expected 1, got 2)",
            id="format-too-many",
        ),
        pytest.param(
            "'%j'.format([1])",
            12,
            'could not parse formatting clause: unrecognized formatting clause "j"',
            id="format-clause",
        ),
        pytest.param("namespace", 1, "reserved identifier: namespace", id="reserved"),
        pytest.param(
            "Foo{a: 1}", 4, "undeclared reference to 'Foo' (in container '')", id="object"
        ),
        pytest.param(
            "quantity('1').sign()",
            19,
            "found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'",
            id="function-as-method",
        ),
        pytest.param(
            "'ab'.reverse()",
            13,
            "found no matching overload for 'reverse' applied to 'string.()'",
            id="not-in-kubernetes",
        ),
        pytest.param(
            "math.greatest(1, 2)", 1, "undeclared reference to 'math' (in container '')", id="math"
        ),
    ],
)
def test_a_type_error_names_its_place(expression: str, column: int, message: str) -> None:
    with pytest.raises(cel.CompileError) as caught:
        _ENV.compile(expression)
    assert str(caught.value).startswith(_issue(column, message, expression))


# Observed with the libraries of Kubernetes 1.36.
@pytest.mark.parametrize(
    ("expression", "messages"),
    [
        pytest.param("1 && true", ["1: expected type 'bool' but found 'int'"], id="and"),
        pytest.param(
            "true || 'a' || 1",
            [
                "9: expected type 'bool' but found 'string'",
                "16: expected type 'bool' but found 'int'",
            ],
            id="or-twice",
        ),
        pytest.param(
            "[1].exists(x, 'a')", ["15: expected type 'bool' but found 'string'"], id="exists"
        ),
        pytest.param(
            "[1, 'a', 2, true].size() == 1",
            ["5: expected type 'int' but found 'string'"],
            id="mixed-list",
        ),
        pytest.param(
            "{'a': 1, 'b': 'x', 2: 3}.size() == 1",
            [
                "15: expected type 'int' but found 'string'",
                "20: expected type 'string' but found 'int'",
            ],
            id="mixed-map",
        ),
        pytest.param(
            "[dyn(1), 'a'].size() == 1",
            ["10: expected type 'dyn' but found 'string'"],
            id="dynamic-beside-text",
        ),
        pytest.param(
            "[duration('1s'), null].size() == 1",
            ["18: expected type 'duration' but found 'null'"],
            id="null-beside-duration",
        ),
        pytest.param(
            "[1, 'a'].size() == 'x'",
            ["17: found no matching overload for '_==_' applied to '(int, string)'"],
            id="type-errors-hide-mixed-lists",
        ),
        pytest.param(
            "duration('x') == 1",
            ["15: found no matching overload for '_==_' applied to '(duration, int)'"],
            id="type-errors-hide-literals",
        ),
        pytest.param(
            "'%d'.format(['a']) == 1",
            ["20: found no matching overload for '_==_' applied to '(string, int)'"],
            id="type-errors-hide-templates",
        ),
        pytest.param(
            "duration('x') == duration('y')",
            ["10: invalid duration argument", "27: invalid duration argument"],
            id="literals",
        ),
        pytest.param(
            "[].max() < 'a'",
            ["10: found no matching overload for '_<_' applied to '(int, string)'"],
            id="empty-list-of-numbers",
        ),
        pytest.param(
            "[1].existsOne(v, true)",
            [
                "14: undeclared reference to 'existsOne' (in container '')",
                "15: undeclared reference to 'v' (in container '')",
            ],
            id="existsOne-needs-two-variables",
        ),
        pytest.param("[].map(v, v).size() == 1", [], id="mapped-empty-list"),
        pytest.param("{}.map(v, v).size() == 1", [], id="mapped-empty-map"),
        pytest.param(
            "[].filter(v, v > 1).map(v, true, v).size() == 1", [], id="filtered-empty-list"
        ),
        pytest.param("[[], ['a']].size() == 1", [], id="empty-beside-texts"),
        pytest.param("'%s=%d'.format(['a', 1]) == 'x'", [], id="mixed-arguments-of-format"),
    ],
)
def test_type_errors_come_first_and_literals_are_homogeneous(
    expression: str, messages: list[str]
) -> None:
    found: list[str] = []
    try:
        _ENV.compile(expression)
    except cel.CompileError as error:
        found = [
            line.removeprefix("ERROR: <input>:1:")
            for line in str(error).splitlines()
            if line.startswith("ERROR")
        ]
    assert found == messages


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        pytest.param("self.x <", 9, f"mismatched input '<EOF>' expecting {_START}", id="end"),
        pytest.param("(", 2, f"mismatched input '<EOF>' expecting {_START}", id="open"),
        pytest.param("(1", 3, "missing ')' at '<EOF>'", id="unclosed"),
        pytest.param("1 2 3", 3, "mismatched input '2' expecting <EOF>", id="two-expressions"),
        pytest.param("1 )", 3, "extraneous input ')' expecting <EOF>", id="one-too-many"),
        pytest.param("1 & 2", 3, "token recognition error at: '& '", id="character"),
        pytest.param("'a", 1, "token recognition error at: ''a'", id="string"),
        pytest.param("self.", 6, "mismatched input '<EOF>' expecting IDENTIFIER", id="member"),
    ],
)
def test_a_syntax_error_names_its_place(expression: str, column: int, message: str) -> None:
    with pytest.raises(cel.CompileError) as caught:
        _ENV.compile(expression)
    assert str(caught.value).startswith(_issue(column, f"Syntax error: {message}", expression))


def test_all_problems_of_an_expression_are_reported() -> None:
    with pytest.raises(cel.CompileError) as caught:
        _ENV.compile("self.a == 1 && self.b == 2")
    assert [issue.message for issue in caught.value.issues] == [
        "undefined field 'a'",
        "undefined field 'b'",
    ]


def test_the_marker_of_an_error_is_on_its_line_and_below_wide_characters() -> None:
    with pytest.raises(cel.CompileError) as caught:
        _ENV.compile("true &&\n'ä' == self.nope")
    assert str(caught.value) == (
        "ERROR: <input>:2:12: undefined field 'nope'\n | 'ä' == self.nope\n | .．.........^"
    )


def test_more_than_a_hundred_problems_are_cut() -> None:
    expression = " && ".join(["self.a"] * 120)
    with pytest.raises(cel.CompileError, match="20 more errors were truncated"):
        _ENV.compile(expression)


def test_lines_that_are_too_long_are_not_shown() -> None:
    with pytest.raises(cel.CompileError) as caught:
        _ENV.compile(f"nope == '{'a' * 20_000}'")
    assert str(caught.value) == (
        "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')"
    )


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(" * 500 + "1" + ")" * 500, id="parentheses"),
        pytest.param("[" * 500 + "]" * 500, id="lists"),
        pytest.param("-" + "(-" * 500 + "1" + ")" * 500, id="signs"),
        pytest.param("+".join(["1"] * 2000), id="sum"),
        pytest.param("self" + ".any" * 2000, id="members"),
        pytest.param("true ? 1 : " * 500 + "2", id="conditions"),
        pytest.param("[1]" + ".map(x, [x])" * 300, id="macros"),
        pytest.param("self.any" + "[0]" * 2000, id="indices"),
    ],
)
def test_deep_expressions_are_rejected(expression: str) -> None:
    with pytest.raises(cel.CompileError, match="expression recursion limit exceeded"):
        _ENV.compile(expression)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(" * 249 + "1" + ")" * 249, id="parentheses"),
        pytest.param("[" * 249 + "]" * 249, id="lists"),
        pytest.param('{"a":' * 249 + "1" + "}" * 249, id="maps"),
        pytest.param("-(" * 249 + "1" + ")" * 249, id="signs"),
        pytest.param("+".join(["1"] * 249), id="sum"),
        pytest.param("true ? 1 : " * 249 + "2", id="conditions"),
        pytest.param("int(" * 249 + "1" + ")" * 249, id="calls"),
        pytest.param("optional.of(" * 249 + "1" + ")" * 249, id="generic calls"),
        pytest.param('"a"' + ".lowerAscii()" * 249, id="methods"),
        pytest.param("[1].exists(i, " * 80 + "true" + ")" * 80, id="macros"),
    ],
)
def test_expressions_may_be_as_deep_as_in_cel_go(expression: str) -> None:
    found: list[object] = []

    def run() -> None:
        program = _ENV.compile(expression)
        found.append(program.evaluate({"self": {}}, budget=cel.Budget()))

    # In a thread, whose stack may be smaller.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(found) == 1


def test_long_chains_of_logic_are_fine() -> None:
    expression = " && ".join(f"self.x != {i}" for i in range(1000))
    program = _ENV.compile(expression)
    assert program.evaluate({"self": {"x": -1}}, budget=cel.Budget()) is True
    assert program.evaluate({"self": {"x": 999}}, budget=cel.Budget()) is False


def test_chained_macros_that_repeat_their_target_compile_in_linear_time() -> None:
    expression = "optional.of(1)" + ".optMap(x, x + 1)" * 24 + ".value()"
    program = _ENV.compile(expression)
    assert program.evaluate({}, budget=cel.Budget()) == 25


def test_an_expression_that_is_too_long_is_rejected() -> None:
    with pytest.raises(cel.CompileError, match="code point size exceeds limit: size: 100001"):
        _ENV.compile("1" * 100_001)


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("1", "int"),
        ("1u", "uint"),
        ("1.5", "double"),
        ("[1]", "list(int)"),
        ("[]", "list(dyn)"),
        ("{'a': [1.0]}", "map(string, list(double))"),
        ("self", "Spec"),
        ("self.items[0]", "Item"),
        ("self.items.map(i, i.name)", "list(string)"),
        ("self.labels.transformMap(k, v, v.size())", "map(string, int)"),
        ("self.labels.transformList(k, v, k + v)", "list(string)"),
        ("self.?x", "optional_type(int)"),
        ("self.?items[0].name", "optional_type(string)"),
        ("self.labels[?'a']", "optional_type(string)"),
        ("optional.none()", "optional_type(dyn)"),
        ("self.?x.orValue(1)", "int"),
        ("type(1)", "type(int)"),
        ("null", "null"),
        ("self.when", "timestamp"),
        ("self.when - self.when", "duration"),
        ("self.any + 1", "int"),
        ("self.any + self.any", "dyn"),
        ("self.any < 1", "bool"),
        ("self.__namespace__", "string"),
        ("quantity('1')", "kubernetes.Quantity"),
        ("ip('::1')", "net.IP"),
        ("format.named('uuid')", "optional_type(kubernetes.NamedFormat)"),
        ("authorizer.requestResource.check('get').allowed()", "bool"),
        ("'%d %s'.format([1, 'a'])", "string"),
        ("[3, 1].sortBy(i, -i)", "list(int)"),
        ("[[1], [2]].flatten()", "list(int)"),
    ],
)
def test_an_expression_has_a_type(expression: str, shown: str) -> None:
    assert str(_ENV.compile(expression).result_type) == shown


def test_a_wanted_type_is_enforced() -> None:
    assert _ENV.compile("true", expect=t.BOOL).result_type == t.BOOL
    with pytest.raises(cel.CompileError, match="must evaluate to bool but got int"):
        _ENV.compile("1", expect=t.BOOL)


def test_program_lists_the_variables_it_reads() -> None:
    env = cel.Environment({"self": t.INT, "oldSelf": t.INT})
    assert env.compile("self > 1").referenced == {"self"}
    assert env.compile("[1].all(oldSelf, oldSelf > self)").referenced == {"self"}
    assert env.compile("self > 1 || oldSelf > 1").referenced == {"self", "oldSelf"}


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("name", "name"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("1a", None),
        ("a b", None),
        ("", None),
        ("ä", None),
    ],
)
def test_names_of_properties_are_escaped(name: str, escaped: str | None) -> None:
    assert cel.escape(name) == escaped


@pytest.mark.parametrize(
    ("name", "is_valid"), [("a", True), ("_a1", True), ("1a", False), ("for", False), ("", False)]
)
def test_names_of_variables(name: str, is_valid: bool) -> None:
    assert cel.is_identifier(name) is is_valid
