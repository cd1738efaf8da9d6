# SPDX-License-Identifier: Apache-2.0
"""String formats and patterns."""

import pytest

from rdd.schema.formats import is_effective, string_check
from rdd.schema.regexps import PatternError, compile_pattern

CASES = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f1f77bcf86cd79943901", "z" * 24]),
    "uri": (
        ["https://example.com/a?b=c", "/absolute", "urn:x:y", "http://[::1]:80/", "http://ü.de/x"],
        ["", "x y", "relative/path", "http://a b/", "http://a:b/", "/%zz", "\x01"],
    ),
    "email": (
        ["a@b", "a.b@example.com", "Some One <a@b.c>", '"quoted text"@b.c', "a@[127.0.0.1]"],
        ["x", "a@", "@b", "a b@c", "a@b@c", ".a@b"],
    ),
    "hostname": (
        ["a", "example.com", "1host", "a-b.c-d.org", "ü.de"],
        ["-x", "a..b", "", "a_b", "x" * 64, "a." * 150 + "de"],
    ),
    "ipv4": (["1.2.3.4", "::ffff:1.2.3.4"], ["1.2.3", "01.2.3.4", "256.1.1.1", "::1", ""]),
    "ipv6": (["::1", "fe80::1"], ["1.2.3.4", "fe80::1%eth0", "g::", ""]),
    "cidr": (["10.0.0.0/8", "::/0"], ["1.2.3.4", "1.2.3.4/33", "::/129", "1.2.3.4/", "/8"]),
    "mac": (
        ["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "02:00:5e:10:00:00:00:01"],
        ["01:23:45", "01:23:45:67:89:zz", "0123456789ab", ""],
    ),
    "uuid": (["123E4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"], ["x"]),
    "uuid3": (["a3bb189e-8bf9-3888-9912-ace4e6543002"], ["a3bb189e-8bf9-4888-9912-ace4e6543002"]),
    "uuid4": (["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
    "uuid5": (["74738ff5-5367-5958-9aee-98fffdcd1876"], ["74738ff5-5367-4958-9aee-98fffdcd1876"]),
    "isbn": (["0321751043", "978-0321751041"], ["1"]),
    "isbn10": (["0321751043", "080442957X"], ["0321751044", "978-0321751041"]),
    "isbn13": (["978-0321751041"], ["978-0321751042", "0321751043"]),
    "creditcard": (["4111 1111 1111 1111", "378282246310005"], ["4111111111111112", "1234"]),
    "ssn": (["123-45-6789", "123 45 6789"], ["123-45-678"]),
    "hexcolor": (["#FFFFFF", "abc"], ["#FFFF", "red"]),
    "rgbcolor": (["rgb(255,0, 1)"], ["rgb(256,0,0)", "rgb(1,2)"]),
    "byte": (["YQ==", "YWJj"], ["!", "", "YQ=", "YQ"]),
    "password": (["", "anything"], []),
    "date": (["2026-01-02", "0000-02-29"], ["2026-13-01", "2026-02-30", "26-1-2", ""]),
    "duration": (
        ["1h30m", "-1.5s", "0", "22 ns", "3 days", "1 week 2 hours", "5µs"],
        ["1z", "", "h", "1", "1 2"],
    ),
    "date-time": (
        ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.678+01:00"],
        ["x", "2026-01-02", "2026-01-02T25:00:00Z", "2026-01-02T03:04:05", "2026-02-30T00:00:00Z"],
    ),
    "k8s-short-name": (["abc", "a-b", "0"], ["A", "-a", "a.b", "a" * 64]),
    "k8s-long-name": (["abc.de", "a"], ["A", "a..b", "a" * 254]),
}


@pytest.mark.parametrize(
    ("name", "text", "valid"),
    [
        pytest.param(name, text, valid, id=f"{name} {text[:30]!a}")
        for name, (good, bad) in CASES.items()
        for valid, texts in ((True, good), (False, bad))
        for text in texts
    ],
)
def test_formats_accept_what_go_accepts(name: str, text: str, valid: bool) -> None:
    check = string_check(name)
    assert check is not None
    assert check(text) is valid


def test_names_of_formats_are_compared_without_dashes() -> None:
    assert string_check("date-time") is string_check("datetime")
    assert is_effective("int32")
    assert is_effective("ip-v4")
    assert not is_effective("made-up")
    assert string_check("int32") is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "error parsing regexp: missing closing ): `(`"),
        ("[a", "error parsing regexp: missing closing ]: `[a`"),
        (")", "error parsing regexp: unexpected ): `)`"),
        ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
        ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
        ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
        ("(?=x)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        (r"\8", r"error parsing regexp: invalid escape sequence: `\8`"),
        ("[z-a]", "error parsing regexp: invalid character class range: `z-a`"),
        ("\\", "error parsing regexp: trailing backslash at end of expression: ``"),
    ],
)
def test_errors_of_patterns_read_as_in_go(pattern: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == message


def test_a_pattern_that_would_explode_elsewhere_runs_in_linear_time() -> None:
    assert compile_pattern("^(a+)+$").search("a" * 50_000 + "b") is None
