# SPDX-License-Identifier: Apache-2.0
"""Forwarding rules: Lima's `portForwards`.

The first matching rule applies. Two implicit rules before the user's exclude sshd and the host
port that leads to it; one after them forwards every listener on the guest's loopback to the
same port of this host. The rules are those of a resolved template: ranges and addresses are
filled in.

A listener on all addresses matches a rule for any address, `::1` counts as 127.0.0.1, and a
rule for 0.0.0.0 matches every address unless `guestIPMustBeZero` is set.
"""

import ipaddress
from collections.abc import Iterable, Sequence

from rdd.vm.drivers.protocol import Endpoint, Forward, Listener
from rdd.vm.template.model import PortForward

SSH_PORT = 22
_ANY_PORT = (1, 65535)
_LOOPBACK = ipaddress.ip_address("127.0.0.1")
_LOOPBACK6 = ipaddress.ip_address("::1")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class ForwardingRules:
    """The rules of one machine, in order."""

    def __init__(
        self, given: Iterable[PortForward], *, ssh_local_port: int, has_ipv6: bool = False
    ) -> None:
        self._given = tuple(given)
        self._has_ipv6 = has_ipv6
        self._rules = tuple(
            rule
            for rule in (
                _ignore(SSH_PORT),
                *([_ignore(ssh_local_port)] if ssh_local_port else []),
                *self._given,
                PortForward(
                    guest_ip="127.0.0.1",
                    host_ip="127.0.0.1",
                    guest_port_range=_ANY_PORT,
                    host_port_range=_ANY_PORT,
                ),
            )
            if not rule.guest_socket and not rule.reverse
        )
        self._addresses = [ipaddress.ip_address(rule.guest_ip) for rule in self._rules]

    def forwards(self, listener: Listener) -> Sequence[Forward]:
        """Return the forwards for a listener in the guest.

        One on all IPv6 addresses usually accepts IPv4, too: both are forwarded if the rule is
        for all addresses of this host.
        """
        forward = self.forward(listener)
        if forward is None:
            return ()
        if self._has_ipv6 and listener.ip == "::" and forward.host.ip == "0.0.0.0":
            host = Endpoint(ip="::", port=forward.host.port)
            return (forward, Forward(forward.protocol, guest=forward.guest, host=host))
        return (forward,)

    def published(self, listener: Listener) -> Sequence[Forward]:
        """Return the forwards for a port that an engine publishes: of its IP version only."""
        found = self.forwards(listener)
        if ":" not in listener.ip or not self._has_ipv6:
            return found
        if found and listener.ip == "::1" and found[0].host.ip == str(_LOOPBACK):
            host = Endpoint(ip=listener.ip, port=found[0].host.port)
            return (Forward(listener.protocol, guest=found[0].guest, host=host),)
        return [item for item in found if ":" in item.host.ip] or found

    def forward(self, listener: Listener) -> Forward | None:
        """Return the forward for a listener in the guest; None if it is not forwarded."""
        ip = ipaddress.ip_address(listener.ip)
        for rule, rule_ip in zip(self._rules, self._addresses, strict=True):
            low, high = rule.guest_port_range or _ANY_PORT
            if not low <= listener.port <= high or rule.proto not in ("any", listener.protocol):
                continue
            if not _is_address_matched(ip, rule_ip, bool(rule.guest_ip_must_be_zero)):
                continue
            if rule.ignore:
                if ip.is_unspecified and not rule_ip.is_unspecified:
                    continue  # it listens on other addresses, too
                return None
            return Forward(
                listener.protocol,
                guest=Endpoint(ip=listener.ip, port=listener.port),
                host=_host(rule, listener.port - low),
            )
        return None

    def static(self) -> Sequence[Forward]:
        """Return the forwards that do not depend on a listener: sockets and `static` ports."""
        found = []
        for rule in self._given:
            low, high = rule.guest_port_range or _ANY_PORT
            if rule.ignore:
                continue
            if rule.guest_socket:
                guest = Endpoint(socket=rule.guest_socket)
                found.append(Forward("tcp", guest=guest, host=_host(rule, 0), reverse=rule.reverse))
            elif rule.static and low == high:
                protocols: Sequence[str] = ("tcp", "udp") if rule.proto == "any" else (rule.proto,)
                found += [
                    Forward(
                        "udp" if protocol == "udp" else "tcp",
                        guest=Endpoint(ip=rule.guest_ip, port=low),
                        host=_host(rule, 0),
                    )
                    for protocol in protocols
                ]
        return found


def _ignore(port: int) -> PortForward:
    return PortForward(
        guest_ip="0.0.0.0",
        guest_ip_must_be_zero=False,
        guest_port_range=(port, port),
        host_port_range=(port, port),
        ignore=True,
    )


def _is_address_matched(ip: IpAddress, rule_ip: IpAddress, must_be_zero: bool) -> bool:
    if ip.is_unspecified or ip == rule_ip:
        return True
    if ip == _LOOPBACK6 and rule_ip == _LOOPBACK:
        return True
    return rule_ip.is_unspecified and not must_be_zero


def _host(rule: PortForward, offset: int) -> Endpoint:
    if rule.host_socket:
        return Endpoint(socket=rule.host_socket)
    low, _ = rule.host_port_range or rule.guest_port_range or _ANY_PORT
    return Endpoint(ip=rule.host_ip or "127.0.0.1", port=low + offset)
