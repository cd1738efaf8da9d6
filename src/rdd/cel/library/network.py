# SPDX-License-Identifier: Apache-2.0
"""IP addresses and networks: `ip('10.0.0.1')`, `cidr('10.0.0.0/8')`.

Texts are accepted as strictly as in Kubernetes: no zones, no leading zeros, no
IPv4 addresses dressed as IPv6. Errors are those of Go's netip package.
"""

import functools
import ipaddress
import math
from collections.abc import Callable

from rdd.base.gotext import quote
from rdd.cel import types as t
from rdd.cel.errors import EvaluationError, NoSuchOverload
from rdd.cel.functions import TRAVERSAL, Library, double_traversal, traversal
from rdd.cel.values import TYPES

LIBRARY = Library()

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class IP:
    """An address."""

    __slots__ = ("address",)

    def __init__(self, address: _Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and self.address == other.address

    def __hash__(self) -> int:
        return hash((IP, self.address))

    def __repr__(self) -> str:
        return f"ip({self.address})"


class CIDR:
    """An address with the length of its network prefix."""

    __slots__ = ("address", "bits")

    def __init__(self, address: _Address, bits: int) -> None:
        self.address = address
        self.bits = bits

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """Return the network without host bits."""
        return ipaddress.ip_network((self.address, self.bits), strict=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and self.address == other.address and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((CIDR, self.address, self.bits))

    def __repr__(self) -> str:
        return f"cidr({self.address}/{self.bits})"


TYPES[IP], TYPES[CIDR] = t.IP, t.CIDR


def _ipv4_problem(text: str) -> str:
    parts = text.split(".")
    for part in parts:
        if not part:
            return "IPv4 field must have at least one digit"
        if not (part.isascii() and part.isdigit()):
            return "unexpected character"
        if len(part) > 1 and part[0] == "0":
            return "IPv4 field has octet with leading zero"
        if len(part) > 3 or int(part) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(parts) < 4 else "IPv4 address too long"


def _parse_address(text: str) -> _Address:
    """Return an address as netip.ParseAddr reads it, zone included. Raises ValueError."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        if ":" in text:
            problem = "invalid IPv6 address"
        elif "." in text:
            problem = _ipv4_problem(text)
        else:
            problem = "unable to parse IP"
        raise ValueError(f"ParseAddr({quote(text)}): {problem}") from None


@functools.lru_cache(maxsize=256)
def parse_ip(text: str) -> IP:
    """Return the address a text stands for. Raises EvaluationError."""
    try:
        address = _parse_address(text)
    except ValueError as error:
        raise EvaluationError(
            f"IP Address {quote(text)} parse error during conversion from string: {error}"
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


_CIDR_PREFIX = "network address parse error during conversion from string: "


@functools.lru_cache(maxsize=256)
def parse_cidr(text: str) -> CIDR:
    """Return the network a text stands for. Raises EvaluationError."""
    # Kubernetes wraps the parser's error twice.
    failure = f"{_CIDR_PREFIX}{_CIDR_PREFIX}netip.ParsePrefix({quote(text)}): "
    host, slash, length = text.rpartition("/")
    if not slash:
        raise EvaluationError(f"{failure}no '/'")
    try:
        address = _parse_address(host)
    except ValueError as error:
        raise EvaluationError(f"{failure}{error}") from None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise EvaluationError(f"{failure}IPv6 zones cannot be present in a prefix")
    if not (length.isascii() and length.isdigit()) or (len(length) > 1 and length[0] == "0"):
        raise EvaluationError(f"{failure}bad bits after slash: {quote(length)}")
    if len(length) > 3 or int(length) > address.max_prefixlen:
        raise EvaluationError(f"{failure}prefix length out of range")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(
            f"{_CIDR_PREFIX}IPv4-mapped IPv6 address {quote(text)} is not allowed"
        )
    return CIDR(address, int(length))


def _is_parsed(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return test


def _is_link_local_multicast(ip: IP) -> bool:
    address = ip.address
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    if isinstance(address, ipaddress.IPv4Address) and int(address) in (0, 0xFFFFFFFF):
        return False
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _contains_ip(cidr: CIDR, ip: IP) -> bool:
    return ip.address.version == cidr.address.version and ip.address in cidr.network


def _contains_cidr(cidr: CIDR, other: CIDR) -> bool:
    return cidr.bits <= other.bits and _contains_ip(cidr, IP(other.address))


def _comparison_cost(cidr: CIDR, other: object) -> int:
    size = len(cidr.address.packed)
    cost = math.ceil(2 * size * TRAVERSAL)
    return cost + (math.ceil(len(other) * TRAVERSAL) if isinstance(other, str) else 0)


def _declare_ip() -> None:
    function, method, ip = LIBRARY.function, LIBRARY.method, t.IP
    function("ip", "string_to_ip", (t.STRING,), ip, parse_ip, charge=traversal)
    function("isIP", "is_ip", (t.STRING,), t.BOOL, _is_parsed(parse_ip), charge=traversal)
    function(
        "ip.isCanonical", "ip_is_canonical", (t.STRING,), t.BOOL,
        lambda text: str(parse_ip(text).address) == text, charge=double_traversal,
    )  # fmt: skip
    function("string", "ip_to_string", (ip,), t.STRING, lambda v: str(v.address))
    method("family", "ip_family", (ip,), t.INT, lambda v: v.address.version)
    tests: tuple[tuple[str, str, Callable[[IP], bool]], ...] = (
        ("isUnspecified", "ip_is_unspecified", lambda v: v.address.is_unspecified),
        ("isLoopback", "ip_is_loopback", lambda v: v.address.is_loopback),
        ("isLinkLocalMulticast", "ip_is_link_local_multicast", _is_link_local_multicast),
        ("isLinkLocalUnicast", "ip_is_link_local_unicast", lambda v: v.address.is_link_local),
        ("isGlobalUnicast", "ip_is_global_unicast", _is_global_unicast),
    )
    for name, overload, test in tests:
        method(name, overload, (ip,), t.BOOL, test)


def _ip_or_mismatch(text: str) -> IP:
    try:
        return parse_ip(text)
    except EvaluationError:
        raise NoSuchOverload from None  # Kubernetes loses the reason


def _declare_cidr() -> None:
    function, method, cidr = LIBRARY.function, LIBRARY.method, t.CIDR
    function("cidr", "string_to_cidr", (t.STRING,), cidr, parse_cidr, charge=traversal)
    function("isCIDR", "is_cidr", (t.STRING,), t.BOOL, _is_parsed(parse_cidr), charge=traversal)
    function("string", "cidr_to_string", (cidr,), t.STRING, lambda v: f"{v.address}/{v.bits}")
    method("ip", "cidr_ip", (cidr,), t.IP, lambda v: IP(v.address))
    method("prefixLength", "cidr_prefix_length", (cidr,), t.INT, lambda v: v.bits)
    method(
        "masked", "cidr_masked", (cidr,), cidr, lambda v: CIDR(v.network.network_address, v.bits)
    )
    cost = _comparison_cost
    method(
        "containsIP", "cidr_contains_ip_string", (cidr, t.STRING), t.BOOL,
        lambda v, text: _contains_ip(v, _ip_or_mismatch(text)), charge=cost,
    )  # fmt: skip
    method("containsIP", "cidr_contains_ip_ip", (cidr, t.IP), t.BOOL, _contains_ip, charge=cost)
    method(
        "containsCIDR", "cidr_contains_cidr_string", (cidr, t.STRING), t.BOOL,
        lambda v, text: _contains_cidr(v, parse_cidr(text)), charge=cost,
    )  # fmt: skip
    method("containsCIDR", "cidr_contains_cidr", (cidr, cidr), t.BOOL, _contains_cidr, charge=cost)


_declare_ip()
_declare_cidr()
