# SPDX-License-Identifier: Apache-2.0
"""Validation rules for `portForwards`."""

import ipaddress
from collections.abc import Iterator

from rdd.vm.template.errors import choices, shown
from rdd.vm.template.model import PortForward

PROTOCOLS = ("tcp", "udp", "any")


def check_port(path: str, port: int) -> Iterator[str]:
    """Check a port that must not be that of ssh."""
    if not 0 < port < 65536:
        yield f"{path}: {port} must be between 1 and 65535"
    elif port == 22:
        yield f"{path}: 22 is the port of ssh in the guest"


def forward_problems(
    path: str, rule: PortForward, guest: tuple[int, int], host: tuple[int, int]
) -> Iterator[str]:
    """Yield the problems of one rule; `guest` and `host` are its ports."""
    if rule.proto not in PROTOCOLS:
        yield f"{path}.proto: {shown(rule.proto)} must be {choices(PROTOCOLS)}"
    yield from _addresses(path, rule)
    yield from _side(path, "guest", rule.guest_port, rule.guest_port_range, rule.guest_socket)
    yield from _side(path, "host", rule.host_port, rule.host_port_range, rule.host_socket)
    yield from _sockets(path, rule, guest, host)
    if rule.reverse and not (rule.guest_socket and rule.host_socket):
        yield f"{path}.reverse: needs guestSocket and hostSocket"
    if guest[1] - guest[0] != host[1] - host[0] and not (rule.guest_socket or rule.host_socket):
        yield (
            f"{path}.hostPortRange: [{host[0]}, {host[1]}] must have as many ports as "
            f"guestPortRange [{guest[0]}, {guest[1]}]"
        )


def _addresses(path: str, rule: PortForward) -> Iterator[str]:
    for key, text in (("guestIP", rule.guest_ip), ("hostIP", rule.host_ip)):
        try:
            if text:
                ipaddress.ip_address(text)
        except ValueError:
            yield f"{path}.{key}: {shown(text)} must be an IP address"
    if rule.guest_ip_must_be_zero and rule.guest_ip not in ("", "0.0.0.0"):
        yield f"{path}.guestIPMustBeZero: only with guestIP 0.0.0.0, not {shown(rule.guest_ip)}"


def _side(
    path: str, side: str, port: int, ports: tuple[int, int] | None, socket: str
) -> Iterator[str]:
    if port:
        yield from check_port(f"{path}.{side}Port", port)
        if socket:
            yield f"{path}.{side}Port: must not be set together with {side}Socket"
        if ports and ports != (port, port):
            yield f"{path}.{side}Port: must not be set together with {side}PortRange"
    if ports is None:
        return
    if socket:
        yield f"{path}.{side}PortRange: must not be set together with {side}Socket"
    if not (0 < ports[0] <= ports[1] < 65536):
        yield (
            f"{path}.{side}PortRange: [{ports[0]}, {ports[1]}] must be two ports between 1 and "
            f"65535, the smaller first"
        )


def _sockets(
    path: str, rule: PortForward, guest: tuple[int, int], host: tuple[int, int]
) -> Iterator[str]:
    if rule.guest_socket:
        if not rule.guest_socket.startswith(("/", "{{")):
            yield f"{path}.guestSocket: {shown(rule.guest_socket)} must be an absolute path"
        if not rule.host_socket and not rule.ignore and host[0] != host[1]:
            yield f"{path}.guestSocket: needs a hostSocket or a hostPort to go to"
    if rule.host_socket and not rule.guest_socket and guest[0] != guest[1]:
        yield f"{path}.hostSocket: needs a guestSocket or a guestPort to come from"
