# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rdd.api.decode import decode_yaml, encode_yaml
from rdd.api.errors import BadRequest
from rdd.api.yamlcodec import with_json_numbers

TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(["yes", "1", "1e3", "2001-01-01", "~", "a: b", "x\ny", "1:30", "<<", ""]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_json_objects_are_yaml(value: Any) -> None:
    data = json.dumps(value).encode()
    assert decode_yaml(data).value == with_json_numbers(json.loads(data))


_PRINTABLE = st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=" "))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_PRINTABLE, _PRINTABLE | st.lists(st.integers(-100, 100)), max_size=4))
def test_json_is_read_the_same_with_and_without_the_fast_path(value: Any) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()
    assert decode_yaml(b"# no brace\n" + data) == decode_yaml(data)


@settings(max_examples=150, deadline=None)
@given(JSON)
@example(-(2.0**63))
def test_written_yaml_reads_back_to_the_same_value(value: Any) -> None:
    expected = with_json_numbers(json.loads(json.dumps(value)))
    assert decode_yaml(encode_yaml(value)).value == expected


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("yes", True), ("Off", False), ("y", True), ("~", None), ("", None), ("null", None),
        ("nULL", "nULL"), ("5", 5), ("-5", -5), ("+5", 5), ("1_000", 1000), ("0x1F", 31),
        ("010", 8), ("0o17", 15), ("0b11", 3), ("-0b11", -3), ("08", 8), ("1.0", 1), ("1e3", 1000),
        ("1.5", 1.5), (".5", 0.5), (".", "."), ("..", ".."), ("1e400", "1e400"),
        ("2001-01-01", "2001-01-01"), ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
        ("12:30:45", "12:30:45"), ("'5'", "5"), ('"yes"', "yes"), ("1.2.3", "1.2.3"),
        ("18446744073709551615", 1.8446744073709551615e19), ("99999999999999999999999", 1e23),
        ("0xFFFFFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFFFF"), ("<<", "<<"), ("=", "="),
        ("!!str 5", "5"), ("!!int '5'", 5), ("!!float 5", 5), ("!!bool yes", True),
        ("!custom 5", "5"), ("!!binary aGk=", "hi"), ("!!timestamp 2001-01-01", "2001-01-01"),
    ],
)  # fmt: skip
def test_scalars_are_resolved_as_by_go_yaml(scalar: str, value: Any) -> None:
    decoded = decode_yaml(f"a: {scalar}\n".encode()).value["a"]
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("# comment\n", None, id="comment"),
        pytest.param("a: 1\n---\nb: [", {"a": 1}, id="only the first document is read"),
        pytest.param(
            "1: a\ntrue: b\n1.5: c\n.inf: d\n",
            {"1": "a", "true": "b", "1.5": "c", ".inf": "d"},
            id="keys become text",
        ),
        pytest.param("{a: b, c}", {"a": "b", "c": None}, id="flow mapping"),
        pytest.param(
            "a: |\n  x\n  y\nb: >-\n  z\n  w\n", {"a": "x\ny\n", "b": "z w"}, id="block texts"
        ),
        pytest.param("a: &x {b: [1]}\nc: *x\n", {"a": {"b": [1]}, "c": {"b": [1]}}, id="alias"),
        pytest.param("a: &x 1\nb: *x\n", {"a": 1, "b": 1}, id="alias of a scalar"),
        pytest.param(
            "x: &x {a: 1, b: 2}\nz: {<<: *x, a: 3}\n",
            {"x": {"a": 1, "b": 2}, "z": {"a": 3, "b": 2}},
            id="merge",
        ),
        pytest.param(
            "- &x {a: 1}\n- &y {a: 2, b: 2}\n- {<<: [*x, *y]}\n",
            [{"a": 1}, {"a": 2, "b": 2}, {"a": 1, "b": 2}],
            id="merge of several",
        ),
        pytest.param("a: {'<<': 1}\n", {"a": {"<<": 1}}, id="a quoted merge key is a key"),
    ],
)
def test_documents(text: str, value: Any) -> None:
    assert decode_yaml(text.encode()).value == value


def test_copies_of_an_anchor_are_independent() -> None:
    value = decode_yaml(b"a: &x {b: [1]}\nc: *x\n").value
    value["a"]["b"].append(2)
    assert value["c"] == {"b": [1]}


