# SPDX-License-Identifier: Apache-2.0
"""Quoting, booleans and durations as in Go."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.base.gotext import parse_bool, parse_duration, quote


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '""'),
        ("plain", '"plain"'),
        ('say "x"', '"say \\"x\\""'),
        ("a\\b", '"a\\\\b"'),
        ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        ("\x00\x1b\x7f", '"\\x00\\x1b\\x7f"'),
        ("äöü €", '"äöü €"'),
        ("\u00a0", '"\\u00a0"'),
        ("\U000e0001", '"\\U000e0001"'),
        ("\udcff", '"\\xff"'),
        ("'$`", '"\'$`"'),
    ],
)
def test_quote_matches_strconv_quote(text: str, expected: str) -> None:
    assert quote(text) == expected


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), exclude_characters="\u00a0")))
def test_quoted_printable_text_is_read_back_by_json(text: str) -> None:
    if text.isprintable():
        assert json.loads(quote(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, True) for text in ("1", "t", "T", "true", "TRUE", "True")],
        *[(text, False) for text in ("0", "f", "F", "false", "FALSE", "False")],
    ],
)
def test_boolean_spellings(text: str, expected: bool) -> None:
    assert parse_bool(text) is expected


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", "2", " 1"])
def test_rejects_other_spellings_of_booleans(text: str) -> None:
    with pytest.raises(ValueError, match="expected boolean"):
        parse_bool(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("300ms", 0.3),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1ns", 1e-9),
        ("-2s", -2),
        ("+2s", 2),
    ],
)
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5x", "5m3", "1h 2m", "m5", "-", "1d"])
def test_rejects_other_texts_as_durations(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)
