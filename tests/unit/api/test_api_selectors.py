# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import selectors
from rdd.api.errors import BadRequest
from rdd.api.selectors import LabelSelector, Requirement, parse_label_selector

OPERATORS = "in, notin, =, ==, !=, gt, lt"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("  \t ", "", id="blank"),
        pytest.param("a", "a", id="exists"),
        pytest.param("!a", "!a", id="does not exist"),
        pytest.param(" a = b ", "a=b", id="spaces"),
        pytest.param("a==b", "a==b", id="double equals is kept"),
        pytest.param("a!=b", "a!=b", id="not equals"),
        pytest.param("a=", "a=", id="empty value"),
        pytest.param("z=1,a=2", "a=2,z=1", id="sorted by key"),
        pytest.param("a in (z, y,z)", "a in (y,z)", id="sets are sorted"),
        pytest.param("a notin ()", "a notin ()", id="empty set is the empty value"),
        pytest.param("a in (,)", "a in ()", id="comma in a set"),
        pytest.param("a in (x,,y)", "a in (,x,y)", id="empty value in a set"),
        pytest.param("a in (x,)", "a in (,x)", id="trailing comma in a set"),
        pytest.param("a>5,b<3", "a>5,b<3", id="numbers"),
        pytest.param("in in (in,notin)", "in in (in,notin)", id="operators as words"),
        pytest.param("notin=in", "notin=in", id="operators as key and value"),
        pytest.param("example.com/a=b", "example.com/a=b", id="qualified key"),
    ],
)
def test_selectors_are_parsed_and_written_canonically(text: str, canonical: str) -> None:
    assert str(parse_label_selector(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a=b,,c", "found ',', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a b", f"unable to parse requirement: found 'b', expected: {OPERATORS}"),
        ("a(", f"unable to parse requirement: found '(', expected: {OPERATORS}"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a notin", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (b,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "/a",
            'unable to parse requirement: <nil>: Invalid value: "/a": '
            "prefix part must be non-empty",
        ),
        (
            "a=" + "x" * 64,
            f'unable to parse requirement: values[0][a]: Invalid value: "{"x" * 64}": '
            "must be no more than 63 bytes",
        ),
    ],
)
def test_errors_are_worded_as_in_kubernetes(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_label_selector(text)
    assert caught.value.message == message


def test_a_nul_ends_a_word_and_at_its_start_the_selector() -> None:
    with pytest.raises(BadRequest, match="found 'b', expected: in"):
        parse_label_selector("a\0b")
    assert str(parse_label_selector("a=b\0")) == "a=b"
    assert str(parse_label_selector("\0c")) == ""


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {"b": ""}, False),
        ("!a", {"b": ""}, True),
        ("!a", {"a": ""}, False),
        ("a=b", {"a": "b", "c": "d"}, True),
        ("a=b", {"a": "c"}, False),
        ("a=", {}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in (b,c)", {}, False),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a<5", {"a": "-7"}, True),
        ("a<5", {"a": "x"}, False),
        ("a<5", {}, False),
        ("a>5", {"a": "9" * 30}, False),
        ("a=b,c=d", {"a": "b"}, False),
    ],
)
def test_matching(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_label_selector(text).matches(labels) is matches


def test_everything_and_nothing() -> None:
    assert parse_label_selector("").is_empty
    assert selectors.EVERYTHING.matches({})
    assert not selectors.NOTHING.matches({})
    assert not selectors.NOTHING.is_empty
    assert not parse_label_selector("a").is_empty


def test_the_one_value_a_label_must_have() -> None:
    selector = parse_label_selector("a=b,c in (d,e),f!=g,h in (i)")
    assert [selector.exact_value(k) for k in "acfhz"] == ["b", None, None, "i", None]


def test_a_selector_from_plain_labels() -> None:
    assert str(selectors.from_labels({"b": "1", "a": "2"})) == "a=2,b=1"


def test_a_selector_object_is_the_conjunction_of_its_parts() -> None:
    selector = selectors.from_label_selector_object(
        {
            "matchLabels": {"b": "1"},
            "matchExpressions": [
                {"key": "c", "operator": "NotIn", "values": ["x", "y"]},
                {"key": "a", "operator": "Exists"},
                {"key": "d", "operator": "DoesNotExist"},
                {"key": "e", "operator": "In", "values": ["z"]},
            ],
        }
    )
    assert str(selector) == "a,b=1,c notin (x,y),!d,e in (z)"
    assert selectors.from_label_selector_object({}) is selectors.EVERYTHING
    assert selectors.from_label_selector_object(None) is selectors.NOTHING


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            {"matchExpressions": [{"key": "a", "operator": "Nope"}]},
            "not a valid label selector operator",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "values set can't be empty"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
            "must be empty",
        ),
        ({"matchLabels": {"/": "x"}}, "prefix part must be non-empty; name part must be non-empty"),
    ],
)
def test_rejects_invalid_selector_objects(selector: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        selectors.from_label_selector_object(selector)


def test_errors_of_selector_objects() -> None:
    selector = {
        "matchLabels": {"/a": "b"},
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a", "operator": "Nope"},
            {"key": "/k", "operator": "In", "values": ["ok", "-"]},
        ],
    }
    errors = [str(e) for e in selectors.validate_label_selector(selector, "s")]
    assert errors[:5] == [
        's.matchLabels: Invalid value: "/a": prefix part must be non-empty',
        "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' "
        "or 'NotIn'",
        "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' "
        "or 'DoesNotExist'",
        's.matchExpressions[2].operator: Invalid value: "Nope": not a valid selector operator',
        's.matchExpressions[3].key: Invalid value: "/k": prefix part must be non-empty',
    ]
    assert errors[5].startswith(
        's.matchExpressions[3].values[1]: Invalid value: "-": a valid label'
    )
    lenient = selectors.validate_label_selector(selector, "s", allow_invalid_values=True)
    assert [str(e) for e in lenient] == errors[:5]
    assert selectors.validate_label_selector(None, "s") == []


