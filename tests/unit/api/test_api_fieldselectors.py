# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import fieldselectors
from rdd.api.errors import BadRequest
from rdd.api.fieldselectors import FieldSelector, FieldTerm, parse_field_selector


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        pytest.param("", [], id="empty"),
        pytest.param(",,", [], id="empty terms"),
        pytest.param("metadata.name=a", [("metadata.name", "=", "a")], id="equals"),
        pytest.param("a==b", [("a", "=", "b")], id="double equals"),
        pytest.param("a!=b", [("a", "!=", "b")], id="not equals"),
        pytest.param("a=", [("a", "=", "")], id="empty value"),
        pytest.param("z=1,a=2", [("a", "=", "2"), ("z", "=", "1")], id="sorted"),
        pytest.param("a=x:y/z", [("a", "=", "x:y/z")], id="punctuation"),
        pytest.param(r"a=x\,y,b=1", [("a", "=", "x,y"), ("b", "=", "1")], id="escaped comma"),
        pytest.param(r"a=x\=y", [("a", "=", "x=y")], id="escaped equals"),
        pytest.param(r"a=x\\,b=y", [("a", "=", "x\\"), ("b", "=", "y")], id="escaped backslash"),
    ],
)
def test_terms_are_parsed(text: str, terms: list[tuple[str, str, str]]) -> None:
    assert parse_field_selector(text).terms == tuple(FieldTerm(*t) for t in terms)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_errors_are_worded_as_in_kubernetes(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_field_selector(text)
    assert caught.value.message == message


def test_matching_compares_texts_and_takes_absent_fields_as_empty() -> None:
    selector = parse_field_selector("type=Opaque,metadata.name!=q")
    assert selector.matches({"type": "Opaque", "metadata.name": "a"})
    assert not selector.matches({"type": "Opaque", "metadata.name": "q"})
    assert not selector.matches({"metadata.name": "a"})
    assert parse_field_selector("x=").matches({})


def test_unsupported_fields_are_rejected_in_two_wordings() -> None:
    selector = parse_field_selector("metadata.name=a,spec.x=1")
    with pytest.raises(BadRequest) as caught:
        selector.check({"metadata.name"})
    assert caught.value.message == "field label not supported: spec.x"
    with pytest.raises(BadRequest) as caught:
        selector.check({"metadata.name"}, has_own_labels=False)
    assert caught.value.message == (
        '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
    selector.check({"metadata.name", "spec.x"})


def test_the_value_a_field_must_have() -> None:
    selector = parse_field_selector("a=1,b!=2")
    assert [selector.exact_value(f) for f in "abc"] == ["1", None, None]
    assert not selector.is_empty
    assert fieldselectors.EVERYTHING.is_empty


_TERMS = st.builds(
    FieldTerm, st.sampled_from(["a", "metadata.name"]), st.sampled_from(["=", "!="]), st.text()
)


@settings(max_examples=100, deadline=None)
@given(st.lists(_TERMS, max_size=3))
def test_a_written_selector_reads_back_to_the_same_terms(terms: list[FieldTerm]) -> None:
    selector = parse_field_selector(str(FieldSelector(tuple(terms))))
    assert sorted(selector.terms, key=str) == sorted(terms, key=str)


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("ab=!,\\"), max_size=12))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    try:
        selector = parse_field_selector(text)
    except BadRequest:
        return
    again = parse_field_selector(str(selector))
    assert sorted(again.terms, key=str) == sorted(selector.terms, key=str)
