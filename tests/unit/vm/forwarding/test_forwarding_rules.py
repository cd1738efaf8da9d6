# SPDX-License-Identifier: Apache-2.0
"""Forwarding rules."""

from pathlib import Path

import pytest

from rdd.vm.drivers.protocol import Endpoint, Forward, Listener
from rdd.vm.forwarding.rules import ForwardingRules
from rdd.vm.template import HostFacts, parse, resolve

FACTS = HostFacts(
    arch="x86_64", cpus=2, memory_bytes=1 << 33, user="ann", uid=1000, home=Path("/home/ann")
)
SSH_PORT = 60022


def rules(*lines: str) -> ForwardingRules:
    text = "portForwards:\n" + "".join(f"- {line}\n" for line in lines) if lines else "{}"
    template = resolve(parse(text), FACTS, name="m", directory=Path("/lima/m"))
    return ForwardingRules(template.port_forwards, ssh_local_port=SSH_PORT)


def landing(chosen: ForwardingRules, protocol: str, ip: str, port: int) -> str:
    """Return the host address of a listener; empty if it is not forwarded."""
    forward = chosen.forward(Listener("udp" if protocol == "udp" else "tcp", ip, port))
    return "" if forward is None else str(forward.host)


@pytest.mark.parametrize(
    ("given", "listener", "expected"),
    [
        pytest.param((), ("tcp", "127.0.0.1", 80), "127.0.0.1:80", id="loopback by default"),
        pytest.param((), ("tcp", "0.0.0.0", 80), "127.0.0.1:80", id="all addresses by default"),
        pytest.param((), ("tcp", "::", 80), "127.0.0.1:80", id="all IPv6 addresses"),
        pytest.param((), ("tcp", "::1", 80), "127.0.0.1:80", id="IPv6 loopback counts as IPv4's"),
        pytest.param((), ("tcp", "10.0.0.3", 80), "", id="another address is not forwarded"),
        pytest.param((), ("tcp", "0.0.0.0", 22), "", id="sshd"),
        pytest.param((), ("tcp", "127.0.0.1", SSH_PORT), "", id="host port of sshd"),
        pytest.param((), ("udp", "0.0.0.0", 53), "127.0.0.1:53", id="datagrams too"),
        pytest.param(
            ("{guestPort: 80, hostPort: 8080}",),
            ("tcp", "127.0.0.1", 80),
            "127.0.0.1:8080",
            id="another port",
        ),
        pytest.param(
            ("{guestPortRange: [100, 200], hostPortRange: [1100, 1200]}",),
            ("tcp", "127.0.0.1", 150),
            "127.0.0.1:1150",
            id="offset in a range",
        ),
        pytest.param(
            ("{guestPort: 80, hostPort: 1}", "{guestPort: 80, hostPort: 2}"),
            ("tcp", "127.0.0.1", 80),
            "127.0.0.1:1",
            id="the first matching rule applies",
        ),
        pytest.param(
            ("{guestPort: 80, hostPort: 1, proto: udp}",),
            ("tcp", "127.0.0.1", 80),
            "127.0.0.1:80",
            id="a rule for datagrams does not match streams",
        ),
        pytest.param(
            ("{guestIP: 0.0.0.0, hostIP: 0.0.0.0}",),
            ("tcp", "0.0.0.0", 80),
            "0.0.0.0:80",
            id="0.0.0.0 to 0.0.0.0",
        ),
        pytest.param(
            ("{guestIP: 0.0.0.0, hostIP: 0.0.0.0}",),
            ("tcp", "127.0.0.1", 80),
            "127.0.0.1:80",
            id="0.0.0.0 exactly",
        ),
        pytest.param(
            ("{guestIP: 0.0.0.0, guestIPMustBeZero: false, hostIP: 0.0.0.0}",),
            ("tcp", "10.0.0.3", 80),
            "0.0.0.0:80",
            id="0.0.0.0 as any address",
        ),
        pytest.param(
            ("{guestPort: 80, ignore: true}",), ("tcp", "127.0.0.1", 80), "", id="ignored"
        ),
        pytest.param(
            ("{guestPort: 80, ignore: true}",),
            ("tcp", "0.0.0.0", 80),
            "127.0.0.1:80",
            id="ignoring the loopback does not ignore all addresses",
        ),
        pytest.param(
            ("{guestIP: 0.0.0.0, guestPort: 80, ignore: true}",),
            ("tcp", "0.0.0.0", 80),
            "",
            id="ignored everywhere",
        ),
        pytest.param(
            ("{guestPort: 80, hostSocket: web.sock}",),
            ("tcp", "127.0.0.1", 80),
            "/lima/m/sock/web.sock",
            id="a port to a socket",
        ),
    ],
)
def test_listener_is_forwarded_by_the_first_matching_rule(
    given: tuple[str, ...], listener: tuple[str, str, int], expected: str
) -> None:
    assert landing(rules(*given), *listener) == expected


def test_sockets_and_static_ports_need_no_listener() -> None:
    chosen = rules(
        "{guestSocket: /var/run/docker.sock, hostSocket: docker.sock}",
        "{guestPort: 80, hostPort: 8080}",
        "{guestPort: 81, hostPort: 8081, static: true}",
        "{guestSocket: /run/a.sock, hostSocket: /b.sock, reverse: true}",
        "{guestSocket: /run/c.sock, ignore: true}",
    )
    docker = Endpoint(socket="/lima/m/sock/docker.sock")
    assert chosen.static() == [
        Forward("tcp", Endpoint(socket="/var/run/docker.sock"), docker),
        Forward("tcp", Endpoint("127.0.0.1", 81), Endpoint("127.0.0.1", 8081)),
        Forward("udp", Endpoint("127.0.0.1", 81), Endpoint("127.0.0.1", 8081)),
        Forward("tcp", Endpoint(socket="/run/a.sock"), Endpoint(socket="/b.sock"), reverse=True),
    ]


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        pytest.param(Endpoint("127.0.0.1", 80), "127.0.0.1:80", id="IPv4"),
        pytest.param(Endpoint("::1", 80), "[::1]:80", id="IPv6"),
        pytest.param(Endpoint(socket="/a"), "/a", id="socket"),
    ],
)
def test_endpoint_has_the_form_of_events(endpoint: Endpoint, text: str) -> None:
    assert str(endpoint) == text