_KEYS = st.sampled_from(["a", "b", "example.com/c", "in", "notin"])
_VALUES = st.sampled_from(["", "x", "y", "1", "in", "a.b_c-d"])
_NUMBERS = st.integers(0, 2**63 - 1).map(str)
_SETS = st.frozensets(_VALUES, min_size=1, max_size=3).map(lambda s: tuple(sorted(s)))
_REQUIREMENTS = st.one_of(
    st.builds(Requirement, _KEYS, st.sampled_from(["exists", "!"]), st.just(())),
    st.builds(Requirement, _KEYS, st.sampled_from(["=", "==", "!="]), st.tuples(_VALUES)),
    st.builds(Requirement, _KEYS, st.sampled_from(["gt", "lt"]), st.tuples(_NUMBERS)),
    st.builds(Requirement, _KEYS, st.sampled_from(["in", "notin"]), _SETS),
)
_SELECTORS = st.lists(_REQUIREMENTS, max_size=4).map(
    lambda rs: LabelSelector(tuple(sorted(rs, key=lambda r: r.key)))
)


@settings(max_examples=100, deadline=None)
@given(_SELECTORS)
def test_a_written_selector_reads_back_to_itself(selector: LabelSelector) -> None:
    assert parse_label_selector(str(selector)) == selector


def _holds(r: Requirement, labels: Mapping[str, str]) -> bool:
    """The definition, read slowly."""
    value = labels.get(r.key)
    if r.operator == "exists":
        return value is not None
    if r.operator == "!":
        return value is None
    if r.operator in ("=", "==", "in"):
        return value is not None and value in r.values
    if r.operator in ("!=", "notin"):
        return value is None or value not in r.values
    if value is None or not re.fullmatch(r"-?\d+", value):
        return False
    return int(value) > int(r.values[0]) if r.operator == "gt" else int(value) < int(r.values[0])


@settings(max_examples=200, deadline=None)
@given(_SELECTORS, st.dictionaries(_KEYS, _VALUES | _NUMBERS, max_size=4))
def test_matching_agrees_with_its_definition(
    selector: LabelSelector, labels: dict[str, str]
) -> None:
    assert selector.matches(labels) == all(_holds(r, labels) for r in selector.requirements)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab!=,()<> \0innot/."), max_size=20))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except BadRequest:
        return
    assert parse_label_selector(str(selector)) == selector


def test_long_selectors_are_not_kept_in_the_cache() -> None:
    text = ",".join(f"k{i}=v" for i in range(300))
    assert len(parse_label_selector(text).requirements) == 300
