# SPDX-License-Identifier: Apache-2.0
"""Tokens and port that survive restarts."""

import json
import socket
from pathlib import Path

import pytest

from rdd.daemon import connection
from rdd.host.sockets import listen_on_loopback
from rdd.instance import Instance


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    found = Instance("t", tmp_path)
    found.tls_dir.mkdir(parents=True)
    return found


def test_tokens_are_kept_private_and_differ(instance: Instance) -> None:
    first = connection.keep_tokens(instance)
    assert set(first) == {"root", "user"}
    assert len(set(first.values())) == 2
    assert instance.tokens_file.stat().st_mode & 0o777 == 0o600
    assert instance.tokens_file.parent == instance.tls_dir
    assert connection.keep_tokens(instance) == first


def test_a_readable_token_file_is_made_private(instance: Instance) -> None:
    first = connection.keep_tokens(instance)
    instance.tokens_file.chmod(0o644)
    assert connection.keep_tokens(instance) == first
    assert instance.tokens_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"root": "a"}',
        '{"root": "", "user": ""}',
        '{"root": 1, "user": 2}',
        json.dumps({"root": "x" * 40, "user": "x" * 40}),
        json.dumps({"root": "x" * 39 + "\n", "user": "y" * 40}),
    ],
)
def test_a_damaged_token_file_is_replaced(
    instance: Instance, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    instance.tokens_file.write_text(text)
    tokens = connection.keep_tokens(instance)
    assert all(len(t) >= 40 for t in tokens.values())
    assert json.loads(instance.tokens_file.read_text()) == tokens
    assert "damaged" in caplog.text
    assert not any(t in caplog.text for t in tokens.values())


def test_rotation_and_removal_change_both_tokens(instance: Instance) -> None:
    seen = set(connection.keep_tokens(instance).values())
    seen |= set(connection.rotate_tokens(instance).values())
    connection.drop_tokens(instance)
    assert not instance.tokens_file.exists()
    connection.drop_tokens(instance)
    seen |= set(connection.keep_tokens(instance).values())
    assert len(seen) == 6


def port_of(sock: socket.socket) -> int:
    """Close a socket and return its port."""
    with sock:
        return int(sock.getsockname()[1])


def test_the_last_port_is_preferred_to_the_configured_one(instance: Instance) -> None:
    with listen_on_loopback(0) as busy:
        configured = busy.getsockname()[1]
        last = port_of(connection.listen(instance, configured))
        assert last != configured
    assert port_of(connection.listen(instance, configured)) == last


def test_the_configured_port_follows_a_last_one_that_is_taken(instance: Instance) -> None:
    configured = port_of(listen_on_loopback(0))
    with listen_on_loopback(configured):
        last = port_of(connection.listen(instance, configured))
    with listen_on_loopback(last):
        assert port_of(connection.listen(instance, configured)) == configured
        with listen_on_loopback(configured):
            assert port_of(connection.listen(instance, configured)) not in (last, configured)


def test_any_port_is_the_same_one_again(instance: Instance) -> None:
    last = port_of(connection.listen(instance, 0))
    assert port_of(connection.listen(instance, 0)) == last


def test_a_changed_configuration_takes_precedence(instance: Instance) -> None:
    connection.listen(instance, 0).close()
    configured = port_of(listen_on_loopback(0))
    assert port_of(connection.listen(instance, configured)) == configured


@pytest.mark.parametrize("text", ["", "{", "[]", '{"port": "x", "configured": 0}', '{"port": 1}'])
def test_a_damaged_port_file_is_ignored(instance: Instance, text: str) -> None:
    instance.port_file.write_text(text)
    assert port_of(connection.listen(instance, 0)) > 0
