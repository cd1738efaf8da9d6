# SPDX-License-Identifier: Apache-2.0
"""Addresses in the tables of /proc/net."""

import ipaddress
from typing import Literal


def decode_address(digits: str, byte_order: Literal["little", "big"]) -> str:
    """Decode an address: words of four bytes, each in the byte order of the CPU.

    An IPv4 address that is mapped to IPv6 becomes an IPv4 address. Raises ValueError.
    """
    raw = bytes.fromhex(digits)
    step = -1 if byte_order == "little" else 1
    packed = b"".join(raw[start : start + 4][::step] for start in range(0, len(raw), 4))
    address = ipaddress.ip_address(packed)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return str(address)
