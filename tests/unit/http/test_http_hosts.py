# SPDX-License-Identifier: Apache-2.0
"""Which Host headers and origins a server accepts."""

import pytest

from rdd.http.hosts import HostRules

RULES = HostRules(["rdd.example", "192.0.2.7", "2001:db8::7"], origins=["https://ui.example:8443"])


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LocalHost:6445", "localhost.:1", "rdd.localhost:8", "127.0.0.1:6445",
        "127.8.9.10", "[::1]:6445", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]:1", "rdd.example",
        "RDD.example.:9", "192.0.2.7:443", "[2001:DB8:0::7]:443", "localhost:",
    ],
)  # fmt: skip
def test_own_names_are_accepted(host: str) -> None:
    assert RULES.accepts(host)
    assert RULES.accepts(host), "also the second time"


def test_request_without_host_is_accepted() -> None:
    assert RULES.accepts(None)


@pytest.mark.parametrize(
    "host",
    [
        "", " ", "evil.example", "localhost.evil.example", "evillocalhost", "a@localhost",
        "localhost@evil.example", "localhost/evil", "localhost, evil", "127.0.0.1.nip.io",
        "192.0.2.8", "[::2]", "::1", "[::1", "[localhost]", "localhost:x", "localhost:1:2",
        "2130706433", "0x7f.0.0.1", "127.1", "0.0.0.0", "[::]", "x.rdd.example",
        "[::ffff:192.0.2.8]",
    ],
)  # fmt: skip
def test_other_names_are_not(host: str) -> None:
    assert not RULES.accepts(host)


@pytest.mark.parametrize(
    ("origin", "is_accepted"),
    [
        ("https://localhost:6445", True),
        ("HTTPS://LOCALHOST:6445", True),
        ("https://ui.example:8443", True),
        ("http://localhost:6445", False),
        ("https://localhost:8000", False),
        ("https://localhost", False),
        ("https://evil.example", False),
        ("https://ui.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_origin_of_a_websocket(origin: str, is_accepted: bool) -> None:
    assert RULES.accepts_origin(origin, "localhost:6445") is is_accepted


def test_remembered_hosts_are_bounded() -> None:
    rules = HostRules()
    assert all(rules.accepts(f"localhost:{port}") for port in range(1000))
    assert len(rules.accepted) <= 64


@pytest.mark.parametrize("names", [["a b"], ["a/b"], ["*"], [""], ["a:b:c!"]])
def test_malformed_names_are_rejected(names: list[str]) -> None:
    with pytest.raises(ValueError, match="is not a host name"):
        HostRules(names)


@pytest.mark.parametrize("origin", ["localhost", "https://", "https://a/b", "*", "https://a b"])
def test_malformed_origins_are_rejected(origin: str) -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        HostRules(origins=[origin])
