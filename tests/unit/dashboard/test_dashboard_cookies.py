# SPDX-License-Identifier: Apache-2.0
"""The cookie of a session is found in any header, at a cost that grows with its length."""

from typing import Any

import pytest

from rdd.dashboard import requests
from rdd.http.headers import Headers


class _Exchange:
    def __init__(self, *lines: str) -> None:
        self.headers = Headers([("Cookie", line) for line in lines])


def found(*lines: str) -> list[str]:
    exchange: Any = _Exchange(*lines)
    return requests.cookies(exchange)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rdd_session=abc", ["abc"]),
        ("a=b; rdd_session=abc; c=d", ["abc"]),
        (" rdd_session = abc ;rdd_session=d-_", ["abc", "d-_"]),
        ("rdd_session=a=b", ["a=b"]),
        ("xrdd_session=a; rdd_session", [""]),
        ("Rdd_Session=a; =; ;;", []),
    ],
)
def test_values_of_the_cookie(line: str, expected: list[str]) -> None:
    assert found(line) == expected


def test_several_headers() -> None:
    assert found("rdd_session=a", "b=c", "rdd_session=d") == ["a", "d"]


def test_quoted_value_is_not_unquoted() -> None:
    # The standard library needs hours for this one, and 13 s for a header of 120 KB: quadratic.
    assert len(found('rdd_session="' + "\\0" * 2_000_000 + '"')[0]) == 4_000_002
