# SPDX-License-Identifier: Apache-2.0
"""Ports are bound once and kept."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from rdd.host.sockets import listen_on_loopback


def port(sock: socket.socket) -> int:
    found: int = sock.getsockname()[1]
    return found


def test_requested_port_is_used_if_it_is_free() -> None:
    with listen_on_loopback(0) as free:
        wanted = port(free)
    with listen_on_loopback(wanted) as sock:
        assert sock.getsockname() == ("127.0.0.1", wanted)


def test_busy_port_falls_back_to_a_free_one() -> None:
    with listen_on_loopback(0) as first, listen_on_loopback(port(first)) as second:
        assert port(second) not in (0, port(first))


def test_concurrent_listeners_never_collide() -> None:
    with listen_on_loopback(0) as wish, ThreadPoolExecutor(8) as pool:
        sockets = list(pool.map(lambda _: listen_on_loopback(port(wish)), range(100)))
        assert len({port(sock) for sock in sockets}) == 100
        for sock in sockets:
            sock.close()


def test_invalid_port_is_an_error() -> None:
    with pytest.raises(OverflowError):
        listen_on_loopback(70000)
