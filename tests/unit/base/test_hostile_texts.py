# SPDX-License-Identifier: Apache-2.0
"""Texts of users that made a regular expression read them again from each character.

Python's expressions hold the interpreter, and with it every thread of the daemon: a megabyte of
these texts took up to days. Linear work on the texts here takes milliseconds, quadratic work ends
with the timeout of a test.
"""

import re
from collections.abc import Callable

import pytest

from rdd.api import quantity
from rdd.apiserver.kinds import tlspair
from rdd.cel.library import conversions
from rdd.controllers.app.app import history
from rdd.daemon.support.redaction import REDACTED, Redactor
from rdd.schema import formats
from rdd.vm.template.variables import Variables, expand, params_used

SIZE = 1 << 16
PIECES = (
    *("0", "a", ".", "-", "_", " ", "\n", "\\", "/", "@", ":", "=", "{", '"', "0.", "a.", "A_"),
    *("{{", "{{.Param.a", "{{`a", '{{"', "{{ ", "-----BEGIN ", "-----BEGIN A-----\n", "eyJa"),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n", "-----END A-----\n"),
    *("-----BEGIN A-----\n-----END B-----\n", "eyJaaaaa.", "eyJaaaaa.b", "token", "token "),
    *("token:REDACTED", "tokentoken: REDACTED ", "Bearer ", "Bearer", "Basic ", "a://", "a://b:"),
    *("secret-", "1e", "1h", "1h0", "1 day", "inf", "%", "%2", "1:", "::", "0:", "127.", "<a@b>"),
)
VARIABLES = Variables(name="n", dir="/d", home="/h", user="u", uid=1)


def parse_double(text: str) -> object:
    try:
        return conversions._DECIMAL.match(text)
    except ValueError:
        return None


def parse_quantity(text: str) -> object:
    try:
        return quantity._split(text)
    except ValueError:
        return None


READERS: dict[str, Callable[[str], object]] = {
    "quantity": parse_quantity,
    "CEL double": parse_double,
    "TLS secret": lambda text: tlspair.problem(text.encode(), text.encode()),
    "params of a template": lambda text: list(params_used(text)),
    "expansion of a template": lambda text: expand(text, VARIABLES),
    "redaction": Redactor(["a known secret"]).text,
    "credentials in settings": history.has_credentials,
    **{f"format {name}": check for name, check in formats._CHECKS.items()},
}


@pytest.mark.parametrize("reader", READERS)
def test_text_is_read_once(reader: str) -> None:
    for piece in PIECES:
        text = piece * (SIZE // len(piece))
        for end in ("", "\x00"):
            READERS[reader](text + end)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a token: abc", f"a token: {REDACTED}"),
        ("my.access_key-x=abc,b", f"my.access_key-x={REDACTED},b"),
        ('{\\"clientSecret\\": \\"abc\\"}', f'{{\\"clientSecret\\": \\"{REDACTED}\\"}}'),
        ("\\ntoken: abc", f"\\ntoken: {REDACTED}"),
        ("token: REDACTED", "token: REDACTED"),
        ("x eyJhbGciOi.eyJzdWIi.c2ln y", f"x {REDACTED} y"),
        ("\\neyJhbGciOi.eyJzdWIi.", f"\\n{REDACTED}"),
        ("a.eyJhbGciOi", "a.eyJhbGciOi"),
        ("-----BEGIN EC PRIVATE KEY-----\na\n-----END EC PRIVATE KEY-----b", f"{REDACTED}b"),
        ("-----BEGIN PRIVATE KEY-----\\na\\n cut", f"{REDACTED} cut"),
        ("-----BEGIN CERTIFICATE-----a", "-----BEGIN CERTIFICATE-----a"),
    ],
)
def test_redaction_finds_the_same_secrets(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


def test_two_keys_in_one_text() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"
    text = f"-----BEGIN PRIVATE KEY-----\nhalf {key}between {key}"
    assert re.sub(rf"{REDACTED}\s*", "R ", Redactor().text(text)) == "R half R between R "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{.Param.a}}", ["a"]),
        ("{{ if .Param.a }}x{{ end }}{{.Param.b_1}}", ["a", "b_1"]),
        ("{{{.Param.a}}", ["a"]),
        ("{{ {{.Param.a}}", ["a"]),
        ("{{.Param.a", []),
        (".Param.a", []),
        ("{{printf .Param.a .Param.b}}", ["a", "b"]),
        ("$PARAM_c", ["c"]),
    ],
)
def test_params_of_a_template(text: str, expected: list[str]) -> None:
    assert list(params_used(text)) == expected


@pytest.mark.parametrize("text", ["1", "+0.50", "1e3", "1E-3", "12Ki", "007n", ".5", "5.", "-0"])
def test_quantities_have_the_same_parts(text: str) -> None:
    backtracking = r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)"
    found, expected = quantity._split(text), re.fullmatch(backtracking, text)
    assert found is not None
    assert expected is not None
    assert found.groups() == expected.groups()
