# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import decode
from rdd.api.errors import BadRequest
from rdd.base.gojson import syntax_error

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_json_is_decoded_as_by_the_standard_library(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert decode.decode_json(data) == value
    assert decode.find_duplicate_keys(data, value) == []
    assert syntax_error(data) == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "unexpected end of JSON input"),
        (b" ", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'"abc', "unexpected end of JSON input"),
        (b"-", "unexpected end of JSON input"),
        (b"tru", "unexpected end of JSON input"),
        (b"kind: X", "invalid character 'k' looking for beginning of value"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"),
        (b"\x9e", "invalid character '\\u009e' looking for beginning of value"),
        (b"{n}", "invalid character 'n' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 2}', "invalid character '2' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{}{", "invalid character '{' after top-level value"),
        (b"01", "invalid character '1' after top-level value"),
        (b"nope", "invalid character 'o' in literal null (expecting 'u')"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u12"', "invalid character '\"' in \\u hexadecimal character escape"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        (b"[" * 257 + b"]" * 257, "invalid character '[' exceeded max depth"),
        (b'{"a":' * 257 + b"1" + b"}" * 257, "invalid character '{' exceeded max depth"),
        (b"[" * 2000, "invalid character '[' exceeded max depth"),
    ],
)
def test_errors_are_worded_as_in_go(data: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode.decode_json(data)
    assert caught.value.message == message


def test_nesting_up_to_the_limit_and_any_number_of_siblings_are_fine() -> None:
    depth = decode.MAX_DEPTH
    assert decode.decode_json(b"[" * depth + b"]" * depth)
    assert len(decode.decode_json(b"[" + b"[],{}," * 1000 + b"[]]")) == 2001


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"9223372036854775808", 9.223372036854775808e18),
        (b'{"a":[18446744073709551615]}', {"a": [1.8446744073709551615e19]}),
        (b"-9223372036854775809", -9.223372036854775809e18),
        (b'"\xff" ', "\ufffd"),
        (b'["\\ud800", 123456789012345678901234567890]', ["\ufffd", 1.2345678901234568e29]),
        (b'{"\\udc00":"\xff", "n": 5, "f": 0.5}', {"\ufffd": "\ufffd", "n": 5, "f": 0.5}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
    ],
)
def test_numbers_and_invalid_texts_decode_as_in_go(data: bytes, value: Any) -> None:
    decoded = decode.decode_json(data)
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        (b'{"a":1,"b":{"a":1}}', []),
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"a" :1,"a" :2,"b":"x\\":"}', ["a"]),
        (b'{"m":{"n":1,"n":1},"d":{"k":1,"k":2,"k":3}}', ["m.n", "d.k"]),
        (b'{"s":{"l":[{"x":1},{"x":1,"x":2}]}}', ["s.l[1].x"]),
        (b'{"a":{"b":1,"b":1},"a":{"b":1,"b":2}}', ["a.b", "a"]),
        (b'{"a":"\\u0022:","b":1,"b":"\\u0022:"}', ["b"]),
        (b'{"a":"\\":\\":","b" : 1}', []),
        (b'{"\\u0061":1,"a":2}', ["a"]),
        (b'{"a":"\xff","a":"\xff"}', ["a"]),
        (b'{"a":1e5,"a":' + b"9" * 5000 + b"}", ["a"]),
    ],
)
def test_repeated_keys_are_found_in_the_order_of_the_text(data: bytes, paths: list[str]) -> None:
    value = json.loads(data.decode("utf-8", "replace"), parse_int=float)
    assert decode.find_duplicate_keys(data, value) == paths


def test_at_most_a_hundred_repeated_keys_are_reported() -> None:
    data = b"{" + b",".join(b'"k%d":1' % (i % 150) for i in range(300)) + b"}"
    assert len(decode.find_duplicate_keys(data, decode.decode_json(data))) == 100


_PARTS = st.sampled_from(
    ['{"a":', "}", "[", "]", ",", '"a":1', '"a" :2', '"b\\":":', '"x:y"', '"\\u0022:"', "1", "\n:"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PARTS, max_size=12).map("".join))
def test_counting_never_misses_a_repeated_key(text: str) -> None:
    try:
        value = decode.decode_json(text.encode())
    except BadRequest:
        return
    repeated = []

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.append(len(pairs) != len(dict(pairs)))
        return dict(pairs)

    json.loads(text, object_pairs_hook=hook)
    assert bool(decode.find_duplicate_keys(text.encode(), value)) == any(repeated)


@pytest.mark.parametrize(
    ("data", "summary"),
    [
        (b"", "<empty>"),
        (b" ", "20"),
        (b'{"a"', '{"a"'),
        (b'{"kind":"ConfigMap","apiVersion":"v1"', '{"kind":"ConfigMap","apiVersio ...'),
        (b"x" * 31, "78" * 30 + " ..."),
    ],
)
def test_bodies_are_summarised_in_errors(data: bytes, summary: str) -> None:
    assert decode.summarize(data) == summary


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=30))
def test_any_bytes_are_json_or_a_bad_request(data: bytes) -> None:
    try:
        decode.decode_json(data)
    except BadRequest as e:
        assert e.message