def test_repeated_keys_are_reported_with_the_line_of_the_value() -> None:
    document = decode_yaml(b"a: 1\na: 2\nb:\n  c: 1\n  c:\n    x: 2\n1: x\n1: z\n")
    assert document.value == {"a": 2, "b": {"c": {"x": 2}}, "1": "z"}
    assert document.duplicates == (
        'line 2: key "a" already set in map',
        'line 6: key "c" already set in map',
        "line 8: key 1 already set in map",
    )


def test_a_json_body_with_repeated_keys_is_reported_as_yaml() -> None:
    assert decode_yaml(b'{"a":1,\n"a":2}').duplicates == ('line 2: key "a" already set in map',)


def test_merging_a_key_that_is_set_is_a_repetition() -> None:
    document = decode_yaml(b"x: &x {a: 1}\nz:\n  a: 2\n  <<: *x\n")
    assert document.value["z"] == {"a": 1}
    assert document.duplicates == ('line 4: key "a" already set in map',)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context"),
        ("\ta: 1", "yaml: found character that cannot start any token"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!int 2001-01-01", "yaml: cannot decode !!timestamp `2001-01-01` as a !!int"),
        ("a: !!binary '*'", "yaml: !!binary value contains invalid base64 data"),
        ("a: {<<: 1}", "yaml: map merge requires map or sequence of maps as the value"),
        ("{a: 1}: b", 'yaml: invalid map key: {"a":1}'),
        ("~: a", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "a"'),
        ("a: .nan", "json: unsupported value: NaN"),
        ("a: -.inf", "json: unsupported value: -Inf"),
        ("[" * 300, "yaml: exceeded max depth of 240"),
    ],
)
def test_errors_are_worded_as_by_go_yaml(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode_yaml(text.encode())
    assert caught.value.message == message


def test_rejects_bytes_that_are_not_text() -> None:
    with pytest.raises(BadRequest, match="yaml: invalid leading UTF-8 octet"):
        decode_yaml(b"\xff")
    with pytest.raises(BadRequest, match="yaml: control characters are not allowed"):
        decode_yaml(b"a: \x01")


def test_rejects_yaml_alias_bombs() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(BadRequest, match="yaml: document contains excessive aliasing"):
        decode_yaml("\n".join(lines).encode())


def test_yaml_is_written_as_by_sigs_yaml() -> None:
    value: dict[str, Any] = {
        "b": [1, {"x": []}, [[2]]], "a10": "multi\nline\n", "a2": "yes", "a-b": None, "ab": {},
        "d": "", "e": "a: b", "f": "2001-01-01", "g": 1.5, "h": True, "i": "é", "l": "1:30",
        "n": "trail\n\n", "o": "word " * 20 + "end", "a_b": 1e21, "A": "#c",
    }  # fmt: skip
    assert encode_yaml(value).decode() == (
        "A: '#c'\n"
        "a-b: null\n"
        "a_b: 1e+21\n"
        "a2: \"yes\"\n"
        "a10: |\n  multi\n  line\n"
        "ab: {}\n"
        "b:\n- 1\n- x: []\n- - - 2\n"
        'd: ""\n'
        "e: 'a: b'\n"
        'f: "2001-01-01"\n'
        "g: 1.5\n"
        "h: true\n"
        "i: é\n"
        'l: "1:30"\n'
        '"n": |+\n  trail\n\n'
        "o: word word word word word word word word word word word word word word word word\n"
        "  word word word word end\n"
    )  # fmt: skip


def test_keys_are_sorted_with_numbers_in_their_order() -> None:
    keys = ["v10", "v9", "v09", "v1", "a1b", "a01", "a100", "a1000", "v1a", "zz", "Z", "é", "v-1"]
    written = yaml.safe_load(encode_yaml(dict.fromkeys(keys, 1)).decode())
    assert list(written) == [
        "Z", "a1b", "a01", "a100", "a1000", "v-1", "v1", "v1a", "v9", "v09", "v10", "zz", "é",
    ]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab1:-{}[],&*!|>'\"#%@ \n\t~<."), max_size=25))
def test_any_text_is_yaml_or_a_bad_request(text: str) -> None:
    try:
        value = decode_yaml(text.encode()).value
    except BadRequest as e:
        assert e.message
        return
    json.dumps(value, allow_nan=False)
