# SPDX-License-Identifier: Apache-2.0
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.base import gotext, govalue


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        pytest.param("plain", '"plain"', id="plain"),
        pytest.param('a"b\\c', '"a\\"b\\\\c"', id="quotes and backslashes"),
        pytest.param("tab\tbell\a", '"tab\\tbell\\a"', id="named escapes"),
        pytest.param("\x01\x7f", '"\\x01\\x7f"', id="control characters"),
        pytest.param("ü☃", '"ü☃"', id="printable characters stay"),
        pytest.param("\u009e\u200b", '"\\u009e\\u200b"', id="other characters as code points"),
        pytest.param("\U000e0001", '"\\U000e0001"', id="beyond the basic plane"),
    ],
)
def test_quotes_text_as_percent_q(text: str, quoted: str) -> None:
    assert gotext.quote(text) == quoted


@pytest.mark.parametrize(
    ("char", "quoted"),
    [("x", "'x'"), ("'", "'\\''"), ('"', "'\"'"), ("\n", "'\\n'"), ("\u009e", "'\\u009e'")],
)
def test_characters_are_quoted_as_in_json_errors(char: str, quoted: str) -> None:
    assert gotext.quote_char(char) == quoted


@pytest.mark.parametrize(
    ("value", "as_json", "as_v"),
    [
        pytest.param(5, "5", "5", id="integer"),
        pytest.param(100.0, "100", "100", id="integral float"),
        pytest.param(1.5, "1.5", "1.5", id="fraction"),
        pytest.param(-0.0, "-0", "-0", id="negative zero"),
        pytest.param(1e20, "1" + "0" * 20, "1e+20", id="JSON is positional up to 1e21"),
        pytest.param(1e21, "1e+21", "1e+21", id="exponent from 1e21"),
        pytest.param(1e-5, "0.00001", "1e-05", id="JSON is positional down to 1e-6"),
        pytest.param(1e-7, "1e-7", "1e-07", id="JSON shortens small exponents"),
        pytest.param(1.25e-7, "1.25e-7", "1.25e-07", id="small with a fraction"),
        pytest.param(-1.5e300, "-1.5e+300", "-1.5e+300", id="negative and large"),
        pytest.param(999999.5, "999999.5", "999999.5", id="positional below 1e6"),
        pytest.param(1234567.5, "1234567.5", "1.2345675e+06", id="exponent from 1e6"),
        pytest.param(2.0**60, "1152921504606847000", "1.152921504606847e+18", id="shortest digits"),
    ],
)
def test_numbers_are_printed_as_go_prints_them(value: float, as_json: str, as_v: str) -> None:
    assert govalue.number(value) == as_json
    assert govalue.plain(value) == as_v


@settings(max_examples=100, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_numbers_read_back_to_the_same_value(value: float) -> None:
    assert float(govalue.number(value)) == value
    assert float(govalue.plain(value)) == value


def test_values_without_a_json_form_are_rejected_by_name() -> None:
    assert [govalue.plain(v) for v in (math.nan, math.inf, -math.inf)] == ["NaN", "+Inf", "-Inf"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("a b", '"a b"', id="text is quoted"),
        pytest.param(None, "null", id="null"),
        pytest.param(True, "true", id="boolean"),
        pytest.param(0.00001, "1e-05", id="number"),
        pytest.param({"b": 1, "a": "x>y"}, '{"a":"x\\u003ey","b":1}', id="map, sorted and escaped"),
        pytest.param([1.0, "&", None], '[1,"\\u0026",null]', id="list"),
        pytest.param(govalue.Verbatim("{raw}"), "{raw}", id="final form"),
    ],
)
def test_bad_values_are_shown_as_in_field_errors(value: Any, shown: str) -> None:
    assert govalue.value(value) == shown


def test_json_of_a_struct_keeps_the_order_of_its_members() -> None:
    struct = {"b": [{"z": 1, "a": 2}], "a": True}
    assert govalue.json_text(struct, sort_keys=False) == '{"b":[{"z":1,"a":2}],"a":true}'


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(_JSON)
def test_json_text_reads_back_to_the_same_value(value: Any) -> None:
    assert json.loads(govalue.json_text(value), parse_int=float) == value
